"""One node: cached, written down before it runs, retried within bounds, and kept from harm."""

from __future__ import annotations

import errno
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallgrass.errors import (
    ApprovalInvalid,
    InvalidInput,
    NodeFailed,
    NodeWalFull,
    Refused,
    RunBusy,
    TransientError,
    ValidationError,
)
from tallgrass.nodes import NodeHooks, RetryPolicy, current_node
from tallgrass.nodes.entries import Kind
from tallgrass.nodes.protocols import NodeFailure, NodeStatus
from tests.nodes.faulty_files import ScriptedFiles
from tests.nodes.fetching import LABELS, Counted, run
from tests.nodes.running import Watched, failing_first

if TYPE_CHECKING:
    from tallgrass.nodes.entries import TaskId


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


def test_who_gives_up_waiting_says_for_how_long(watched: Watched) -> None:
    """The time is that of the whole wait, not of one look."""
    runner = watched.runner()
    with runner.wal.run("run-1"), pytest.raises(RunBusy, match=r"waited for 0\.02 s"):
        run(watched.runner(lock_timeout_s=0.02), Counted())
