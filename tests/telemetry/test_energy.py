"""Energy of ingest: measured at the end of batches, kept in lines, summed up by attempt and GB."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.bootstrap.metering import energy_coefficients, metered
from tallgrass.config import load_config
from tallgrass.errors import ConfigError
from tallgrass.telemetry import names
from tallgrass.telemetry.energy import PUBLISHED_SOURCE, EnergyCoefficients
from tallgrass.telemetry.energy_lines import carbon_document, energy_document, total_energy
from tallgrass.telemetry.metering_recorder import MeteringRecorder
from tests.pipeline.scene import Pipeline, things
from tests.support.recording import MemoryRecorder

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from tallgrass.config import Config
    from tests.support.backends import Backend

#: Round figures: a busy core takes 3600 W and nothing else does, so a CPU second is 1 Wh.
ROUND = EnergyCoefficients(
    watts_per_core=3600.0, watts_per_gb=0.0, pue=1.0, grams_per_kwh=500.0, source="by hand"
)


class Meter:
    """A meter whose CPU and clock are moved by hand."""

    def __init__(self) -> None:
        self.cpu_s = self.now_s = 100.0
        self.lines: list[Mapping[str, Any]] = []
        self.inner = MemoryRecorder()
        self.recorder = self.of(self.lines.append)

    def of(self, write: Callable[[Mapping[str, Any]], None]) -> MeteringRecorder:
        """Return a recorder that writes its lines so."""
        return MeteringRecorder(
            self.inner,
            ROUND,
            write,
            clock=lambda: datetime(2026, 6, 1, tzinfo=UTC),
            cpu_s=lambda: self.cpu_s,
            monotonic=lambda: self.now_s,
        )

    def batch(self, *, cpu_s: float, wall_s: float, attempts: int, size: int) -> None:
        """Report a batch that took so much."""
        self.cpu_s, self.now_s = self.cpu_s + cpu_s, self.now_s + wall_s
        self.recorder.observe(names.WAL_ATTEMPTS, [1.0] * attempts, dataset="hrrr")
        self.recorder.count(names.BYTES_INGESTED, size, dataset="hrrr")
        self.recorder.observe(names.BATCH_SECONDS, [wall_s], source="queue")


def test_a_batch_adds_the_energy_of_its_cpu_time() -> None:
    """2 s and 1 s of CPU are 3 Wh and 1.5 g; everything else is passed on as it is."""
    meter = Meter()
    meter.batch(cpu_s=2.0, wall_s=3.0, attempts=4, size=500)
    meter.batch(cpu_s=1.0, wall_s=3.0, attempts=2, size=100)
    assert meter.inner.by_labels("nodd_sns.energy_kwh_total") == {("test",): pytest.approx(0.003)}
    assert meter.inner.by_labels("nodd_sns.carbon_gco2e_total") == {("test",): pytest.approx(1.5)}
    assert meter.inner.total(names.BYTES_INGESTED) == 600
    assert meter.inner.observed(names.BATCH_SECONDS) == [3.0, 3.0]
    assert meter.lines == []  # less than ten seconds


def test_a_line_sums_up_ten_seconds_and_the_end_writes_the_rest() -> None:
    """Method, figures and their source stand in every line."""
    meter = Meter()
    meter.batch(cpu_s=2.0, wall_s=6.0, attempts=4, size=500)
    meter.batch(cpu_s=1.0, wall_s=6.0, attempts=2, size=100)
    meter.batch(cpu_s=0.5, wall_s=1.0, attempts=1, size=0)
    (line,) = meter.lines
    assert line == {
        "at": "2026-06-01T00:00:00.000000Z",
        "cpu_s": 3.0, "wall_s": 12.0, "attempts": 6, "bytes_ingested": 600,
        "energy_wh": pytest.approx(3.0), "carbon_gco2e": pytest.approx(1.5),
        "estimated": True, "method": "cpu-time",
        "coefficients": {
            "watts_per_core": 3600.0, "watts_per_gb": 0.0, "pue": 1.0, "grams_per_kwh": 500.0,
            "memory_gb": 0.5, "source": "by hand",
        },
    }  # fmt: skip
    meter.recorder.close()
    assert [each["attempts"] for each in meter.lines] == [6, 1]
    meter.recorder.close()
    assert len(meter.lines) == 2  # nothing was done since


def test_a_line_that_cannot_be_written_is_dropped_and_counted() -> None:
    """Three batches of ten seconds on a full disk: three lines are lost, and it is told once."""
    meter = Meter()
    answers: list[Exception | None] = [OSError(28, "full")] * 3 + [None, OSError(28, "full")]

    def write(line: Mapping[str, Any]) -> None:
        answer = answers.pop(0)
        if answer is not None:
            raise answer
        meter.lines.append(line)

    meter.recorder = meter.of(write)
    for attempts in range(1, 6):
        meter.batch(cpu_s=1.0, wall_s=10.0, attempts=attempts, size=0)
    assert [each["attempts"] for each in meter.lines] == [4]
    dropped = "nodd_sns.telemetry_dropped_total"
    assert meter.inner.by_labels(dropped) == {("energy", "unwritable"): 4}
    told = [fields for name, fields in meter.inner.events if name == names.TELEMETRY_UNDELIVERED]
    # Once for each outage.
    assert told == [{"signal": "energy", "lines": 1}] * 2


def test_a_torn_line_spoils_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk takes half a line; the next one begins anew."""
    path = tmp_path / "energy.jsonl"
    config = load_config(environment={}, flags={"telemetry.energy_file": str(path)})
    write, room = os.write, [40]

    def half(descriptor: int, data: bytes) -> int:
        return write(descriptor, data[: room.pop()] if room else data)

    with metered(config, MemoryRecorder(), exported=False) as recorder:
        monkeypatch.setattr(os, "write", half)
        for _ in range(2):
            recorder.observe(names.WAL_ATTEMPTS, [1.0], dataset="hrrr")
            recorder._end_line()  # type: ignore[attr-defined]
    totals = total_energy(path.read_bytes().splitlines())
    assert (totals.lines, totals.unreadable) == (1, 1)


def line(attempts: int, size: int, energy_wh: float, **changes: Any) -> bytes:
    """Return a line as a worker writes it."""
    given = {
        "at": "2026-06-01T00:00:00.000000Z", "cpu_s": 1.0, "wall_s": 2.0, "attempts": attempts,
        "bytes_ingested": size, "energy_wh": energy_wh, "carbon_gco2e": energy_wh / 2,
        "coefficients": {"source": "by hand"},
    }  # fmt: skip
    return json.dumps({**given, **changes}).encode() + b"\n"


def test_lines_come_to_an_attempt_and_a_gigabyte() -> None:
    """4 Wh over 8 attempts and 2 GB: 0.5 Wh an attempt, 0.002 kWh and 1 g a GB."""
    totals = total_energy([line(6, 1_500_000_000, 3.0), line(2, 500_000_000, 1.0)])
    energy, carbon = energy_document(totals), carbon_document(totals)
    assert (energy["attempts"], energy["energy_kwh"]) == (8, pytest.approx(0.004))
    assert energy["wh_per_attempt"] == pytest.approx(0.5)
    assert energy["kwh_per_gb"] == pytest.approx(0.002)
    assert carbon["gco2e_per_attempt"] == pytest.approx(0.25)
    assert carbon["gco2e_per_gb"] == pytest.approx(1.0)
    assert energy["coefficients"] == [{"source": "by hand"}]


def test_nothing_ingested_is_no_division() -> None:
    """Attempts that all failed have no gigabyte; no lines have no attempt."""
    assert energy_document(total_energy([line(2, 0, 1.0)]))["kwh_per_gb"] is None
    empty = energy_document(total_energy([]))
    assert (empty["wh_per_attempt"], empty["since"], empty["lines"]) == (None, None, 0)


@pytest.mark.parametrize(
    "bad", [b"{\n", b"[]\n", b"7\n", b'{"at": "x"}\n', line(1, 1, 1.0, cpu_s="much")]
)
def test_a_line_that_is_none_is_counted_and_left_out(bad: bytes) -> None:
    """What others wrote into the file makes nothing fail, and is told."""
    totals = total_energy([line(1, 1, 1.0), bad, b"\n", line(1, 1, 1.0)])
    assert (totals.lines, totals.unreadable, totals.sums["attempts"]) == (2, 1, 2)


def configured(**values: Any) -> Config:
    """Return the defaults with some settings changed."""
    config = load_config(environment={})
    changed = {f"telemetry.{name}": value for name, value in values.items()}
    return replace(config, values={**config.values, **changed})


def test_the_defaults_are_the_published_figures() -> None:
    """Without a setting the source is the published one; own figures need their own."""
    assert energy_coefficients(configured()) == EnergyCoefficients()
    assert energy_coefficients(configured()).source == PUBLISHED_SOURCE
    mine = energy_coefficients(configured(energy_grams_per_kwh=333.0, energy_source="Kansas 2025"))
    assert (mine.grams_per_kwh, mine.source, mine.pue) == (333.0, "Kansas 2025", 1.67)
    with pytest.raises(ConfigError, match="need a `source`"):
        energy_coefficients(configured(energy_grams_per_kwh=333.0))


def test_without_a_file_and_without_metrics_nothing_is_measured(tmp_path: Path) -> None:
    """The recorder is the one that was given; a file that cannot be made is told at once."""
    inner = MemoryRecorder()
    with metered(configured(), inner, exported=False) as recorder:
        assert recorder is inner
    with metered(configured(), inner, exported=True) as recorder:
        assert isinstance(recorder, MeteringRecorder)
    lost = configured(energy_file=str(tmp_path / "no" / "energy.jsonl"))
    with pytest.raises(ConfigError, match="No such file"), metered(lost, inner, exported=False):
        pass


def test_a_worker_measures_what_it_does(backend: Backend, tmp_path: Path) -> None:
    """Six real units in two batches: two counts, one line whose sums are what was ingested."""
    path = tmp_path / "energy.jsonl"
    path.write_bytes(line(1, 1, 1.0))  # another process's
    pipeline, inner, seen = Pipeline(backend, tmp_path), MemoryRecorder(), [0.0]
    with metered(configured(energy_file=str(path)), inner, exported=False) as recorder:
        worker = pipeline.start(recorder=recorder)
        for batch in (things(3), things(3, first=3)):
            pipeline.feed(*batch)
            worker.run_messages()
            seen.append(inner.total("nodd_sns.energy_kwh_total"))
    assert all(before < after for before, after in pairwise(seen))
    _, written = path.read_bytes().splitlines()
    read = json.loads(written)
    (size,) = [sum(len(each.content) for each in things(6))]
    assert (read["attempts"], read["bytes_ingested"]) == (6, size)
    assert read["energy_wh"] == pytest.approx(seen[-1] * 1000)
    assert read["cpu_s"] > 0
    assert total_energy(path.read_bytes().splitlines()).lines == 2
