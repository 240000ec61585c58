"""The oracle itself: silent on a good run, and loud on each way to break a promise."""

from __future__ import annotations

import json
import shutil
import sqlite3
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tallgrass.bootstrap import migrate_database, open_queue, open_stores, open_worker
from tallgrass.config import load_config
from tallgrass.governance.switches import SwitchScope
from tallgrass.simulate.feed import Feed
from tests.oracle.verdict import main, summary, verdict
from tests.support.backends import ManualClock

if TYPE_CHECKING:
    from pathlib import Path


class Run(NamedTuple):
    """A finished run: its database, its queue and what its feed was."""

    database: Path
    queue: Path
    manifest: dict[str, Any]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Run a feed of every fate to its end."""
    folder = tmp_path_factory.mktemp("oracle")
    clock = ManualClock()
    config = load_config(
        environment={},
        flags={
            "database.url": f"sqlite:///{folder}/ledger.db",
            "queue.url": f"sqlite:///{folder}/queue.db",
            "objects.url": f"file:{folder}/objects",
        },
    )
    migrate_database(config)
    (folder / "objects").mkdir()
    feed = Feed(3, 40)
    feed.write(folder / "objects")
    queue = open_queue(config, clock=clock)
    queue.send(list(feed.bodies()))
    stores = open_stores(config, clock=clock)
    lease = stores.leases.register("worker", ingest_run_id="run", lease_s=60)
    worker = open_worker(config, stores, lease, queue=queue, clock=clock)
    while queue.status().visible or queue.status().in_flight:
        worker.run_messages()
        worker.run_due()
        clock.advance(30)
        stores.leases.renew(lease)
    stores.leases.stop(lease)
    for is_on in (True, False):
        stores.switches.set(SwitchScope.INGEST, "*", is_on=is_on, actor="a", reason="b")
    stores.audit.seal()
    stores.close()
    queue.close()
    return Run(folder / "ledger.db", folder / "queue.db", feed.manifest().to_json())


@pytest.fixture
def copy(finished: Run, tmp_path: Path) -> Run:
    """Return a copy to do harm to."""
    for file in (finished.database, finished.queue):
        shutil.copyfile(file, tmp_path / file.name)
    return Run(tmp_path / "ledger.db", tmp_path / "queue.db", finished.manifest)


def judge(run: Run) -> list[str]:
    """Return the oracle's verdict on a run."""
    database = sqlite3.connect(run.database)
    try:
        return verdict(database, run.queue, run.manifest)
    finally:
        database.close()


def harm(file: Path, *statements: str) -> None:
    """Change a database behind its guards."""
    connection = sqlite3.connect(file, isolation_level=None)
    names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall()
    for (name,) in names:
        connection.execute(f"DROP TRIGGER {name}")
    connection.execute("DROP INDEX IF EXISTS wal_attempts_open")
    connection.execute("PRAGMA ignore_check_constraints = ON")
    for statement in statements:
        assert connection.execute(statement).rowcount > 0, statement
    connection.close()


def test_a_good_run_is_found_good(finished: Run, tmp_path: Path) -> None:
    """A run in which every promise was kept has no violation, and the summary says so."""
    assert judge(finished) == []
    database = sqlite3.connect(finished.database)
    text = summary(database, finished.queue, [])
    database.close()
    assert text.startswith("40 units (")
    assert text.endswith("0 violations: every promise holds")
    manifest = tmp_path / "manifest.json"
    manifest.write_text(json.dumps(finished.manifest), encoding="utf-8")
    assert main([str(finished.database), str(finished.queue), str(manifest)]) == 0


SUCCEEDED = "(SELECT wal_id FROM wal_records WHERE status = 'succeeded' ORDER BY wal_id LIMIT 1)"
FAILED = "(SELECT wal_id FROM wal_records WHERE status = 'failed' ORDER BY wal_id LIMIT 1)"
EDITED = "replace(CAST(body AS TEXT), '4', '5')"
STILL_OPEN = "closed_version = NULL, closed_at = NULL, commit_id = NULL, error_code = NULL"

HARMS = {
    "item gone": (f"DELETE FROM stac_items WHERE wal_id = {SUCCEEDED}", "has no item"),
    "item edited": (
        f"UPDATE stac_items SET body = CAST({EDITED} AS BLOB) WHERE wal_id = {SUCCEEDED}",
        "items_are_owned",
    ),
    "item and hash edited": (
        f"UPDATE stac_items SET sha256 = '{'0' * 64}' WHERE wal_id = {SUCCEEDED}",
        "items_are_owned",
    ),
    "item of a failure": (
        f"UPDATE stac_items SET wal_id = {FAILED} WHERE wal_id = {SUCCEEDED}",
        "belongs to no unit that succeeded",
    ),
    "provenance gone": (
        f"DELETE FROM provenance WHERE wal_id = {SUCCEEDED}",
        "has no provenance",
    ),
    "provenance of a failure": (
        f"UPDATE provenance SET wal_id = {FAILED} WHERE wal_id = {SUCCEEDED}",
        "of an attempt that was not applied",
    ),
    "event gone": (f"DELETE FROM outbox WHERE subject = {SUCCEEDED}", "no event tells of it"),
    "event of a failure": (
        f"UPDATE outbox SET subject = {FAILED} WHERE subject = {SUCCEEDED}",
        "an item that nobody made",
    ),
    "record gone": (
        f"DELETE FROM wal_records WHERE wal_id = {SUCCEEDED}",
        "neither in the ledger nor a dead letter",
    ),
    "attempt gone": (f"DELETE FROM wal_attempts WHERE wal_id = {FAILED}", "attempts_are_counted"),
    "version skipped": (
        f"UPDATE wal_records SET version = version + 1 WHERE wal_id = {SUCCEEDED}",
        "versions_are_gapless",
    ),
    "left pending": (
        f"UPDATE wal_records SET status = 'pending' WHERE wal_id = {FAILED}",
        "pending_is_scheduled",
    ),
    "attempt left open": (
        f"UPDATE wal_attempts SET status = 'pending', {STILL_OPEN} WHERE wal_id = {FAILED}",
        "one_open_attempt",
    ),
    "operators failed": (
        f"UPDATE wal_records SET metadata_status = 'failed' WHERE wal_id = {SUCCEEDED}",
        "successes_are_whole",
    ),
    "another code": (
        f"UPDATE wal_records SET last_error_code = 'io_error' WHERE wal_id = {FAILED}",
        "failed with io_error",
    ),
    "another etag read": (
        f"UPDATE wal_attempts SET read_etag = 'x' WHERE wal_id = {SUCCEEDED}",
        "the newest is",
    ),
    "poison lost": ("DELETE FROM poison_messages", "were poison"),
    "item written at another time": (
        f"UPDATE stac_items SET updated_at = created_at || '0' WHERE wal_id = {SUCCEEDED}",
        "commits_are_whole",
    ),
}


@pytest.mark.parametrize("name", HARMS)
def test_each_broken_promise_is_found(copy: Run, name: str) -> None:
    """A database in which one promise was broken by hand is found guilty of it."""
    statement, expected = HARMS[name]
    harm(copy.database, statement)
    found = judge(copy)
    assert any(expected in text for text in found), found


def test_lost_and_left_messages_are_found(copy: Run) -> None:
    """A dead letter that vanished and a message that waits for ever are violations."""
    harm(copy.queue, "DELETE FROM dead_letters")
    assert any("its message is gone" in text for text in judge(copy))
    harm(
        copy.queue,
        "INSERT INTO messages (message_id, sent_at, body) VALUES ('m',"
        " '2026-06-01T12:00:00.000000Z', x'7b7d')",
    )
    assert any("messages wait in the queue" in text for text in judge(copy))


def test_an_edited_audit_log_is_found(copy: Run) -> None:
    """The chain is worked out again, and an edited entry does not fit it."""
    harm(copy.database, "UPDATE audit_log SET actor = 'somebody else'")
    assert any("is not what was sealed" in text for text in judge(copy))
