"""NodeRunner: the order of steps, cache, retries, failure for good, and what it refuses."""

from __future__ import annotations

import errno
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallgrass.errors import (
    ApprovalInvalid,
    GovernanceError,
    InvalidInput,
    NodeFailed,
    NodeParked,
    NodeWalFull,
    Refused,
    RunBusy,
    TransientError,
    ValidationError,
)
from tallgrass.governance.policy import GovernanceDefaults, Policies, Policy
from tallgrass.governance.switches import SwitchedOff
from tallgrass.nodes import NodeHooks, NodeRunner, RetryPolicy, Values, current_node
from tallgrass.nodes.cache_store import FolderCache
from tallgrass.nodes.entries import Kind
from tallgrass.nodes.gatekeeper import GovernanceGate
from tallgrass.nodes.identity import cache_key
from tallgrass.nodes.key_locks import FolderLocks
from tallgrass.nodes.protocols import NodeFailure, NodeStatus
from tallgrass.telemetry.energy import EnergyUse
from tests.nodes.faulty_files import ScriptedFiles
from tests.nodes.running import Watched, failing_first

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tallgrass.nodes.entries import TaskId
    from tallgrass.nodes.protocols import NodeCall, NodeOutcome

LABELS = {"pipeline": "hydrology", "node": "fetch", "dataset_id": ""}


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    """A folder for runners."""
    made = Watched(tmp_path / "nodes")
    made.options["hooks"] = NodeHooks(watchers=(made,))
    yield made
    made.close()


class Counted:
    """A node that counts its calls."""

    def __init__(self, result: Any = None) -> None:
        self.calls = 0
        self._result = result

    def __call__(self, state: Any) -> Any:
        """Add one, or return what was given."""
        self.calls += 1
        return {"out": state["x"] + 1} if self._result is None else self._result


def run(runner: NodeRunner, node: Any, x: Any = 1, **options: Any) -> Any:
    """Call a node with a given version."""
    given_options = {"node_id": "fetch", "code_version": "v1", "inputs": {"x": x}, **options}
    return runner.run(exec_fn=node, **given_options)


@pytest.mark.conformance("NR-3.2", "NR-4.3", "NR-4.4")
def test_a_known_result_is_not_computed_again(watched: Watched) -> None:
    """Another run finds it in the cache; the value is equal, by type, and is nobody else's."""
    node = Counted({"t": (1, 2.0), "deep": [{"a": {3}}]})
    first = run(watched.runner(), node)
    second = run(watched.runner(run_id="run-2"), node)
    assert node.calls == 1
    assert second == first
    assert type(second["t"]) is tuple
    second["deep"][0]["a"].add(4)
    first["deep"].append(5)
    assert run(watched.runner(run_id="run-3"), node) == {"t": (1, 2.0), "deep": [{"a": {3}}]}
    assert watched.recorder.total("kfm.node_cache_hits", **LABELS) == 2
    assert watched.recorder.total("kfm.node_cache_misses", **LABELS) == 1
    assert [outcome.status for outcome in watched.outcomes] == ["succeeded", "cached", "cached"]
    assert watched.outcomes[1].attempts == ()
    assert len(watched.recorder.observed("kfm.node_latency_ms", **LABELS)) == 3


@pytest.mark.conformance("C-40")
def test_a_hit_leaves_its_own_entry(watched: Watched) -> None:
    """The run that was served by the cache says so in its log."""
    run(watched.runner(), Counted())
    run(watched.runner(run_id="run-2"), Counted())
    shown = watched.view("run-2/fetch/post.json")
    assert (shown["from_cache"], shown["result"]) == (True, {"out": 2})
    assert watched.view("run-1/fetch/post.json")["from_cache"] is False


@pytest.mark.conformance("NR-4.5")
@pytest.mark.parametrize(
    "change",
    [
        {"code_version": "v2"},
        {"data_version": "2026-11"},
        {"retry": RetryPolicy(max_attempts=4)},
        {"care_label": "sensitive"},
        {"node_id": "fetch-again"},
        {"x": 1.0},
    ],
    ids=str,
)
def test_each_change_alone_is_a_miss(watched: Watched, change: dict[str, Any]) -> None:
    """Code, data, policy, node and inputs each give another key."""
    node = Counted()
    run(watched.runner(), node)
    run(watched.runner(run_id="run-2"), node, **change)
    assert node.calls == 2


@pytest.mark.conformance("NR-4.5")
def test_a_changed_policy_of_governance_is_a_miss(watched: Watched) -> None:
    """What was computed under other rules is computed again."""
    node = Counted()
    for run_id, ref in (("1", "a"), ("2", "a"), ("3", "b")):
        rules = GovernanceDefaults(care_label="public", sensitivity="none", policy_ref=ref)
        gate = GovernanceGate(Policies([Policy.of("goes-glm", rules)]))
        run(watched.runner(run_id=run_id, gate=gate), node, dataset="goes-glm")
    assert node.calls == 2


def test_an_edited_node_is_not_served_by_its_old_result(watched: Watched) -> None:
    """Without a code_version the code itself is the version."""
    sources = ["lambda s: {'out': s['x'] + 10}", "lambda s: {'out': s['x'] * 1000}"]
    found = []
    for number, source in enumerate([*sources, sources[0]]):
        runner = watched.runner(run_id=f"run-{number}")
        node = eval(source)  # noqa: S307 - the test's own text
        found.append(runner.run(node_id="n", inputs={"x": 1}, exec_fn=node))
    assert found == [{"out": 11}, {"out": 1000}, {"out": 11}]
    assert watched.recorder.total("kfm.node_cache_hits") == 1


def test_code_that_cannot_be_hashed_is_not_cached_and_that_is_said_once(watched: Watched) -> None:
    """It runs in every run, and its run still remembers its result."""
    lock = threading.Lock()
    calls = []

    def node(state: dict[str, int]) -> dict[str, int]:
        with lock:
            calls.append(1)
        return {"n": len(calls)}

    runner = watched.runner()
    for run_id in ("a", "b", "a"):
        runner.run(node_id="n", inputs={}, exec_fn=node, run_id=run_id)
    assert len(calls) == 2
    said = [fields for name, fields in watched.recorder.events if name == "node_uncached"]
    assert len(said) == 1
    assert "lock" in str(said[0]["message"])


@pytest.mark.conformance("NR-3.4", "NR-5.2", "NR-5.8")
def test_nothing_runs_before_it_is_written_down(watched: Watched) -> None:
    """Inside the function `pre.json` is there and the attempt is in the journal."""
    runner = watched.runner()
    seen = []

    def node(state: Any) -> Any:
        seen.append(watched.view("run-1/fetch/pre.json"))
        task = next(iter(runner.wal.read("run-1").tasks.values()))
        seen.append([attempt.status.value for attempt in task.attempts])
        return state

    run(runner, node)
    pre, attempts = seen
    assert pre["inputs"] == {"x": 1}
    assert pre["code_version"] == "v1"
    assert set(pre["environment"]) == {"python", "implementation", "system", "machine", "tallgrass"}
    assert attempts == ["started"]


@pytest.mark.conformance("NR-12.1")
def test_an_attempt_that_could_not_begin_spends_nothing(watched: Watched) -> None:
    """A disk that was full when `pre.json` was written costs no attempt of the only one allowed."""
    left = [OSError(errno.ENOSPC, "full")]

    def before(_number: int, name: str) -> None:
        if name == "replace" and left:
            raise left.pop()

    runner = watched.runner(files=ScriptedFiles(before), retry=RetryPolicy(max_attempts=1))
    node = Counted(result=3)
    with pytest.raises(NodeWalFull):
        run(runner, node)
    assert node.calls == 0
    assert run(runner, node) == 3
    statuses = [each["status"] for each in watched.view("run-1/fetch/attempts.json")]
    assert statuses == ["cancelled", "succeeded"]


@pytest.mark.conformance("NR-4.1", "C-39", "C-42")
def test_the_key_in_the_log_is_the_printed_formula(watched: Watched) -> None:
    """Whoever reads `pre.json` can compute the key."""
    run(watched.runner(), Counted(), data_version="2026-11")
    pre = watched.view("run-1/fetch/pre.json")
    assert pre["data_version"].startswith("2026-11+")
    parts = ("code_version", "inputs_hash", "data_version")
    assert pre["cache_key"] == cache_key("fetch", *(pre[part] for part in parts))


@pytest.mark.conformance("NR-3.5", "NR-5.3", "NR-1.3")
def test_retries_follow_the_policy(watched: Watched) -> None:
    """Calls and waits are those of the formula; each attempt is in `attempts.json`."""
    node = failing_first(3, lambda: TransientError("later"))
    assert run(watched.runner(), node) == {"calls": 4}
    assert watched.slept == [2, 4, 8]
    attempts = watched.view("run-1/fetch/attempts.json")
    assert [each["status"] for each in attempts] == ["failed"] * 3 + ["succeeded"]
    assert [each["attempt"] for each in attempts] == [1, 2, 3, 4]
    assert [each["delay_s"] for each in attempts] == [2, 4, 8, 0]
    times = [each[name] for each in attempts for name in ("started_at", "ended_at")]
    assert times == sorted(times)
    assert watched.recorder.total("kfm.node_retries", **LABELS) == 3
    assert len(watched.recorder.observed("kfm.node_latency_ms", **LABELS)) == 4


@pytest.mark.conformance("NR-1.3", "NR-12.4")
@given(policy=st.builds(RetryPolicy, max_attempts=st.integers(1, 6), jitter_factor=st.floats(0, 1)))
def test_no_policy_is_exceeded(tmp_path_factory: pytest.TempPathFactory, policy: Any) -> None:
    """A node that always fails is called as often as the policy says, and then never again."""
    watched = Watched(tmp_path_factory.mktemp("nodes"))
    node = failing_first(10**6, lambda: TimeoutError("slow"))
    with watched.runner(retry=policy) as runner:
        with pytest.raises(TimeoutError):
            run(runner, node)
        with pytest.raises(NodeFailed):
            run(runner, node)
    assert len(node.calls) == policy.max_attempts  # type: ignore[attr-defined]
    assert len(watched.slept) == policy.max_attempts - 1
    longest = policy.max_delay_s * (1 + policy.jitter_factor)
    assert all(slept <= longest for slept in watched.slept)


@pytest.mark.conformance("NR-6.4", "NR-12.7", "NR-5.4")
def test_a_node_that_failed_for_good_stays_so(watched: Watched) -> None:
    """One call, a marker, one rollback; no further run of it in any process, and no result."""
    rolled_back: list[NodeFailure] = []
    watched.options["hooks"] = NodeHooks(watchers=(watched,), rollback=rolled_back.append)
    node = failing_first(1, lambda: ValidationError("wrong shape"))
    with pytest.raises(ValidationError, match="wrong shape"):
        run(watched.runner(), node)
    for _ in range(2):
        with pytest.raises(NodeFailed, match="wrong shape"):
            run(watched.runner(), node)
    assert len(node.calls) == 1  # type: ignore[attr-defined]
    assert len(rolled_back) == 1
    marker = watched.view("run-1/fetch/failed.json")
    assert marker["error"]["code"] == "node_validation_failed"
    assert watched.view("run-1/fetch/post.json") is None
    assert [outcome.status for outcome in watched.outcomes] == [NodeStatus.FAILED]
    assert watched.outcomes[0].error_is_final
    assert [name for name, _ in watched.recorder.events] == ["node_failed"]
    assert run(watched.runner(run_id="another"), node) == {"calls": 2}


@pytest.mark.conformance("NR-12.7")
def test_a_failed_node_is_cleared_by_approval_alone(watched: Watched) -> None:
    """Without somebody who checks it no approval counts; with one, the right approval does."""

    class Approvals:
        def allow_clearing(self, approval: str, run_id: str, task: TaskId) -> None:
            if (approval, run_id, task.node_id) != ("A-1", "run-1", "fetch"):
                raise ApprovalInvalid("not for this")

    node = failing_first(1, lambda: ValidationError("wrong"))
    runner = watched.runner(approvals=Approvals())
    with pytest.raises(ValidationError):
        run(runner, node)
    with pytest.raises(Refused, match="nobody"):
        watched.runner(lock_timeout_s=0).clear(run_id="run-1", node_id="fetch", approval="A-1")
    with pytest.raises(ApprovalInvalid):
        runner.clear(run_id="run-1", node_id="fetch", approval="A-2")
    assert runner.clear(run_id="run-1", node_id="fetch", approval="A-1") == 1
    assert runner.clear(run_id="run-1", node_id="fetch", approval="A-1") == 0
    assert watched.view("run-1/fetch/failed.json") is None
    assert run(runner, node) == {"calls": 2}


@pytest.mark.conformance("NR-3.9", "NR-9.2")
def test_a_node_cannot_change_the_state_it_was_given(watched: Watched) -> None:
    """Every attempt gets a copy as it was; a strict runner calls the change an error."""
    state = {"x": [1]}
    seen = []

    def node(given: dict[str, Any]) -> Any:
        seen.append(list(given["x"]))
        given["x"].append(2)
        if len(seen) < 3:
            raise TransientError("later")
        return {"n": len(given["x"])}

    runner = watched.runner()
    assert runner.run(node_id="n", inputs=state, exec_fn=node) == {"n": 2}
    assert seen == [[1]] * 3
    assert state == {"x": [1]}
    with pytest.raises(ValidationError) as refused:
        run(watched.runner(run_id="strict", strict=True), node, x=[1])
    assert refused.value.code == "node_input_mutated"


@pytest.mark.conformance("NR-12.3", "NR-1.1")
def test_verify_mode_finds_what_is_not_deterministic(watched: Watched) -> None:
    """It compares two executions, or one with a result that is known."""
    steady, wild = Counted(), failing_first(0, Exception)
    assert run(watched.runner(verify=True), steady, node_id="steady") == {"out": 2}
    assert steady.calls == 2
    with pytest.raises(ValidationError) as refused:
        run(watched.runner(verify=True), wild)
    assert refused.value.code == "node_not_deterministic"
    run(watched.runner(run_id="other"), wild, x=2)
    with pytest.raises(ValidationError, match="for one input"):
        run(watched.runner(run_id="third", verify=True), wild, x=2)
    with pytest.raises(ValidationError, match="for one input"):
        run(watched.runner(run_id="other", verify=True), wild, x=2)


def test_what_cannot_be_stored_fails_the_node(watched: Watched) -> None:
    """A result that would not survive a crash is no result; registering its type helps."""
    with pytest.raises(InvalidInput) as refused:
        run(watched.runner(), Counted(object()))
    assert refused.value.code == "node_result_unstorable"
    assert watched.view("run-1/fetch/failed.json")["error"]["code"] == "node_result_unstorable"


def test_inputs_that_cannot_be_hashed_are_refused_before_anything(watched: Watched) -> None:
    """Nothing is written and nothing is run; inputs that are not used do no harm."""
    node = Counted()
    with pytest.raises(InvalidInput) as refused:
        run(watched.runner(), node, x=object())
    assert refused.value.code == "node_input_unhashable"
    assert not (watched.root / "wal").exists()
    inputs = {"x": 1, "client": object()}
    assert run(watched.runner(), node, inputs=inputs, uses=("x",)) == {"out": 2}


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


@pytest.mark.conformance("NR-12.2")
def test_a_corrupt_cache_entry_is_computed_again(watched: Watched) -> None:
    """A miss, one metric, and a whole entry afterwards."""
    node = Counted()
    run(watched.runner(), node)
    (entry,) = (path for path in (watched.root / "cache").rglob("*") if path.is_file())
    data = bytearray(entry.read_bytes())
    data[-3] ^= 1
    entry.write_bytes(bytes(data))
    assert run(watched.runner(run_id="run-2"), node) == {"out": 2}
    assert run(watched.runner(run_id="run-3"), node) == {"out": 2}
    assert node.calls == 2
    assert watched.recorder.total("kfm.node_cache_corrupt", **LABELS) == 1
    assert watched.recorder.total("kfm.node_cache_hits", **LABELS) == 1


def test_a_cache_that_fails_does_not_fail_the_node(watched: Watched) -> None:
    """The node runs without it, and that is said."""

    class Broken(FolderCache):
        def get(self, key: str) -> Any:
            raise OSError(5, "broken")

        def put(self, key: str, body: bytes) -> bool:
            raise OSError(28, "full")

    runner = watched.runner(cache=Broken(watched.root / "cache"))
    assert run(runner, Counted()) == {"out": 2}
    assert {name for name, _ in watched.recorder.events} == {"node_cache_unusable"}


@pytest.mark.conformance("NR-3.3", "C-41")
def test_two_runners_at_once_compute_a_result_once(watched: Watched) -> None:
    """The second waits for the first, looks again, and finds it."""
    entered, go_on = threading.Event(), threading.Event()
    calls = []

    def node(state: Any) -> Any:
        calls.append(1)
        entered.set()
        go_on.wait(30)
        return {"out": len(calls)}

    found: list[Any] = []

    def work(run_id: str) -> None:
        found.append(run(watched.runner(run_id=run_id), node))

    threads = [threading.Thread(target=work, args=(f"run-{n}",)) for n in range(3)]
    threads[0].start()
    entered.wait(30)
    for thread in threads[1:]:
        thread.start()
    while len(watched.runners) < 3:
        time.sleep(0.001)
    time.sleep(0.05)
    go_on.set()
    for thread in threads:
        thread.join()
    assert found == [{"out": 1}] * 3
    assert len(calls) == 1


def test_a_fan_out_of_one_run_shares_its_journal(watched: Watched) -> None:
    """Threads of one run write one journal; every task has its own folder and result."""
    runner = watched.runner()

    def work(number: int) -> None:
        assert run(runner, Counted(), x=number, task_id=f"task-{number}") == {"out": number + 1}

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    tasks = runner.wal.read("run-1").tasks
    results = {task.task_id: state.post.body["result"]["out"] for task, state in tasks.items()}  # type: ignore[union-attr]
    assert results == {f"task-{number}": number + 1 for number in range(8)}
    assert len(list((watched.root / "wal" / "run-1" / "fetch" / "tasks").iterdir())) == 7


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


@pytest.mark.conformance("NR-9.1")
def test_wrapped_functions_keep_their_signature(watched: Watched) -> None:
    """One argument is the state; of several, each is an input, but for what LangGraph hands in."""
    runner = watched.runner()
    calls = []

    @runner.node(code_version="v1")
    def area(width: int, height: int = 2, *, config: Any = None) -> int:
        """Compute an area."""
        calls.append(config)
        return width * height

    assert area(3) == area(3, config=object()) == area(width=3, height=2) == 6
    assert area(3, 4) == 12
    assert len(calls) == 2
    assert (area.__name__, area.__doc__) == ("area", "Compute an area.")
    assert set(watched.runner().wal.read("run-1").tasks) != set()
    with pytest.raises(InvalidInput, match="any number"):
        runner.wrap(lambda *each: each, node_id="bad", code_version="v1")


def test_a_node_that_never_ends_is_given_up(watched: Watched) -> None:
    """Its attempt is over in time, and what it does later can write nothing."""
    go_on, refused = threading.Event(), threading.Event()

    def node(state: Any) -> Any:
        log = current_node().log
        go_on.wait(30)
        try:
            log.append(Kind.EFFECT, {})
        except Refused:
            refused.set()

    runner = watched.runner(retry=RetryPolicy(max_attempts=2))
    with pytest.raises(TimeoutError):
        run(runner, node, timeout_s=0.05)
    go_on.set()
    assert refused.wait(30)
    attempts = watched.view("run-1/fetch/attempts.json")
    assert [each["status"] for each in attempts] == ["timed_out", "timed_out"]


def test_results_of_registered_types_come_back(watched: Watched) -> None:
    """A runner that knows a type stores it, caches it and gives it back."""
    values = Values(types=(EnergyUse,))
    use = EnergyUse(energy_wh=1.5, carbon_gco2e=2.0)
    for run_id in ("run-1", "run-2", "run-1"):
        node = Counted(use) if run_id == "run-1" else Counted("never called")
        assert run(watched.runner(values=values, run_id=run_id), node) == use


def test_verify_mode_calls_no_node_with_effects_again(watched: Watched) -> None:
    """Its result is not compared, so there is no reason to do anything outside once more."""
    node = Counted()
    options: dict[str, Any] = {"has_effects": True, "procedure": "SOP-7"}
    assert run(watched.runner(), node, **options) == run(
        watched.runner(verify=True), node, **options
    )
    assert node.calls == 1


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


def test_who_gives_up_waiting_says_for_how_long(watched: Watched) -> None:
    """The time is that of the whole wait, not of one look."""
    runner = watched.runner()
    with runner.wal.run("run-1"), pytest.raises(RunBusy, match=r"waited for 0\.02 s"):
        run(watched.runner(lock_timeout_s=0.02), Counted())
