"""The way out of quarantine: one approval, used once, with everything it changes in one commit."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.bootstrap.governing import open_releases
from tallgrass.errors import (
    ApprovalInvalid,
    GuardRefused,
    IllegalTransition,
    InvalidInput,
    NotAuthorized,
    TallgrassError,
    UnknownRecord,
)
from tallgrass.governance.actors import Actor, Role, make_token
from tallgrass.governance.approvals import Verdict, release_subject
from tallgrass.governance.policy import GovernanceDefaults, Policies, Policy
from tallgrass.governance.switches import SwitchScope
from tallgrass.ledger.receipt import Action
from tallgrass.storage.releases import Releases
from tests.contract.scene import Scene, accepts, changed
from tests.support.builders import failure, overwritten, success, unit
from tests.support.put_back import put_back

if TYPE_CHECKING:
    from tests.support.backends import Backend

DATASET = "goes-glm"
OPEN = Policy.of(DATASET, GovernanceDefaults(care_label="public", sensitivity="low"))


class GovernedScene(Scene):
    """A ledger that asks who acts."""

    who: Actor

    def switch(self, *, is_on: bool, dataset: str = "*") -> None:
        """Turn the kill switch of ingest, as somebody who is known."""
        self.stores.switches.set(
            SwitchScope.INGEST, dataset, is_on=is_on, actor=self.who, reason="test"
        )

    def quarantine(self, *wal_ids: str) -> None:
        """Hold units, on the word of somebody who is known."""
        selection = [(wal_id, self.row(wal_id)["version"]) for wal_id in wal_ids]
        self.stores.interventions.quarantine(selection, reason="looks wrong", actor=self.who)


@dataclass
class Office:
    """A ledger with an operator who asks and two approvers."""

    scene: GovernedScene
    operator: Actor
    approver: Actor
    second: Actor

    def releases(self, *policies: Policy) -> Releases:
        """Wire releases under policies."""
        stores = self.scene.stores
        return Releases(stores.runner, stores.approvals, Policies(policies or [OPEN]))

    def approved(self, *wal_ids: str, by: tuple[Actor, ...] = (), needed: int = 1) -> str:
        """Return the id of an approval of units as they are now."""
        units = [(wal_id, self.scene.row(wal_id)["version"]) for wal_id in wal_ids]
        approvals = self.scene.stores.approvals
        asked = approvals.request(
            release_subject(units, needed=needed), reason="mended", by=self.operator
        )
        for actor in by or (self.approver,):
            approvals.decide(asked.approval_id, Verdict.APPROVE, by=actor)
        return asked.approval_id

    def release(self, *wal_ids: str, approval: str, by: Actor | None = None) -> tuple[str, ...]:
        """Release units."""
        actor = by or self.operator
        return self.releases().release(wal_ids, approval_id=approval, by=actor).wal_ids


@pytest.fixture
def office(backend: Backend) -> Office:
    """Return a ledger whose actors are set up."""
    scene = GovernedScene(backend)
    actors = scene.stores.actors
    first = actors.add("ann", Role.APPROVER, token=make_token(b"a" * 32), by=None)
    second = actors.add("ben", Role.APPROVER, token=make_token(b"b" * 32), by=first)
    operator = actors.add("olga", Role.OPERATOR, token=make_token(b"o" * 32), by=first)
    scene.who = operator
    return Office(scene, operator, first, second)


def refused(office: Office, error: type[TallgrassError], *wal_ids: str, **how: Any) -> Any:
    """Try a release that must be refused and leave the ledger as it is; return the error."""
    before = office.scene.tables()
    with pytest.raises(error) as caught:
        office.release(*wal_ids, **how)
    assert office.scene.tables() == before
    return caught.value


@pytest.mark.conformance("WAL-5.7", "SM-7.4a", "C-08")
def test_an_approval_brings_a_unit_back(office: Office) -> None:
    """It becomes pending and due with a new budget; the edge names the approval."""
    scene = office.scene
    wal_id = scene.fail()
    scene.quarantine(wal_id)
    before = scene.row(wal_id)
    approval = office.approved(wal_id)
    assert office.release(wal_id, approval=approval) == (wal_id,)
    after = scene.row(wal_id)
    assert changed(before, after) == {"status", "version", "updated_at", "due_at", "budget_from"}
    assert (after["status"], after["version"]) == ("pending", before["version"] + 1)
    assert (after["budget_from"], after["attempts"]) == (1, 1)
    assert scene.backend.rows(
        "SELECT kind, from_status, to_status, actor, reason, approval_ref FROM wal_transitions"
        " WHERE wal_id = ? AND to_version = ?",
        wal_id,
        after["version"],
    ) == [
        {
            "kind": "override",
            "from_status": "quarantined",
            "to_status": "pending",
            "actor": "olga",
            "reason": "mended",
            "approval_ref": approval,
        }
    ]
    [claim] = scene.due()
    scene.commit(success(claim))
    assert scene.row(wal_id)["status"] == "succeeded"


@pytest.mark.conformance("SM-7.4a")
def test_an_approval_is_used_once(office: Office) -> None:
    """A unit that is held again stays held: its approval is spent."""
    scene = office.scene
    wal_id = scene.at("quarantined")
    approval = office.approved(wal_id)
    office.release(wal_id, approval=approval)
    scene.quarantine(wal_id)
    assert refused(office, ApprovalInvalid, wal_id, approval=approval).code == "plan_changed"
    other = office.approved(wal_id)
    office.release(wal_id, approval=other)
    assert scene.row(wal_id)["status"] == "pending"


@pytest.mark.conformance("SM-7.4b")
def test_release_and_log_are_one(office: Office) -> None:
    """Approval, journal, audit entry and record change together."""
    scene = office.scene
    wal_id = scene.at("quarantined")
    approval = office.approved(wal_id)
    office.release(wal_id, approval=approval)
    assert ("olga", "release", "mended") in scene.audit(wal_id)
    assert ("olga", "approval_use", "mended") in scene.audit(f"approval:{approval}")
    used = scene.backend.rows("SELECT used_for FROM approvals WHERE approval_id = ?", approval)
    assert used == [{"used_for": "quarantine release"}]


@pytest.mark.conformance("SM-7.4b")
def test_without_the_journal_there_is_no_release(office: Office) -> None:
    """What keeps the journal from being written keeps the unit, and the approval, as they were."""
    scene = office.scene
    wal_id = scene.at("quarantined")
    approval = office.approved(wal_id)
    scene.backend.sql("ALTER TABLE wal_transitions RENAME TO hidden")
    try:
        with pytest.raises(TallgrassError):
            office.release(wal_id, approval=approval)
    finally:
        scene.backend.sql("ALTER TABLE hidden RENAME TO wal_transitions")
    assert scene.row(wal_id)["status"] == "quarantined"
    assert office.release(wal_id, approval=approval) == (wal_id,)


@pytest.mark.conformance("WAL-5.7", "SM-7.4b")
@pytest.mark.parametrize("case", ["requested", "rejected", "unknown", "own", "other_purpose"])
def test_without_a_good_approval_nothing_moves(office: Office, case: str) -> None:
    """One that is only asked for, was rejected, is not there, or was given for something else."""
    scene, approvals = office.scene, office.scene.stores.approvals
    wal_id, other = scene.at("quarantined"), scene.at("quarantined", 1)
    subject = release_subject([(wal_id, scene.row(wal_id)["version"])])
    asked = approvals.request(subject, reason="mended", by=office.approver).approval_id
    error: type[TallgrassError] = ApprovalInvalid
    match case:
        case "rejected":
            approvals.decide(asked, Verdict.REJECT, by=office.second)
        case "unknown":
            asked, error = str(uuid.uuid4()), UnknownRecord
        case "own":
            with pytest.raises(ApprovalInvalid):
                approvals.decide(asked, Verdict.APPROVE, by=office.approver)
        case "other_purpose":
            asked = office.approved(other)
    refused(office, error, wal_id, approval=asked)


def test_who_was_refused_is_in_the_log(office: Office) -> None:
    """The name, and the code of the refusal."""
    wal_id, other = office.scene.at("quarantined"), office.scene.at("quarantined", 1)
    approval = office.approved(other)
    refused(office, ApprovalInvalid, wal_id, approval=approval)
    log = office.scene.audit(f"approval:{approval}")
    assert ("olga", "release_refused", "plan_changed") in log


@pytest.mark.conformance("SM-7.4a")
def test_only_exactly_the_units_that_were_approved(office: Office) -> None:
    """Neither more nor fewer; together they are released."""
    scene = office.scene
    one, two, three = (scene.at("quarantined", number) for number in range(3))
    approval = office.approved(one, two)
    refused(office, ApprovalInvalid, one, approval=approval)
    refused(office, ApprovalInvalid, one, two, three, approval=approval)
    assert office.release(two, one, two, approval=approval) == tuple(sorted([one, two]))
    assert scene.row(three)["status"] == "quarantined"


def test_a_unit_that_moved_since_the_request_stays(office: Office) -> None:
    """A newer object gives it another version: nothing was approved of that."""
    scene = office.scene
    wal_id = scene.fail()
    scene.quarantine(wal_id)
    approval = office.approved(wal_id)
    [receipt] = scene.announce(overwritten(0))
    assert receipt.decision.action is Action.RECORD_NEWER
    assert refused(office, ApprovalInvalid, wal_id, approval=approval).code == "plan_changed"


def test_the_newest_object_is_used(office: Office) -> None:
    """What was announced while the unit was held is what its next attempt takes."""
    scene = office.scene
    wal_id = scene.fail()
    scene.quarantine(wal_id)
    newer = overwritten(0)
    scene.announce(newer)
    office.release(wal_id, approval=office.approved(wal_id))
    [claim] = scene.due()
    assert claim.unit.object_ref == newer.object_ref


@pytest.mark.conformance("C-09")
def test_a_release_gives_a_new_budget(office: Office) -> None:
    """A unit that had used all its attempts is tried again, not held at once."""
    scene = office.scene
    wal_id = scene.fail()
    for _ in range(20):
        if scene.row(wal_id)["status"] == "quarantined":
            break
        for receipt in scene.announce(unit()):
            scene.commit(*([failure(receipt.claim)] if receipt.claim else []))
    assert scene.row(wal_id)["status"] == "quarantined"
    office.release(wal_id, approval=office.approved(wal_id))
    [claim] = scene.due()
    assert claim.wal_id == wal_id


@pytest.mark.parametrize("status", ["pending", "in_progress", "succeeded", "failed"])
def test_only_a_quarantined_unit_is_released(office: Office, status: str) -> None:
    """Any other is refused, whatever was approved."""
    wal_id = office.scene.at(status)
    approval = office.approved(wal_id)
    refused(office, IllegalTransition, wal_id, approval=approval)


def test_bad_names(office: Office) -> None:
    """No unit, an unknown one, and one that is no id."""
    approval = office.approved(office.scene.at("quarantined"))
    for error, names in (
        (InvalidInput, []),
        (UnknownRecord, [str(uuid.uuid4())]),
        (InvalidInput, ["what"]),
    ):
        refused(office, error, *names, approval=approval)


def test_who_may_release(office: Office) -> None:
    """An operator whose token still holds; nobody else."""
    scene = office.scene
    wal_id = scene.at("quarantined")
    approval = office.approved(wal_id)
    token = make_token(b"v" * 32)
    viewer = scene.stores.actors.add("vic", Role.VIEWER, token=token, by=office.approver)
    refused(office, NotAuthorized, wal_id, approval=approval, by=viewer)
    forged = Actor(name="ann", role=Role.APPROVER)
    refused(office, NotAuthorized, wal_id, approval=approval, by=forged)
    scene.stores.actors.revoke("olga", by=office.approver)
    refused(office, NotAuthorized, wal_id, approval=approval)


@pytest.mark.conformance("RP-9.1")
def test_policy_may_ask_for_more_approvers(office: Office) -> None:
    """One approver is not enough where the dataset wants two; two are."""
    scene = office.scene
    wal_id = scene.at("quarantined")
    rules = GovernanceDefaults(care_label="public", sensitivity="high", approvals_needed=2)
    strict = office.releases(Policy.of(DATASET, rules))
    one = office.approved(wal_id)
    with pytest.raises(ApprovalInvalid):
        strict.release([wal_id], approval_id=one, by=office.operator)
    assert scene.row(wal_id)["status"] == "quarantined"
    two = office.approved(wal_id, by=(office.approver, office.second), needed=2)
    strict.release([wal_id], approval_id=two, by=office.operator)
    assert scene.row(wal_id)["status"] == "pending"


def test_the_gate_stands_before_it(office: Office) -> None:
    """A dataset without a policy, a rejected one and a switch stop a release, approved or not."""
    scene = office.scene
    wal_id = scene.at("quarantined")
    approval = office.approved(wal_id)
    rules = GovernanceDefaults(care_label="public", sensitivity="low", reject="under review")
    for policy, rule in (
        (Policy.of("other", rules), "policy_missing"),
        (Policy.of(DATASET, rules), "dataset_rejected"),
    ):
        with pytest.raises(GuardRefused) as caught:
            office.releases(policy).release([wal_id], approval_id=approval, by=office.operator)
        assert caught.value.guard == rule
    scene.stores.switches.set(
        SwitchScope.REPLAY, DATASET, is_on=True, actor=office.operator, reason="INC-7"
    )
    error = refused(office, GuardRefused, wal_id, approval=approval)
    assert error.guard == "kill_switch_active"
    scene.stores.switches.set(
        SwitchScope.REPLAY, DATASET, is_on=False, actor=office.operator, reason="INC-7 is closed"
    )
    assert office.release(wal_id, approval=approval) == (wal_id,)


@pytest.mark.conformance("WAL-4.5", "SM-2.5")
def test_nothing_else_touches_a_quarantined_unit(office: Office) -> None:
    """Redelivery, the schedule, recovery and a replay by tooling leave row and version alone."""
    scene = office.scene
    wal_id = scene.fail()
    scene.quarantine(wal_id)
    before = scene.row(wal_id)
    [receipt] = scene.announce(unit())
    assert (receipt.decision.action, receipt.claim) == (Action.HELD, None)
    assert scene.due() == []
    scene.crash()
    scene.stores.leases.recover()
    left = put_back(scene.stores, [(wal_id, before["version"])], actor=scene.who)
    assert left == {wal_id: "quarantined"}
    assert scene.row(wal_id) == before


@pytest.mark.conformance("WAL-5.7", "SM-2.5")
@pytest.mark.parametrize("status", ["pending", "in_progress", "failed", "succeeded"])
def test_raw_sql_cannot_leave_quarantine(office: Office, status: str) -> None:
    """Not without an approval that was used for this unit, whatever else is written."""
    scene = office.scene
    wal_id, other = scene.at("quarantined"), scene.at("quarantined", 1)
    office.release(other, approval=office.approved(other))
    version = scene.row(wal_id)["version"]
    connection = scene.backend.connect()
    assert not accepts(
        connection,
        "UPDATE wal_records SET status = ?, version = version + 1 WHERE wal_id = ?",
        status,
        wal_id,
    )
    assert not accepts(
        connection,
        "INSERT INTO wal_transitions (wal_id, occurred_at, kind, from_status, to_status,"
        " from_version, to_version, actor, reason)"
        " VALUES (?, '2026-06-01T12:00:00.000000Z', 'override', 'quarantined', ?, ?, ?, 'x', 'x')",
        wal_id,
        status,
        version,
        version + 1,
    )


def test_the_configured_policies_are_those_that_count(office: Office) -> None:
    """What bootstrap wires knows the shipped datasets."""
    scene = office.scene
    wal_id = scene.at("quarantined")
    releases = open_releases(scene.backend.config(), scene.stores)
    done = releases.release([wal_id], approval_id=office.approved(wal_id), by=office.operator)
    assert done.wal_ids == (wal_id,)


def test_a_hold_is_proved(office: Office) -> None:
    """A mere name, and an actor whose token nobody showed, hold nothing; the log keeps both."""
    scene = office.scene
    wal_id = scene.fail()
    before = scene.row(wal_id)
    for nobody in (office.operator.name, replace(office.operator, proof="")):
        with pytest.raises(NotAuthorized):
            scene.stores.interventions.quarantine(
                [(wal_id, before["version"])], reason="looks wrong", actor=nobody
            )
    assert scene.row(wal_id) == before
    assert [entry[1] for entry in scene.audit(wal_id)] == ["quarantine_refused"] * 2


@pytest.mark.parametrize("number", [2, 300])
def test_a_hold_of_many_is_refused_in_few_words(office: Office, number: int) -> None:
    """The log's subject is short however many units there are; the first hundred are named."""
    ids = sorted(f"0e0e0e0e-0000-8000-8000-{place:012}" for place in range(number))
    with pytest.raises(NotAuthorized):
        office.scene.stores.interventions.quarantine(
            [(wal_id, 1) for wal_id in reversed(ids)], reason="looks wrong", actor="mallory"
        )
    [(actor, subject, detail)] = office.scene.backend.sql(
        "SELECT actor, subject, detail FROM audit_log WHERE action = 'quarantine_refused'"
    )
    assert (actor, subject) == ("mallory", f"{number} units")
    assert json.loads(detail) == {"first": ids[0], "last": ids[-1], "wal_ids": ids[:100]}
