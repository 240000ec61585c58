from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.documents.markdown import WAL_DOCS, read, rows, section, words

if TYPE_CHECKING:
    from tests.support.backends import Backend

#: The contract's record: type and whether it may be null. `last_attempt_at` is null until the first
#: claim (C-12), `replay_reason` is stored as `none` instead of null (C-14).
CANONICAL = {
    "wal_id": ("id", False),
    "dataset": ("text", False),
    "object_uri": ("text", False),
    "provider": ("text", False),
    "queue": ("text", False),
    "event_time": ("time", False),
    "time_range_start": ("time", False),
    "time_range_end": ("time", False),
    "status": ("text", False),
    "attempts": ("integer", False),
    "last_attempt_at": ("time", True),
    "last_error_code": ("text", True),
    "last_error_message": ("text", True),
    "integrity_status": ("text", False),
    "metadata_status": ("text", False),
    "stac_status": ("text", False),
    "provenance_status": ("text", False),
    "stac_item_id": ("text", True),
    "stac_collection_id": ("text", True),
    "stac_item_href": ("text", True),
    "ingest_run_id": ("text", False),
    "worker_id": ("text", False),
    "replay_reason": ("text", False),
    "created_at": ("time", False),
    "updated_at": ("time", False),
    "version": ("integer", False),
}

#: What the replay specification asks of a record, and this ledger keeps on the attempt.
REPLAY = {
    "wal_id": ("id", False),
    "sns_message_id": ("text", True),
    "sqs_message_id": ("text", True),
    "object_etag": ("text", True),
    "object_size": ("integer", True),
    "object_sequencer": ("text", True),
    "object_version_id": ("text", True),
    "intent": ("text", False),
    "code_version": ("text", False),
    "config_version": ("text", False),
    "claimed_at": ("time", False),
    "status": ("text", False),
    "replay_run_id": ("text", True),
    "evidence": ("bytes", True),
    "prov_activity_id": ("text", True),
    "openlineage_run_id": ("text", True),
}

#: Column types of each database.
TYPES = {
    "sqlite": {
        "id": {"TEXT"},
        "text": {"TEXT"},
        "time": {"TEXT"},
        "integer": {"INTEGER"},
        "bytes": {"BLOB"},
    },
    "postgres": {
        "id": {"uuid"},
        "text": {"text"},
        "time": {"timestamp with time zone"},
        "integer": {"integer", "bigint"},
        "bytes": {"bytea"},
    },
}

#: A type word of the record model → what a column may be.
MODEL_TYPES = {
    "text": {"id", "text"},
    "word": {"text"},
    "instant": {"time"},
    "integer": {"integer"},
    "bytes": {"bytes"},
    "JSON object": {"text"},
    "JSON list": {"text"},
}


def columns(backend: Backend, table: str) -> dict[str, tuple[str, bool]]:
    """Ask the database for a table's columns: name → (type, may be null), in their order."""
    if backend.name == "sqlite":
        found = backend.sql('SELECT name, type, NOT "notnull" FROM pragma_table_info(?)', table)
    else:
        found = backend.sql(
            "SELECT column_name, data_type, is_nullable = 'YES' FROM information_schema.columns "
            "WHERE table_schema = 'public' AND table_name = ? ORDER BY ordinal_position",
            table,
        )
    return {name: (kind, bool(nullable)) for name, kind, nullable in found}


def documented(*headings: str) -> dict[str, tuple[str, bool]]:
    """Read the field tables of the record model: name → (type word, may be null)."""
    text = read(WAL_DOCS / "wal-record-model.md")
    table = [row for heading in headings for row in rows(section(text, heading))]
    return {words(name)[0]: (kind, null == "yes") for name, kind, null, _ in table}


@pytest.mark.conformance("WAL-10.1")
@pytest.mark.parametrize(
    ("table", "expected"), [("wal_records", CANONICAL), ("wal_attempts", REPLAY)]
)
def test_each_canonical_field_is_a_column(
    backend: Backend, table: str, expected: dict[str, tuple[str, bool]]
) -> None:
    """Each field of the contract is a column of the right type, null only where it may be."""
    found = columns(backend, table)
    for name, (kind, nullable) in expected.items():
        assert name in found, name
        assert found[name][0] in TYPES[backend.name][kind], name
        assert found[name][1] is nullable, name


@pytest.mark.conformance("WAL-10.1")
@pytest.mark.parametrize(
    ("table", "headings"),
    [
        (
            "wal_records",
            ("The record: canonical fields", "The record: the ledger's own fields"),
        ),
        ("wal_attempts", ("The attempt",)),
    ],
)
def test_the_record_model_is_what_the_tables_hold(
    backend: Backend, table: str, headings: tuple[str, ...]
) -> None:
    """Documented fields and columns are the same, in name, order, type and nullability."""
    found, told = columns(backend, table), documented(*headings)
    assert list(found) == list(told)
    for name, (kind, nullable) in told.items():
        allowed = set().union(*(TYPES[backend.name][word] for word in MODEL_TYPES[kind]))
        assert found[name][0] in allowed, name
        assert found[name][1] is nullable, name


@pytest.mark.conformance("WAL-10.1")
def test_the_record_model_names_the_canonical_fields() -> None:
    """The document's canonical fields are those of the contract, in its order."""
    assert list(documented("The record: canonical fields")) == list(CANONICAL)


def test_every_table_is_documented(backend: Backend) -> None:
    """The storage document names each table of the database, and no other."""
    listed = rows(section(read(WAL_DOCS / "wal-storage-backends.md"), "Tables"))
    if backend.name == "sqlite":
        found = backend.sql(
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
        )
    else:
        found = backend.sql(
            "SELECT table_name FROM information_schema.tables "
            "WHERE table_schema = 'public' AND table_type = 'BASE TABLE' "
            "AND table_name !~ '^outbox_attempts_'"
        )
    assert {words(row[0])[0] for row in listed} == {name for (name,) in found}


def test_both_databases_have_the_same_columns_in_every_table() -> None:
    """Tables, columns and their order are the same in both migrations."""
    folder = WAL_DOCS.parents[2] / "src" / "tallgrass" / "storage" / "migrations"
    shapes = []
    for dialect in ("sqlite", "postgres"):
        script = "".join(read(path) for path in sorted((folder / dialect).glob("*.sql")))
        tables = re.findall(r"^CREATE TABLE (\w+) \((.*?)^\)", script, re.DOTALL | re.MULTILINE)
        shape = {name: re.findall(r"^  ([a-z]\w*)", body, re.MULTILINE) for name, body in tables}
        for name, column in re.findall(
            r"^ALTER TABLE (\w+) ADD COLUMN (\w+)", script, re.MULTILINE
        ):
            # A table that was made anew on SQLite has it already.
            shape[name] += [column] if column not in shape[name] else []
        shapes.append(shape)
    assert shapes[0] == shapes[1]
    assert len(shapes[0]) == 38
