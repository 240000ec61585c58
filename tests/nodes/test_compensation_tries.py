"""Compensations that fail, are held back or are followed by a clearing; files that were staged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.errors import GovernanceError, InvalidInput, NodeFailed, ValidationError
from tallgrass.governance.policy import GovernanceDefaults, Policies, Policy
from tallgrass.governance.switches import SwitchedOff
from tallgrass.nodes import NodeHooks, RetryPolicy, effect, stage_file
from tallgrass.nodes.compensation import Compensations
from tallgrass.nodes.entries import Kind, TaskId
from tallgrass.nodes.gatekeeper import GovernanceGate
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

    from tests.nodes.running import Watched


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
