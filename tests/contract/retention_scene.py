"""Retention on a ledger of the test's own: old rows, archives, and what is left."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tallgrass.bootstrap.retaining import Retention
from tallgrass.inventory.retention import ArchiveFormat, ArchiveKind, RetentionRules
from tallgrass.outbox.dispatch_rules import AttemptOutcome
from tallgrass.storage.archives import ArchiveFolder
from tallgrass.storage.retention_store import RetentionStore
from tests.support.builders import failure, overwritten, success, unit
from tests.support.events import write
from tests.support.outbox import Outbox

if TYPE_CHECKING:
    from pathlib import Path

    from tests.contract.scene import Scene
    from tests.support.backends import Backend

#: Everything that is written in a test is older than this.
FAR_FUTURE = datetime(2100, 1, 1, tzinfo=UTC)
ALL_KINDS = tuple(ArchiveKind)
KEYS = {
    "wal_attempts": "wal_id, attempt_no",
    "outbox": "outbox_id",
    "outbox_delivery": "outbox_id",
    "outbox_attempts": "outbox_id, attempt",
    "audit_log": "entry_id",
    "audit_seals": "position",
}


def open_retention(
    scene: Scene, folder: Path, *, now: datetime = FAR_FUTURE, days: int = 30, **options: Any
) -> Retention:
    """Wire retention for which all that was written is old."""
    return Retention(
        RetentionStore(scene.stores.runner),
        options.pop("place", None) or ArchiveFolder(folder),
        RetentionRules(days=dict.fromkeys(ArchiveKind, days)),
        options.pop("format", ArchiveFormat.NDJSON),
        now=lambda: now,
        **options,
    )


def apply(retention: Retention, *kinds: ArchiveKind, **options: Any) -> list[Any]:
    """Run retention to its end."""
    return list(retention.steps(kinds or ALL_KINDS, actor="ann", **options))


def fill_attempts(scene: Scene) -> dict[str, str]:
    """Write units whose attempts are known by heart; return their ids by name.

    mended: failed, applied, and a re-run that failed. again: applied, and applied again.
    broken: failed three times. held: one open attempt. once: applied.
    """
    ids = {"once": scene.succeed(0), "broken": scene.fail(1)}
    for _ in range(2):
        scene.commit(failure(scene.claim(1)))
    ids["mended"] = scene.fail(2)
    scene.commit(success(scene.claim(2)))
    scene.commit(failure(scene.claim(overwritten(2))))
    ids["again"] = scene.succeed(3)
    scene.commit(success(scene.claim(overwritten(3))))
    ids["held"] = scene.claim(unit(4)).wal_id
    return ids


def attempts_left(backend: Backend) -> set[tuple[str, int]]:
    """Return the keys of all attempts in the table."""
    return set(backend.sql("SELECT wal_id, attempt_no FROM wal_attempts"))


def rows_of(backend: Backend, table: str) -> list[dict[str, Any]]:
    """Return a table's rows in the order of their keys, as archives write values."""
    found = backend.rows(f"SELECT * FROM {table} ORDER BY {KEYS[table]}")
    return [{name: _text(value) for name, value in row.items()} for row in found]


def lines_of(folder: Path, pattern: str = "*.ndjson.gz") -> list[dict[str, Any]]:
    """Read archives with other tools than the package's own; headers are left out."""
    found = []
    for path in sorted(folder.glob(pattern)):
        with gzip.open(path, "rt", encoding="utf-8") as file:
            header, *lines = map(json.loads, file)
        assert header["format"] == "tallgrass-archive"
        found += lines
    return found


def _text(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value


def deliver(backend: Backend, *numbers: int, failing: tuple[int, ...] = ()) -> list[str]:
    """Write events and deliver them, all but those that fail; return the ids of all."""
    ids = write(backend, *numbers)
    outbox = Outbox(backend)
    claims = outbox.claim()
    names = {ids[numbers.index(number)] for number in failing}
    outbox.settle([c for c in claims if c.event.outbox_id not in names])
    outbox.settle(
        [c for c in claims if c.event.outbox_id in names],
        outcome=AttemptOutcome.FAILED,
        error_code="sink_refused",
    )
    return ids


def audited(scene: Scene, entries: int = 6) -> None:
    """Write so many entries, and seal them."""
    for number in range(entries):
        scene.switch(is_on=number % 2 == 0, dataset=f"d{number}")
    scene.stores.audit.seal()


def without_guards(backend: Backend, table: str, statement: str) -> None:
    """Change a table as someone with full rights could."""
    if backend.name == "postgres":
        backend.sql(f"ALTER TABLE {table} DISABLE TRIGGER ALL")
    else:
        names = backend.sql(
            "SELECT name FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = ?", table
        )
        for (name,) in names:
            backend.sql(f"DROP TRIGGER {name}")
    backend.sql(statement)


def everything(scene: Scene, folder: Path) -> dict[str, set[Any]]:
    """Return the keys of all rows, wherever they are, by table."""
    archived: dict[str, set[Any]] = {"wal_attempts": set(), "outbox": set(), "audit_log": set()}
    for line in lines_of(folder):
        if "outbox_id" in line:
            archived["outbox"].add(line["outbox_id"])
        elif "attempt_no" in line:
            archived["wal_attempts"].add((line["wal_id"], line["attempt_no"]))
        else:
            archived["audit_log"].add(line["entry_id"])
    found = {
        "wal_attempts": attempts_left(scene.backend),
        "outbox": {row["outbox_id"] for row in rows_of(scene.backend, "outbox")},
        "audit_log": {row["entry_id"] for row in rows_of(scene.backend, "audit_log")},
    }
    return {name: found[name] | archived[name] for name in found}
