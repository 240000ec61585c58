"""`tallgrass metrics serve` and `--metrics-port`, as real processes on both databases."""

from __future__ import annotations

import contextlib
import re
import signal
import socket
import subprocess
from typing import TYPE_CHECKING

from tests.cli.command import PROGRAM, environment, tallgrass
from tests.cli.pipeline import make_feed, shares
from tests.support.builders import unit
from tests.telemetry.test_prometheus import address, get

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.backends import Backend

SOON_S = 60.0
UNITS = re.compile(
    r'^nodd_sns_wal_units\{dataset="([^"]+)",env="dev",status="([^"]+)"\} (\S+)$', re.MULTILINE
)


@contextlib.contextmanager
def serving(backend: Backend, folder: Path, *flags: str) -> Iterator[str]:
    """Serve meanwhile; it ends in good order when it is told to."""
    queue = f"sqlite:///{folder / 'queue.db'}"
    process = subprocess.Popen(
        [*PROGRAM, "--database", backend.url, "metrics", "serve", "--port", "0", *flags],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(TALLGRASS_QUEUE_URL=queue),
    )
    try:
        yield address(process)
    finally:
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=SOON_S)
    assert (process.returncode, out, err) == (0, "", "")


def units_told(page: str) -> dict[tuple[str, str], float]:
    """Return the gauge of units by dataset and status."""
    return {(dataset, status): float(n) for dataset, status, n in UNITS.findall(page)}


def units_held(backend: Backend) -> dict[tuple[str, str], float]:
    """Count units by dataset and status by plain SQL."""
    rows = backend.sql("SELECT dataset, status, count(*) FROM wal_records GROUP BY dataset, status")
    return {(dataset, status): float(number) for dataset, status, number in rows}


def record(backend: Backend, number: int) -> None:
    """Put one more unit into the ledger."""
    stores = backend.open()
    worker = stores.leases.register("w", ingest_run_id="run", lease_s=3600)
    stores.ledger.record_and_claim(worker, [unit(number)])
    stores.close()


def test_serve_tells_where_the_pipeline_stands_now(filled: Backend, tmp_path: Path) -> None:
    """What it tells equals the tables, also after a change: `--every 0` reads each time."""
    with serving(filled, tmp_path, "--every", "0") as url:
        assert units_told(get(url)) == units_held(filled)
        record(filled, 77)
        page = get(url)
        assert units_told(page) == units_held(filled)
        assert units_told(page)["goes-glm", "in_progress"] == 2.0
        assert 'nodd_sns_health_readable{env="dev"} 1.0' in page


def test_serve_reads_no_more_often_than_it_is_told(filled: Backend, tmp_path: Path) -> None:
    """With `--every 3600` the second scrape shows the first reading; `--host` is where it is."""
    with serving(filled, tmp_path, "--every", "3600", "--host", "localhost") as url:
        before = units_told(get(url))
        record(filled, 77)
        assert units_told(get(url)) == before != units_held(filled)


def test_serve_refuses_what_it_cannot_use(backend: Backend, tmp_path: Path) -> None:
    """A port that is taken, a host that is not ours, a database that is not there: told at once."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = tallgrass("metrics", "serve", "--port", port, at=backend, cwd=tmp_path)
    assert (done.code, "cannot_listen" in done.err) == (2, True)
    done = tallgrass(
        "metrics", "serve", "--host", "192.0.2.1", "--port", "0", at=backend, cwd=tmp_path
    )
    assert (done.code, "cannot_listen" in done.err) == (2, True)
    missing = f"sqlite:///{tmp_path / 'absent.db'}"
    assert tallgrass("metrics", "serve", at=missing, cwd=tmp_path).code != 0


def test_each_process_has_a_port_of_its_own(backend: Backend, tmp_path: Path) -> None:
    """`ingest --processes 2 --metrics-port 0`: the first process and its two workers answer."""
    feed = make_feed(tmp_path, 6, *shares())
    done = feed.ingest(backend, "--drain", "--processes", "2", "--metrics-port", "0")
    assert done.code == 0, done.err
    ports = re.findall(r" metrics_served port=(\d+)$", done.err, re.MULTILINE)
    assert len(set(ports)) == 3


def test_dispatch_and_follow_answer_too(backend: Backend, tmp_path: Path) -> None:
    """Both tell where, and end as ever."""
    done = tallgrass(
        "outbox", "dispatch", "--drain", "--metrics-port", "0", at=backend, cwd=tmp_path
    )
    assert (done.code, len(re.findall(r" metrics_served port=\d+$", done.err, re.MULTILINE))) == (
        0,
        1,
    )
    (tmp_path / "objects" / "noaa-goes19").mkdir(parents=True)
    done = tallgrass(
        "follow", "--dataset", "goes-glm", "--bucket", "noaa-goes19", "--once",
        "--objects", f"file:{tmp_path / 'objects'}", "--metrics-port", "0",
        at=backend, cwd=tmp_path,
    )  # fmt: skip
    assert done.code == 0, done.err
    assert re.search(r" metrics: http://127\.0\.0\.1:\d+/metrics$", done.err, re.MULTILINE)


def test_a_setting_is_as_good_as_the_flag(backend: Backend, tmp_path: Path) -> None:
    """`telemetry.metrics_port` opens the port that it names, or says that it is taken."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        variables = {"TALLGRASS_TELEMETRY_METRICS_PORT": str(taken.getsockname()[1])}
        done = tallgrass("outbox", "dispatch", "--drain", at=backend, env=variables, cwd=tmp_path)
    assert (done.code, "cannot_listen" in done.err) == (2, True)
