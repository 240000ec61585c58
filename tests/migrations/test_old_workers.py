"""An upgrade without a stop: workers of the release before go on while the newest migration runs.

The release before is a copy of the package without its newest migration, and without what its code
does with it. Its worker is a process that is not told of anything.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import tallgrass as package
from tallgrass.bootstrap.queues import open_queue
from tallgrass.config import load_config
from tallgrass.storage.migrations import shipped_migrations
from tests.cli.command import Done, environment, tallgrass
from tests.cli.pipeline import FeedFolder, shares
from tests.ops.judging import (
    WAIT_S_MAX,
    make_judged_feed,
    succeeded,
    violations,
    wait_until,
)

if TYPE_CHECKING:
    from tests.support.backends import Backend

UNITS = 40
NEWEST = shipped_migrations("sqlite")[-1]
#: What the release before did not do, as it had not the newest migration: file, code, what it was.
NOT_YET = (
    ("storage/catalog_writes.py", "for name, own in items.items()", "for name, own in ()"),
    ("bootstrap/catalog.py", "in stores.collections.waiting().items()", "in ()"),
)


@pytest.fixture(scope="module")
def release_before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package without its newest migration, to be found before the installed one."""
    folder = tmp_path_factory.mktemp("before")
    source = Path(package.__file__).parent
    shutil.copytree(source, folder / "tallgrass", ignore=shutil.ignore_patterns("__pycache__"))
    migrations = folder / "tallgrass" / "storage" / "migrations"
    removed = [*migrations.glob(f"*/{NEWEST.number:04}_{NEWEST.name}.sql")]
    assert {path.parent.name for path in removed} == {"sqlite", "postgres"}
    for path in removed:
        path.unlink()
    for name, now, then in NOT_YET:
        code = folder / "tallgrass" / name
        text = code.read_text(encoding="utf-8")
        assert text.count(now) == 1, f"{name} does otherwise now"
        code.write_text(text.replace(now, then), encoding="utf-8")
    return folder


def run_before(release: Path, *arguments: str, at: Backend) -> Done:
    """Run a command of the release before."""
    return tallgrass(*arguments, "--output", "json", at=at, env={"PYTHONPATH": str(release)})


def start_before(release: Path, feed: FeedFolder, queue: str, at: Backend) -> subprocess.Popen[str]:
    """Start a worker of the release before, which runs until it is told to stop."""
    flags = ["--queue", queue, "--store", at.url, "--objects", feed.objects, "--output", "json"]
    return subprocess.Popen(
        [sys.executable, "-m", "tallgrass", "ingest", *flags],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment(PYTHONPATH=str(release)),
    )


def wait_for(number: int, worker: subprocess.Popen[str], database: Backend) -> None:
    """Wait for successes that only a living worker can bring."""

    def there() -> bool:
        assert worker.poll() is None, "the worker ended"
        return succeeded(database) >= number

    wait_until(there, f"{number} units")


def forward(source: str, target: str, number: int) -> None:
    """Take messages from one queue to the other."""
    from_, to = (open_queue(load_config(environment={}, flags={"queue.url": u}))
                 for u in (source, target))  # fmt: skip
    taken = from_.receive(number)
    assert len(taken) == number
    to.send([message.body for message in taken])
    from_.delete([message.receipt for message in taken])
    from_.close()
    to.close()


def numbers(backend: Backend) -> list[int]:
    """Return the migrations that the database has."""
    return [row[0] for row in backend.sql("SELECT number FROM schema_migrations ORDER BY number")]


@pytest.mark.slow
def test_a_worker_of_the_release_before_works_through_a_migration(
    empty: Backend, release_before: Path, tmp_path: Path
) -> None:
    """It commits before and after; a new one of its kind is refused; nothing is lost or doubled."""
    database = empty
    feed = make_judged_feed(tmp_path / "feed", UNITS, *shares())
    queue = f"sqlite:///{tmp_path / 'queue.db'}"
    assert run_before(release_before, "db", "migrate", at=database).code == 0
    assert numbers(database) == list(range(1, NEWEST.number))

    forward(feed.queue, queue, UNITS // 2)
    with start_before(release_before, feed, queue, database) as worker:
        wait_for(1, worker, database)
        migrated = tallgrass("db", "migrate", "--output", "json", at=database)
        assert migrated.json["applied"] == [f"{NEWEST.number:04}_{NEWEST.name}"]
        wait_for(UNITS // 2, worker, database)
        forward(feed.queue, queue, UNITS // 2)
        wait_for(UNITS, worker, database)
        worker.terminate()
        out, _ = worker.communicate(timeout=WAIT_S_MAX)
    assert worker.returncode == 0, out
    by = database.sql("SELECT DISTINCT worker_incarnation FROM wal_attempts")
    assert len(by) == 1, "all was done by the one worker"

    refused = run_before(release_before, "ingest", "--once", "--queue", queue, at=database)
    assert refused.error["code"] == "schema_too_new"
    assert tallgrass("db", "check", at=database).code == 0
    assert violations(database, feed, tmp_path / "queue.db") == []


def test_a_worker_of_the_new_release_waits_for_the_migration(
    empty: Backend, release_before: Path
) -> None:
    """Started too early it is refused with the remedy, and writes nothing."""
    assert run_before(release_before, "db", "migrate", at=empty).code == 0
    early = tallgrass("ingest", "--once", "--output", "json", at=empty)
    assert (early.code, early.error["code"]) == (1, "schema_outdated")
    assert "db migrate" in early.error["remedy"]
    assert empty.sql("SELECT count(*) FROM workers") == [(0,)]
