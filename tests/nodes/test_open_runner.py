"""A runner under the configured governance, on both databases: switches, approvals, reviews."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.bootstrap.nodes import open_node_runner, plan_clearing, plan_rerun
from tallgrass.config import Config, load_config
from tallgrass.errors import (
    ApprovalInvalid,
    DatabaseUnusable,
    GovernanceError,
    InvalidInput,
    NodeFailed,
    NodeParked,
    NotAuthorized,
    TallgrassError,
    TransientError,
    ValidationError,
)
from tallgrass.governance.approvals import Approval, ApprovalState, plan_subject
from tallgrass.governance.switches import SwitchScope
from tallgrass.nodes import NodeHooks, NodeRunner, RetryPolicy, effect
from tests.nodes.running import failing_first
from tests.support.governance import People, set_up
from tests.support.recording import MemoryRecorder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tallgrass.nodes.clear_plan import ClearPlan
    from tests.support.backends import Backend

CONFIGURATION = """
[database]
url = "{url}"

[nodes]
folder = "{folder}"

[governance.policies.sites]
care_label = "sensitive"
sensitivity = "places"
approvals_needed = 2

[governance.policies.sites.sovereignty]
tribal_authority = "Kaw Nation"

[governance.policies.graves]
care_label = "sensitive"
sensitivity = "places"
sovereignty = {{ tribal_authority = "Kaw Nation" }}

[governance.policies.open]
care_label = "public"
sensitivity = "none"
"""


@dataclass
class Place:
    """A database, a folder for nodes, and what runners told."""

    backend: Backend
    config: Config
    folder: Path
    recorder: MemoryRecorder = field(default_factory=MemoryRecorder)
    opened: list[NodeRunner] = field(default_factory=list)

    def runner(self, **options: Any) -> NodeRunner:
        """A runner, as each process would open it."""
        defaults: dict[str, Any] = {
            "pipeline": "hydrology", "run_id": "run-1", "recorder": self.recorder,
            "environment": {}, "sleep": lambda _seconds: None,
        }  # fmt: skip
        made = open_node_runner(self.config, **{**defaults, **options})
        self.opened.append(made)
        return made

    def log(self, action: str) -> list[dict[str, Any]]:
        """The entries of the audit log about something."""
        return self.backend.rows(
            "SELECT * FROM audit_log WHERE action = ? ORDER BY entry_id", action
        )

    def fails(self, node: Callable[[Any], Any] | None = None, **options: Any) -> None:
        """Let a node fail for good."""
        with pytest.raises(ValidationError):
            run(self.runner(), node or raising(ValidationError("wrong")), **options)


@pytest.fixture
def place(backend: Backend, tmp_path: Path) -> Iterator[Place]:
    """A configured place."""
    folder = tmp_path / "nodes"
    file = tmp_path / "tallgrass.toml"
    file.write_text(CONFIGURATION.format(url=backend.url, folder=folder))
    made = Place(backend, load_config(file=file, environment={}), folder)
    yield made
    for runner in made.opened:
        runner.close()


def run(runner: NodeRunner, node: Callable[[Any], Any], **options: Any) -> Any:
    """Call a node with a given version."""
    given = {"node_id": "fetch", "code_version": "v1", "inputs": {"x": 1}, **options}
    return runner.run(exec_fn=node, **given)


def raising(error: Exception) -> Callable[[Any], Any]:
    """A node that fails so."""

    def node(_state: Any) -> Any:
        raise error

    return node


def echo(state: Any) -> Any:
    """Return what was given."""
    return state


def approved(people: People, plan: ClearPlan | Any, *, by: int = 1) -> Approval:
    """Have a plan asked for by otto and approved by so many."""
    subject = plan_subject(plan.document(), plan.sha256)
    approval = people.request(subject)
    for approver in (people.ann, people.bob)[:by]:
        people.approve(approval, by=approver)
    return approval


def test_nodes_run_and_are_kept_where_the_configuration_says(place: Place) -> None:
    """In `nodes.folder`, with the environment's name; the runner closes its connection."""
    runner = place.runner()
    assert run(runner, echo) == {"x": 1}
    pre = json.loads((place.folder / "wal" / "run-1" / "fetch" / "pre.json").read_bytes())
    assert (pre["pipeline"], pre["env"]) == ("hydrology", place.config.text("env"))
    runner.close()
    assert run(place.runner(root=place.folder / "other"), echo) == {"x": 1}
    assert (place.folder / "other" / "wal" / "run-1").is_dir()


@pytest.mark.conformance("NR-11.4")
def test_switches_and_freezes_of_the_store_park_nodes(place: Place) -> None:
    """A dataset's switch, a freeze, and their end, seen by a runner that is open all the while."""
    stores = place.backend.open()
    runner = place.runner()
    stores.switches.set(SwitchScope.NODES, "open", is_on=True, actor="j.doe", reason="bad")
    with pytest.raises(NodeParked, match="open is switched off"):
        run(runner, echo, dataset="open")
    assert run(runner, echo, dataset="sites", node_id="other") == {"x": 1}
    stores.switches.set(SwitchScope.NODES, "open", is_on=False, actor="j.doe", reason="good")
    stores.switches.freeze(actor="j.doe", reason="INC-7")
    with pytest.raises(NodeParked):
        run(runner, echo, node_id="third")
    stores.switches.thaw(actor="j.doe", reason="over")
    assert run(runner, echo, dataset="open") == {"x": 1}


@pytest.mark.conformance("NR-11.4")
@pytest.mark.parametrize("name", ["KFM_KILL_SWITCH_ETL", "KFM_KILL_SWITCH_GRAPH"])
def test_kill_switches_of_the_environment_park_nodes(place: Place, name: str) -> None:
    """Anything but a plain no stops them; it is read each time."""
    environment: dict[str, str] = {}
    runner = place.runner(environment=environment)
    for said in ("1", "true", "ON", "what"):
        environment[name] = said
        with pytest.raises(NodeParked):
            run(runner, echo)
    for said in ("0", "false", " Off ", ""):
        environment[name] = said
        assert run(runner, echo) == {"x": 1}


@pytest.mark.conformance("NR-11.4")
def test_switches_that_cannot_be_read_are_on(place: Place) -> None:
    """A store that breaks stops nodes, and does not fail them."""
    runner = place.runner()
    run(runner, echo)
    place.backend.sql("ALTER TABLE kill_switches RENAME TO gone")
    with pytest.raises(NodeParked, match="could not be read"):
        run(runner, echo, node_id="second")
    place.backend.sql("ALTER TABLE gone RENAME TO kill_switches")
    assert run(runner, echo, node_id="second") == {"x": 1}


def test_a_database_that_is_not_there_is_refused_at_once(place: Place, tmp_path: Path) -> None:
    """A runner without its governance must not run."""
    url = f"sqlite:///{tmp_path / 'none.db'}"
    config = load_config(environment={}, flags={"database.url": url})
    with pytest.raises((DatabaseUnusable, TransientError)):
        open_node_runner(config, pipeline="hydrology")


@pytest.mark.conformance("NR-11.1")
def test_policies_of_the_configuration_govern_nodes(place: Place) -> None:
    """A dataset that nobody knows is refused; a sensitive one's values stay out of the log."""
    runner = place.runner()
    with pytest.raises(GovernanceError, match="label_unknown"):
        run(runner, echo, dataset="nobody-knows")
    run(runner, echo, dataset="sites")
    pre = json.loads((place.folder / "wal" / "run-1" / "fetch" / "pre.json").read_bytes())
    assert pre["care_label"] == "sensitive"
    assert set(pre["inputs"]) == {"$apart"}


def test_threads_share_the_store(place: Place) -> None:
    """A fan-out asks the gate from many threads at once."""
    runner = place.runner()
    errors: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for each in range(5):
                run(runner, echo, inputs={"x": each}, node_id=f"n-{number}", dataset="open")
        except BaseException as error:  # noqa: BLE001 - told below
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


# --- alerts and reviews ---------------------------------------------------------------------------


@pytest.mark.conformance("NR-6.4")
def test_a_failure_that_is_never_retried_is_in_the_audit_log(place: Place) -> None:
    """Once, by a name that no actor can have; the chain holds; the outcome counts."""
    place.fails()
    with pytest.raises(NodeFailed):
        run(place.runner(), echo)
    (entry,) = place.log("node_alert_not_retried")
    assert entry["actor"] == "tallgrass:nodes"
    assert entry["subject"].startswith("node:run-1/fetch/t-")
    detail = json.loads(entry["detail"])
    assert detail["error"]["code"] == "node_validation_failed"
    assert detail["pipeline"] == "hydrology"
    assert place.backend.rows("SELECT * FROM incidents") == []
    stores = place.backend.open()
    stores.audit.seal()
    verifier, unsealed = stores.audit.verify()
    assert (verifier.faults, unsealed) == ([], 0)
    (outcomes,) = (place.folder / "outcomes" / "hydrology").iterdir()
    assert outcomes.read_bytes().count(b'"succeeded":false') == 1


@pytest.mark.conformance("NR-12.8")
def test_a_failure_on_sovereign_data_opens_an_incident(place: Place) -> None:
    """One, however often the run meets it; an ordinary failure opens none."""
    place.fails(raising(ValidationError("at 38.87654,-96.54321")), dataset="sites")
    place.fails(dataset="open", node_id="ordinary")
    for _ in range(2):
        with pytest.raises(NodeFailed):
            run(place.runner(), echo, dataset="sites")
    (incident,) = place.backend.rows("SELECT * FROM incidents")
    assert incident["incident_ref"].startswith("NODE-")
    assert incident["opened_by"] == "tallgrass:nodes"
    assert "sovereign data" in incident["title"]
    assert json.loads(incident["description"])["sovereignty"] == {"tribal_authority": "Kaw Nation"}
    assert incident["closed_at"] is None
    assert len(place.log("node_alert_sovereign_failure")) == len(place.log("incident_open")) == 1
    assert "38.876" not in json.dumps([incident, place.log("node_alert_sovereign_failure")])


@pytest.mark.conformance("NR-12.8")
def test_a_review_is_opened_once_if_a_crash_came_before_it_was_noted(place: Place) -> None:
    """The database has it; the journal does not; the next process changes nothing."""

    class Dies:
        def __init__(self, inner: Any) -> None:
            self.alerts, self._inner = inner.alerts, inner

        def escalate(self, failure: Any, alert: str) -> None:
            self._inner.escalate(failure, alert)
            raise KeyboardInterrupt

    runner = place.runner()
    dying = NodeHooks(escalation=Dies(runner.hooks.escalation))
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            run(place.runner(hooks=dying), raising(ValidationError("wrong")), dataset="sites")
    with pytest.raises(NodeFailed):
        run(runner, echo, dataset="sites")
    assert len(place.backend.rows("SELECT * FROM incidents")) == 1
    for kind in ("not_retried", "sovereign_failure"):
        assert len(place.log(f"node_alert_{kind}")) == 1


@pytest.mark.conformance("NR-12.5")
def test_a_compensation_that_failed_opens_an_incident(place: Place) -> None:
    """Also of ordinary data: an effect stands that should not."""

    def node(_state: Any) -> Any:
        effect("put", key="a", do=str)
        raise ValidationError("wrong")

    place.fails(node, has_effects=True, dataset="open")
    (incident,) = place.backend.rows("SELECT * FROM incidents")
    assert "could not be undone" in incident["title"]
    assert len(place.log("node_alert_compensation_failed")) == 1
    told = [name for name, _ in place.recorder.events]
    assert told.count("node_compensation_failed") == 1


# --- clearing by approval -------------------------------------------------------------------------


@pytest.mark.conformance("NR-12.7")
def test_a_failed_node_is_cleared_by_a_real_approval_once(place: Place) -> None:
    """The failure that was approved, by another than who asked; a later failure is not it."""
    people = set_up(place.backend)
    node = failing_first(2, lambda: ValidationError("wrong"))
    place.fails(node)
    plan = plan_clearing(place.config, place.folder, "run-1", "fetch", None)
    approval = people.request(plan_subject(plan.document(), plan.sha256))
    runner = place.runner(by=people.otto)
    clear = {"run_id": "run-1", "node_id": "fetch", "approval": approval.approval_id}
    with pytest.raises(ApprovalInvalid, match="requested"):
        runner.clear(**clear)
    people.approve(approval)
    assert runner.clear(**clear) == 1
    _, state = people.stores.approvals.find(approval.approval_id)
    assert state is ApprovalState.USED
    (entry,) = place.log("node_clear")
    assert (entry["actor"], entry["approval_ref"]) == ("otto", approval.approval_id)
    place.fails(node)
    with pytest.raises(ApprovalInvalid, match="another failure"):
        runner.clear(**clear)
    again = approved(people, plan_clearing(place.config, place.folder, "run-1", "fetch", None))
    assert runner.clear(**{**clear, "approval": again.approval_id}) == 1
    assert run(place.runner(), node) == {"calls": 3}
    assert len(place.log("node_clear_refused")) == 2


@pytest.mark.conformance("NR-12.7")
def test_only_somebody_proved_clears_a_node(place: Place) -> None:
    """Neither nobody, nor who may only look, nor one whose token is void."""
    people = set_up(place.backend)
    place.fails()
    plan = plan_clearing(place.config, place.folder, "run-1", "fetch", None)
    clear = {"run_id": "run-1", "node_id": "fetch", "approval": approved(people, plan).approval_id}
    for by in (None, people.vera):
        with pytest.raises(NotAuthorized):
            place.runner(by=by).clear(**clear)
    with pytest.raises(InvalidInput, match="not the id"):
        place.runner(by=people.otto).clear(**{**clear, "approval": "A-1"})
    people.stores.actors.revoke("otto", by=people.ann)
    with pytest.raises(NotAuthorized):
        place.runner(by=people.otto).clear(**clear)
    with pytest.raises(NodeFailed):
        run(place.runner(), echo)


@pytest.mark.conformance("NR-12.7")
def test_an_approval_for_something_else_clears_nothing(place: Place) -> None:
    """Not one of a replay, nor of another node, nor of another task."""
    people = set_up(place.backend)
    place.fails()
    place.fails(node_id="other")
    place.fails(inputs={"x": 2})
    runner = place.runner(by=people.otto)
    other = plan_clearing(place.config, place.folder, "run-1", "other", None)
    replay = people.request()
    people.approve(replay)
    for approval in (replay, approved(people, other)):
        with pytest.raises(ApprovalInvalid):
            runner.clear(run_id="run-1", node_id="fetch", approval=approval.approval_id)
    tasks = [task["task_id"] for task in
             plan_clearing(place.config, place.folder, "run-1", "fetch", None).tasks]  # fmt: skip
    first = plan_clearing(place.config, place.folder, "run-1", "fetch", tasks[0])
    clear = {"run_id": "run-1", "approval": approved(people, first).approval_id, "node_id": "fetch"}
    with pytest.raises(ApprovalInvalid, match="another failure"):
        runner.clear(task_id=tasks[1], **clear)
    assert runner.clear(task_id=tasks[0], **clear) == 1


def test_one_approval_clears_all_tasks_that_its_plan_names(place: Place) -> None:
    """Used up once, for all of them; and again for one whose clearing a crash cut off."""
    people = set_up(place.backend)
    for x in (1, 2, 3):
        place.fails(inputs={"x": x})
    plan = plan_clearing(place.config, place.folder, "run-1", "fetch", None)
    approval = approved(people, plan)
    runner = place.runner(by=people.otto)
    clear = {"run_id": "run-1", "node_id": "fetch", "approval": approval.approval_id}
    assert runner.clear(task_id=plan.tasks[0]["task_id"], **clear) == 1
    assert runner.clear(**clear) == 2
    assert runner.clear(**clear) == 0
    assert len(place.log("approval_use")) == 1


def test_policy_says_how_many_approve(place: Place) -> None:
    """Two for sovereign data here; what the plan says of it can only ask for more."""
    people = set_up(place.backend)
    place.fails(dataset="sites")
    plan = plan_clearing(place.config, place.folder, "run-1", "fetch", None)
    assert plan.approvals_needed == 2
    runner = place.runner(by=people.otto)
    one, two = approved(people, plan), approved(people, plan, by=2)
    with pytest.raises(ApprovalInvalid):
        runner.clear(run_id="run-1", node_id="fetch", approval=one.approval_id)
    assert runner.clear(run_id="run-1", node_id="fetch", approval=two.approval_id) == 1


def test_a_plan_names_failures_alone(place: Place) -> None:
    """There is none for a node that did not fail, nor for a run that nobody knows."""
    run(place.runner(), echo)
    with pytest.raises(InvalidInput, match="did not fail"):
        plan_clearing(place.config, place.folder, "run-1", "fetch", None)
    with pytest.raises(TallgrassError, match="no run"):
        plan_clearing(place.config, place.folder, "run-9", "fetch", None)
    with pytest.raises(TallgrassError, match="no run"):
        place.runner().clear(run_id="run-9", node_id="fetch", approval="A-1")
    assert not (place.folder / "wal" / "run-9").exists()


# --- running again in the red ---------------------------------------------------------------------


@pytest.mark.conformance("NR-11.5")
def test_sovereign_data_are_run_again_in_the_black_zone_by_approval_alone(place: Place) -> None:
    """The one failure spent the budget; a real approval for this run and node lets it run."""
    people = set_up(place.backend)
    place.fails(dataset="sites")
    again = {"dataset": "sites", "run_id": "run-2"}
    with pytest.raises(GovernanceError, match="no approval"):
        run(place.runner(), echo, **again)
    plan = plan_rerun(place.config, "run-2", "fetch", None, "sites")
    assert plan.approvals_needed == 2
    wrong = approved(people, plan_rerun(place.config, "run-3", "fetch", None, "sites"), by=2)
    with pytest.raises(GovernanceError, match="not given for"):
        run(place.runner(), echo, approval=wrong.approval_id, **again)
    # A plan that says nothing of the dataset lowers nothing.
    lax = approved(people, plan_rerun(place.config, "run-2", "fetch", None, None))
    with pytest.raises(GovernanceError, match="1 of the 2 approvals"):
        run(place.runner(), echo, approval=lax.approval_id, **again)
    approval = approved(people, plan, by=2)
    assert run(place.runner(), echo, approval=approval.approval_id, **again) == {"x": 1}
    assert len(place.log("approval_use")) == 1


def test_an_approval_to_run_again_is_for_the_dataset_that_was_shown(place: Place) -> None:
    """Who was told of open data has not agreed to others."""
    people = set_up(place.backend)
    place.fails(dataset="graves")
    again = {"dataset": "graves", "run_id": "run-2"}
    other = approved(people, plan_rerun(place.config, "run-2", "fetch", None, "open"))
    with pytest.raises(GovernanceError, match="not given for"):
        run(place.runner(), echo, approval=other.approval_id, **again)
    right = approved(people, plan_rerun(place.config, "run-2", "fetch", None, "graves"))
    assert run(place.runner(), echo, approval=right.approval_id, **again) == {"x": 1}


def test_an_approval_to_run_again_is_for_one_task(place: Place) -> None:
    """The first that asks has it, also after a crash; another one does not."""
    people = set_up(place.backend)
    for x in (1, 2):
        place.fails(dataset="sites", inputs={"x": x}, retry=RetryPolicy(max_attempts=1))
    plan = plan_rerun(place.config, "run-2", "fetch", None, "sites")
    again = {
        "dataset": "sites", "run_id": "run-2", "approval": approved(people, plan, by=2).approval_id,
    }  # fmt: skip

    def dies(_state: Any) -> Any:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(place.runner(), dies, **again)
    assert run(place.runner(), echo, **again) == {"x": 1}
    with pytest.raises(GovernanceError, match="used"):
        run(place.runner(), echo, inputs={"x": 2}, **again)
    with pytest.raises(InvalidInput, match="no policy"):
        plan_rerun(place.config, "run-2", "fetch", None, "nobody-knows")
