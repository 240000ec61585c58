"""The drill: back up at work, lose everything, restore, go on; nothing is lost and nothing doubled.

The worker runs while the backup is taken, and is killed. What it did after the backup is gone from
the restored database, and comes again from the restored queue.
"""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tallgrass.governance.switches import SwitchScope
from tests.cli.command import Done, tallgrass
from tests.cli.pipeline import FeedFolder, shares
from tests.ops.judging import make_judged_feed, succeeded, violations, wait_until
from tests.plugins.postgres_server import wheel_binaries
from tests.support.backends import Backend

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.plugins.postgres import Databases

UNITS = 60
#: Short, so that what the killed worker held, units and messages, is soon taken over.
SETTINGS = {
    "TALLGRASS_WORKER_LEASE_S": "3",
    "TALLGRASS_QUEUE_VISIBILITY_S": "5",
    "TALLGRASS_WORKER_BATCH": "10",
}
CATALOG = "SELECT collection_id, item_id, body FROM stac_items ORDER BY collection_id, item_id"


def leave_a_trace(backend: Backend) -> None:
    """Have somebody do something that the audit log tells of."""
    stores = backend.open()
    for is_on in (True, False):
        stores.switches.set(
            SwitchScope.INGEST, "hrrr", is_on=is_on, actor="j.doe", reason="maintenance"
        )
    stores.close()


def finish(feed: FeedFolder, backend: Backend) -> None:
    """Work until nothing waits, which takes as long as the lease of the worker that was killed."""

    def done() -> bool:
        drained = feed.ingest(backend, "--drain", **SETTINGS)
        assert drained.code == 0, drained.err
        left = backend.sql(
            "SELECT count(*) FROM wal_records"
            " WHERE status IN ('pending', 'in_progress') OR due_at IS NOT NULL"
        )
        return left[0][0] == 0 and feed.in_queue() == 0

    wait_until(done, "everything is done")


class Drill:
    """One kind of database: how it is backed up, lost and restored."""

    def __init__(self, backend: Backend, folder: Path, databases: Databases | None) -> None:
        self.backend = backend
        self.folder = folder
        self.databases = databases
        self.feed = make_judged_feed(folder, UNITS, *shares(duplicated="0.2", zero_bytes="0.05"))
        self.copy = folder / "backup"

    def back_up(self) -> None:
        """Copy the queue first, then the database, both in use."""
        only = () if self.databases is None else ("--queue-only",)
        done = self.command("db", "backup", "--to", str(self.copy), *only)
        assert done.code == 0, done.err
        if self.databases is not None:
            self.postgres(
                "pg_dump", "--format=custom", f"--file={self.copy / 'ledger.dump'}",
                f"--dbname={self.backend.url}",
            )  # fmt: skip

    def restore(self) -> Backend:
        """Lose database and queue, and put the copies in their place."""
        for name in ("queue.db", "queue.db-wal", "queue.db-shm"):
            (self.folder / name).unlink(missing_ok=True)
        shutil.copy(self.copy / "queue.db", self.folder / "queue.db")
        self.backend.close()
        if self.databases is None:
            path = Path(self.backend.url.removeprefix("sqlite:///"))
            for suffix in ("", "-wal", "-shm"):
                Path(f"{path}{suffix}").unlink(missing_ok=True)
            shutil.copy(self.copy / "ledger.db", path)
            return Backend("sqlite", self.backend.url)
        self.databases.drop(self.backend.url)
        url = self.databases.create()
        self.postgres(
            "pg_restore", "--exit-on-error", f"--dbname={url}", str(self.copy / "ledger.dump")
        )
        return Backend("postgres", url)

    def command(self, *arguments: str, at: Backend | None = None) -> Done:
        """Run a command on the database and the queue."""
        env = {"TALLGRASS_QUEUE_URL": self.feed.queue}
        return tallgrass(*arguments, "--output", "json", at=at or self.backend, env=env)

    def postgres(self, program: str, *arguments: str) -> None:
        """Run a program of PostgreSQL."""
        command = [str(wheel_binaries() / program), *arguments]
        subprocess.run(command, check=True, capture_output=True)


@pytest.fixture
def drill(backend: Backend, tmp_path: Path, request: pytest.FixtureRequest) -> Drill:
    """A pipeline with a feed, on each kind of database in turn."""
    databases: Databases | None = None
    if backend.name == "postgres":
        databases = request.getfixturevalue("postgres_databases")
    return Drill(backend, tmp_path, databases)


@pytest.mark.slow
def test_a_restored_pipeline_goes_on_as_if_nothing_had_happened(drill: Drill) -> None:
    """Same catalog, byte for byte; audit and evidence hold; the oracle finds no broken promise."""
    feed, backend = drill.feed, drill.backend
    anchor = str(drill.folder / "anchors.jsonl")
    leave_a_trace(backend)
    assert feed.ingest(backend, "--once", **SETTINGS).code == 0
    assert drill.command("audit", "seal", "--anchor", anchor).code == 0
    with feed.start(backend, **SETTINGS) as worker:
        drill.back_up()
        wait_until(lambda: succeeded(backend) > UNITS // 2, "the worker goes on")
        worker.kill()
        worker.communicate()
    assert len(list(drill.copy.iterdir())) == 2
    finish(feed, backend)
    before = backend.sql(CATALOG)
    assert len(before) > UNITS * 0.8

    restored = drill.restore()
    assert drill.command("db", "check", at=restored).json["schema"]["state"] == "current"
    assert succeeded(restored) > 0
    finish(feed, restored)
    assert restored.sql(CATALOG) == before
    proved = drill.command("verify", at=restored)
    assert (proved.code, proved.json["differs"]) == (0, 0)
    assert proved.json["identical"] == len(before)
    assert drill.command("audit", "verify", "--anchor", anchor, at=restored).json["ok"] is True
    assert drill.command("audit", "seal", "--anchor", anchor, at=restored).code == 0
    assert violations(restored, feed, drill.folder / "queue.db") == []
    restored.close()
    if drill.databases is not None:
        drill.databases.drop(restored.url)


def test_a_backup_of_sqlite_is_one_moment_of_it(tmp_path: Path) -> None:
    """A copy taken while others write holds whole transactions and needs no journal beside it."""
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    assert tallgrass("db", "migrate", at=url).code == 0
    with contextlib.closing(sqlite3.connect(tmp_path / "ledger.db")) as writer:
        writer.execute("CREATE TABLE pairs (a INTEGER, b INTEGER)")
        writer.execute("INSERT INTO pairs VALUES (1, 1)")
        writer.commit()
        writer.execute("INSERT INTO pairs VALUES (2, 2)")  # not committed when the copy is taken
        done = tallgrass("db", "backup", "--to", str(tmp_path / "copy"), "--output", "json", at=url)
        writer.commit()
    assert done.code == 0, done.err
    (file,) = done.json["files"]
    assert [path.name for path in (tmp_path / "copy").iterdir()] == ["ledger.db"]
    with contextlib.closing(sqlite3.connect(file["file"])) as copy:
        assert copy.execute("SELECT a, b FROM pairs").fetchall() == [(1, 1)]
        assert copy.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def test_a_backup_goes_over_nothing(tmp_path: Path) -> None:
    """A folder with something in it, a ledger that is not there, PostgreSQL: refused, each told."""
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    missing = tallgrass("db", "backup", "--to", str(tmp_path / "a"), "--output", "json", at=url)
    assert (missing.code, missing.error["code"]) == (4, "database_unreachable")
    assert tallgrass("db", "migrate", at=url).code == 0
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "mine").write_text("mine")
    used = tallgrass("db", "backup", "--to", str(tmp_path / "b"), "--output", "json", at=url)
    assert (used.code, used.error["code"]) == (3, "export_target_in_use")
    assert "give --replace" not in used.error["remedy"], "a backup has no such option"
    assert [path.name for path in (tmp_path / "b").iterdir()] == ["mine"]
    server = tallgrass(
        "db", "backup", "--to", str(tmp_path / "c"), "--output", "json",
        at="postgresql://nobody@127.0.0.1:1/none",
    )  # fmt: skip
    assert (server.code, server.error["code"]) == (1, "backup_by_server")
    assert not (tmp_path / "c").exists()
    sqs = tallgrass(
        "db", "backup", "--to", str(tmp_path / "d"), "--queue-only", "--output", "json",
        at=url, env={"TALLGRASS_QUEUE_URL": "arn:aws:sqs:us-east-1:123456789012:nodd"},
    )  # fmt: skip
    assert (sqs.code, sqs.error["code"]) == (2, "invalid_input")


def wipe_pages(path: Path) -> None:
    """Make pages of the file all zeros."""
    data = bytearray(path.read_bytes())
    data[4096 * 5 : 4096 * 30] = bytes(4096 * 25)
    path.write_bytes(data)


def spoil_an_index(path: Path) -> None:
    """Change a key in an index and not in its table: each page is readable, the whole is wrong."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE marked (word TEXT)")
        connection.execute("CREATE INDEX marked_by_word ON marked (word)")
        connection.execute("INSERT INTO marked VALUES ('a-word-that-is-nowhere-else')")
        connection.commit()
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    data = path.read_bytes()
    assert data.count(b"a-word-that-is-nowhere-else") == 2
    at = data.rindex(b"a-word-that-is-nowhere-else")
    path.write_bytes(data[:at] + b"b" + data[at + 1 :])


@pytest.mark.parametrize("damage", [wipe_pages, spoil_an_index])
def test_a_damaged_ledger_gives_no_backup(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    """A copy that SQLite itself finds unsound never gets its name."""
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    assert tallgrass("db", "migrate", at=url).code == 0
    damage(tmp_path / "ledger.db")
    done = tallgrass("db", "backup", "--to", str(tmp_path / "copy"), "--output", "json", at=url)
    assert (done.code, done.error["code"]) == (1, "database_corrupt")
    assert list((tmp_path / "copy").iterdir()) == []


def test_half_a_backup_is_none(tmp_path: Path) -> None:
    """If the ledger cannot be copied the queue's copy goes too; the same call can be made again."""
    queue, ledger = tmp_path / "queue.db", tmp_path / "ledger.db"
    assert tallgrass("db", "migrate", at=f"sqlite:///{queue}").code == 0
    ledger.write_bytes(b"Dear Sir or Madam, " * 100)

    def back_up() -> Done:
        return tallgrass(
            "db", "backup", "--to", str(tmp_path / "copy"), "--output", "json",
            at=f"sqlite:///{ledger}", env={"TALLGRASS_QUEUE_URL": f"sqlite:///{queue}"},
        )  # fmt: skip

    assert back_up().error["code"] == "database_corrupt"
    assert list((tmp_path / "copy").iterdir()) == []
    ledger.unlink()
    assert tallgrass("db", "migrate", at=f"sqlite:///{ledger}").code == 0
    assert [Path(each["file"]).name for each in back_up().json["files"]] == [
        "queue.db",
        "ledger.db",
    ]
