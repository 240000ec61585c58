"""What stands between a node and its result: switches, governance, sensitive values, hooks."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.errors import (
    GovernanceError,
    InvalidInput,
    NodeParked,
    Refused,
    TransientError,
    ValidationError,
)
from tallgrass.governance.policy import GovernanceDefaults, Policies, Policy
from tallgrass.governance.switches import SwitchedOff
from tallgrass.nodes import NodeHooks, current_node
from tallgrass.nodes.entries import Kind
from tallgrass.nodes.gatekeeper import GovernanceGate
from tallgrass.nodes.key_locks import FolderLocks
from tallgrass.nodes.protocols import NodeFailure, NodeStatus
from tallgrass.telemetry.energy import EnergyUse
from tests.nodes.fetching import LABELS, Counted, run
from tests.nodes.running import Watched, failing_first

if TYPE_CHECKING:
    from tallgrass.nodes.protocols import NodeCall, NodeOutcome


@pytest.mark.conformance("NR-11.4", "C-40")
def test_a_switch_parks_hits_and_misses_alike(watched: Watched) -> None:
    """Kill switches come before the cache; what is parked has not failed."""
    off: list[str] = []
    gate = GovernanceGate(switches=lambda: SwitchedOff(off))
    node = Counted()
    runner = watched.runner(gate=gate)
    run(runner, node)
    off.append("*")
    for options in ({"run_id": "run-2"}, {"run_id": "run-1"}, {"run_id": "run-3", "x": 5}):
        with pytest.raises(NodeParked):
            run(runner, node, **options)
    assert node.calls == 1
    assert runner.wal.run_ids() == ["run-1"]
    off.clear()
    assert run(runner, node, run_id="run-3", x=5) == {"out": 6}


def test_a_switch_that_cannot_be_read_is_on(watched: Watched) -> None:
    """Nothing runs while nobody knows whether it may."""
    with pytest.raises(NodeParked, match="could not be read"):
        run(watched.runner(gate=GovernanceGate(switches=lambda: None)), Counted())


@pytest.mark.conformance("NR-11.4")
def test_a_switch_between_attempts_parks_the_node(watched: Watched) -> None:
    """No further attempt is made, and the node goes on when the switch is cleared."""
    off: list[str] = []
    runner = watched.runner(gate=GovernanceGate(switches=lambda: SwitchedOff(off)))
    calls = []

    def node(state: Any) -> Any:
        calls.append(1)
        if len(calls) == 1:
            off.append("*")
            raise TransientError("later")
        return {"calls": len(calls)}

    with pytest.raises(NodeParked):
        run(runner, node)
    assert len(calls) == 1
    assert watched.outcomes[-1].status is NodeStatus.PARKED
    assert watched.view("run-1/fetch/failed.json") is None
    off.clear()
    assert run(runner, node) == {"calls": 2}
    assert [each["attempt"] for each in watched.view("run-1/fetch/attempts.json")] == [1, 2]


@pytest.mark.conformance("NR-11.1")
def test_governance_refuses_before_the_cache(watched: Watched) -> None:
    """A dataset that nobody knows, or that is rejected, is denied on miss, on hit, on resume."""
    node = Counted()
    run(watched.runner(), node, dataset="goes-glm", care_label="public")
    rules = GovernanceDefaults(care_label="public", sensitivity="none", reject="withdrawn")
    denied = GovernanceGate(Policies([Policy.of("goes-glm", rules)]))
    for run_id in ("run-1", "run-2"):
        with pytest.raises(GovernanceError, match="withdrawn") as refused:
            run(watched.runner(gate=denied, run_id=run_id), node, dataset="goes-glm")
        assert refused.value.guard == "dataset_rejected"
    with pytest.raises(GovernanceError, match="label_unknown"):
        run(watched.runner(), node, dataset="nobody-knows")
    assert node.calls == 1


@pytest.mark.conformance("NR-11.2", "C-45")
def test_sensitive_values_stay_out_of_log_and_cache(watched: Watched) -> None:
    """Neither inputs nor results nor errors of sensitive data are in any file of the two."""
    rules = GovernanceDefaults(care_label="sensitive", sensitivity="places")
    gate = GovernanceGate(Policies([Policy.of("sites", rules)]))
    place = {"lat": 38.87654, "lon": -96.54321}
    node = failing_first(1, lambda: TransientError("no answer at 38.87654,-96.54321"))

    def located(state: Any) -> Any:
        node(state)
        return {"site": place}

    for run_id in ("run-1", "run-2", "run-1"):
        runner = watched.runner(gate=gate, run_id=run_id)
        found = run(runner, located, x=place, dataset="sites")
        assert found == {"site": place}
    assert len(node.calls) == 2  # type: ignore[attr-defined]
    kept = [path for path in watched.root.rglob("*") if path.is_file()]
    telling = {
        path.parts[len(watched.root.parts)] for path in kept if b"38.876" in path.read_bytes()
    }
    assert telling == {"sensitive"}
    for path in (watched.root / "sensitive").rglob("*"):
        assert path.stat().st_mode & 0o077 == 0
        if path.is_file():
            path.unlink()
    with pytest.raises(Exception, match="sensitive value"):
        run(watched.runner(gate=gate), located, x=place, dataset="sites")


@pytest.mark.conformance("NR-5.7", "C-47")
def test_effects_are_written_down_before_they_are_made(watched: Watched) -> None:
    """Inside a node `current_node` takes entries; outside, and after the attempt, nothing does."""
    kept = []

    def node(state: Any) -> Any:
        active = current_node()
        kept.append(active)
        active.log.commit(active.log.append(Kind.EFFECT, {"effect": "put", "key": "a"}))
        return {"attempt": active.attempt}

    runner = watched.runner()
    assert run(runner, node, has_effects=True) == {"attempt": 1}
    (task,) = runner.wal.read("run-1").tasks.values()
    assert [entry.body["effect"] for entry in task.effects] == ["put"]
    with pytest.raises(Refused, match="over"):
        kept[0].log.append(Kind.EFFECT, {})
    with pytest.raises(Refused, match="no node"):
        current_node()


@pytest.mark.conformance("NR-7.2")
def test_compensation_runs_only_after_an_effect_began(watched: Watched) -> None:
    """A failure for good with an effect is compensated before the rollback; one without is not."""
    told: list[tuple[str, int]] = []

    class Compensator:
        def compensate(self, failure: NodeFailure) -> None:
            told.append(("compensate", len(failure.effects_begun)))

    hooks = NodeHooks(compensator=Compensator(), rollback=lambda _: told.append(("rollback", 0)))

    def node(state: Any) -> Any:
        if state["x"]:
            current_node().log.append(Kind.EFFECT, {"effect": "put"})
        raise ValidationError("no")

    runner = watched.runner(hooks=hooks)
    for x in (1, 0):
        with pytest.raises(ValidationError):
            run(runner, node, x=x)
    assert told == [("compensate", 1), ("rollback", 0), ("rollback", 0)]


@pytest.mark.conformance("NR-8.3")
def test_hooks_are_called_in_their_order(watched: Watched) -> None:
    """Validation, energy, lineage: each at its place; lineage is noted and not repeated."""
    told: list[str] = []

    class Rules:
        fingerprint = "rules-1"

        def before(self, call: NodeCall, inputs: Any) -> None:
            told.append("before")

        def after(self, call: NodeCall, inputs: Any, result: Any) -> None:
            told.append("after")

    class Meter:
        def begin(self) -> int:
            told.append("begin")
            return 7

        def end(self, begun: int) -> EnergyUse:
            told.append("end")
            return EnergyUse(energy_wh=begun / 2, carbon_gco2e=1.0)

    class Lineage:
        def emit(self, outcome: NodeOutcome) -> dict[str, str]:
            told.append(f"lineage {outcome.status.value}")
            return {"event": "e-1"}

    hooks = NodeHooks(validators=(Rules(),), energy=Meter(), lineage=Lineage(), watchers=(watched,))
    runner = watched.runner(hooks=hooks)
    run(runner, failing_first(1, lambda: TransientError("x")))
    run(runner, Counted())
    assert told == ["before", "begin", "end", "begin", "end", "after", "lineage succeeded"]
    assert [outcome.status.value for outcome in watched.outcomes] == ["succeeded", "recorded"]
    assert watched.recorder.observed("kfm.node_energy_wh", **LABELS) == [3.5, 3.5]
    assert watched.recorder.observed("kfm.node_carbon_gco2e", **LABELS) == [1.0, 1.0]


@pytest.mark.conformance("NR-3.7")
def test_lineage_that_failed_is_handed_on_at_the_next_chance(watched: Watched) -> None:
    """The result stands, the failure is said, and a resume emits it again."""
    tries = []

    class Lineage:
        def emit(self, outcome: NodeOutcome) -> dict[str, str]:
            tries.append(outcome.status.value)
            if len(tries) == 1:
                raise OSError("no way out")
            return {}

    for _ in range(3):
        hooks = NodeHooks(lineage=Lineage())
        assert run(watched.runner(hooks=hooks), Counted()) == {"out": 2}
    assert tries == ["succeeded", "recorded"]
    assert [name for name, _ in watched.recorder.events] == ["node_hook_failed"]


@pytest.mark.conformance("NR-9.3")
def test_a_strict_runner_wants_versions_and_procedures(watched: Watched) -> None:
    """No derived versions, and no effects that nobody undoes."""
    runner = watched.runner(strict=True)
    with pytest.raises(InvalidInput) as refused:
        run(runner, Counted(), code_version=None)
    assert refused.value.code == "node_code_version_missing"
    with pytest.raises(InvalidInput, match="effects"):
        run(runner, Counted(), has_effects=True)
    run(runner, Counted(), has_effects=True, procedure="SOP-7")
    run(runner, Counted(), x=2, compensate_fn=lambda _state, _entry: None)


def test_an_unknown_option_is_refused(watched: Watched) -> None:
    """A mistyped option is not silently without effect."""
    with pytest.raises(InvalidInput, match="user"):
        run(watched.runner(), Counted(), user=("x",))
    with pytest.raises(InvalidInput, match="run_id"):
        run(watched.runner(run_id=None), Counted())


@pytest.mark.conformance("NR-11.2")
def test_what_the_cache_holds_openly_is_kept_apart_from_a_sensitive_run(watched: Watched) -> None:
    """A node that was called sensitive only later gets its old result; no log shows it."""

    def place(_state: Any) -> Any:
        return {"place": "38.5731N"}

    run(watched.runner(run_id="open"), place)
    assert run(watched.runner(run_id="closed"), place, sensitive=True) == {"place": "38.5731N"}
    assert watched.view("closed/fetch/post.json")["from_cache"] is True
    shown = [path for path in (watched.root / "wal" / "closed").rglob("*") if path.is_file()]
    assert len(shown) > 1
    assert not any(b"38.5731N" in path.read_bytes() for path in shown)


@pytest.mark.conformance("NR-11.4")
def test_a_switch_that_is_set_while_a_node_waits_for_others_parks_it(watched: Watched) -> None:
    """The gate said yes before the wait; after it, it is asked again."""
    off: list[str] = []
    now = [datetime(2026, 11, 16, 12, tzinfo=UTC)]

    class SlowLocks(FolderLocks):
        def acquire(self, name: str, timeout_s: float) -> int:
            off.append("*")
            now[0] += timedelta(minutes=4)
            return super().acquire(name, timeout_s)

    runner = watched.runner(
        gate=GovernanceGate(switches=lambda: SwitchedOff(off)),
        locks=SlowLocks(watched.root / "locks", sleep=time.sleep),
        clock=lambda: now[0],
    )
    node = Counted()
    with pytest.raises(NodeParked):
        run(runner, node)
    assert node.calls == 0
    assert watched.outcomes[-1].status is NodeStatus.PARKED
    off.clear()
    assert watched.view("run-1/fetch/failed.json") is None
