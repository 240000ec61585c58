"""What nodes report: six metrics, once each, under few labels; and the five records of a run."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.errors import TransientError, ValidationError
from tallgrass.nodes import NodeHooks, RetryPolicy, effect
from tallgrass.nodes.energy_policy import CpuEnergyMeter, EnergyCoefficients
from tallgrass.nodes.lineage import FileLineage, Lineage
from tallgrass.telemetry.names import METRICS
from tests.nodes.governed import governed_gate
from tests.nodes.running import Watched, failing_first
from tests.support.recording import MemoryRecorder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

#: The specification's names, and their units as UCUM writes them.
SIX = {
    "kfm.node_latency_ms": "ms",
    "kfm.node_retries": "1",
    "kfm.node_cache_hits": "1",
    "kfm.node_cache_misses": "1",
    "kfm.node_energy_wh": "W.h",
    "kfm.node_carbon_gco2e": "g",
}
HISTOGRAMS = ("kfm.node_latency_ms", "kfm.node_energy_wh", "kfm.node_carbon_gco2e")
#: Two watts whatever the node does, and 500 g a kWh.
FLAT = EnergyCoefficients(
    watts_per_core=0, watts_per_gb=2, memory_gb=1, pue=1, grams_per_kwh=500, source="a test"
)


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    """A folder for runners; by the meter's clock every attempt takes half an hour."""
    made = Watched(tmp_path / "nodes", recorder=MemoryRecorder(env="prod"))
    now = iter(range(0, 1_000_000, 1_800))
    meter = CpuEnergyMeter(FLAT, monotonic=lambda: float(next(now)))
    lineage = Lineage(FileLineage(tmp_path / "lineage"))
    made.options["hooks"] = NodeHooks(energy=meter, lineage=lineage, watchers=(made,))
    made.options["gate"] = governed_gate()
    yield made
    made.close()


def run(watched: Watched, node: Callable[[Any], Any], run_id: str = "1", **options: Any) -> Any:
    """Run a node of the open dataset."""
    given = {"node_id": "smooth", "code_version": "1", "inputs": {"x": 1}, "dataset": "river_flow"}
    runner = watched.runner(run_id=run_id, retry=RetryPolicy(max_attempts=3))
    return runner.run(exec_fn=node, **{**given, **options})


def reported(watched: Watched) -> dict[str, float]:
    """How many points each metric has, and take them away."""
    recorder = watched.recorder
    found = {
        name: len(recorder.observed(name)) if name in HISTOGRAMS else recorder.total(name)
        for name in SIX
    }
    watched.recorder = MemoryRecorder(env="prod")
    return found


@pytest.mark.conformance("NR-3.8", "NR-8.3", "C-46")
def test_each_metric_is_reported_once_for_what_happened(watched: Watched) -> None:
    """A miss, a hit, retries, a failure and a resume: a point for each attempt, none for a hit's.

    Retries are attempts less one; a hit has its latency, under no attempt, and no energy.
    """

    def points(**expected: float) -> dict[str, float]:
        return {name: expected.get(name.removeprefix("kfm.node_"), 0) for name in SIX}

    run(watched, lambda _: 1)
    miss = points(latency_ms=1, cache_misses=1, energy_wh=1, carbon_gco2e=1)
    assert reported(watched) == miss

    run(watched, lambda _: 1, "2")
    assert len(watched.outcomes[-1].attempts) == 0
    assert reported(watched) == points(latency_ms=1, cache_hits=1)

    run(watched, lambda _: 1, "2")
    assert reported(watched) == points()

    run(watched, failing_first(2, lambda: TransientError("x")), "3", inputs={"x": 2})
    assert len(watched.outcomes[-1].attempts) == 3
    assert reported(watched) == points(
        latency_ms=3, retries=2, cache_misses=1, energy_wh=3, carbon_gco2e=3
    )

    with pytest.raises(ValidationError):
        run(watched, failing_first(9, lambda: ValidationError("x")), "4", inputs={"x": 3})
    assert reported(watched) == miss

    with pytest.raises(TransientError):
        run(watched, failing_first(9, lambda: TransientError("x")), "5", inputs={"x": 4})
    assert reported(watched) == points(
        latency_ms=3, retries=2, cache_misses=1, energy_wh=3, carbon_gco2e=3
    )


@pytest.mark.conformance("NR-8.3", "C-46")
def test_energy_is_what_the_meter_says_and_is_marked_as_estimated(watched: Watched) -> None:
    """Half an hour at two watts is one watt-hour, and half a gram at 500 g a kWh."""
    run(watched, failing_first(1, lambda: TransientError("x")))
    assert watched.recorder.observed("kfm.node_energy_wh") == [1.0, 1.0]
    assert watched.recorder.observed("kfm.node_carbon_gco2e") == [0.5, 0.5]
    for each in watched.view("1/smooth/attempts.json"):
        measures = each["measures"]
        assert (measures["energy_wh"], measures["carbon_gco2e"]) == (1.0, 0.5)
        assert measures["estimated"] is True


@pytest.mark.conformance("NR-8.4")
def test_labels_are_those_of_the_specification_and_do_not_grow_with_runs(
    watched: Watched,
) -> None:
    """Pipeline, node, environment and dataset; 20 runs and tasks are one series."""
    for name, unit in SIX.items():
        assert set(METRICS[name].all_labels) == {"pipeline", "node", "env", "dataset_id"}
        assert METRICS[name].unit == unit
    for number in range(20):
        run(watched, lambda _: 1, f"run-{number}", inputs={"x": number}, task_id=f"t-{number}")
    labels = {"pipeline": "hydrology", "node": "smooth", "env": "prod", "dataset_id": "river_flow"}
    for name in HISTOGRAMS:
        assert len(watched.recorder.observed(name, **labels)) == 20
    series = watched.recorder.by_labels("kfm.node_cache_misses")
    assert series == {("hydrology", "smooth", "river_flow", "prod"): 20}
    run(watched, lambda _: 1, dataset=None, node_id="bare")
    assert len(watched.recorder.observed("kfm.node_latency_ms", node="bare", dataset_id="")) == 1


@pytest.mark.conformance("NR-1.4")
def test_a_run_shows_journal_cache_compensation_lineage_and_energy(
    watched: Watched, tmp_path: Path
) -> None:
    """A node that succeeds and one that fails after an effect: all five can be seen."""
    bucket: list[str] = []

    def upload(_state: Any) -> None:
        effect("upload", key="object-1", do=lambda: bucket.append("object-1"))
        raise ValidationError("what was uploaded is wrong")

    def undo(_state: Any, entry: Any) -> None:
        bucket.remove(entry["key"])

    run(watched, lambda _: {"y": 2})
    with pytest.raises(ValidationError):
        run(watched, upload, node_id="upload", compensate_fn=undo)
    assert (watched.root / "wal" / "1" / ".journal").stat().st_size > 0
    assert watched.runners[-1].cache.stats().entries == 1
    tries = watched.view("1/upload/compensation.json")
    assert tries
    assert bucket == []
    events = (tmp_path / "lineage" / "1" / "openlineage.ndjson").read_bytes().splitlines()
    assert [json.loads(each)["eventType"] for each in events] == [
        *("START", "COMPLETE", "START", "FAIL")
    ]
    for node in ("smooth", "upload"):
        (attempt,) = watched.view(f"1/{node}/attempts.json")
        assert attempt["measures"]["energy_wh"] == 1.0
        assert attempt["measures"]["carbon_gco2e"] == 0.5


@pytest.mark.conformance("NR-11.2")
def test_failures_of_hooks_tell_nothing_of_sensitive_data(watched: Watched) -> None:
    """A hook's error may hold what it was given; of data that are not open its kind is said."""

    class Failing:
        def finished(self, outcome: Any) -> None:
            raise ValueError(f"no room for {outcome.inputs}")

    watched.options["hooks"] = NodeHooks(watchers=(Failing(),))
    run(watched, lambda _: 1, inputs={"lat": 38.87654}, dataset="tribal_wells")
    run(watched, lambda _: 1, inputs={"lat": 38.87654}, dataset="river_flow")
    said = [each["message"] for name, each in watched.recorder.events if name == "node_hook_failed"]
    assert said[0] == "ValueError"
    assert str(said[1]).startswith("ValueError: no room for")
