"""Effects of nodes: announced before they are made, and made once under their key."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import threading
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.errors import (
    InvalidInput,
    NodeWalDamaged,
    NodeWalFull,
    NodeWalUnusable,
    Refused,
    TransientError,
    ValidationError,
)
from tallgrass.governance.policy import GovernanceDefaults, Policies, Policy
from tallgrass.nodes import RetryPolicy, aeffect, current_node, effect, stage_file
from tallgrass.nodes import effects as effects_module
from tallgrass.nodes.effect_states import EffectState, effects_begun, effects_of, latest_effect
from tallgrass.nodes.entries import Kind
from tallgrass.nodes.gatekeeper import GovernanceGate
from tallgrass.nodes.protocols import NodeLog
from tallgrass.nodes.wal_store import JOURNAL_NAME
from tests.nodes.effect_roles import play
from tests.nodes.faulty_files import ScriptedFiles

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tallgrass.nodes import NodeRunner
    from tallgrass.nodes.entries import TaskState
    from tests.nodes.running import Watched


def run(runner: NodeRunner, node: Callable[[Any], Any], **options: Any) -> Any:
    """Call a node that has effects."""
    given = {
        "node_id": "publish", "code_version": "v1", "inputs": {"x": 1}, "has_effects": True,
        "procedure": "SOP-7", **options,
    }  # fmt: skip
    return runner.run(exec_fn=node, **given)


def task_of(runner: NodeRunner) -> TaskState:
    """The only task of the run, as its journal says on the disk."""
    (task,) = runner.wal.read("run-1").tasks.values()
    return task


@pytest.mark.conformance("NR-5.7", "C-47")
def test_the_intent_is_on_the_disk_before_the_effect(watched: Watched) -> None:
    """Inside `do` the journal's file holds the intent, synced; afterwards the result."""
    files = ScriptedFiles(lambda _number, _name: None)
    runner = watched.runner(files=files)
    seen: list[list[Kind]] = []

    def put() -> dict[str, int]:
        assert files.done[-1] == "sync_data"
        seen.append([entry.kind for entry in task_of(runner).effects])
        return {"bytes": 7}

    def node(_state: Any) -> Any:
        return effect("put", key="a", do=put)

    assert run(runner, node) == {"bytes": 7}
    assert seen == [[Kind.EFFECT]]
    begun, done = task_of(runner).effects
    assert (begun.kind, done.kind) == (Kind.EFFECT, Kind.EFFECT_DONE)
    assert (begun.body["effect"], begun.body["key"], begun.body["attempt"]) == ("put", "a", 1)
    assert done.body["result"] == {"bytes": 7}


@pytest.mark.conformance("NR-12.6")
def test_a_run_whose_beginning_is_lost_makes_no_effect_again(watched: Watched) -> None:
    """Who would run it is told what a reader is told; nothing is called and nothing written."""
    made: list[str] = []

    def node(_state: Any) -> Any:
        return effect("put", key="a", do=lambda: made.append("a"))

    run(watched.runner(), node)
    watched.close()
    journal = watched.root / "wal" / "run-1" / JOURNAL_NAME
    journal.write_bytes(bytes(4) + journal.read_bytes()[4:])
    before = {path: path.read_bytes() for path in watched.root.rglob("*") if path.is_file()}
    runner = watched.runner()
    with pytest.raises(NodeWalDamaged) as read:
        task_of(runner)
    with pytest.raises(NodeWalDamaged) as refused:
        run(runner, node)
    assert str(refused.value) == str(read.value)
    assert made == ["a"]
    after = {path: path.read_bytes() for path in watched.root.rglob("*") if path.is_file()}
    assert after == before


@pytest.mark.conformance("NR-5.7")
@pytest.mark.parametrize("operation", ["write", "sync_data"])
def test_no_effect_without_its_intent(watched: Watched, operation: str) -> None:
    """If the intent cannot be written or synced, nothing is made."""
    made: list[str] = []
    full: list[bool] = []

    def before(_number: int, name: str) -> None:
        if full and name == operation:
            raise OSError(errno.ENOSPC, "No space left")

    runner = watched.runner(files=ScriptedFiles(before))

    def node(_state: Any) -> Any:
        full.append(True)
        return effect("put", key="a", do=lambda: made.append("a"))

    with pytest.raises((NodeWalFull, NodeWalUnusable)):
        run(runner, node)
    assert made == []


@pytest.mark.conformance("NR-5.7")
def test_an_attempt_that_was_given_up_makes_no_effect(watched: Watched) -> None:
    """A thread that outlives its attempt is refused before it does anything outside."""
    go_on, ended = threading.Event(), threading.Event()
    made: list[str] = []

    def node(_state: Any) -> Any:
        go_on.wait(30)
        try:
            effect("put", key="a", do=lambda: made.append("a"))
        finally:
            ended.set()

    with pytest.raises(TimeoutError):
        run(watched.runner(retry=RetryPolicy(max_attempts=1)), node, timeout_s=0.05)
    go_on.set()
    assert ended.wait(30)
    assert made == []


@pytest.mark.conformance("NR-3.10")
def test_a_retry_returns_what_was_made(watched: Watched) -> None:
    """The second attempt gets the recorded result, by type, and the effect stands once."""
    made: list[int] = []

    def put() -> tuple[str, int]:
        made.append(1)
        return ("etag", len(made))

    def node(_state: Any) -> Any:
        result = effect("put", key="a", do=put)
        if current_node().attempt == 1:
            raise TransientError("later")
        return {"result": result, "again": effect("put", key="a", do=put)}

    found = run(watched.runner(), node)
    assert found == {"result": ("etag", 1), "again": ("etag", 1)}
    assert made == [1]


@pytest.mark.conformance("NR-3.10")
def test_a_resume_in_another_process_returns_what_was_made(watched: Watched) -> None:
    """A new runner on the same folder knows it too; another key or name is another effect."""
    made: list[str] = []

    def put(key: str) -> str:
        made.append(key)
        return f"made {key}"

    def first(_state: Any) -> Any:
        effect("put", key="a", do=lambda: put("a"))
        raise KeyboardInterrupt

    def second(_state: Any) -> Any:
        return [
            effect("put", key="a", do=lambda: put("a")),
            effect("put", key="b", do=lambda: put("b")),
            effect("tag", key="a", do=lambda: put("tag a")),
        ]

    with pytest.raises(KeyboardInterrupt):
        run(watched.runner(), first)
    assert run(watched.runner(), second) == ["made a", "made b", "made tag a"]
    assert made == ["a", "b", "tag a"]


def test_an_effect_that_may_have_been_made_is_made_again_only_if_it_may(watched: Watched) -> None:
    """Idempotent: again. Not so: the node fails for good, with a code of its own."""
    made: list[str] = []

    def put() -> str:
        made.append("try")
        if len(made) == 1:
            raise TimeoutError("no answer")
        return "made"

    runner = watched.runner()
    again = run(runner, lambda _: effect("put", key="a", do=put, idempotent=True), node_id="safe")
    assert (again, made) == ("made", ["try", "try"])
    made.clear()
    with pytest.raises(Refused) as refused:
        run(runner, lambda _: effect("put", key="a", do=put), node_id="unsafe")
    assert refused.value.code == "node_effect_unsettled"
    assert made == ["try"]
    assert watched.view("run-1/unsafe/failed.json")["error"]["code"] == "node_effect_unsettled"


def test_an_effect_that_was_certainly_not_made_is_tried_again(watched: Watched) -> None:
    """A connection that was refused did nothing: the retry makes the effect."""
    tries: list[int] = []

    def put() -> str:
        tries.append(1)
        if len(tries) == 1:
            raise ConnectionRefusedError("nobody listens")
        return "made"

    def node(_state: Any) -> Any:
        return effect("put", key="a", do=put, not_made=(ConnectionRefusedError,))

    runner = watched.runner()
    assert run(runner, node) == "made"
    kinds = [entry.kind for entry in task_of(runner).effects]
    assert kinds == [Kind.EFFECT, Kind.EFFECT_NOT_MADE, Kind.EFFECT, Kind.EFFECT_DONE]
    assert [each.state for each in effects_of(task_of(runner))] == ["not_made", "done"]


@pytest.mark.parametrize("outside", ["effect", "aeffect", "stage_file"])
def test_effects_are_made_inside_a_node_alone(outside: str) -> None:
    """Outside of one nobody could write down what is about to be done."""
    made: list[int] = []
    calls: dict[str, Callable[[], Any]] = {
        "effect": lambda: effect("put", key="a", do=lambda: made.append(1)),
        "aeffect": lambda: asyncio.run(aeffect("put", key="a", do=lambda: made.append(1))),
        "stage_file": lambda: stage_file("somewhere"),
    }
    with pytest.raises(Refused, match="no node"):
        calls[outside]()
    assert made == []


def test_a_node_that_declares_no_effects_makes_none(watched: Watched) -> None:
    """Its result could come from the cache in another run, and the effect be missing there."""
    made: list[int] = []
    with pytest.raises(InvalidInput, match="has_effects"):
        run(
            watched.runner(),
            lambda _: effect("put", key="a", do=lambda: made.append(1)),
            has_effects=False,
        )
    assert made == []


@pytest.mark.parametrize("name", ["", " ", "n" * 129, 7], ids=repr)
def test_effects_have_names_and_keys(watched: Watched, name: Any) -> None:
    """An effect without a name could not be told from another."""
    with pytest.raises(InvalidInput, match="of an effect"):
        run(watched.runner(), lambda _: effect(name, key="a", do=lambda: None))
    with pytest.raises(InvalidInput, match="of an effect"):
        run(
            watched.runner(run_id="other"),
            lambda _: effect("put", key=name if name != "n" * 129 else "k" * 4097, do=str),
        )


def test_async_nodes_make_effects(watched: Watched) -> None:
    """Several at once, each once; a plain `do` works too, and a retry finds them all."""
    made: list[str] = []

    async def put(key: str) -> str:
        await asyncio.sleep(0)
        made.append(key)
        return f"made {key}"

    async def node(_state: Any) -> Any:
        found = await asyncio.gather(
            *(aeffect("put", key=key, do=partial(put, key)) for key in "abc")
        )
        found.append(await aeffect("plain", key="p", do=lambda: "plain"))
        if current_node().attempt == 1:
            raise TransientError("later")
        return found

    runner = watched.runner()
    coroutine = runner.arun(
        node_id="publish", code_version="v1", inputs={}, exec_fn=node, has_effects=True
    )
    assert asyncio.run(coroutine) == ["made a", "made b", "made c", "plain"]
    assert sorted(made) == ["a", "b", "c"]
    assert {each.state for each in effects_of(task_of(runner))} == {EffectState.DONE}


def test_an_async_effect_that_was_not_made_is_tried_again(watched: Watched) -> None:
    """As in a plain node."""
    tries: list[int] = []

    async def put() -> str:
        tries.append(1)
        if len(tries) == 1:
            raise ConnectionRefusedError("nobody listens")
        return "made"

    async def node(_state: Any) -> Any:
        return await aeffect("put", key="a", do=put, not_made=(ConnectionRefusedError,))

    coroutine = watched.runner().arun(
        node_id="publish", code_version="v1", inputs={}, exec_fn=node, has_effects=True
    )
    assert asyncio.run(coroutine) == "made"


def test_a_plain_effect_cannot_be_async(watched: Watched) -> None:
    """It would never have been made."""

    async def put() -> None:
        """Never awaited."""

    with pytest.raises(InvalidInput, match="aeffect"):
        run(watched.runner(), lambda _: effect("put", key="a", do=put))


def test_threads_of_one_node_number_their_effects_apart(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each effect has a number of its own, and its own result."""
    together, inside = threading.Barrier(4), threading.Barrier(4)

    def counted(entries: Any) -> int:
        # Whoever is let in together counts the same.
        found = effects_begun(entries)
        with contextlib.suppress(threading.BrokenBarrierError):
            inside.wait(0.2)
        return found

    monkeypatch.setattr(effects_module, "effects_begun", counted)

    def node(_state: Any) -> Any:
        from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415
        from contextvars import copy_context  # noqa: PLC0415

        def put(key: int) -> int:
            together.wait(30)
            found: int = effect("put", key=str(key), do=lambda: key * 10)
            return found

        with ThreadPoolExecutor(4) as pool:
            jobs = [pool.submit(copy_context().run, put, key) for key in range(4)]
            return [job.result() for job in jobs]

    runner = watched.runner()
    assert run(runner, node) == [0, 10, 20, 30]
    task = task_of(runner)
    numbers = [e.body["number"] for e in task.effects if e.kind is Kind.EFFECT]
    assert sorted(numbers) == [1, 2, 3, 4]
    for key in range(4):
        found = latest_effect(task, "put", str(key))
        assert found is not None
        assert found.done is not None
        assert found.done.body["result"] == key * 10


@pytest.mark.conformance("NR-11.2")
def test_keys_and_results_of_sensitive_data_stay_out_of_the_log(watched: Watched) -> None:
    """An effect's key may name a place; the log holds its hash, and a retry still knows it."""
    rules = GovernanceDefaults(care_label="sensitive", sensitivity="places")
    gate = GovernanceGate(Policies([Policy.of("sites", rules)]))
    made: list[str] = []

    def put(place: str) -> dict[str, str]:
        made.append(place)
        return {"at": place}

    def node(_state: Any) -> Any:
        place = "38.87654,-96.54321"
        found = effect("put", key=place, do=partial(put, place))
        if current_node().attempt == 1:
            raise TransientError("later")
        return found

    runner = watched.runner(gate=gate)
    assert run(runner, node, dataset="sites") == {"at": "38.87654,-96.54321"}
    assert len(made) == 1
    kept = [path for path in watched.root.rglob("*") if path.is_file()]
    telling = {
        path.relative_to(watched.root).parts[0] for path in kept if b"38.876" in path.read_bytes()
    }
    assert telling == {"sensitive"}


@pytest.mark.conformance("NR-5.7", "NR-3.10", "C-47")
def test_effects_survive_a_kill_at_every_file_operation(tmp_path: Path) -> None:
    """From each crash point: one effect each, none that was not announced, and the same result."""
    found = play("effects", tmp_path)
    assert found["result"] == ["made a 1", "made b 1"]
    assert found["operations"] > 20
    assert found["faults"] == []


def test_a_result_that_cannot_be_stored_leaves_the_effect_open(watched: Watched) -> None:
    """Nobody could return it after a crash, so it does not count as done."""
    with pytest.raises(InvalidInput) as refused:
        run(watched.runner(), lambda _: effect("put", key="a", do=object))
    assert refused.value.code == "node_result_unstorable"
    failed = watched.view("run-1/publish/failed.json")
    assert failed["compensation"] == "left"


def test_the_log_shows_effects_of_a_node_that_failed_by_its_rules(watched: Watched) -> None:
    """What was made before the failure is told in the failure's own file."""

    def node(_state: Any) -> Any:
        effect("put", key="a", do=lambda: None)
        raise ValidationError("wrong")

    with pytest.raises(ValidationError):
        run(watched.runner(), node)
    assert json.dumps(watched.view("run-1/publish/compensation.json")).count('"left"') == 1


@pytest.mark.conformance("NR-5.7", "NR-7.2")
def test_an_attempt_that_is_given_up_at_its_intent_makes_no_effect(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its time is over when the intent is on the disk: the effect was compensated by then."""
    given_up, ended = threading.Event(), threading.Event()
    made: list[str] = []
    commit = NodeLog.commit

    def slow_commit(log: NodeLog, end: int) -> None:
        commit(log, end)
        if threading.current_thread().name == "node-publish":
            given_up.wait(60)

    def node(_state: Any) -> Any:
        try:
            effect("put", key="a", do=lambda: made.append("a"))
        finally:
            ended.set()

    monkeypatch.setattr(NodeLog, "commit", slow_commit)
    runner = watched.runner(retry=RetryPolicy(max_attempts=1))
    with pytest.raises(TimeoutError):
        run(runner, node, timeout_s=0.2)
    given_up.set()
    assert ended.wait(60)
    assert made == []


@pytest.mark.conformance("NR-5.7")
def test_an_async_effect_that_is_cancelled_at_its_intent_was_not_made(watched: Watched) -> None:
    """It is certain that it was not made, so the next process makes it."""
    made: list[str] = []
    runner = watched.runner()

    async def node(_state: Any) -> Any:
        await aeffect("put", key="a", do=lambda: made.append("a"))
        return {"made": len(made)}

    given: dict[str, Any] = {
        "node_id": "publish", "code_version": "v1", "inputs": {}, "procedure": "SOP-7",
        "has_effects": True, "exec_fn": node,
    }  # fmt: skip

    async def cancelled() -> None:
        task = asyncio.create_task(runner.arun(**given))
        while not any(each.effects for each in _tasks(runner)):  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0)
        task.cancel()
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cancelled())
    assert made == []
    assert asyncio.run(runner.arun(**given)) == {"made": 1}


def _tasks(runner: NodeRunner) -> list[TaskState]:
    """What this process knows of the tasks of its run."""
    run = runner.wal._runs.get("run-1")
    return [] if run is None else list(run.state.tasks.values())
