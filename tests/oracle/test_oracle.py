"""The oracle itself: silent on a good run, and loud on each way to break a promise."""

from __future__ import annotations

import contextlib
import json
import shutil
import sqlite3
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

import psycopg
import pytest

from tallgrass.bootstrap.proofs import count_for_proof
from tallgrass.bootstrap.queues import open_queue
from tallgrass.bootstrap.stores import migrate_database, open_stores
from tallgrass.bootstrap.workers import open_worker
from tallgrass.config import load_config
from tallgrass.governance.switches import SwitchScope
from tallgrass.simulate.feed import Feed
from tests.oracle.deliveries import Send, broken_delivery_promises
from tests.oracle.promises import releases_are_approved
from tests.oracle.tables import QueueContents, read_tables
from tests.oracle.verdict import main, summary, verdict
from tests.support.backends import ManualClock

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.plugins.postgres import Databases


class Run(NamedTuple):
    """A finished run: its database, its queue and what its feed was."""

    database: str
    queue: Path
    manifest: dict[str, Any]

    @property
    def is_sqlite(self) -> bool:
        """Whether the database is a file."""
        return not self.database.startswith("postgresql:")

    def connect(self) -> Any:
        """Return a raw connection, committed statement by statement."""
        if self.is_sqlite:
            return sqlite3.connect(self.database, isolation_level=None)
        return psycopg.connect(self.database, autocommit=True)


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def finished(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Run]:
    """Run a feed of every fate to its end, on each database."""
    folder = tmp_path_factory.mktemp("oracle")
    if request.param == "sqlite":
        run_to_the_end(folder, f"sqlite:///{folder}/ledger.db")
        yield Run(str(folder / "ledger.db"), folder / "queue.db", Feed(3, 40).manifest().to_json())
        return
    databases: Databases = request.getfixturevalue("postgres_databases")
    url = databases.create()
    run_to_the_end(folder, url)
    yield Run(url, folder / "queue.db", Feed(3, 40).manifest().to_json())
    databases.drop(url)


def run_to_the_end(folder: Path, database: str) -> None:
    """Work on the feed until queue and ledger have nothing left, and leave a sealed audit log."""
    clock = ManualClock()
    config = load_config(
        environment={},
        flags={
            "database.url": database,
            "queue.url": f"sqlite:///{folder}/queue.db",
            "objects.url": f"file:{folder}/objects",
            # PostgreSQL tells the time itself: there a back-off must be over by then.
            **({} if database.startswith("sqlite") else {"ledger.retry_cap_s": 0.001}),
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
    unfinished = count_for_proof(stores.database)
    while queue.status().visible or queue.status().in_flight or unfinished("count_unfinished"):
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


@pytest.fixture
def copy(finished: Run, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Run]:
    """Return a copy to do harm to."""
    shutil.copyfile(finished.queue, tmp_path / "queue.db")
    if finished.is_sqlite:
        shutil.copyfile(finished.database, tmp_path / "ledger.db")
        yield Run(str(tmp_path / "ledger.db"), tmp_path / "queue.db", finished.manifest)
        return
    databases: Databases = request.getfixturevalue("postgres_databases")
    url = databases.create(urlsplit(finished.database).path.removeprefix("/"))
    yield Run(url, tmp_path / "queue.db", finished.manifest)
    databases.drop(url)


def judge(run: Run) -> list[str]:
    """Return the oracle's verdict on a run."""
    with contextlib.closing(run.connect()) as database:
        return verdict(database, run.queue, run.manifest)


def harm(run: Run, *statements: str) -> None:
    """Change a database behind its guards."""
    with contextlib.closing(run.connect()) as connection:
        (drop_guards_of_sqlite if run.is_sqlite else drop_guards_of_postgres)(connection)
        for statement in statements:
            assert connection.execute(statement).rowcount > 0, statement


def drop_guards_of_sqlite(connection: Any) -> None:
    """Take away triggers, the lock and all CHECKs."""
    names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall()
    for (name,) in names:
        connection.execute(f"DROP TRIGGER {name}")
    connection.execute("DROP INDEX IF EXISTS wal_attempts_open")
    connection.execute("PRAGMA ignore_check_constraints = ON")


def drop_guards_of_postgres(connection: Any) -> None:
    """Take away triggers and references, the lock and all CHECKs."""
    connection.execute("SET session_replication_role = replica")
    connection.execute("DROP INDEX IF EXISTS wal_attempts_open")
    checks = connection.execute(
        "SELECT conrelid::regclass::text, conname FROM pg_constraint"
        # A partition's go with those of its table.
        " WHERE contype = 'c' AND connamespace = 'public'::regnamespace AND conislocal"
    ).fetchall()
    for table, name in checks:
        connection.execute(f'ALTER TABLE {table} DROP CONSTRAINT "{name}"')


def harm_queue(run: Run, statement: str) -> None:
    """Change the queue's file."""
    with contextlib.closing(sqlite3.connect(run.queue, isolation_level=None)) as connection:
        assert connection.execute(statement).rowcount > 0, statement


def test_a_good_run_is_found_good(finished: Run, tmp_path: Path) -> None:
    """A run in which every promise was kept has no violation, and the summary says so."""
    assert judge(finished) == []
    with contextlib.closing(finished.connect()) as database:
        text = summary(database, finished.queue, [])
    assert text.startswith("40 units (")
    assert f"\n{sum(finished.manifest['poison'].values())} poison messages (" in text
    assert text.endswith("0 violations: every promise holds")
    manifest = tmp_path / "manifest.json"
    manifest.write_text(json.dumps(finished.manifest), encoding="utf-8")
    assert main([finished.database, str(finished.queue), str(manifest)]) == 0


SUCCEEDED = "(SELECT wal_id FROM wal_records WHERE status = 'succeeded' ORDER BY wal_id LIMIT 1)"
FAILED = "(SELECT wal_id FROM wal_records WHERE status = 'failed' ORDER BY wal_id LIMIT 1)"
EVENT = "(SELECT outbox_id FROM outbox ORDER BY outbox_id LIMIT 1)"
FORMER = "SELECT wal_id, 2, collection_id, item_id, sha256, updated_at FROM stac_items"
#: The outbox names units by text, also where their ids are UUIDs.
SUCCEEDED_TEXT, FAILED_TEXT = f"CAST({SUCCEEDED} AS TEXT)", f"CAST({FAILED} AS TEXT)"
#: What each database writes in its own way.
EDITED = {
    "sqlite": "CAST(replace(CAST(body AS TEXT), '4', '5') AS BLOB)",
    "postgres": "convert_to(replace(convert_from(body, 'UTF8'), '4', '5'), 'UTF8')",
}
LATER = {"sqlite": "created_at || '0'", "postgres": "created_at + interval '1 microsecond'"}
STILL_OPEN = "closed_version = NULL, closed_at = NULL, commit_id = NULL, error_code = NULL"

HARMS = {
    "item gone": (f"DELETE FROM stac_items WHERE wal_id = {SUCCEEDED}", "has no item"),
    "item edited": (
        f"UPDATE stac_items SET body = EDITED WHERE wal_id = {SUCCEEDED}",
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
    "event gone": (
        f"DELETE FROM outbox WHERE subject = {SUCCEEDED_TEXT}",
        "no event tells of it",
    ),
    "event of another change": (
        f"UPDATE outbox SET created_at = LATER WHERE subject = {SUCCEEDED_TEXT}",
        "no event tells of it",
    ),
    "event of a failure": (
        f"UPDATE outbox SET subject = {FAILED_TEXT} WHERE subject = {SUCCEEDED_TEXT}",
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
    "not put back": (
        f"UPDATE wal_attempts SET error_code = 'not_ready' WHERE wal_id = {FAILED}",
        "what_waits_is_pending",
    ),
    "delivery lost": (
        f"DELETE FROM outbox_delivery WHERE outbox_id = {EVENT}",
        "events_have_one_delivery",
    ),
    "delivery to another target": (
        f"UPDATE outbox_delivery SET target = 'x' WHERE outbox_id = {EVENT}",
        "events_have_one_delivery",
    ),
    "attempt of a delivery untold": (
        f"UPDATE outbox_delivery SET attempt = 1 WHERE outbox_id = {EVENT}",
        "attempts_are_told",
    ),
    "dispatched without a send": (
        f"UPDATE outbox_delivery SET status = 'dispatched' WHERE outbox_id = {EVENT}",
        "success_is_final",
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
    "former item that nobody replaced": (
        f"INSERT INTO replaced_items {FORMER} WHERE wal_id = {SUCCEEDED}",
        "replaced_items_are_gone",
    ),
    "item written at another time": (
        f"UPDATE stac_items SET updated_at = LATER WHERE wal_id = {SUCCEEDED}",
        "commits_are_whole",
    ),
}


@pytest.mark.parametrize("name", HARMS)
def test_each_broken_promise_is_found(copy: Run, name: str) -> None:
    """A database in which one promise was broken by hand is found guilty of it."""
    statement, expected = HARMS[name]
    dialect = "sqlite" if copy.is_sqlite else "postgres"
    harm(copy, statement.replace("EDITED", EDITED[dialect]).replace("LATER", LATER[dialect]))
    found = judge(copy)
    assert any(expected in text for text in found), found


def test_what_targets_got_is_judged(finished: Run) -> None:
    """A send without a row, changed on the way, doubled or after the end: each is found."""
    with contextlib.closing(finished.connect()) as database:
        tables = read_tables(database)
    event = tables.outbox[0]
    name, key, payload = event["outbox_id"], event["idempotency_key"], event["payload"]
    good = Send(outbox_id=name, attempt=1, key=key, payload=payload)
    assert broken_delivery_promises(tables, [good]) == []

    def found(*sends: Send, outcomes: tuple[str, ...] = (), at_the_end: bool = False) -> str:
        told = [
            {"outbox_id": name, "attempt": number, "outcome": outcome}
            for number, outcome in enumerate(outcomes, start=1)
        ]
        changed = replace(tables, delivery_attempts=told, attempts_of={}, record_of={})
        return " ".join(broken_delivery_promises(changed, sends, at_the_end=at_the_end))

    assert "is no event" in found(replace(good, outbox_id="x"))
    assert "sent as something else" in found(replace(good, payload=b"{}"))
    assert "sent as something else" in found(replace(good, key="other"))
    assert "sent 2 times in attempt 1" in found(good, good)
    assert "was never sent" in found(outcomes=("dispatched",))
    assert "was never sent" in found(outcomes=("failed",))
    assert "as if not" in found(good, outcomes=("released",))
    again = replace(good, attempt=2)
    assert "again after it was dispatched" in found(good, again, outcomes=("dispatched",))
    assert found(good, again, outcomes=("lost", "dispatched")) == ""
    assert found(again, outcomes=("released", "dispatched")) == ""
    assert f"event {name} is pending at the end" in found(good, at_the_end=True)


def test_a_release_without_leave_is_found(finished: Run) -> None:
    """The approval was used, names the unit as it was, and is not its asker's own."""
    with contextlib.closing(finished.connect()) as database:
        tables = read_tables(database)
    event = {"wal_id": "u", "version": 8, "kind": "override", "approval_ref": "a"}
    approval = {
        "approval_id": "a",
        "requested_by": "otto",
        "used_at": "2026-06-01T12:00:00.000000Z",
        "summary": '{"units": [["u", 7]]}',
    }
    decision = {"approval_id": "a", "actor": "ann", "decision": "approve"}

    def found(**changes: Any) -> list[str]:
        changed = replace(
            tables,
            history=[{**event, **changes.get("event", {})}],
            approvals=[{**approval, **changes.get("approval", {})}],
            decisions=[{**decision, **changes.get("decision", {})}],
            attempts_of={},
            record_of={},
        )
        return list(releases_are_approved(changed))

    assert found() == []
    said = ["u left quarantine at version 8 without leave"]
    assert found(event={"approval_ref": None}) == said
    assert found(approval={"used_at": None}) == said
    assert found(approval={"summary": '{"units": [["u", 6], ["v", 7]]}'}) == said
    assert found(decision={"decision": "reject"}) == said
    assert found(decision={"actor": "otto"}) == said


def test_lost_and_left_messages_are_found(copy: Run) -> None:
    """A dead letter that vanished and a message that waits for ever are violations."""
    harm_queue(copy, "DELETE FROM dead_letters")
    assert any("its message is gone" in text for text in judge(copy))
    harm_queue(
        copy,
        "INSERT INTO messages (message_id, sent_at, body) VALUES ('m',"
        " '2026-06-01T12:00:00.000000Z', x'7b7d')",
    )
    assert any("messages wait in the queue" in text for text in judge(copy))


def test_a_letter_of_a_version_that_failed_is_no_finding(finished: Run) -> None:
    """It died before a newer version of its object was heard of; of the newest it is a finding."""
    with contextlib.closing(finished.connect()) as database:
        tables = read_tables(database)
    unit = next(each for each in finished.manifest["units"] if each["expected"] == "succeeded")
    bucket, _, key = unit["object_uri"].removeprefix("s3://").partition("/")
    record = next(each for each in tables.records if each["object_uri"] == unit["object_uri"])

    def is_found(etag: str, *more: dict[str, Any]) -> bool:
        s3 = {"bucket": {"name": bucket}, "object": {"key": key, "eTag": etag}}
        body = json.dumps({"Records": [{"eventName": "ObjectCreated:Put", "s3": s3}]}).encode()
        attempts = [*tables.attempts, *more]
        changed = replace(tables, attempts=attempts, attempts_of={}, record_of={})
        found = verdict(changed, QueueContents(dead=[body]), finished.manifest)
        return any("where nothing failed" in text for text in found)

    applied = tables.attempts_of[record["wal_id"]][-1]
    failed = {**applied, "status": "failed", "object_etag": "older"}
    assert is_found("older")
    assert not is_found("older", failed)
    assert is_found("older", {**failed, "object_etag": "another"})
    assert is_found(unit["etag"], {**failed, "object_etag": unit["etag"]})


def test_an_edited_audit_log_is_found(copy: Run) -> None:
    """The chain is worked out again, and an edited entry does not fit it."""
    harm(copy, "UPDATE audit_log SET actor = 'somebody else'")
    assert any("is not what was sealed" in text for text in judge(copy))
