"""Validation: schemas, models, functions, care labels, and checkpoints that hear of them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from langgraph.types import Command, Send
from pydantic import BaseModel, Field, field_validator

from tallgrass.errors import GovernanceError, InvalidInput, NodeFailed, ValidationError
from tallgrass.nodes import NodeHooks
from tallgrass.nodes.graphs import graph_values
from tallgrass.nodes.validation_policy import (
    ANY_NODE,
    CallableRule,
    CareRule,
    CheckpointWatcher,
    FileCheckpoint,
    ModelRule,
    SchemaRule,
    ValidationPolicy,
)
from tallgrass.nodes.values import Values
from tests.nodes.governed import governed_gate
from tests.nodes.running import Watched, failing_first

if TYPE_CHECKING:
    from pathlib import Path

    from tallgrass.nodes import NodeOutcome
    from tallgrass.nodes.protocols import NodeCall

FLOW = {
    "type": "object",
    "required": ["flow"],
    "properties": {"flow": {"type": "array", "items": {"type": "number", "minimum": 0}}},
}


class Smoothed(BaseModel):
    """What the node makes."""

    mean: float = Field(ge=0)

    @field_validator("mean")
    @classmethod
    def _no_thirteen(cls, value: float) -> float:
        if value == 13:
            raise ValueError("thirteen is no mean")
        return value


@dataclass
class Told:
    """A checkpoint that remembers."""

    heard: list[tuple[str, ...]]

    def begin(self, call: NodeCall, stage: str) -> None:
        """Begin."""
        self.heard.append(("begin", call.node_id, stage))

    def passed(self, call: NodeCall, stage: str) -> None:
        """Pass."""
        self.heard.append(("passed", call.node_id, stage))

    def failed(self, call: NodeCall, error: BaseException) -> None:
        """Fail."""
        self.heard.append(("failed", call.node_id, type(error).__name__))


def run(
    watched: Watched, policy: ValidationPolicy, inputs: Any, result: Any, **options: Any
) -> Any:
    """Run one node under a policy; return its result."""
    runner = watched.runner(
        hooks=NodeHooks(validators=(policy,), watchers=options.pop("watchers", ())),
        run_id=options.pop("run_id", "run-1"),
        gate=governed_gate(),
        values=options.pop("values", Values([Smoothed])),
    )
    calls = options.pop("calls", [])

    def node(state: Any) -> Any:
        calls.append(state)
        return result

    given = {"node_id": "smooth", "code_version": "1", **options}
    return runner.run(inputs=inputs, exec_fn=node, **given)


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        ({"flow": [1, -2]}, "flow/1 breaks"),
        ({}, "the whole breaks required"),
        ({"flow": "fast"}, "flow breaks"),
        ({"flow": [object()]}, None),
    ],
)
def test_inputs_that_break_a_schema_fail_the_node_at_once(
    watched: Watched, inputs: Any, said: str | None
) -> None:
    """The function is not called, nothing is retried, and the error names place and rule."""
    calls: list[Any] = []
    policy = ValidationPolicy(before={"smooth": [SchemaRule(FLOW, name="flow")]})
    with pytest.raises(InvalidInput) as broken:
        run(watched, policy, inputs, {"mean": 1.0}, calls=calls)
    assert calls == []
    assert watched.slept == []
    if said is not None:
        assert isinstance(broken.value, ValidationError)
        assert "flow: " in str(broken.value)
        assert said in str(broken.value)


def test_values_are_looked_at_as_the_json_that_they_are(watched: Watched) -> None:
    """Tuples, sets, times and models pass by what they would be written as."""
    schema = {
        "type": "object",
        "properties": {
            "t": {"type": "array", "maxItems": 2},
            "s": {"type": "array", "uniqueItems": True},
            "at": {"type": "string", "format": "date-time"},
            "m": {"type": "object", "required": ["mean"]},
        },
        "required": ["t", "s", "at", "m"],
    }
    inputs = {"t": (1, 2), "s": {3, 4}, "at": datetime(2026, 1, 1, tzinfo=UTC)}
    policy = ValidationPolicy(before={ANY_NODE: [SchemaRule(schema)]})
    assert run(watched, policy, {**inputs, "m": Smoothed(mean=1)}, 1) == 1
    with pytest.raises(ValidationError, match="t breaks"):
        run(watched, policy, {**inputs, "m": Smoothed(mean=1), "t": (1, 2, 3)}, 1, run_id="2")


@pytest.mark.parametrize(
    ("result", "said"),
    [
        ({"mean": 2.0}, None),
        (Smoothed(mean=2.0), None),
        ({"mean": -1.0}, "mean: Input should be greater than or equal to 0"),
        ({"mean": 13.0}, "mean: Value error, thirteen is no mean"),
        (Smoothed.model_construct(mean=-1.0), "mean: Input should be greater"),
    ],
    ids=["table", "model", "bound", "own validator", "made without checks"],
)
def test_a_result_must_be_what_its_model_says(
    watched: Watched, result: Any, said: str | None
) -> None:
    """A table or an instance that the model takes; else the node failed and stored nothing."""
    policy = ValidationPolicy(after={"smooth": [ModelRule(Smoothed)]})
    if said is None:
        assert run(watched, policy, {}, result) == result
        return
    with pytest.raises(ValidationError) as broken:
        run(watched, policy, {}, result)
    assert said in str(broken.value)
    assert watched.view("run-1/smooth/post.json") is None
    assert watched.view("run-1/smooth/failed.json")["error"]["code"] == "node_validation_failed"
    with pytest.raises(NodeFailed):
        run(watched, policy, {}, result)


def _raises(value: Any) -> None:
    raise ValueError(f"{value['mean']} is odd")


@pytest.mark.parametrize(
    ("check", "said"),
    [
        (lambda value: value["mean"] == 1, None),
        (lambda value: None, None),
        (lambda value: [], None),
        (lambda value: value["mean"] == 2, "it does not hold"),
        (lambda value: "it is odd", "it is odd"),
        (lambda value: ["a", "b"], "a; <lambda>: b"),
        (_raises, "_raises: 1 is odd"),
    ],
)
def test_a_function_says_what_is_wrong(watched: Watched, check: Any, said: str | None) -> None:
    """True, nothing and no problems are fine; all else is what it says."""
    policy = ValidationPolicy(after={"smooth": [CallableRule(check)]})
    if said is None:
        assert run(watched, policy, {}, {"mean": 1}) == {"mean": 1}
    else:
        with pytest.raises(ValidationError) as broken:
            run(watched, policy, {}, {"mean": 1})
        assert said in str(broken.value)


def test_a_checkpoint_that_cannot_be_told_fails_no_node(watched: Watched) -> None:
    """Nothing is wrong with the node or its inputs; the recorder hears what is."""
    place = watched.root.parent / "validation"
    place.write_text("no folder")
    policy = ValidationPolicy(checkpoint=FileCheckpoint(place), recorder=watched.recorder)
    assert run(watched, policy, {"flow": [1]}, 3) == 3
    failed = [each for name, each in watched.recorder.events if name == "node_hook_failed"]
    assert [each["hook"] for each in failed] == ["checkpoint"] * 2


def test_many_problems_are_counted_not_all_told(watched: Watched) -> None:
    """Five stand in the message, the rest as a number."""
    policy = ValidationPolicy(after={"smooth": [CallableRule(lambda _: list("abcdefgh"))]})
    with pytest.raises(ValidationError, match="e and 3 more"):
        run(watched, policy, {}, 1)


PUBLIC, WELLS = {"dataset": "river_flow"}, {"dataset": "tribal_wells"}


@pytest.mark.parametrize(
    ("declared", "inputs", "result", "guard"),
    [
        (PUBLIC, {"x": 1}, {"y": 1}, None),
        (PUBLIC, {"x": {"care_label": "public"}}, {"care_label": "public"}, None),
        (PUBLIC, {"x": [{"care_label": "sensitive"}]}, {"care_label": "sensitive"}, None),
        (PUBLIC, {"x": [{"care_label": "sensitive"}]}, {"care_label": "restricted"}, None),
        (PUBLIC, {"x": {"care_label": "sensitive"}}, {"care_label": "public"}, "label_too_open"),
        (PUBLIC, {"x": {"care_label": "sensitive"}}, {"y": 1}, "label_too_open"),
        (
            PUBLIC,
            {"care_label": "sensitive"},
            [{"care_label": "sensitive"}, {"care_label": "public"}],
            "label_too_open",
        ),
        (PUBLIC, {"x": 1}, {"care_label": "secret"}, "label_unknown"),
        (PUBLIC, {"care_label": "secret"}, {"y": 1}, "label_unknown"),
        (WELLS, {"x": 1}, {"y": 1}, None),
        (WELLS, {"x": 1}, {"care_label": "sensitive"}, "label_too_open"),
        (WELLS, {"care_label": "public"}, {"care_label": "restricted"}, None),
    ],
)
def test_a_result_is_no_more_open_than_what_it_was_made_of(
    watched: Watched, declared: Any, inputs: Any, result: Any, guard: str | None
) -> None:
    """By the strictest label of inputs and node, and the most open one of the result."""
    policy = ValidationPolicy(before={ANY_NODE: [CareRule()]}, after={ANY_NODE: [CareRule()]})
    if guard is None:
        assert run(watched, policy, inputs, result, **declared) == result
        return
    with pytest.raises(GovernanceError) as refused:
        run(watched, policy, inputs, result, **declared)
    assert refused.value.guard == guard


@pytest.mark.parametrize(
    "rule",
    [
        SchemaRule({"properties": {"mean": {"minimum": 0}}}),
        ModelRule(Smoothed),
        CallableRule(lambda update: update["mean"] >= 0),
    ],
)
def test_the_update_of_a_command_is_looked_at(watched: Watched, rule: Any) -> None:
    """A node that says where to go next is held to the same rules."""
    policy = ValidationPolicy(after={"smooth": [rule]})
    good: Any = Command(update={"mean": 1.0}, goto="next")
    assert run(watched, policy, {"x": 1}, good, values=graph_values()) == good
    bad: Any = Command(update={"mean": -1.0}, goto="next")
    with pytest.raises(ValidationError):
        run(watched, policy, {"x": 2}, bad, values=graph_values())


def test_what_is_sent_to_other_nodes_has_its_label_looked_at(watched: Watched) -> None:
    """LangGraph's sends hold a state: one with a fitting label goes, one that is too open not."""
    policy = ValidationPolicy(after={ANY_NODE: [CareRule()]})

    def fan_out(*labels: str) -> Any:
        sent: Any = Command(goto=[Send("part", {"care_label": each}) for each in labels])
        inputs = {"care_label": "sensitive", "parts": list(labels)}
        return run(watched, policy, inputs, sent, values=graph_values())

    fan_out("sensitive", "restricted")
    with pytest.raises(GovernanceError) as refused:
        fan_out("restricted", "public")
    assert refused.value.guard == "label_too_open"


def test_a_node_that_masks_may_open_data_up_if_somebody_allowed_it(watched: Watched) -> None:
    """It is named in the rule with what allows it; another node stays bound."""
    rule = CareRule(lowered_by={"mask": "council/2026-7"})
    policy = ValidationPolicy(after={ANY_NODE: [rule]})
    inputs, result = {"care_label": "restricted"}, {"care_label": "public"}
    assert run(watched, policy, inputs, result, node_id="mask") == result
    with pytest.raises(GovernanceError):
        run(watched, policy, inputs, result, node_id="copy")


@pytest.mark.conformance("NR-4.5")
def test_another_rule_is_a_miss_and_the_same_rule_a_hit(watched: Watched) -> None:
    """Schema, model, function, care, place and order each count in the cache's key."""

    class Other(BaseModel):
        mean: float = Field(ge=-1)

    def check(value: Any) -> bool:
        return bool(value != 0)

    def stricter(value: Any) -> bool:
        return value is not None

    policies = [
        ValidationPolicy(),
        ValidationPolicy(before={"smooth": [SchemaRule({})]}),
        ValidationPolicy(before={"smooth": [SchemaRule({"type": "object"})]}),
        ValidationPolicy(after={"smooth": [SchemaRule({})]}),
        ValidationPolicy(after={"smooth": [ModelRule(Smoothed)]}),
        ValidationPolicy(after={"smooth": [ModelRule(Other)]}),
        ValidationPolicy(after={"smooth": [ModelRule(Other, version="2")]}),
        ValidationPolicy(after={"smooth": [CallableRule(check)]}),
        ValidationPolicy(after={"smooth": [CallableRule(stricter)]}),
        ValidationPolicy(after={"smooth": [CallableRule(check, version="2")]}),
        ValidationPolicy(after={"smooth": [CareRule()]}),
        ValidationPolicy(after={"smooth": [CareRule(lowered_by={"a": "b"})]}),
    ]
    assert len({each.fingerprint for each in policies}) == len(policies)
    calls: list[Any] = []
    for number, policy in enumerate([policies[4], policies[5], policies[4]]):
        run(watched, policy, {}, {"mean": 1.0}, run_id=str(number), calls=calls)
    assert len(calls) == 2


@pytest.mark.parametrize("nested", [False, True])
def test_an_edited_validator_of_a_model_is_another_rule(nested: bool) -> None:  # noqa: FBT001
    """Also one of a model inside the model: its fields are the same, what it lets pass is not."""

    def fingerprint(limit: int) -> str:
        class Part(BaseModel):
            x: int

            @field_validator("x")
            @classmethod
            def _small(cls, value: int) -> int:
                if value > limit:
                    raise ValueError("too large")
                return value

        class Whole(BaseModel):
            parts: list[Part]

        return ModelRule(Whole if nested else Part).fingerprint

    assert fingerprint(3) == fingerprint(3)
    assert fingerprint(3) != fingerprint(4)


def test_a_rule_whose_code_has_no_version_needs_one() -> None:
    """What cannot be fingerprinted would serve results that other rules let pass."""
    lock = __import__("threading").Lock()

    def check(_value: Any) -> bool:
        return lock is not None

    with pytest.raises(InvalidInput, match="give `version`"):
        CallableRule(check)
    assert CallableRule(check, version="1").fingerprint


@pytest.mark.parametrize(
    "make",
    [
        lambda: SchemaRule({"type": "nonsense"}),
        lambda: ModelRule(dict),
    ],
)
def test_a_rule_that_is_none_is_refused_when_it_is_made(make: Any) -> None:
    """Not when the first node meets it."""
    with pytest.raises(InvalidInput) as refused:
        make()
    assert refused.value.code == "node_declaration_invalid"


def test_checkpoints_hear_of_each_stage_and_of_each_failure_once(watched: Watched) -> None:
    """Begun and passed by the rules; failed by a watcher, once, and not for what is retried."""
    told = Told([])
    policy = ValidationPolicy(after={"smooth": [ModelRule(Smoothed)]}, checkpoint=told)
    watchers = (CheckpointWatcher(told),)
    run(watched, policy, {}, {"mean": 1.0}, watchers=watchers)
    assert told.heard == [
        ("begin", "smooth", "before"),
        ("passed", "smooth", "before"),
        ("begin", "smooth", "after"),
        ("passed", "smooth", "after"),
    ]
    del told.heard[:]
    with pytest.raises(ValidationError):
        run(watched, policy, {}, {"mean": -1.0}, watchers=watchers, run_id="2", cached=False)
    assert told.heard[-2:] == [
        ("begin", "smooth", "after"),
        ("failed", "smooth", "ValidationError"),
    ]
    del told.heard[:]
    runner = watched.runner(run_id="3", hooks=NodeHooks(watchers=watchers))
    with pytest.raises(TimeoutError):
        runner.run(node_id="n", inputs={}, exec_fn=failing_first(9, TimeoutError))
    assert told.heard == []


def test_results_of_checkpoints_are_files_with_an_exit_code(
    watched: Watched, tmp_path: Path
) -> None:
    """One file a result by its time, also of the same instant; 1 if any of a run failed."""
    checkpoint = FileCheckpoint(
        tmp_path / "validation", clock=lambda: datetime(2026, 11, 16, 9, 30, tzinfo=UTC)
    )
    policy = ValidationPolicy(after={"smooth": [ModelRule(Smoothed)]}, checkpoint=checkpoint)
    watchers = (CheckpointWatcher(checkpoint),)
    assert checkpoint.exit_code("hydrology") == 0
    run(watched, policy, {}, {"mean": 1.0}, watchers=watchers)
    assert checkpoint.exit_code("hydrology") == 0
    with pytest.raises(ValidationError):
        run(watched, policy, {"x": 1}, {"mean": -1.0}, watchers=watchers, run_id="run-2")
    folder = tmp_path / "validation" / "hydrology"
    stem = "20261116T093000.000000Z"
    names = [f"{stem}.json", *(f"{stem}-{number}.json" for number in (2, 3, 4))]
    assert sorted(path.name for path in folder.iterdir()) == sorted(names)
    found = [json.loads((folder / name).read_text()) for name in names]
    assert [(each["checkpoint"], each["success"], each["exit_code"]) for each in found] == [
        ("kfm_before_ckpt", True, 0),
        ("kfm_after_ckpt", True, 0),
        ("kfm_before_ckpt", True, 0),
        ("kfm_node_ckpt", False, 1),
    ]
    assert (found[3]["run_id"], found[3]["node_id"]) == ("run-2", "smooth")
    assert found[3]["error"]["code"] == "node_validation_failed"
    assert "mean: Input should be greater" in found[3]["error"]["message"]
    assert [checkpoint.exit_code("hydrology", each) for each in ("run-1", "run-2", "run-3")] == [
        0,
        1,
        0,
    ]


def test_a_checkpoint_tells_no_text_of_sensitive_data(watched: Watched, tmp_path: Path) -> None:
    """The kind and code of the error only: its text may hold a place."""
    checkpoint = FileCheckpoint(tmp_path / "validation")

    def check(_value: Any) -> str:
        return "a nest at 38.97171, -95.23531"

    policy = ValidationPolicy(after={"smooth": [CallableRule(check)]}, checkpoint=checkpoint)
    with pytest.raises(ValidationError):
        run(watched, policy, {}, 1, dataset="nest_sites", watchers=(CheckpointWatcher(checkpoint),))
    files = list((tmp_path / "validation" / "hydrology").iterdir())
    assert len(files) == 2
    assert all("38.97" not in path.read_text() for path in files)


def test_a_failure_outside_of_the_rules_tells_the_checkpoint_too(watched: Watched) -> None:
    """Governance's refusal inside a node, for one."""
    told, outcomes = Told([]), []

    class Outcomes:
        def finished(self, outcome: NodeOutcome) -> None:
            outcomes.append(outcome.error_is_final)

    runner = watched.runner(hooks=NodeHooks(watchers=(CheckpointWatcher(told), Outcomes())))
    with pytest.raises(GovernanceError):
        runner.run(node_id="n", inputs={}, exec_fn=failing_first(1, lambda: GovernanceError("no")))
    assert told.heard == [("failed", "n", "GovernanceError")]
    assert outcomes == [True]
