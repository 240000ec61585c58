from __future__ import annotations

import json
import re
import tomllib
from dataclasses import fields
from typing import TYPE_CHECKING

import click
import pytest

from tallgrass.cli.main import cli
from tallgrass.clock import parse_instant
from tallgrass.config import load_config
from tallgrass.ledger.identity import wal_id
from tallgrass.ledger.object_uri import key_of_event
from tallgrass.ledger.record import WalAttempt, WalRecord
from tests.documents.markdown import (
    DOCS,
    ROOT,
    WAL_DOCS,
    all_documents,
    code_block,
    read,
    rows,
    section,
    words,
)
from tools.conformance_list import load_conformance_list

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

REFERENCE = DOCS / "reference"
RECORD_NAMES = {item.name for item in fields(WalRecord)}
ATTEMPT_NAMES = {item.name for item in fields(WalAttempt)}


def source(name: str) -> str:
    """Return a module's text, to be read without running it."""
    return read(ROOT / "src" / "tallgrass" / name)


def test_every_setting_is_documented() -> None:
    """Each setting and table of the source is in the configuration document, and no other."""
    declared = set(re.findall(r'\bkey="([a-z_.]+)"', source("settings.py")))
    tables = set(re.findall(r'^    "([a-z]+\.[a-z_]+)": "', source("settings.py"), re.MULTILINE))
    text = read(REFERENCE / "configuration.md")
    assert {words(row[0])[0] for row in rows(section(text, "Settings"))} == declared
    assert {words(row[0])[0] for row in rows(section(text, "Tables"))} == tables
    assert len(declared) > 10


def test_the_example_configuration_is_accepted(tmp_path: Path) -> None:
    """The configuration that the document shows can be used as it stands."""
    text = read(REFERENCE / "configuration.md")
    file = tmp_path / "tallgrass.toml"
    file.write_text(code_block(text, "toml"), encoding="utf-8")
    rules = load_config(file=file, environment={}).rules
    assert rules.max_attempts_of("nexrad-l2") == 12
    assert rules.max_attempts_of("goes-glm") == 8
    assert not rules.allows_partial("nexrad-l2")
    assert rules.custom_reasons["sensor-recall"].approval_ref == "CHG-2041"
    assert rules.extensions["goes-glm"] == {"ext_orbital_slot"}
    assert "wasabi" in rules.providers


@pytest.mark.parametrize(
    ("scope", "heading"), [("unit", "Of a unit"), ("command", "Of a command or call")]
)
def test_every_error_code_is_documented(scope: str, heading: str) -> None:
    """Each code of the registry is in the document with its meaning and remedy, and no other."""
    registry = tomllib.loads(source("error_codes.toml"))[scope]
    listed = {
        words(row[0])[0]: row for row in rows(section(read(REFERENCE / "error-codes.md"), heading))
    }
    assert listed.keys() == registry.keys()
    for code, entry in registry.items():
        assert listed[code][-2:] == [entry["meaning"], entry["remedy"]]
        if scope == "unit":
            assert listed[code][1] == ("yes" if entry.get("retried") else "no")


def test_codes_named_in_documents_exist() -> None:
    """Codes that the ledger's documents name are in the registry."""
    registry = tomllib.loads(source("error_codes.toml"))
    known = {code for table in registry.values() for code in table}
    named = set()
    for path in WAL_DOCS.glob("*.md"):
        named.update(
            re.findall(
                r"(?:refused|fails|`failed`|since,|migration,|error is)(?: with)? `([a-z_]+)`",
                read(path),
            )
        )
    assert len(named) >= 8
    assert named - known == set()


def commands(command: click.Command, path: str) -> Iterator[str]:
    """Yield the path of a command and of all below it."""
    yield path
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from commands(below, f"{path} {name}")


def test_every_command_is_documented() -> None:
    """Each command of the command line has its section, and each section its command."""
    titles = re.findall(r"^#{2,5} (tallgrass.*)$", read(REFERENCE / "cli.md"), re.MULTILINE)
    assert titles == list(commands(cli, "tallgrass"))
    assert {"tallgrass db migrate", "tallgrass wal show", "tallgrass audit verify"} <= set(titles)


@pytest.mark.parametrize("path", all_documents(), ids=lambda path: path.name)
def test_documents_name_only_commands_that_exist(path: Path) -> None:
    """A command in back quotes can be called by that name."""
    groups = {name.split()[1] for name in commands(cli, "tallgrass") if name.count(" ") == 2}
    known = set(commands(cli, "tallgrass"))
    for words_ in (text.split() for text in words(read(path)) if text.startswith("tallgrass ")):
        names = [word for word in words_ if re.fullmatch(r"[a-z|]+", word)]
        depth = 3 if len(names) > 1 and names[1] in groups else 2
        for last in names[depth - 1].split("|") if len(names) >= depth else [""]:
            assert " ".join([*names[: depth - 1], last]).strip() in known, " ".join(words_)


@pytest.mark.conformance("C-29")
def test_aliases_lead_to_real_fields_and_are_none_themselves() -> None:
    """Each other name maps to fields of record and attempt, and stands in no table itself."""
    table = rows(section(read(WAL_DOCS / "README.md"), "Names that differ"))
    aliases = {words(row[0])[0] if words(row[0]) else row[0]: row[1] for row in table}
    assert {"object_ref", "event_metadata", "timestamp_created"} <= aliases.keys()
    assert not (aliases.keys() & (RECORD_NAMES | ATTEMPT_NAMES))
    for target in aliases.values():
        for part in target.split(";"):
            names = set(words(part))
            assert names
            assert names <= (RECORD_NAMES if "on the record" in part else ATTEMPT_NAMES), part
            assert "on the record" in part or "on the attempt" in part


@pytest.mark.conformance("C-29")
def test_aliases_are_not_columns() -> None:
    """No migration or query uses a name that the ledger has another one for."""
    table = rows(section(read(WAL_DOCS / "README.md"), "Names that differ"))
    aliases = [words(row[0])[0] for row in table if words(row[0])]
    for path in (ROOT / "src" / "tallgrass" / "storage").rglob("*.sql"):
        text = read(path)
        assert [alias for alias in aliases if re.search(rf"\b{alias}\b", text)] == [], path.name


def test_every_decision_is_written_down() -> None:
    """Each decision of the conformance list has one line in the decisions document."""
    listed = [
        requirement.id
        for requirement in load_conformance_list().requirements.values()
        if requirement.document == "C"
    ]
    text = read(DOCS / "concepts" / "decisions.md")
    assert sorted(re.findall(r"^\| (C-\d\d) \|", text, re.MULTILINE)) == sorted(listed)
    assert len(listed) == 54


def test_the_key_examples_hold() -> None:
    """Keys are decoded exactly once, as the table of the record model says."""
    text = section(read(WAL_DOCS / "wal-record-model.md"), "The form of `object_uri`")
    for encoded, decoded in rows(text):
        assert key_of_event(words(encoded)[0]) == words(decoded)[0]


def test_the_example_record_bears_its_own_id() -> None:
    """The id that the record model shows is the id of the unit that it shows."""
    text = section(read(WAL_DOCS / "wal-record-model.md"), "Examples")
    record = json.loads(code_block(text, "json"))
    start = parse_instant(record["time_range_start"])
    assert record["wal_id"] == wal_id(record["dataset"], record["object_uri"], start)
