"""Compensation: what a failed node began is undone, in reverse, once, and written down."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.errors import InvalidInput, NodeFailed, TransientError, ValidationError
from tallgrass.nodes import NodeHooks, RetryPolicy, aeffect, current_node, effect
from tallgrass.nodes.compensation import Compensations, require_compensation
from tallgrass.nodes.entries import Kind
from tests.nodes.effect_roles import play
from tests.nodes.publishing import (
    COMPENSATION,
    FAILED,
    Undone,
    no_waits,
    run,
    two_effects_then_wrong,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tallgrass.nodes import NodeRunner
    from tallgrass.nodes.protocols import NodeFailure
    from tests.nodes.running import Watched


@pytest.mark.conformance("NR-7.1", "NR-7.2", "NR-7.5")
def test_a_nodes_own_compensation_undoes_its_effects_in_reverse(watched: Watched) -> None:
    """It gets the state before the node and what the log says of each effect; no hook is needed."""
    undone: Undone = []
    with pytest.raises(ValidationError, match="wrong"):
        run(
            watched.runner(),
            two_effects_then_wrong,
            compensate_fn=lambda state, entry: undone.append((state, entry)),
        )
    assert [state for state, _ in undone] == [{"x": 1}, {"x": 1}]
    assert [entry["key"] for _, entry in undone] == ["b", "a"]
    first = undone[0][1]
    assert {name: first[name] for name in ("run_id", "node_id", "effect", "done", "result")} == {
        "run_id": "run-1", "node_id": "publish", "effect": "put", "done": True,
        "result": {"etag": "2"},
    }  # fmt: skip
    assert first["failed"]["error"]["code"] == "node_validation_failed"
    tries = watched.view(COMPENSATION)
    assert [(each["key"], each["try"], each["status"]) for each in tries] == [
        ("b", 1, "undone"), ("a", 1, "undone"),
    ]  # fmt: skip
    times = [each[name] for each in tries for name in ("started_at", "ended_at")]
    assert times == sorted(times)
    assert watched.view(FAILED)["compensation"] == "done"


@pytest.mark.conformance("NR-7.1", "NR-5.5")
def test_a_node_without_compensation_works(watched: Watched) -> None:
    """Success leaves no file of compensations, with and without a function for it."""
    for number, options in enumerate(({}, {"compensate_fn": lambda _state, _entry: None})):
        node = f"node-{number}"
        assert run(watched.runner(), lambda _: effect("put", key="a", do=str), node_id=node,
                   **options) == ""  # fmt: skip
        assert watched.view(f"run-1/{node}/compensation.json") is None


@pytest.mark.conformance("NR-7.1")
@pytest.mark.parametrize(
    "wrong",
    [lambda: None, lambda _state: None, lambda _a, _b, _c: None, "no function", 7],
    ids=["none", "one", "three", "text", "number"],
)
def test_a_wrong_arity_is_refused_at_registration(watched: Watched, wrong: Any) -> None:
    """Nobody wants to learn it when something must be undone."""
    with pytest.raises(InvalidInput, match="compensation"):
        watched.runner().wrap(two_effects_then_wrong, code_version="v1", compensate_fn=wrong)
    with pytest.raises(InvalidInput, match="compensation"):
        Compensations().register("put", wrong)


@pytest.mark.conformance("NR-7.1")
def test_what_can_be_called_with_two_arguments_is_taken() -> None:
    """Names do not matter, more arguments with defaults do no harm; an async one is refused."""

    class Undo:
        def method(self, before: Any, entry: Any, *, hard: bool = False) -> None:
            """Undo."""

    require_compensation(Undo().method)
    require_compensation(lambda *arguments: None)

    async def later(_state: Any, _entry: Any) -> None:
        """Never."""

    with pytest.raises(InvalidInput, match="async"):
        require_compensation(later)


def test_effects_have_compensations_of_their_own(watched: Watched) -> None:
    """By the effect's name; the node's own is for the others. One name has one function."""
    compensations = no_waits()
    undone: list[str] = []

    @compensations.undoes("put")
    def remove(_state: Any, entry: Mapping[str, Any]) -> None:
        undone.append(f"remove {entry['key']}")

    compensations.register("put", remove)
    with pytest.raises(InvalidInput, match="already"):
        compensations.register("put", lambda _state, _entry: None)

    def node(_state: Any) -> Any:
        effect("put", key="a", do=str)
        effect("tag", key="b", do=str)
        raise ValidationError("wrong")

    runner = watched.runner(hooks=NodeHooks(compensator=compensations))
    with pytest.raises(ValidationError):
        run(runner, node, compensate_fn=lambda _, entry: undone.append(f"own {entry['key']}"))
    assert undone == ["own b", "remove a"]


@pytest.mark.conformance("NR-7.2")
def test_nothing_is_undone_where_nothing_was_begun(watched: Watched) -> None:
    """A failure before any effect calls no compensation; one that was not made needs none."""
    undone: Undone = []

    def refused() -> None:
        raise ConnectionRefusedError

    def node(state: Any) -> Any:
        if state["x"] == 2:
            effect("put", key="a", do=refused, not_made=(ConnectionRefusedError,))
        raise ValidationError("wrong")

    for number, error in ((1, ValidationError), (2, ConnectionRefusedError)):
        with pytest.raises(error):
            run(
                watched.runner(run_id=f"run-{number}"),
                node,
                inputs={"x": number},
                retry=RetryPolicy(max_attempts=1),
                compensate_fn=lambda *each: undone.append(each),
            )
        assert watched.view(f"run-{number}/publish/compensation.json") is None
        assert watched.view(f"run-{number}/publish/failed.json")["compensation"] == "none"
    assert undone == []


@pytest.mark.conformance("NR-7.2")
def test_an_effect_that_was_only_begun_is_undone_too(watched: Watched) -> None:
    """Nobody knows whether it was made; the compensation is told so."""
    undone: Undone = []

    def lost() -> None:
        raise TimeoutError("no answer")

    with pytest.raises(TimeoutError):
        run(
            watched.runner(retry=RetryPolicy(max_attempts=1)),
            lambda _: effect("put", key="a", do=lost),
            compensate_fn=lambda *each: undone.append(each),
        )
    assert [(entry["key"], entry["done"], entry["result"]) for _, entry in undone] == [
        ("a", False, None)
    ]


@pytest.mark.conformance("NR-7.2")
def test_a_crash_between_failure_and_compensation_is_made_up_for(watched: Watched) -> None:
    """A process that died with the failure written leaves the undoing to the next one."""
    undone: Undone = []

    class Dies:
        def compensate(self, failure: NodeFailure) -> None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(watched.runner(hooks=NodeHooks(compensator=Dies())), two_effects_then_wrong)
    assert watched.view(FAILED)["compensation"] == "pending"
    for _ in range(2):
        with pytest.raises(NodeFailed):
            run(
                watched.runner(),
                two_effects_then_wrong,
                compensate_fn=lambda *each: undone.append(each),
            )
    assert [entry["key"] for _, entry in undone] == ["b", "a"]
    assert watched.view(FAILED)["compensation"] == "done"


@pytest.mark.conformance("NR-7.3", "NR-7.2")
def test_a_kill_at_any_operation_twice_gives_the_same_end(tmp_path: Path) -> None:
    """Effects, staged file and failure, killed at every file operation and again: all undone."""
    found = play("compensation", tmp_path)
    assert found["result"] == "done"
    assert found["operations"] > 40
    assert found["faults"] == []


@pytest.mark.conformance("NR-7.3", "NR-12.5")
def test_a_compensation_that_kills_its_process_is_given_up(tmp_path: Path) -> None:
    """Tries are counted over crashes: three for each effect, then the next one, then the end."""
    found = play("killer", tmp_path)
    assert found["undone"] == ["b"] * 3 + ["a"] * 3
    assert found["ends"] == [[None, 9]] * 6 + [["failed", None]] * 2
    assert found["left"] == []


def test_an_effect_that_was_tried_twice_is_undone_once(watched: Watched) -> None:
    """Under one key there is one effect outside, however often it was begun."""
    undone: list[str] = []

    def lost() -> None:
        raise TimeoutError("no answer")

    with pytest.raises(TimeoutError):
        run(
            watched.runner(retry=RetryPolicy(max_attempts=3)),
            lambda _: effect("put", key="a", do=lost, idempotent=True),
            compensate_fn=lambda _state, entry: undone.append(entry["key"]),
        )
    assert undone == ["a"]
    assert watched.view(FAILED)["compensation"] == "done"


@pytest.mark.conformance("NR-7.2")
def test_a_budget_that_crashes_spent_is_compensated_beside_the_event_loop(
    watched: Watched,
) -> None:
    """The effects of attempts that were cut off are undone; other tasks of the loop go on."""
    threads: list[str] = []

    def undo(_state: Any, entry: Mapping[str, Any]) -> None:
        threads.append(f"{entry['key']} {threading.current_thread() is threading.main_thread()}")

    async def node(_state: Any) -> Any:
        await aeffect("put", key="a", do=str)
        raise KeyboardInterrupt

    def arun(runner: NodeRunner) -> Any:
        return runner.arun(
            node_id="publish", code_version="v1", inputs={}, exec_fn=node, compensate_fn=undo,
            retry=RetryPolicy(max_attempts=1),
        )  # fmt: skip

    runner = watched.runner()
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(arun(runner))
    identity = watched.view("run-1/publish/pre.json")["identity"]
    with runner.wal.run("run-1") as journal:
        (task,) = journal.state.tasks
        journal.append(Kind.ATTEMPT, task, {"identity": identity, "attempt": 2})
    with pytest.raises(NodeFailed, match="earlier processes"):
        asyncio.run(arun(watched.runner()))
    assert threads == ["a False"]


def test_a_retry_that_succeeds_undoes_nothing(watched: Watched) -> None:
    """Compensation is for failures for good."""
    undone: Undone = []

    def node(_state: Any) -> Any:
        effect("put", key="a", do=str)
        if current_node().attempt == 1:
            raise TransientError("later")
        return {}

    assert run(watched.runner(), node, compensate_fn=lambda *each: undone.append(each)) == {}
    assert undone == []
