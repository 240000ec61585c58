"""Nodes in an event loop: the same steps, and a cancellation that leaves nothing behind."""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from typing import Any

import pytest

from tallgrass.errors import InvalidInput, NodeWalUnusable, RunBusy, TransientError
from tallgrass.nodes import NodeHooks, NodeRunner, RetryPolicy, current_node
from tallgrass.nodes.protocols import NodeStatus
from tallgrass.nodes.steps import drive_async, patiently
from tests.nodes.faulty_files import ScriptedFiles
from tests.nodes.running import Watched, failing_first


def arun(runner: NodeRunner, node: Any, **options: Any) -> Any:
    """A call of a node, to be awaited."""
    given = {"node_id": "fetch", "code_version": "v1", "inputs": {"x": 1}, **options}
    return runner.arun(exec_fn=node, **given)


@pytest.mark.conformance("NR-9.1")
def test_async_nodes_go_through_the_same_steps(watched: Watched) -> None:
    """Retries, cache and resume are those of plain nodes; the wrapped one stays async."""
    runner = watched.runner()
    calls = []

    @runner.node(code_version="v1")
    async def fetch(state: dict[str, int]) -> dict[str, int]:
        await asyncio.sleep(0)
        calls.append(current_node().attempt)
        if len(calls) < 3:
            raise TransientError("later")
        return {"out": state["x"]}

    assert inspect.iscoroutinefunction(fetch)
    assert asyncio.run(fetch({"x": 7})) == {"out": 7}
    assert asyncio.run(fetch({"x": 7})) == {"out": 7}
    assert calls == [1, 2, 3]
    assert watched.slept == [2, 4]
    assert asyncio.run(arun(watched.runner(run_id="2"), fetch.__wrapped__, inputs={"x": 7})) == {
        "out": 7
    }
    assert [outcome.status.value for outcome in watched.outcomes] == [
        "succeeded",
        "recorded",
        "cached",
    ]


def test_plain_functions_run_beside_the_loop(watched: Watched) -> None:
    """They find their node there too; an async function in a plain call is refused."""
    threads = set()

    def node(state: Any) -> Any:
        threads.add(threading.get_ident())
        return {"attempt": current_node().attempt}

    async def coroutine(state: Any) -> Any:
        return state

    assert asyncio.run(arun(watched.runner(), node)) == {"attempt": 1}
    assert threads != {threading.get_ident()}
    with pytest.raises(InvalidInput, match="async"):
        watched.runner().run(node_id="c", code_version="v1", inputs={}, exec_fn=coroutine)


def test_a_cancelled_node_has_not_failed(watched: Watched) -> None:
    """The attempt is closed and not counted, the run is free, and the node can run again."""
    started = asyncio.Event()

    async def node(state: Any) -> Any:
        started.set()
        await asyncio.sleep(600)

    async def cancel() -> None:
        task = asyncio.create_task(arun(watched.runner(), node))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel())
    assert watched.outcomes[-1].status is NodeStatus.CANCELLED
    assert [each["status"] for each in watched.view("run-1/fetch/attempts.json")] == ["cancelled"]
    other = watched.runner(lock_timeout_s=0, retry=RetryPolicy(max_attempts=1))
    assert asyncio.run(arun(other, failing_first(0, Exception))) == {"calls": 1}


def test_a_cancellation_during_a_sync_waits_for_it(watched: Watched) -> None:
    """The thread at the disk ends its work first; then the run is free and nothing is half done."""
    syncing, go_on = threading.Event(), threading.Event()

    def before(_number: int, name: str) -> None:
        if name == "sync_data":
            syncing.set()
            go_on.wait(30)

    runner = watched.runner(files=ScriptedFiles(before))

    async def cancel() -> None:
        task = asyncio.create_task(arun(runner, failing_first(0, Exception)))
        await asyncio.to_thread(syncing.wait, 30)
        task.cancel()
        await asyncio.sleep(0)
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel())
    other = watched.runner(lock_timeout_s=0)
    assert asyncio.run(arun(other, failing_first(0, Exception))) == {"calls": 1}


def test_a_node_that_never_ends_is_given_up(watched: Watched) -> None:
    """The bound of an attempt holds in the loop too, counts as a timeout, and is told."""

    async def node(state: Any) -> Any:
        await asyncio.sleep(600)

    runner = watched.runner(retry=RetryPolicy(max_attempts=2))
    with pytest.raises(TimeoutError, match=r"took longer than 0\.02 s"):
        asyncio.run(arun(runner, node, timeout_s=0.02))
    attempts = watched.view("run-1/fetch/attempts.json")
    assert [each["status"] for each in attempts] == ["timed_out"] * 2


def test_a_fan_out_shares_its_syncs(watched: Watched) -> None:
    """Nodes that wait for the disk at once wait for one sync, not one after the other."""
    syncs, inside = [], []

    def before(_number: int, name: str) -> None:
        if name == "sync_data":
            syncs.append(1)
            if len(syncs) == 1:
                go_on.wait(30)

    go_on = threading.Event()
    runner = watched.runner(files=ScriptedFiles(before))

    async def node(state: Any) -> Any:
        inside.append(state["x"])
        return {"out": state["x"]}

    async def fan_out() -> list[Any]:
        calls = [arun(runner, node, inputs={"x": n}, task_id=f"t{n}") for n in range(6)]
        gathered = asyncio.gather(*calls)
        while _begun(runner) < 6:  # noqa: ASYNC110 - the file says it
            await asyncio.sleep(0.001)
        assert inside == []
        go_on.set()
        return await gathered

    assert asyncio.run(fan_out()) == [{"out": n} for n in range(6)]
    # One for whoever came first, one for all the others, and at most one each for their results.
    assert len(syncs) <= 8


def _begun(runner: NodeRunner) -> int:
    try:
        return sum(bool(task.attempts) for task in runner.wal.read("run-1").tasks.values())
    except NodeWalUnusable:
        return 0


def test_many_tasks_that_want_one_result_do_not_block_each_other(watched: Watched) -> None:
    """Forty tasks wait for a lock without keeping its holder from the disk."""
    calls = []

    async def node(state: Any) -> Any:
        calls.append(1)
        await asyncio.sleep(0.01)
        return {"out": len(calls)}

    async def fan_out() -> list[Any]:
        runner = watched.runner()
        return await asyncio.gather(*(arun(runner, node, task_id=f"t{n}") for n in range(40)))

    assert asyncio.run(asyncio.wait_for(fan_out(), 120)) == [{"out": 1}] * 40
    assert len(calls) == 1


def test_signals_of_langgraph_are_no_failures(watched: Watched) -> None:
    """An interrupt is written down as suspended and raised; it spends no budget."""
    errors = pytest.importorskip("langgraph.errors")
    runner = watched.runner(retry=RetryPolicy(max_attempts=1))
    calls = []

    def node(state: Any) -> Any:
        calls.append(1)
        if len(calls) < 4:
            raise errors.GraphInterrupt(())
        return {"calls": len(calls)}

    options: dict[str, Any] = {"node_id": "ask", "code_version": "v1", "inputs": {}}
    for _ in range(3):
        with pytest.raises(errors.GraphInterrupt):
            runner.run(exec_fn=node, **options)
    assert runner.run(exec_fn=node, **options) == {"calls": 4}
    statuses = [each["status"] for each in watched.view("run-1/ask/attempts.json")]
    assert statuses == ["suspended"] * 3 + ["succeeded"]
    assert watched.recorder.total("kfm.node_retries") == 0
    assert {outcome.status.value for outcome in watched.outcomes} == {"suspended", "succeeded"}


def test_a_cancellation_while_others_hold_the_run_is_not_lost(watched: Watched) -> None:
    """It comes while the lock is asked for, which is refused: the refusal does not swallow it."""
    asked, go_on = threading.Event(), threading.Event()

    def busy() -> None:
        asked.set()
        go_on.wait(60)
        raise RunBusy("held")

    async def cancel() -> None:
        steps = patiently(busy, 3600.0, time.monotonic)
        task = asyncio.create_task(drive_async(steps))
        await asyncio.to_thread(asked.wait, 60)
        task.cancel()
        await asyncio.sleep(0)
        go_on.set()
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(asyncio.wait_for(cancel(), 120))


def test_a_stop_iteration_ends_a_node_and_no_event_loop(watched: Watched) -> None:
    """`next` of something empty: no future can carry that error, so another one says it."""

    def empty(_state: Any) -> Any:
        return next(iter(()))

    runner = watched.runner()
    with pytest.raises(RuntimeError, match="StopIteration"):
        asyncio.run(asyncio.wait_for(arun(runner, empty), 120))
    with pytest.raises(RuntimeError, match="StopIteration"):
        runner.run(node_id="plain", code_version="v1", inputs={}, exec_fn=empty)
    assert {outcome.status for outcome in watched.outcomes} == {NodeStatus.FAILED}


def test_a_hook_that_stops_an_iteration_ends_no_event_loop(watched: Watched) -> None:
    """What blocks is done in a thread, whose errors come back, whatever they are."""

    class Rules:
        fingerprint = "rules-1"

        def before(self, call: Any, inputs: Any) -> None:
            next(iter(()))

        def after(self, call: Any, inputs: Any, result: Any) -> None:
            """Allow it."""

    runner = watched.runner(hooks=NodeHooks(validators=(Rules(),)))
    with pytest.raises(RuntimeError, match="StopIteration"):
        asyncio.run(asyncio.wait_for(arun(runner, lambda state: state), 120))


@pytest.mark.conformance("NR-4.2")
def test_a_state_that_is_changed_meanwhile_is_run_as_it_was_hashed(watched: Watched) -> None:
    """Else the result of the new state would be kept, for everybody, under the old one's key."""

    async def node(state: Any) -> Any:
        return {"out": state["x"]["deep"]}

    async def change() -> Any:
        state = {"x": {"deep": 1}}
        task = asyncio.create_task(arun(watched.runner(), node, inputs=state))
        await asyncio.sleep(0)
        state["x"]["deep"] = 2
        return await task

    assert asyncio.run(change()) == {"out": 1}


def test_an_async_function_in_a_plain_call_is_no_failure_of_the_node(watched: Watched) -> None:
    """What the message says to do can be done: the same run takes the right call."""

    async def node(_: Any) -> dict[str, int]:
        return {"calls": 1}

    runner = watched.runner()
    with pytest.raises(InvalidInput, match="use `arun`") as refused:
        runner.run(exec_fn=node, node_id="fetch", code_version="v1", inputs={"x": 1})
    assert refused.value.code == "node_declaration_invalid"
    assert asyncio.run(arun(runner, node)) == {"calls": 1}
