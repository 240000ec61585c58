"""What is flat and what grows, by figures made up for it."""

from __future__ import annotations

import sqlite3
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest

from tests.soak.cast import Measured
from tests.soak.flatness import LAG_S_MAX, judge_flatness, percentile
from tests.soak.plot import curves, plotted
from tests.soak.sampling import Sample, Watch

STEADY = Measured(resident=100_000_000, handles=20, cpu_s=1.0)
#: Ninety looks, one a second, at a run in which nothing changes but the number of units.
FLAT = [
    Sample(
        at_s=float(second),
        units=350 * second,
        processes=dict.fromkeys(("worker", "dispatcher", "retention", "killed worker"), STEADY),
        lag_s=2.0,
        latencies=[0.5, 0.6, 3.0],
        database_bytes=350 * second * 4000,
        log_bytes=20_000_000,
        waiting=100,
    )
    for second in range(91)
]


def growing(**changes: object) -> list[str]:
    """Return what is called growing if the last third looks otherwise."""
    samples = [*FLAT[:60], *(replace(each, **changes) for each in FLAT[60:])]  # type: ignore[arg-type]
    return [each.name for each in judge_flatness(samples) if not each.is_flat]


def taking(name: str, **changes: int) -> dict[str, Measured]:
    """Return the processes, one of which takes something else."""
    return {**FLAT[0].processes, name: replace(STEADY, **changes)}


def test_a_steady_run_is_flat() -> None:
    """Every figure is the same in both thirds, worked out by hand."""
    found = {each.name: each for each in judge_flatness(FLAT)}
    assert all(each.is_flat for each in found.values())
    assert found["worker: memory"].second == found["worker: memory"].last == 100.0
    assert found["worker: memory"].limit == pytest.approx(110.0)
    assert found["received to committed, p50"].last == 0.6
    assert found["received to committed, p99"].last == 3.0
    assert found["database, growth a unit"].last == 4000.0
    assert found["database's log, most"].last == 20.0


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({"processes": taking("worker", resident=109_000_000)}, []),
        ({"processes": taking("worker", resident=111_000_000)}, ["worker: memory"]),
        ({"processes": taking("dispatcher", resident=111_000_000)}, ["dispatcher: memory"]),
        ({"processes": taking("dispatcher", handles=21)}, ["dispatcher: handles"]),
        ({"processes": taking("retention", handles=21)}, ["retention: handles"]),
        # It is killed all the time: what it takes says nothing.
        ({"processes": taking("killed worker", resident=999_000_000, handles=99)}, []),
        ({"lag_s": 3.4}, []),
        ({"lag_s": 3.6}, ["oldest unit not done, mean"]),
        ({"latencies": [0.9]}, ["received to committed, p50"]),
        ({"latencies": [0.5, 0.5, 5.0]}, ["received to committed, p99"]),
        ({"waiting": 626}, ["events not delivered, mean"]),
        ({"log_bytes": 58_000_000}, ["database's log, most"]),
    ],
)
def test_what_grows_is_named(changes: dict[str, object], names: list[str]) -> None:
    """Memory beyond a tenth, any further handle, and whatever else is beyond its limit."""
    assert growing(**changes) == names


def test_a_database_that_grows_faster_is_named() -> None:
    """Bytes a unit, not bytes: the database of a longer run is larger."""
    faster = [
        *FLAT[:60],
        *(replace(each, database_bytes=60 * 1_400_000 + (each.units - 21_000) * 7100)
          for each in FLAT[60:]),
    ]  # fmt: skip
    assert [each.name for each in judge_flatness(faster) if not each.is_flat] == [
        "database, growth a unit"
    ]


def test_lag_is_bounded_whatever_it_was_before() -> None:
    """A run in which units wait for too long from the beginning on is not flat either."""
    slow = [replace(each, lag_s=LAG_S_MAX + 1) for each in FLAT]
    assert [each.name for each in judge_flatness(slow) if not each.is_flat] == [
        "oldest unit not done, most"
    ]


def test_too_few_looks_are_no_thirds() -> None:
    """Nobody can tell from five looks."""
    with pytest.raises(ValueError, match="3 samples are too few"):
        judge_flatness(FLAT[:3])


def test_percentiles_are_values_that_were_there() -> None:
    """The smallest that so large a share does not exceed."""
    assert percentile([], 0.5) == 0.0
    assert percentile([4, 1, 3, 2], 0.5) == 2
    assert percentile(range(1, 101), 0.99) == 99
    assert percentile(range(1, 201), 0.99) == 198
    assert percentile([7], 0.99) == 7


def test_a_watched_unit_is_followed_until_it_is_committed() -> None:
    """Lag is the age of the oldest that is not done, or of one that was done since; by hand."""
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE wal_records (wal_id, object_uri, status, created_at,"
                     " applied_attempt)")  # fmt: skip
    database.execute("CREATE TABLE wal_attempts (wal_id, attempt_no, closed_at)")
    database.executemany(
        "INSERT INTO wal_records VALUES (?, ?, ?, ?, ?)",
        [
            ("1", "s3://b/done", "succeeded", "1970-01-01T00:01:41.500000Z", 2),
            ("2", "s3://b/open", "in_progress", "1970-01-01T00:01:45.000000Z", None),
        ],
    )
    database.execute("INSERT INTO wal_attempts VALUES ('1', 1, '1970-01-01T00:01:42.000000Z')")
    database.execute("INSERT INTO wal_attempts VALUES ('1', 2, '1970-01-01T00:01:48.000000Z')")
    watch = Watch(under_way={"s3://b/done": 100.0, "s3://b/open": 105.0, "s3://b/new": 109.0})
    # Sent at 100, received at 101.5, committed at 108.
    assert watch.look(database, 110.0) == (8.0, [6.5])
    assert watch.look(database, 120.0) == (15.0, [])
    assert list(watch.under_way) == ["s3://b/open", "s3://b/new"]
    assert watch.done == 1
    database.close()


def test_a_plot_shows_every_figure() -> None:
    """One panel each, whose curve has a point for each look; it is well-formed."""
    root = ET.fromstring(plotted("sqlite & more", FLAT))  # noqa: S314 - made here
    lines = root.findall(".//{*}polyline")
    assert len(lines) == len(curves(FLAT)) == 2 * 4 + 5
    assert all(len(line.attrib["points"].split()) == len(FLAT) for line in lines)
    texts = [text.text for text in root.findall(".//{*}text")]
    assert texts[0] == "sqlite & more, 90 s"
    assert "worker: memory, MB (most 100.0)" in texts
