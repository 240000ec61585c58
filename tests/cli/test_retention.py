"""`tallgrass retention plan|apply|list|show|search`, as a user calls it."""

from __future__ import annotations

import gzip
import hashlib
import json
import signal
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from tallgrass.bootstrap import retaining
from tallgrass.bootstrap.retention_run import RetentionAround, RetentionRequest, apply_retention
from tallgrass.bootstrap.stores import open_stores
from tallgrass.config import load_config
from tallgrass.inventory.retention import ArchiveKind
from tests.cli.command import Done, environment, here, tallgrass
from tests.contract.retention_scene import attempts_left, fill_attempts
from tests.contract.scene import Scene
from tests.support.catalog import Known, write_catalog

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.backends import Backend

OLD = "2020-01-01T00:00:00.000000Z"


def grow_old(backend: Backend) -> None:
    """Make all that was closed so far old, as only time could: no guard lets it happen."""
    statements = (
        f"UPDATE wal_attempts SET closed_at = '{OLD}' WHERE closed_at IS NOT NULL",
        f"UPDATE audit_log SET occurred_at = '{OLD}'",
    )
    connection = backend.connect()
    if backend.name == "postgres":
        connection.execute("SET session_replication_role = replica")
        for statement in statements:
            connection.execute(statement)
        return
    triggers = connection.execute(
        "SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'"
        " AND tbl_name IN ('wal_attempts', 'audit_log')"
    ).fetchall()
    connection.execute("BEGIN")
    for name, _ in triggers:
        connection.execute(f"DROP TRIGGER {name}")
    for statement in (*statements, *(sql for _, sql in triggers)):
        connection.execute(statement)
    connection.execute("COMMIT")


@pytest.fixture
def old(backend: Backend) -> tuple[Backend, dict[str, str]]:
    """A ledger whose attempts and audit entries are years old, and the ids of its units."""
    scene = Scene(backend)
    ids = fill_attempts(scene)
    for number in range(3):
        scene.switch(is_on=True, dataset=f"d{number}")
    grow_old(backend)
    scene.stores.audit.seal()
    return backend, ids


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, str]:
    """Environment: attempts and audit entries stay for a year."""
    return {
        "TALLGRASS_RETENTION_ATTEMPTS_DAYS": "365",
        "TALLGRASS_RETENTION_AUDIT_DAYS": "365",
        "TALLGRASS_RETENTION_ARCHIVE": str(tmp_path / "archive"),
    }


def retention(*args: str, at: Backend, env: dict[str, str]) -> Done:
    """Run a verb for its JSON."""
    return here("retention", *args, at=at, env=env)


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_a_file_that_is_being_written_is_given_up_when_somebody_says_stop(
    old: tuple[Backend, dict[str, str]],
    settings: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At a low rate it would be written for hours: the half file goes, and all rows stay."""
    backend, _ = old
    monkeypatch.setattr(retaining, "REMOVE_ROWS", 2)
    rests: list[float] = []
    around = RetentionAround(stop=lambda: bool(rests), sleep=rests.append)
    request = RetentionRequest(kinds=[ArchiveKind.ATTEMPTS], with_items=False, rate=0.001)
    config = load_config(environment=settings, flags={"database.url": backend.url})
    before = attempts_left(backend)
    with closing(open_stores(config)) as stores:
        assert apply_retention(config, stores, request, around, by="ann") == ([], {})
    assert rests
    assert list((tmp_path / "archive").iterdir()) == []
    assert attempts_left(backend) == before
    assert retention("list", at=backend, env=settings).json["archives"] == []


def test_plan_then_apply_as_processes(
    old: tuple[Backend, dict[str, str]], settings: dict[str, str], tmp_path: Path
) -> None:
    """Counts first, then a file whose hash the table, the log and another tool agree on."""
    backend, ids = old
    planned = tallgrass("retention", "plan", "--output", "json", at=backend, env=settings)
    rows = {each["kind"]: each["rows"] for each in planned.json["plan"]}
    assert rows == {"attempts": 4, "events": 0, "audit": 2}
    assert not (tmp_path / "archive").exists()
    done = tallgrass("retention", "apply", "--actor", "ann", at=backend, env=settings)
    assert (done.code, "6 rows left the database." in done.out) == (0, True)
    assert len(attempts_left(backend)) == 6
    stored = backend.sql("SELECT kind, name, sha256, bytes, removed FROM archives ORDER BY 1")
    for kind, name, sha256, length, removed in stored:
        content = (tmp_path / "archive" / name).read_bytes()
        assert (hashlib.sha256(content).hexdigest(), len(content)) == (sha256, length)
        assert len(gzip.decompress(content).splitlines()) == 1 + removed
        subject = backend.sql(
            "SELECT actor, action FROM audit_log WHERE subject = ?", f"archive:{sha256}"
        )
        assert (subject, kind in {"attempts", "audit"}) == ([("ann", "archive_record")], True)
    found = tallgrass(
        "retention", "search", "--wal-id", ids["broken"], "--output", "json",
        at=backend, env=settings,
    )  # fmt: skip
    lines = [json.loads(line) for line in found.out.splitlines()]
    assert [line["row"]["attempt_no"] for line in lines] == [1, 2]
    assert (
        "No archived row"
        in tallgrass("retention", "search", "--wal-id", ids["once"], at=backend, env=settings).out
    )


def test_apply_is_asked_for_a_reasoned_actor(
    old: tuple[Backend, dict[str, str]], settings: dict[str, str], tmp_path: Path
) -> None:
    """Without anybody named nothing is written, and nothing leaves."""
    backend, _ = old
    done = retention("apply", at=backend, env=settings)
    assert done.code == 2
    assert len(attempts_left(backend)) == 10
    assert not (tmp_path / "archive").exists()


def test_each_flag_of_apply(
    old: tuple[Backend, dict[str, str]], settings: dict[str, str], tmp_path: Path
) -> None:
    """A dry run writes nothing, a cap bounds, a kind chooses, a rate is kept."""
    backend, _ = old
    dry = retention("apply", "--dry-run", "--max-rows", "3", at=backend, env=settings)
    assert (dry.json["would_archive"], (tmp_path / "archive").exists()) == (3, False)
    capped = retention(
        "apply", "--kind", "attempts", "--max-rows", "3", "--rate", "100000", "--actor", "ann",
        at=backend, env=settings,
    )  # fmt: skip
    (archive,) = capped.json["archives"]
    assert (archive["kind"], archive["rows"], archive["state"]) == ("attempts", 3, "done")
    assert len(attempts_left(backend)) == 7
    rest = retention("apply", "--actor", "ann", at=backend, env=settings)
    assert [each["kind"] for each in rest.json["archives"]] == ["attempts", "audit"]
    again = tallgrass("retention", "apply", "--actor", "ann", at=backend, env=settings)
    assert "Nothing is old enough" in again.out


def test_list_and_show(
    old: tuple[Backend, dict[str, str]], settings: dict[str, str], tmp_path: Path
) -> None:
    """Archives by kind; one with its first rows, once its file has proved to be whole."""
    backend, _ = old
    env = {**settings, "TALLGRASS_RETENTION_FORMAT": "parquet"}
    retention("apply", "--actor", "ann", at=backend, env=env)
    archives = retention("list", at=backend, env=env).json["archives"]
    assert [each["kind"] for each in archives] == ["attempts", "audit"]
    assert {each["format"] for each in archives} == {"parquet"}
    only = retention("list", "--kind", "audit", at=backend, env=env).json["archives"]
    assert only == archives[1:]
    shown = retention("show", "1", "--limit", "2", at=backend, env=env).json
    assert (shown["archive"], len(shown["rows"])) == (archives[0], 2)
    table = tallgrass("retention", "show", "1", at=backend, env=env)
    assert archives[0]["sha256"] in table.out
    assert "io_error" in table.out
    assert retention("show", "99", at=backend, env=env).error["code"] == "archive_unknown"
    (tmp_path / "archive" / archives[0]["name"]).write_bytes(b"")
    assert retention("show", "1", at=backend, env=env).error["code"] == "archive_damaged"


def test_a_unit_says_where_its_attempts_are(
    old: tuple[Backend, dict[str, str]], settings: dict[str, str]
) -> None:
    """`wal show` tells how many left for archives, and how they are found."""
    backend, ids = old
    assert "archives" not in tallgrass("wal", "show", ids["broken"], at=backend).out
    retention("apply", "--actor", "ann", at=backend, env=settings)
    shown = tallgrass("wal", "show", ids["broken"], at=backend).out
    assert (
        f"2 older attempts left for archives: tallgrass retention search --wal-id {ids['broken']}"
        in shown
    )


def test_each_flag_of_search(old: tuple[Backend, dict[str, str]], settings: dict[str, str]) -> None:
    """Time, kind and limit choose rows; an id of another kind is refused."""
    backend, ids = old
    retention("apply", "--actor", "ann", at=backend, env=settings)

    def found(*flags: str) -> int:
        done = retention("search", *flags, at=backend, env=settings)
        assert done.code == 0
        return len(done.out.splitlines())

    assert found("--since", "2020-01-01") == 6
    assert found("--since", "2020-01-02") == 0
    backwards = ("--since", "2027-01-01", "--until", "2020-01-01")
    assert retention("search", *backwards, at=backend, env=settings).code == 2
    assert found("--until", "2020-01-01") == 0
    assert found("--until", "2020-01-02", "--kind", "audit") == 2
    assert found("--since", "2019-01-01", "--limit", "5") == 5
    assert found("--event", ids["once"]) == 0
    for bad in ((), ("--wal-id", "a", "--event", "b"), ("--wal-id", "a", "--kind", "audit")):
        assert retention("search", *bad, at=backend, env=settings).code == 2


def test_audit_verify_reads_archives(
    old: tuple[Backend, dict[str, str]], settings: dict[str, str], tmp_path: Path
) -> None:
    """The chain holds by the archive's record; `--archives` finds that its file was changed."""
    backend, _ = old
    retention("apply", "--kind", "audit", "--actor", "ann", at=backend, env=settings)
    for flags in ((), ("--archives",)):
        report = here("audit", "verify", *flags, at=backend, env=settings).json
        assert (report["ok"], report["sealed"], report["archived"]) == (True, 3, 2)
    (path,) = (tmp_path / "archive").iterdir()
    path.write_bytes(gzip.compress(gzip.decompress(path.read_bytes()).replace(b"ann", b"bob")))
    assert here("audit", "verify", at=backend, env=settings).code == 0
    read = here("audit", "verify", "--archives", at=backend, env=settings)
    assert read.error["code"] == "archive_damaged"


@pytest.mark.parametrize("backend", ["postgres"], indirect=True)
def test_a_full_disk_is_told_and_nothing_leaves(
    old: tuple[Backend, dict[str, str]], settings: dict[str, str], tmp_path: Path
) -> None:
    """A real process that may write no more than a few bytes: exit code 1 and archive_full."""
    backend, _ = old
    limited = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64));"
        "from tallgrass.cli.main import run; sys.exit(run(sys.argv[1:]))"
    )
    line = ["--database", backend.url, "retention", "apply", "--actor", "ann", "--output", "json"]
    done = subprocess.run(
        [sys.executable, "-c", limited, *line],
        env=environment(**settings), capture_output=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 1
    assert json.loads(done.stderr)["error"]["code"] == "archive_full"
    assert len(attempts_left(backend)) == 10
    assert list((tmp_path / "archive").iterdir()) == []


def test_killed_while_rows_leave_the_next_call_goes_on(
    old: tuple[Backend, dict[str, str]], settings: dict[str, str], tmp_path: Path
) -> None:
    """A real process, killed after an archive was read back: nothing is lost, nothing doubled."""
    backend, _ = old
    dying = (
        "import os, signal, sys\n"
        "from tallgrass.storage.retention_store import RetentionStore\n"
        "RetentionStore.remove = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "from tallgrass.cli.main import run\n"
        "sys.exit(run(sys.argv[1:]))"
    )
    line = ["--database", backend.url, "retention", "apply", "--actor", "ann"]
    done = subprocess.run(
        [sys.executable, "-c", dying, *line],
        env=environment(**settings), capture_output=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == -signal.SIGKILL
    assert len(attempts_left(backend)) == 10
    plan = retention("plan", at=backend, env=settings).json["plan"][0]
    assert (plan["open_archive"], plan["open_rows"]) == (1, 4)
    retention("apply", "--actor", "ann", at=backend, env=settings)
    assert len(attempts_left(backend)) == 6
    assert len(list((tmp_path / "archive").iterdir())) == 2


def test_items_expire_by_policy(backend: Backend, tmp_path: Path) -> None:
    """Marked once, shown with `expires` and its extension; the stored bytes stay as they are."""
    old, young = Known(id="old"), Known(id="young", at=datetime.now(UTC))
    other = Known(id="other", collection="hrrr")
    write_catalog(backend, [old, young, other])
    file = tmp_path / "tallgrass.toml"
    file.write_text("[governance.policies.goes-glm]\nexpires_after_days = 10\n")
    stored = backend.sql("SELECT item_id, body, sha256 FROM stac_items ORDER BY 1")

    def cli(*args: str) -> Done:
        return here("--config", str(file), *args, at=backend)

    assert cli("retention", "plan", "--kind", "items").json["expirable"] == {"goes-glm": 1}
    assert cli("retention", "plan", "--kind", "audit").json["expirable"] == {}
    dry = cli("retention", "apply", "--dry-run").json
    assert (dry["expirable"], backend.sql("SELECT * FROM expired_items")) == ({"goes-glm": 1}, [])
    for marked in (1, 0):
        done = cli("retention", "apply", "--kind", "items", "--actor", "ann").json
        assert (done["expired"], done["archives"]) == ({"goes-glm": marked}, [])
    assert backend.sql("SELECT item_id, body, sha256 FROM stac_items ORDER BY 1") == stored
    entry = backend.sql("SELECT actor, subject FROM audit_log WHERE action = 'items_expire'")
    assert entry == [("ann", "collection:goes-glm")]
    lines = tmp_path / "items.ndjson"
    assert cli("stac", "export", "--format", "ndjson", "--file", str(lines)).code == 0
    shown = {item["id"]: item for item in map(json.loads, lines.read_text().splitlines())}
    expires = shown["old"]["properties"].pop("expires")
    assert expires == "2026-06-11T12:00:00.000000Z"  # ten days after its end
    assert [url for url in shown["old"].pop("stac_extensions") if "timestamps" in url]
    assert "expires" not in shown["young"]["properties"] | shown["other"]["properties"]
    wanted = old.document()
    del wanted["stac_extensions"]
    assert shown["old"] == wanted


def test_items_expire_by_the_policy_of_their_own_dataset(backend: Backend, tmp_path: Path) -> None:
    """Not by that of another in the same collection; another lifetime corrects what is marked."""
    write_catalog(backend, [Known(id="own"), Known(id="foreign", dataset="hrrr")])
    file = tmp_path / "tallgrass.toml"
    # Noon of 2026-06-01 and so many days; what is corrected once is right.
    for days, changed, day in ((10, 1, "2026-06-11"), (20, 1, "2026-06-21"), (20, 0, "2026-06-21")):
        file.write_text(f"[governance.policies.goes-glm]\nexpires_after_days = {days}\n")
        line = ("--config", str(file), "retention", "apply", "--kind", "items", "--actor", "ann")
        assert here(*line, at=backend).json["expired"] == {"goes-glm": changed}
        ((item_id, expires_at),) = backend.sql("SELECT item_id, expires_at FROM expired_items")
        assert (item_id, str(expires_at)[:10]) == ("own", day)
