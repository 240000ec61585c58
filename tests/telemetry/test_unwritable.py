"""Logs and energy that cannot be written cost no unit: real processes, on full and closed files."""

from __future__ import annotations

import json
import os
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tallgrass.bootstrap.telemetry import open_recorder
from tallgrass.config import load_config
from tallgrass.telemetry import names
from tests.cli.command import PROGRAM, environment
from tests.cli.pipeline import make_feed, shares
from tests.support.backends import prepare

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from tallgrass.telemetry.series import Collect, Series
    from tests.cli.pipeline import FeedFolder
    from tests.support.backends import Backend

UNITS = 12
DROPPED = "nodd_sns.telemetry_dropped_total"


@contextmanager
def full() -> Iterator[int]:
    """A file on a disk that is full."""
    with Path("/dev/full").open("wb") as file:
        yield file.fileno()


@contextmanager
def nobody_reads() -> Iterator[int]:
    """A pipe whose reader has gone."""
    reading, writing = os.pipe()
    os.close(reading)
    yield writing
    os.close(writing)


@contextmanager
def not_for_writing() -> Iterator[int]:
    """A file that was opened for reading."""
    with Path(os.devnull).open("rb") as file:
        yield file.fileno()


BROKEN = [full, nobody_reads, not_for_writing]


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Backend]:
    """An empty ledger in a file."""
    backend = prepare("sqlite", f"sqlite:///{tmp_path / 'ledger.db'}")
    yield backend
    backend.close()


@pytest.fixture
def feed(tmp_path: Path) -> FeedFolder:
    """A feed of twelve units of which four fail, each with a line of the log."""
    return make_feed(tmp_path, UNITS, "--seed", "3", *shares(zero_bytes="0.34"))


def run(*args: str, stderr: int, **env: str) -> subprocess.CompletedProcess[bytes]:
    """Run a command with a broken stderr."""
    return subprocess.run(
        [*PROGRAM, *args],
        stdout=subprocess.PIPE,
        stderr=stderr,
        check=False,
        timeout=120,
        env=environment(**env),
    )


def statuses(ledger: Backend) -> dict[str, int]:
    """Count units by plain SQL."""
    return dict(ledger.sql("SELECT status, count(*) FROM wal_records GROUP BY status"))


@pytest.mark.parametrize("broken", BROKEN)
@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_log_that_cannot_be_written_stops_nobody(
    feed: FeedFolder,
    ledger: Backend,
    broken: Callable[[], AbstractContextManager[int]],
    processes: str,
) -> None:
    """Every unit ends as it would, and so does the command."""
    with broken() as stderr:
        flags = ("--drain", "--processes", processes, "--dispatch", "--output", "json")
        done = run("ingest", *feed.flags(ledger), *flags, stderr=stderr)
    assert done.returncode == 0
    assert json.loads(done.stdout)["by_verdict"]["succeeded"] == statuses(ledger)["succeeded"] == 8
    assert sum(statuses(ledger).values()) == UNITS


def test_energy_that_cannot_be_written_stops_nobody(feed: FeedFolder, ledger: Backend) -> None:
    """It is told once, and the units are in the catalog."""
    done = feed.ingest(ledger, "--drain", TALLGRASS_TELEMETRY_ENERGY_FILE="/dev/full")
    assert done.code == 0, done.err
    assert statuses(ledger)["succeeded"] == 8
    assert done.err.count("telemetry_undelivered signal=energy") == 1


def test_what_only_tells_goes_on_without_a_reader(feed: FeedFolder, ledger: Backend) -> None:
    """Dispatchers and listings write their lines nowhere, and do their work."""
    target = f"sqlite:///{feed.folder / 'ledger.db'}"
    with full() as stderr:
        listed = run(
            "--database", target, "follow", "--dataset", "goes-glm", "--objects", feed.objects,
            "--since", "2026-01-01", "--once", "--output", "json", stderr=stderr,
        )  # fmt: skip
        sent = run("--database", target, "outbox", "dispatch", "--drain", stderr=stderr)
    assert (listed.returncode, sent.returncode) == (0, 0)
    assert json.loads(listed.stdout)["recorded"] > 0


class Broken:
    """A stream that fails until it is mended."""

    def __init__(self, error: Exception) -> None:
        self.error: Exception | None = error
        self.lines: list[str] = []

    def write(self, line: str) -> None:
        """Take a line, or fail."""
        if self.error is not None:
            raise self.error
        self.lines.append(line)


@pytest.mark.parametrize("error", [OSError(28, "full"), BrokenPipeError(), ValueError("closed")])
def test_lines_that_are_dropped_are_counted(error: Exception) -> None:
    """By the metric at once, and by the log itself as soon as it can be written again."""
    stream = Broken(error)
    config = load_config(environment={}, flags={"env": "prod"})
    found: list[Series] = []

    def collecting(series: Series) -> Collect:
        found.append(series)
        return series.families

    with open_recorder(
        config, stream.write, metrics_port=0, collecting=collecting, environment={}
    ) as recorder:
        for _ in range(3):
            recorder.event(names.WORKER_DIED, pid=1, exit_code=2)
        stream.error = None
        recorder.event(names.WORKER_DIED, pid=3, exit_code=4)
        recorder.event(names.WORKER_DIED, pid=5, exit_code=6)
    (dropped,) = [family for family in found[0].families() if family.metric.name == DROPPED]
    # That the port is served could not be told either.
    assert dropped.numbers == {("logs", "unwritable"): 4}
    told = [line.split(" ", 1)[1] for line in stream.lines]
    assert told == [
        "error worker_died pid=3 exit_code=4\n",
        "warning telemetry_undelivered signal=logs lines=4\n",
        "error worker_died pid=5 exit_code=6\n",
    ]
