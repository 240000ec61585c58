"""Compensation: what a failed node began is undone, in reverse, once, and written down."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.errors import (
    GovernanceError,
    InvalidInput,
    NodeFailed,
    TransientError,
    ValidationError,
)
from tallgrass.governance.policy import GovernanceDefaults, Policies, Policy
from tallgrass.governance.switches import SwitchedOff
from tallgrass.nodes import (
    NodeHooks,
    RetryPolicy,
    aeffect,
    current_node,
    effect,
    stage_file,
)
from tallgrass.nodes.compensation import Compensations, require_compensation
from tallgrass.nodes.entries import Kind, TaskId
from tallgrass.nodes.gatekeeper import GovernanceGate
from tests.nodes.effect_roles import play
from tests.nodes.running import Watched

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from tallgrass.nodes import NodeRunner
    from tallgrass.nodes.protocols import NodeFailure

Undone = list[tuple[Any, "Mapping[str, Any]"]]
COMPENSATION = "run-1/publish/compensation.json"
FAILED = "run-1/publish/failed.json"


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    """A folder for runners."""
    made = Watched(tmp_path / "nodes")
    yield made
    made.close()


def run(runner: NodeRunner, node: Callable[[Any], Any], **options: Any) -> Any:
    """Call a node that has effects."""
    given = {
        "node_id": "publish", "code_version": "v1", "inputs": {"x": 1}, "has_effects": True,
        **options,
    }  # fmt: skip
    return runner.run(exec_fn=node, **given)


def two_effects_then_wrong(_state: Any) -> Any:
    """Make two effects, then fail for good."""
    effect("put", key="a", do=lambda: {"etag": "1"})
    effect("put", key="b", do=lambda: {"etag": "2"})
    raise ValidationError("wrong")


def no_waits(**options: Any) -> Compensations:
    """A registry that does not wait."""
    return Compensations(sleep=lambda _seconds: None, uniform=lambda _low, _high: 0.0, **options)


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


@pytest.mark.conformance("NR-7.5", "NR-12.5")
def test_a_compensation_that_fails_is_tried_again_and_then_given_up(watched: Watched) -> None:
    """Each try is in the file, failures too; the node is not clean; the others are undone."""
    calls: list[str] = []

    def undo(_state: Any, entry: Mapping[str, Any]) -> None:
        calls.append(entry["key"])
        if entry["key"] == "b":
            raise OSError("the bucket is gone")

    compensations = no_waits(recorder=watched.recorder)
    compensations.register("put", undo)
    hooks = NodeHooks(compensator=compensations)
    with pytest.raises(ValidationError, match="wrong"):
        run(watched.runner(hooks=hooks), two_effects_then_wrong)
    assert calls == ["b", "b", "b", "a"]
    tries = watched.view(COMPENSATION)
    assert [(each["key"], each["try"], each["status"]) for each in tries] == [
        ("b", 1, "failed"), ("b", 2, "failed"), ("b", 3, "failed"), ("a", 1, "undone"),
    ]  # fmt: skip
    assert tries[2]["error"]["message"] == "the bucket is gone"
    assert tries[2]["is_final"] is True
    assert watched.view(FAILED)["compensation"] == "failed"
    (told,) = [each for name, each in watched.recorder.events if name == "node_compensation_failed"]
    assert (told["effect"], told["tries"], told["node"]) == ("put", 3, "publish")
    with pytest.raises(NodeFailed):
        run(watched.runner(hooks=hooks), two_effects_then_wrong)
    assert len(calls) == 4


def test_a_compensation_may_succeed_at_a_later_try(watched: Watched) -> None:
    """Its waits are those of the policy."""
    calls: list[str] = []
    waits: list[float] = []

    def undo(_state: Any, entry: Mapping[str, Any]) -> None:
        calls.append(entry["key"])
        if len(calls) < 3:
            raise ConnectionError("no answer")

    compensations = Compensations(sleep=waits.append, uniform=lambda _low, _high: 0.0)
    compensations.register("put", undo)
    with pytest.raises(ValidationError):
        run(watched.runner(hooks=NodeHooks(compensator=compensations)), two_effects_then_wrong)
    assert calls == ["b", "b", "b", "a"]
    assert waits == [0.5, 1.0]
    assert watched.view(FAILED)["compensation"] == "done"


def test_an_effect_that_nothing_undoes_is_not_passed_over(watched: Watched) -> None:
    """Without a procedure that is a failed compensation; with one it is left, by its name."""
    with pytest.raises(ValidationError):
        run(watched.runner(), two_effects_then_wrong)
    assert watched.view(FAILED)["compensation"] == "failed"
    assert "nothing undoes" in watched.view(COMPENSATION)[0]["error"]["message"]
    with pytest.raises(ValidationError):
        run(watched.runner(run_id="run-2"), two_effects_then_wrong, procedure="SOP-7")
    assert watched.view("run-2/publish/failed.json")["compensation"] == "left"
    left = watched.view("run-2/publish/compensation.json")
    assert [(each["status"], each["procedure"]) for each in left] == [("left", "SOP-7")] * 2


@pytest.mark.conformance("NR-7.4", "NR-11.1")
def test_the_gate_is_asked_before_each_try(watched: Watched) -> None:
    """A switch that is set while effects are undone stops the next; it goes on when it is off."""
    off: list[str] = []
    undone: list[str] = []

    def undo(_state: Any, entry: Mapping[str, Any]) -> None:
        undone.append(entry["key"])
        off.append("*")

    gate = GovernanceGate(switches=lambda: SwitchedOff(off))
    options = {"compensate_fn": undo}
    with pytest.raises(ValidationError, match="wrong"):
        run(watched.runner(gate=gate), two_effects_then_wrong, **options)
    assert undone == ["b"]
    assert watched.view(FAILED)["compensation"] == "pending"
    assert [each["status"] for each in watched.view(COMPENSATION)] == ["undone", "refused"]
    assert [name for name, _ in watched.recorder.events].count("node_compensation_held") == 1
    off.clear()
    with pytest.raises(NodeFailed):
        run(watched.runner(gate=gate), two_effects_then_wrong, **options)
    assert undone == ["b", "a"]
    assert watched.view(FAILED)["compensation"] == "done"


@pytest.mark.conformance("NR-7.4", "NR-11.1")
def test_a_policy_that_refuses_keeps_effects_from_being_undone(watched: Watched) -> None:
    """Data that were withdrawn meanwhile are not touched, and the failure itself is told."""
    undone: Undone = []
    reject: list[str | None] = [None]

    class Gate:
        def fingerprint(self, declaration: Any) -> str:
            return "always"

        def admit(self, declaration: Any) -> Any:
            rules = GovernanceDefaults(care_label="public", sensitivity="none", reject=reject[0])
            return GovernanceGate(Policies([Policy.of("goes-glm", rules)])).admit(declaration)

    def node(_state: Any) -> Any:
        effect("put", key="a", do=str)
        reject[0] = "withdrawn"
        raise ValidationError("wrong")

    hooks = NodeHooks(watchers=(watched,))
    with pytest.raises(ValidationError, match="wrong"):
        run(
            watched.runner(gate=Gate(), hooks=hooks),
            node,
            dataset="goes-glm",
            compensate_fn=lambda *each: undone.append(each),
        )
    assert undone == []
    assert [outcome.status for outcome in watched.outcomes] == ["failed"]
    with pytest.raises(GovernanceError, match="withdrawn"):
        run(watched.runner(gate=Gate(), hooks=hooks), node, dataset="goes-glm")


@pytest.mark.conformance("NR-7.6")
def test_staged_files_are_removed_and_history_stays(watched: Watched, tmp_path: Path) -> None:
    """Files, folders and links of staging go; what a link points to, and the log, stay."""
    staging, kept = tmp_path / "staging", tmp_path / "kept"
    for folder in (staging, kept):
        folder.mkdir()
    (kept / "data").write_text("kept")

    def node(_state: Any) -> Any:
        stage_file(staging / "one.nc").write_text("half")
        (stage_file(staging / "many") / "deep").mkdir(parents=True)
        (staging / "many" / "deep" / "two.nc").write_text("half")
        stage_file(staging / "link").symlink_to(kept)
        stage_file(staging / "never-made")
        raise ValidationError("wrong")

    runner = watched.runner()
    with pytest.raises(ValidationError):
        run(runner, node)
    assert list(staging.iterdir()) == []
    assert (kept / "data").read_text() == "kept"
    assert watched.view(FAILED)["compensation"] == "done"
    history = [entry.kind for entry in runner.wal.entries("run-1")]
    assert history.count(Kind.EFFECT) == history.count(Kind.EFFECT_DONE) == 4
    assert (history.count(Kind.PRE), history.count(Kind.ATTEMPT)) == (1, 1)
    for name in ("pre.json", "attempts.json", "failed.json", "compensation.json"):
        assert watched.view(f"run-1/publish/{name}") is not None


@pytest.mark.conformance("NR-7.6")
def test_staged_files_of_a_success_stay(watched: Watched, tmp_path: Path) -> None:
    """They are the result's now; a later failure of the same task leaves them too."""
    place = tmp_path / "one.nc"

    def node(_state: Any) -> Any:
        stage_file(place).write_text("whole")
        return {}

    def worse(_state: Any) -> Any:
        raise ValidationError("wrong")

    assert run(watched.runner(), node, task_id="t") == {}
    with pytest.raises(ValidationError):
        run(watched.runner(), worse, task_id="t", code_version="v2")
    assert place.read_text() == "whole"


def test_what_is_there_already_is_not_staged(watched: Watched, tmp_path: Path) -> None:
    """A failure would remove what the node did not make."""
    place = tmp_path / "one.nc"
    place.write_text("of somebody else")
    with pytest.raises(InvalidInput, match="is there already"):
        run(watched.runner(), lambda _state: {"place": str(stage_file(place))})
    assert place.read_text() == "of somebody else"


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


def test_what_was_undone_is_made_again_after_clearing(watched: Watched) -> None:
    """A cleared node begins anew: its undone effects are made again."""

    class Anybody:
        def allow_clearing(self, approval: str, run_id: str, task: Any) -> None:
            """Allow it."""

    made: list[int] = []

    def put() -> int:
        made.append(1)
        return len(made)

    def node(_state: Any) -> Any:
        result = effect("put", key="a", do=put)
        if len(made) == 1:
            raise ValidationError("wrong")
        return {"result": result}

    runner = watched.runner(approvals=Anybody())
    with pytest.raises(ValidationError):
        run(runner, node, compensate_fn=lambda _state, _entry: None)
    assert runner.clear(run_id="run-1", node_id="publish", approval="A-1") == 1
    assert run(runner, node, compensate_fn=lambda _state, _entry: None) == {"result": 2}
    assert len(made) == 2


@pytest.mark.parametrize("undo", ["fails", "is left"])
def test_clearing_settles_what_nobody_knew(watched: Watched, undo: str) -> None:
    """An effect that could not be undone, or was only begun, may be made again once it is cleared.

    One that stands as done, and was left by a procedure, stays.
    """

    class Anybody:
        def allow_clearing(self, approval: str, run_id: str, task: Any) -> None:
            """Allow it."""

    made: list[str] = []

    def lost() -> str:
        made.append("lost")
        if len(made) == 2:
            raise TimeoutError("no answer")
        return "found"

    def node(_state: Any) -> Any:
        effect("put", key="done", do=lambda: made.append("done"))
        return effect("put", key="lost", do=lost)

    def fails(_state: Any, _entry: Any) -> None:
        raise OSError("no")

    hooks = NodeHooks(compensator=no_waits())
    options: dict[str, Any] = (
        {"compensate_fn": fails} if undo == "fails" else {"procedure": "SOP-7"}
    )
    runner = watched.runner(approvals=Anybody(), hooks=hooks, retry=RetryPolicy(max_attempts=1))
    with pytest.raises(TimeoutError):
        run(runner, node, **options)
    runner.clear(run_id="run-1", node_id="publish", approval="A-1")
    assert run(runner, node, **options) == "found"
    again = ["done", "lost"] if undo == "fails" else ["lost"]
    assert made == ["done", "lost", *again]


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


class Anybody:
    """Whoever asks may clear a failed node."""

    def allow_clearing(self, approval: str, run_id: str, task: TaskId) -> None:
        """Allow it."""


@pytest.mark.conformance("NR-12.5")
def test_after_a_clearing_a_failed_compensation_counts_again(watched: Watched) -> None:
    """What stood when it was cleared, and now cannot be undone, is not passed over in silence."""
    runner = watched.runner(approvals=Anybody())

    def fail(**options: Any) -> str:
        with pytest.raises(ValidationError):
            run(runner, two_effects_then_wrong, **options)
        said: str = watched.view(FAILED)["compensation"]
        runner.clear(run_id="run-1", node_id="publish", approval="A-1")
        return said

    def cannot(_state: Any, _entry: Any) -> None:
        raise ValidationError("no way")

    undone: Undone = []
    assert [fail(procedure="SOP-7"), fail(procedure="SOP-7")] == ["left", "left"]
    assert fail(compensate_fn=cannot) == "failed"
    assert fail(compensate_fn=lambda *each: undone.append(each)) == "done"
    assert [entry["key"] for _, entry in undone] == ["b", "a"]


@pytest.mark.conformance("NR-7.3")
def test_each_try_is_given_the_state_before_the_node(watched: Watched) -> None:
    """What one try does to it reaches neither the next nor the caller."""
    state: dict[str, Any] = {"rows": [1]}
    given: list[tuple[list[int], bool]] = []

    def undo(previous: Any, entry: Any) -> None:
        given.append((list(previous["rows"]), "seen" in entry))
        previous["rows"].append(2)
        entry["seen"] = True
        if len(given) == 1:
            raise ConnectionError

    with pytest.raises(ValidationError):
        run(watched.runner(), two_effects_then_wrong, inputs=state, compensate_fn=undo)
    assert given == [([1], False)] * 3
    assert state == {"rows": [1]}
