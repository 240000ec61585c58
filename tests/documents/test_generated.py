from __future__ import annotations

import dataclasses
import hashlib
import json
import re
import shutil
import tomllib
from datetime import datetime
from enum import StrEnum
from types import NoneType
from typing import TYPE_CHECKING, get_args, get_origin, get_type_hints

import pytest

import tools.generated_parts
from tallgrass.ledger.record import WalAttempt, WalRecord
from tallgrass.ledger.transitions import ATTEMPT_EDGES, EDGES, Edge
from tallgrass.ledger.vocabulary import Status
from tests.documents.markdown import DOCS, ROOT, WAL_DOCS, read, rows, section, words
from tools.generate_docs import UnknownPart, main, with_parts

if TYPE_CHECKING:
    from pathlib import Path

WAL_NAMES = sorted(path.name for path in WAL_DOCS.glob("*.md"))

LEGAL = [
    ("null", "pending"),
    ("pending", "in_progress"),
    ("in_progress", "succeeded"),
    ("in_progress", "failed"),
    ("failed", "pending"),
    ("pending", "quarantined"),
    ("failed", "quarantined"),
]


def described(row: type) -> list[list[object]]:
    """Describe a row's fields from its annotations alone."""
    hints = get_type_hints(row)
    found: list[list[object]] = []
    for item in dataclasses.fields(row):
        parts = [part for part in get_args(hints[item.name]) if part is not NoneType]
        nullable = NoneType in get_args(hints[item.name])
        kind = parts[0] if nullable else hints[item.name]
        vocabulary = list(kind) if isinstance(kind, type) and issubclass(kind, StrEnum) else []
        names = {str: "text", int: "integer", bytes: "bytes", datetime: "instant"}
        other = "JSON list" if get_origin(kind) is tuple else "JSON object"
        word = "word" if vocabulary else names.get(kind, other)
        found.append([item.name, word, nullable, item.metadata["canonical"], *vocabulary])
    return found


def expected_digest() -> str:
    """Work out the digest anew: fields, edges, and the migrations as they lie in the checkout."""
    folder = ROOT / "src" / "tallgrass" / "storage" / "migrations"
    text = json.dumps(
        {
            "attempt": described(WalAttempt),
            "attempt_edges": sorted([source or "", target] for source, target in ATTEMPT_EDGES),
            "edges": [[edge.source, edge.target] for edge in EDGES],
            "migrations": {
                f"{path.parent.name}/{path.name}": hashlib.sha256(path.read_bytes()).hexdigest()
                for dialect in ("sqlite", "postgres")
                for path in (folder / dialect).glob("*.sql")
            },
            "record": described(WalRecord),
        },
        sort_keys=True,
        separators=(",", ":"),
    )
    return hashlib.sha256(text.encode()).hexdigest()


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    """A copy of the documents that a test may spoil."""
    return shutil.copytree(DOCS, tmp_path / "docs")


@pytest.mark.conformance("WAL-10.7", "SM-9.5")
def test_generated_parts_are_as_the_code_says(capsys: pytest.CaptureFixture[str]) -> None:
    """Fields, edges, settings, codes and schemas in the documents are those of the code."""
    assert main(["--check"]) == 0, capsys.readouterr().out


@pytest.mark.conformance("WAL-10.7", "SM-9.5")
@pytest.mark.parametrize("name", WAL_NAMES)
def test_each_ledger_document_states_the_digest(name: str) -> None:
    """The digest in a document is that of the fields, edges and migrations it describes."""
    found = re.findall(
        r"^Digest of .*`sha256:([0-9a-f]{64})`$", read(WAL_DOCS / name), re.MULTILINE
    )
    assert found == [expected_digest()]


@pytest.mark.conformance("WAL-10.7", "SM-9.5")
def test_a_person_notes_each_change_of_the_digest() -> None:
    """The newest line of the contract's history names the digest: no change goes unexplained."""
    newest = rows(section(read(WAL_DOCS / "README.md"), "Version history"))[-1]
    assert newest[2] == f"`{expected_digest()[:16]}`", (
        "fields, edges or migrations changed: say so in docs/replay/wal/README.md, Version history"
    )


@pytest.mark.conformance("SM-9.5")
def test_the_state_machine_document_lists_the_seven_edges() -> None:
    """The table and the diagram show exactly the seven legal edges."""
    text = read(WAL_DOCS / "wal-state-machine.md")
    table = rows(section(text, "Edges"))
    edges = [(words(source)[0], words(target)[0]) for _, source, target, _ in table]
    assert edges == LEGAL
    drawn = re.findall(r"^    (\S+) --> (\w+)$", text, re.MULTILINE)
    assert [(source.replace("[*]", "null"), target) for source, target in drawn] == LEGAL


@pytest.mark.conformance("SM-9.5")
def test_an_eighth_edge_is_noticed(
    docs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A new edge makes every ledger document outdated until they are written again."""
    edge = Edge(Status.SUCCEEDED, Status.PENDING, "never")
    monkeypatch.setattr(tools.generated_parts, "EDGES", (*EDGES, edge))
    assert main(["--check"], docs) == 1
    named = capsys.readouterr().out
    assert all(name in named for name in WAL_NAMES)
    main([], docs)
    assert main(["--check"], docs) == 0
    assert "| 8 | `succeeded` | `pending` | never |" in read(
        docs / "replay" / "wal" / "wal-state-machine.md"
    )


@pytest.mark.conformance("WAL-10.7")
def test_an_edited_migration_is_noticed(
    docs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A changed table makes every ledger document outdated."""
    migrations = shutil.copytree(tools.generated_parts.MIGRATIONS, tmp_path / "migrations")
    monkeypatch.setattr(tools.generated_parts, "MIGRATIONS", migrations)
    assert main(["--check"], docs) == 0
    capsys.readouterr()
    with (migrations / "sqlite" / "0001_ledger.sql").open("a") as file:
        file.write("-- changed\n")
    assert main(["--check"], docs) == 1
    named = capsys.readouterr().out
    assert all(name in named for name in WAL_NAMES)


@pytest.mark.conformance("WAL-10.7")
@pytest.mark.parametrize(
    ("name", "find", "replace"),
    [
        ("replay/wal/wal-record-model.md", "`last_error_code` | text", "`last_error` | text"),
        ("replay/wal/wal-state-machine.md", "a worker claims it", "anybody claims it"),
        ("reference/schemas/wal-record.schema.json", '"minimum": 1', '"minimum": 0'),
        ("reference/conformance.md", "- `contract/test_claiming.py::", "- `test_claiming.py::"),
        ("reference/datasets.md", "| `goes-glm` |", "| `goes-lightning` |"),
        ("images/state-machine.svg", 'data-edge="failed pending"', 'data-edge="failed failed"'),
    ],
)
def test_an_edited_generated_part_is_noticed(
    docs: Path, capsys: pytest.CaptureFixture[str], name: str, find: str, replace: str
) -> None:
    """A generated part that was changed by hand is found, named, and can be written anew."""
    path = docs / name
    good = read(path)
    assert find in good
    path.write_text(good.replace(find, replace), encoding="utf-8")
    assert main(["--check"], docs) == 1
    assert f"docs/{name} is behind the code" in capsys.readouterr().out
    assert main([], docs) == 0
    assert read(path) == good


@pytest.mark.parametrize(
    "text",
    ["<!-- generated: nonsense -->\n<!-- end -->\n", "<!-- generated: digest -->\nno end\n"],
    ids=["unknown", "without end"],
)
def test_a_part_that_cannot_be_generated_is_refused(text: str) -> None:
    """An unknown part, or one without an end, is an error and not silence."""
    with pytest.raises(UnknownPart, match=r"some\.md"):
        with_parts(text, "some.md")


def test_the_version_in_the_history_is_the_package_version() -> None:
    """The newest line of the contract's history speaks of the version that is shipped."""
    project = tomllib.loads(read(ROOT / "pyproject.toml"))["project"]
    newest = rows(section(read(WAL_DOCS / "README.md"), "Version history"))[-1]
    assert newest[0] == project["version"]
