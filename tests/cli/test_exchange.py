"""`tallgrass wal export|import`: a ledger moves whole, with its ids and history, or not at all."""

from __future__ import annotations

import hashlib
import json
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.command import PROGRAM, environment, tallgrass, uri
from tests.support.backends import Backend, prepare

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TABLES = ("wal_records", "wal_attempts", "wal_transitions", "wal_annotations")


def exported(backend: Backend, file: Path) -> bytes:
    """Export a ledger into a file and return its bytes."""
    done = tallgrass("wal", "export", "--file", str(file), "--output", "json", at=backend)
    assert done.code == 0, done.err
    return file.read_bytes()


def brought_in(file: Path, backend: Backend) -> dict[str, object]:
    """Import a file and return the report."""
    done = tallgrass("wal", "import", str(file), "--actor", "j.doe", "--output", "json", at=backend)
    assert done.code == 0, done.err
    report: dict[str, object] = done.json
    return report


def row_counts(backend: Backend) -> list[int]:
    """Return how many rows each table of the ledger has."""
    return [backend.sql(f"SELECT count(*) FROM {table}")[0][0] for table in TABLES]


@pytest.fixture
def other(tmp_path: Path) -> Backend:
    """An empty ledger to import into."""
    return prepare("sqlite", f"sqlite:///{tmp_path / 'other.db'}")


@pytest.mark.conformance("RP-3.2")
def test_ids_survive_export_and_import(filled: Backend, other: Backend, tmp_path: Path) -> None:
    """The same units under the same ids, with as many attempts, transitions and notes."""
    report = brought_in_from(filled, other, tmp_path)
    assert report == {"source": "a.jsonl", "records": 10, "already_there": 0, "notes": 0}
    names = "SELECT wal_id, object_uri, status, version FROM wal_records ORDER BY wal_id"
    before = filled.sql(names)
    assert len({row[0] for row in before}) == 10
    assert other.sql(names) == before
    assert row_counts(other) == row_counts(filled) == [10, 10, 1, 1]
    assert other.sql("SELECT actor, action, reason FROM audit_log") == [
        ("j.doe", "import", "a.jsonl")
    ]


def brought_in_from(source: Backend, target: Backend, folder: Path) -> dict[str, object]:
    """Move a ledger from one database to another."""
    exported(source, folder / "a.jsonl")
    return brought_in(folder / "a.jsonl", target)


@pytest.mark.conformance("RP-3.2")
def test_a_ledger_goes_to_the_other_database_and_back_unchanged(
    filled: Backend, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """SQLite → PostgreSQL → SQLite, and the other way round, give the same bytes."""
    if filled.name == "sqlite":
        other = Backend("postgres", request.getfixturevalue("postgres_url"))
        assert tallgrass("db", "migrate", at=other).code == 0
    else:
        other = prepare("sqlite", f"sqlite:///{tmp_path / 'other.db'}")
    first = exported(filled, tmp_path / "first.jsonl")
    brought_in(tmp_path / "first.jsonl", other)
    second = exported(other, tmp_path / "second.jsonl")
    back = prepare("sqlite", f"sqlite:///{tmp_path / 'back.db'}")
    brought_in(tmp_path / "second.jsonl", back)
    third = exported(back, tmp_path / "third.jsonl")
    assert first == second == third


def test_an_export_is_lines_of_json_with_a_trailer(filled: Backend, tmp_path: Path) -> None:
    """A header, one line a row, and the count and SHA-256 of all lines before the last."""
    done = tallgrass("wal", "export", "--file", str(tmp_path / "a"), "--output", "json", at=filled)
    body = (tmp_path / "a").read_bytes()
    lines = body.splitlines(keepends=True)
    assert json.loads(lines[0]) == {"format": "tallgrass-wal-export", "version": 2}
    sha256 = hashlib.sha256(b"".join(lines[:-1])).hexdigest()
    assert json.loads(lines[-1]) == {"end": {"lines": len(lines) - 1, "sha256": sha256}}
    assert len(lines) == 2 + sum(row_counts(filled))
    assert done.json == {
        "file": str(tmp_path / "a"),
        "records": 10,
        "lines": len(lines),
        "size": len(body),
        "sha256": sha256,
    }


def test_stdout_and_stdin_carry_the_same_export(
    filled: Backend, other: Backend, tmp_path: Path
) -> None:
    """`export | import -` moves a ledger; what was written is told on stderr."""
    body = exported(filled, tmp_path / "a.jsonl")
    done = tallgrass("wal", "export", "--file", "-", at=filled)
    assert done.out.encode() == body == tallgrass("wal", "export", at=filled).out.encode()
    assert done.err.startswith("10 records")
    piped = subprocess.run(
        [*PROGRAM, "--database", other.url, "wal", "import", "-", "--actor", "j.doe"],
        input=body,
        capture_output=True,
        check=True,
        env=environment(),
    )
    assert piped.stdout == b"10 records imported, 0 were there already.\n"
    assert other.sql("SELECT actor, source FROM wal_imports") == [("j.doe", "stdin")]
    assert row_counts(other)[0] == 10


def test_importing_again_changes_nothing(filled: Backend, tmp_path: Path) -> None:
    """Records that are there already and equal are counted and left alone."""
    exported(filled, tmp_path / "a.jsonl")
    before = row_counts(filled)
    assert brought_in(tmp_path / "a.jsonl", filled) == {
        "source": "a.jsonl",
        "records": 0,
        "already_there": 10,
        "notes": 0,
    }
    assert row_counts(filled) == before


def test_notes_of_records_that_are_there_come_too(
    filled: Backend, other: Backend, tmp_path: Path
) -> None:
    """A note changes nothing of its record; it comes once, however often it is brought in."""
    brought_in_from(filled, other, tmp_path)
    (wal_id,) = filled.sql("SELECT wal_id FROM wal_records ORDER BY wal_id LIMIT 1")[0]
    note = ("wal", "annotate", wal_id, "1", "--note", "under repair", "--actor", "j.doe")
    assert tallgrass(*note, at=filled).code == 0
    for notes in (1, 0):
        report = brought_in_from(filled, other, tmp_path)
        assert (report["records"], report["already_there"], report["notes"]) == (0, 10, notes)
    assert row_counts(other) == row_counts(filled) == [10, 10, 1, 2]
    told = "SELECT wal_id, attempt_no, actor, note FROM wal_annotations ORDER BY note"
    assert other.sql(told) == filled.sql(told)


def test_an_import_that_contradicts_the_ledger_is_refused(
    filled: Backend, other: Backend, tmp_path: Path
) -> None:
    """A record that differs from the ledger's own: exit code 3, and nothing is written."""
    exported(filled, tmp_path / "a.jsonl")
    assert tallgrass("wal", "list", "--limit", "1", at=filled).code == 0
    # One of the ten is in the other ledger already, in another state.
    stores = other.open()
    worker = stores.leases.register("w", ingest_run_id="run", lease_s=60)
    from tests.support.builders import unit  # noqa: PLC0415

    stores.ledger.record_and_claim(worker, [unit(11, dataset="hrrr")])
    done = tallgrass(
        "wal", "import", str(tmp_path / "a.jsonl"), "--actor", "j.doe", "--output", "json", at=other
    )
    assert (done.code, done.out) == (3, "")
    assert done.error["code"] == "import_conflict"
    assert row_counts(other) == [1, 1, 0, 0]
    assert other.sql("SELECT object_uri FROM wal_records") == [(uri(11, "hrrr"),)]


def cut(body: bytes) -> bytes:
    """Lose the last line."""
    return body[: body.rindex(b"\n", 0, -1) + 1]


def cut_inside(body: bytes) -> bytes:
    """Lose the second half."""
    return body[: len(body) // 2]


def edited(body: bytes) -> bytes:
    """Turn a failed unit into a succeeded one."""
    return body.replace(b'"error_code":"size_zero"', b'"error_code":"size_zerp"', 1)


def without_a_line(body: bytes) -> bytes:
    """Leave one record out."""
    lines = body.splitlines(keepends=True)
    return b"".join(lines[:3] + lines[4:])


def with_more(body: bytes) -> bytes:
    """Add a line behind the trailer."""
    return body + b'{"record":{}}\n'


def with_another_word(body: bytes) -> bytes:
    """Name another format, in a file that is otherwise whole."""
    return body.replace(b"tallgrass-wal-export", b"tallgrass-wal-exporT", 1)


@pytest.mark.parametrize(
    "damage",
    [cut, cut_inside, edited, without_a_line, with_more, with_another_word, lambda _: b""],
    ids=["cut", "cut-inside", "edited", "without-a-line", "with-more", "another-format", "empty"],
)
def test_a_damaged_export_is_refused_whole(
    backend: Backend, damage: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    """A cut, edited or foreign file: exit code 2, import_invalid, and not one row is written."""
    from tests.cli.command import fill  # noqa: PLC0415

    source = prepare("sqlite", f"sqlite:///{tmp_path / 'source.db'}")
    fill(source)
    body = exported(source, tmp_path / "a.jsonl")
    damaged = damage(body)
    assert damaged != body
    (tmp_path / "b.jsonl").write_bytes(damaged)
    done = tallgrass(
        "wal", "import", str(tmp_path / "b.jsonl"), "--actor", "j.doe", "--output", "json",
        at=backend,
    )  # fmt: skip
    assert (done.code, done.out) == (2, "")
    assert done.error["code"] == "import_invalid"
    assert row_counts(backend) == [0, 0, 0, 0]
    assert backend.sql("SELECT count(*) FROM audit_log") == [(0,)]


def as_version(version: int, body: bytes, *, issues: bool) -> bytes:
    """Return an export as a release of that version would have written it."""
    lines = [json.loads(line) for line in body.splitlines()[:-1]]
    lines[0]["version"] = version
    for line in lines:
        if "attempt" in line and not issues:
            del line["attempt"]["issues"]
    return with_trailer(lines)


def with_trailer(lines: list[Any]) -> bytes:
    """Return a file of these lines that is whole."""
    text = "".join(json.dumps(line) + "\n" for line in lines).encode()
    end = {"lines": len(lines), "sha256": hashlib.sha256(text).hexdigest()}
    return text + json.dumps({"end": end}).encode() + b"\n"


@pytest.mark.parametrize(
    ("kind", "changed"),
    [
        ("record", {"wal_id": ["x"]}), ("record", {"object_uri": {}}),
        ("record", {"replay_reason": []}), ("record", {"version": 2**63}),
        ("attempt", {"wal_id": 7}), ("attempt", {"evidence": ["x"]}),
    ],
)  # fmt: skip
def test_a_value_of_another_form_is_refused_with_its_line(
    filled: Backend, other: Backend, tmp_path: Path, kind: str, changed: dict[str, Any]
) -> None:
    """A file that somebody made by hand, with a trailer that is right: nothing of it comes in."""
    lines = [json.loads(line) for line in exported(filled, tmp_path / "a").splitlines()[:-1]]
    number = next(at for at, line in enumerate(lines) if kind in line)
    lines[number][kind].update(changed)
    assert refused_import(with_trailer(lines), other, tmp_path) == (2, "import_invalid")


def test_lines_without_their_records_are_refused(
    filled: Backend, other: Backend, tmp_path: Path
) -> None:
    """They would be passed over as if they had come in."""
    lines = [json.loads(line) for line in exported(filled, tmp_path / "a").splitlines()[:-1]]
    bare = [line for line in lines if "record" not in line]
    assert refused_import(with_trailer(bare), other, tmp_path) == (2, "import_invalid")


def test_an_object_under_another_id_is_refused(
    filled: Backend, other: Backend, tmp_path: Path
) -> None:
    """In one file as between two ledgers: an object has one record."""
    lines = [json.loads(line) for line in exported(filled, tmp_path / "a").splitlines()[:-1]]
    first, second = [line["record"] for line in lines if "record" in line][:2]
    second["object_uri"] = first["object_uri"]
    assert refused_import(with_trailer(lines), other, tmp_path) == (3, "import_conflict")


def refused_import(body: bytes, at: Backend, folder: Path) -> tuple[int, str]:
    """Import what must not come in; return how it is refused."""
    (folder / "odd.jsonl").write_bytes(body)
    command = ("wal", "import", str(folder / "odd.jsonl"), "--actor", "j.doe", "--output", "json")
    done = tallgrass(*command, at=at)
    assert row_counts(at) == [0, 0, 0, 0]
    return done.code, done.error["code"]


def test_an_export_of_the_version_before_is_read(filled: Backend, tmp_path: Path) -> None:
    """Version 1 had no issues: they are null. Lines of one version in a file of another are not."""
    body = exported(filled, tmp_path / "a.jsonl")
    (tmp_path / "old.jsonl").write_bytes(as_version(1, body, issues=False))
    other = prepare("sqlite", f"sqlite:///{tmp_path / 'other.db'}")
    assert brought_in(tmp_path / "old.jsonl", other)["records"] == 10
    assert exported(other, tmp_path / "b.jsonl") == body
    for version, issues in ((0, False), (1, True), (2, False), (3, True)):
        (tmp_path / "odd.jsonl").write_bytes(as_version(version, body, issues=issues))
        done = tallgrass(
            "wal", "import", str(tmp_path / "odd.jsonl"), "--actor", "j.doe", "--output", "json",
            at=other,
        )  # fmt: skip
        assert (done.code, done.error["code"]) == (2, "import_invalid"), (version, issues)
    other.close()


def test_an_export_appears_whole_or_not_at_all(filled: Backend, tmp_path: Path) -> None:
    """A target that cannot be written leaves neither a file nor a temporary one."""
    folder = tmp_path / "out"
    folder.mkdir()
    target = folder / "taken"
    target.mkdir()
    done = tallgrass("wal", "export", "--file", str(target), "--output", "json", at=filled)
    assert done.code == 1
    assert done.error["code"] == "output_failed"
    assert done.error["message"] == f"{target}: Is a directory"
    assert [path.name for path in folder.iterdir()] == ["taken"]
    missing = tallgrass("wal", "export", "--file", str(folder / "no" / "a"), at=filled)
    assert missing.code == 1
    assert "output_failed" in missing.err
    assert f"{folder / 'no' / 'a'}: No such file or directory" in missing.err


def test_an_import_needs_somebody_who_does_it(backend: Backend, tmp_path: Path) -> None:
    """A blank actor is a bad argument."""
    (tmp_path / "a").write_text("")
    done = tallgrass("wal", "import", str(tmp_path / "a"), "--actor", " ", at=backend)
    assert done.code == 2
