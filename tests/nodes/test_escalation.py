"""Who is told of a failure: budgets, checkpoints, governance; reviews where one is due."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.errors import NodeFailed, TransientError, ValidationError
from tallgrass.governance.policy import GovernanceDefaults, Policies, Policy
from tallgrass.governance.switches import SwitchedOff
from tallgrass.nodes import NodeHooks, RetryPolicy, effect
from tallgrass.nodes.compensation import Compensations
from tallgrass.nodes.error_budget import ErrorBudgets
from tallgrass.nodes.escalation import Alert, Escalation
from tallgrass.nodes.gatekeeper import GovernanceGate
from tallgrass.nodes.validation_policy import CheckpointWatcher
from tests.nodes.running import Watched

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tallgrass.nodes import NodeRunner
    from tallgrass.nodes.protocols import NodeCall

SOVEREIGN = GovernanceDefaults(
    care_label="sensitive", sensitivity="places", sovereignty={"tribal_authority": "Kaw Nation"}
)
ORDINARY = GovernanceDefaults(care_label="public", sensitivity="none")


class Desk:
    """A desk that takes each alert once, and can be closed."""

    def __init__(self) -> None:
        self.alerts: list[Alert] = []
        self.is_closed = False

    def note(self, alert: Alert) -> None:
        """Keep it, unless it is known."""
        if self.is_closed:
            raise OSError("nobody answers")
        if alert not in self.alerts:
            self.alerts.append(alert)

    @property
    def kinds(self) -> list[str]:
        """The kinds that were raised, in order."""
        return [alert.kind.value for alert in self.alerts]


class Checkpoint:
    """A checkpoint that remembers failures."""

    def __init__(self) -> None:
        self.failures: list[tuple[str, str]] = []

    def begin(self, call: NodeCall, stage: str) -> None:
        """Ignore it."""

    def passed(self, call: NodeCall, stage: str) -> None:
        """Ignore it."""

    def failed(self, call: NodeCall, error: BaseException) -> None:
        """Remember it."""
        self.failures.append((call.node_id, str(error)))


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    """A folder for runners, whose gate knows two datasets."""
    made = Watched(tmp_path / "nodes")
    policies = Policies([Policy.of("sites", SOVEREIGN), Policy.of("goes-glm", ORDINARY)])
    made.options["gate"] = GovernanceGate(policies)
    yield made
    made.close()


@pytest.fixture
def desk() -> Desk:
    """An open desk."""
    return Desk()


def escalating(watched: Watched, desk: Desk, **hooks: Any) -> NodeRunner:
    """A runner that raises failures to the desk."""
    escalation = Escalation(desk, recorder=watched.recorder)
    return watched.runner(hooks=NodeHooks(escalation=escalation, **hooks))


def run(runner: NodeRunner, node: Callable[[Any], Any], **options: Any) -> Any:
    """Call a node with a given version."""
    given = {"node_id": "fetch", "code_version": "v1", "inputs": {"x": 1}, **options}
    return runner.run(exec_fn=node, **given)


def raising(error: Exception) -> Callable[[Any], Any]:
    """A node that fails so."""

    def node(_state: Any) -> Any:
        raise error

    return node


@pytest.mark.conformance("NR-6.4")
def test_an_error_that_is_never_retried_is_one_call_and_three_signals(
    watched: Watched, desk: Desk, tmp_path: Path
) -> None:
    """The error budget counts it, the checkpoint hears of it, governance gets an alert."""
    calls: list[int] = []
    budgets, checkpoint = ErrorBudgets(tmp_path / "outcomes"), Checkpoint()

    def node(_state: Any) -> Any:
        calls.append(1)
        raise ValidationError("wrong shape")

    watchers = (budgets, CheckpointWatcher(checkpoint))
    runner = escalating(watched, desk, watchers=watchers, budget=budgets)
    with pytest.raises(ValidationError):
        run(runner, node)
    assert len(calls) == 1
    state = budgets.state("hydrology")
    assert (state.outcomes, state.failures) == (1, 1)
    assert checkpoint.failures == [("fetch", "wrong shape")]
    assert desk.kinds == ["not_retried"]
    (told,) = [fields for name, fields in watched.recorder.events if name == "node_alert"]
    assert (told["alert"], told["node"], told["review_ref"]) == ("not_retried", "fetch", None)


def test_spent_retries_are_no_alert(watched: Watched, desk: Desk) -> None:
    """A service that was down is a matter of the error budget alone."""
    with pytest.raises(TransientError):
        run(
            escalating(watched, desk),
            raising(TransientError("later")),
            retry=RetryPolicy(max_attempts=2),
        )
    assert desk.kinds == []


@pytest.mark.conformance("NR-12.8")
@pytest.mark.parametrize(("dataset", "kinds"), [("sites", ["sovereign_failure"]), ("goes-glm", [])])
def test_a_failure_on_sovereign_data_opens_a_review(
    watched: Watched, desk: Desk, dataset: str, kinds: list[str]
) -> None:
    """Whatever the error was; an ordinary dataset's failure opens none."""
    with pytest.raises(TransientError):
        run(
            escalating(watched, desk),
            raising(TransientError("at 38.87654,-96.54321")),
            dataset=dataset,
            retry=RetryPolicy(max_attempts=1),
        )
    assert desk.kinds == kinds
    for alert in desk.alerts:
        assert alert.review_ref is not None
        assert alert.review_ref.startswith("NODE-")
        assert alert.detail["sovereignty"] == {"tribal_authority": "Kaw Nation"}
        assert "38.876" not in repr(alert)


@pytest.mark.conformance("NR-12.5")
def test_a_compensation_that_failed_is_raised_for_review(watched: Watched, desk: Desk) -> None:
    """Beside the failure itself, and under the same review where both ask for one."""

    def node(_state: Any) -> Any:
        effect("put", key="a", do=str)
        raise ValidationError("wrong")

    def undo(_state: Any, _entry: Any) -> None:
        raise OSError("gone")

    compensator = Compensations(sleep=lambda _seconds: None)
    with pytest.raises(ValidationError):
        run(
            escalating(watched, desk, compensator=compensator),
            node,
            compensate_fn=undo,
            dataset="sites",
        )
    assert desk.kinds == ["not_retried", "sovereign_failure", "compensation_failed"]
    assert len({alert.review_ref for alert in desk.alerts if alert.review_ref}) == 1
    assert watched.view("run-1/fetch/failed.json")["compensation"] == "failed"


def test_a_compensation_that_is_refused_is_raised_for_review(watched: Watched, desk: Desk) -> None:
    """Effects stand that nobody may touch: people must know."""
    off: list[str] = []
    watched.options["gate"] = GovernanceGate(switches=lambda: SwitchedOff(off))

    def node(_state: Any) -> Any:
        effect("put", key="a", do=str)
        effect("put", key="b", do=str)
        raise TransientError("later")

    def undo(_state: Any, _entry: Any) -> None:
        off.append("*")

    with pytest.raises(TransientError):
        run(escalating(watched, desk), node, compensate_fn=undo, retry=RetryPolicy(max_attempts=1))
    assert desk.kinds == ["compensation_refused"]


@pytest.mark.conformance("NR-12.8")
def test_an_alert_is_raised_until_it_is_kept(watched: Watched, desk: Desk) -> None:
    """A desk that cannot be reached hears of it when the run next meets the node; once."""
    desk.is_closed = True
    with pytest.raises(ValidationError):
        run(escalating(watched, desk), raising(ValidationError("wrong")), dataset="sites")
    assert [name for name, _ in watched.recorder.events].count("node_hook_failed") == 2
    desk.is_closed = False
    for _ in range(3):
        with pytest.raises(NodeFailed):
            run(escalating(watched, desk), raising(ValidationError("wrong")), dataset="sites")
    assert desk.kinds == ["not_retried", "sovereign_failure"]
    assert [name for name, _ in watched.recorder.events].count("node_alert") == 2


def test_a_crash_before_it_is_noted_raises_the_same_alert_again(
    watched: Watched, desk: Desk
) -> None:
    """Its name depends on the failure alone, so whoever keeps it knows it."""
    raised: list[Alert] = []

    class Dies:
        def note(self, alert: Alert) -> None:
            raised.append(alert)
            raise KeyboardInterrupt

    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            run(
                watched.runner(hooks=NodeHooks(escalation=Escalation(Dies()))),
                raising(ValidationError("wrong")),
            )
    assert raised[0] == raised[1]
    assert raised[0].subject.startswith("node:run-1/fetch/t-")
    with pytest.raises(NodeFailed):
        run(escalating(watched, desk), raising(ValidationError("wrong")))
    assert desk.alerts == raised[:1]


@pytest.mark.conformance("NR-12.7")
def test_the_rollback_is_called_once_even_if_it_fails(watched: Watched) -> None:
    """It is marked before it is called; whatever it raises is told, and not the node's error."""
    calls: list[str] = []

    def rollback(failure: Any) -> None:
        calls.append(failure.call.node_id)
        raise OSError("the runbook is not there")

    for error in (ValidationError, NodeFailed, NodeFailed):
        with pytest.raises(error):
            run(watched.runner(hooks=NodeHooks(rollback=rollback)), raising(ValidationError("no")))
    assert calls == ["fetch"]
    assert watched.view("run-1/fetch/failed.json")["rolled_back"] is True
    assert [name for name, _ in watched.recorder.events].count("node_hook_failed") == 1


def test_a_compensation_that_is_refused_from_the_first_is_raised_too(
    watched: Watched, desk: Desk
) -> None:
    """The switch was set before anything was undone."""
    off: list[str] = []
    watched.options["gate"] = GovernanceGate(switches=lambda: SwitchedOff(off))

    def node(_state: Any) -> Any:
        effect("put", key="a", do=str)
        off.append("*")
        raise TransientError("later")

    options: dict[str, Any] = {"compensate_fn": print, "retry": RetryPolicy(max_attempts=1)}
    with pytest.raises(TransientError):
        run(escalating(watched, desk), node, **options)
    assert desk.kinds == ["compensation_refused"]
    assert watched.view("run-1/fetch/failed.json")["compensation"] == "pending"
