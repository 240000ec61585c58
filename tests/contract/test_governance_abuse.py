"""The abuse matrix: ways around an approval, by the library and by raw SQL. None leads anywhere.

Every case starts from the same store: ann and bob approve, otto operates, vera looks; bob's
approvals are `ready` (a plan, approved), `open` (a plan, asked for by ann), `used`, `rejected`, and
`release` (of one unit, approved). Ways over the command line stand in
`tests/cli/test_governance_abuse.py`.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.errors import TallgrassError
from tallgrass.governance.actors import Actor, Role
from tallgrass.governance.approvals import Approval, Verdict, release_subject
from tallgrass.governance.references import ReferenceKind
from tallgrass.governance.switches import SwitchScope
from tests.contract.scene import RAW_ERRORS, Scene, run, undone
from tests.support.governance import (
    People,
    log_entry,
    plan,
    set_up,
    state_of_tables,
    token_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.backends import Backend


@dataclass
class Stage:
    """What every case finds."""

    backend: Backend
    people: People
    unit: str
    other_unit: str
    ready: Approval
    open: Approval
    used: Approval
    rejected: Approval
    release: Approval
    used_release: Approval

    def decide(self, approval: Approval, by: Actor, verdict: Verdict = Verdict.APPROVE) -> None:
        """Try to decide."""
        self.people.stores.approvals.decide(approval.approval_id, verdict, by=by)


@pytest.fixture
def stage(backend: Backend) -> Stage:
    """Two quarantined units, and approvals in every state."""
    scene = Scene(backend)
    unit, other_unit = scene.at("quarantined", 0), scene.at("quarantined", 1)
    people = set_up(backend)
    used, rejected = people.approved(plan("used")), people.request(plan("rejected"))
    people.use(used)
    people.stores.approvals.decide(rejected.approval_id, Verdict.REJECT, by=people.bob)
    version = scene.row(unit)["version"]
    releases = [people.approved(release_subject([(unit, version)])) for _ in range(2)]
    people.use(releases[1])
    return Stage(
        backend=backend,
        people=people,
        unit=unit,
        other_unit=other_unit,
        ready=people.approved(plan("ready")),
        open=people.request(plan("open"), by=people.ann),
        used=used,
        rejected=rejected,
        release=releases[0],
        used_release=releases[1],
    )


def two_of(stage: Stage) -> Approval:
    """Return an approval that has one of the two that it needs."""
    return stage.people.approved(plan("two", needed=2))


def rotated(stage: Stage) -> Actor:
    """Return bob as he was known before his token was renewed."""
    stage.people.stores.actors.rotate("bob", token=token_of("bob2"), by=stage.people.bob)
    return stage.people.bob


def revoked(stage: Stage) -> Actor:
    """Return bob, whose rights were taken."""
    stage.people.stores.actors.revoke("bob", by=stage.people.ann)
    return stage.people.bob


def given_by_bob(stage: Stage) -> Approval:
    """Return an approval that only bob gave."""
    approval = stage.people.request(plan("by bob"))
    stage.people.approve(approval, by=stage.people.bob)
    return approval


#: Way → what is done beforehand (allowed), and then the attempt.
LIBRARY: dict[str, tuple[Callable[[Stage], Any], Callable[[Stage, Any], Any]]] = {
    "approve one's own request": (
        lambda _: None, lambda s, _: s.decide(s.open, s.people.ann)),
    "reject one's own request": (
        lambda _: None, lambda s, _: s.decide(s.open, s.people.ann, Verdict.REJECT)),
    "approve as an operator": (
        lambda _: None, lambda s, _: s.decide(s.open, s.people.otto)),
    "approve as a viewer": (
        lambda _: None, lambda s, _: s.decide(s.open, s.people.vera)),
    "approve twice": (
        two_of, lambda s, two: s.decide(two, s.people.ann)),
    "approve what was rejected": (
        lambda _: None, lambda s, _: s.decide(s.rejected, s.people.ann)),
    "reject what was used": (
        lambda _: None, lambda s, _: s.decide(s.used, s.people.bob, Verdict.REJECT)),
    "approve with a token that was renewed": (
        rotated, lambda s, bob: s.decide(s.open, bob)),
    "approve with a token that was revoked": (
        revoked, lambda s, bob: s.decide(s.open, bob)),
    "approve in somebody's name, without a token": (
        lambda _: None, lambda s, _: s.decide(s.open, Actor(name="bob", role=Role.APPROVER))),
    "approve in somebody's name, with one's own token": (
        lambda _: None, lambda s, _: s.decide(
            s.open, replace(s.people.bob, proof=s.people.otto.proof))),
    "approve in a role that one has not": (
        lambda _: None, lambda s, _: s.decide(s.open, replace(s.people.otto, role=Role.APPROVER))),
    "approve as somebody who is not there": (
        lambda _: None, lambda s, _: s.decide(s.open, replace(s.people.bob, name="bobby"))),
    "request as a viewer": (
        lambda _: None, lambda s, _: s.people.request(by=s.people.vera)),
    "request in somebody's name": (
        lambda _: None, lambda s, _: s.people.request(by=Actor(name="otto", role=Role.OPERATOR))),
    "use an approval twice": (
        lambda _: None, lambda s, _: s.people.use(s.used)),
    "use what nobody approved": (
        lambda _: None, lambda s, _: s.people.use(s.open)),
    "use what was rejected": (
        lambda _: None, lambda s, _: s.people.use(s.rejected)),
    "use with too few approvals": (
        two_of, lambda s, two: s.people.use(two)),
    "use with fewer approvals than policy wants now": (
        lambda _: None, lambda s, _: s.people.use(s.ready, needed=2)),
    "use the word of somebody who was revoked": (
        lambda s: (given_by_bob(s), revoked(s)), lambda s, given: s.people.use(given[0])),
    "run a plan that was edited": (
        lambda _: None, lambda s, _: s.people.use(s.ready, subject_sha256=plan("ready ").sha256)),
    "run a plan by the approval of another": (
        lambda _: None, lambda s, _: s.people.use(s.ready, subject_sha256=s.open.subject_sha256)),
    "run a plan by the approval of a release": (
        lambda _: None, lambda s, _: s.people.use(s.release, purpose="replay")),
    "release by the approval of a plan": (
        lambda _: None, lambda s, _: s.people.use(s.ready, purpose="release")),
    "release another unit": (
        lambda _: None, lambda s, _: s.people.use(
            s.release, subject_sha256=release_subject([(s.other_unit, 2)]).sha256)),
    "release a unit at a later version": (
        lambda _: None, lambda s, _: s.people.use(
            s.release, subject_sha256=release_subject([(s.unit, 99)]).sha256)),
    "make oneself an approver": (
        lambda _: None, lambda s, _: s.people.stores.actors.add(
            "otto2", Role.APPROVER, token=token_of("otto2"), by=s.people.otto)),
    "add an actor as if it were the first": (
        lambda _: None, lambda s, _: s.people.stores.actors.add(
            "otto2", Role.APPROVER, token=token_of("otto2"), by=None)),
    "take an approver's token": (
        lambda _: None, lambda s, _: s.people.stores.actors.rotate(
            "ann", token=token_of("otto2"), by=s.people.otto)),
    "revoke the last approver": (
        revoked, lambda s, _: s.people.stores.actors.revoke("ann", by=s.people.ann)),
    "end a freeze by a mere name": (
        lambda s: s.people.stores.switches.freeze(actor=s.people.otto, reason="x"),
        lambda s, _: s.people.stores.switches.thaw(actor="otto", reason="x")),
    "turn a switch as a viewer": (
        lambda _: None, lambda s, _: s.people.stores.switches.set(
            SwitchScope.REPLAY, "*", is_on=True, actor=s.people.vera, reason="x")),
    "open a change record by a mere name": (
        lambda _: None, lambda s, _: s.people.stores.changes.open(
            ReferenceKind.CHANGE, "CHG-1", title="t", by="otto")),
}  # fmt: skip


@pytest.mark.conformance("C-49")
@pytest.mark.parametrize("way", LIBRARY)
def test_no_way_leads_around_by_the_library(stage: Stage, way: str) -> None:
    """Each is refused with exit code 3, and every table but the log is as it was."""
    prepare, attempt = LIBRARY[way]
    prepared = prepare(stage)
    before = state_of_tables(stage.backend)
    with pytest.raises(TallgrassError) as refused:
        attempt(stage, prepared)
    assert refused.value.exit_code == 3
    assert state_of_tables(stage.backend) == before


NOW = "2999-01-01T00:00:00.000000Z"
DECIDE = (
    "INSERT INTO approval_decisions (approval_id, actor, decision, note, decided_at)"
    " VALUES (?, ?, ?, '', ?)"
)
JOURNAL = (
    "INSERT INTO wal_transitions (wal_id, occurred_at, kind, from_status, to_status, from_version,"
    " to_version, actor, reason, approval_ref)"
    " SELECT wal_id, updated_at, 'override', 'quarantined', 'pending', version, version + 1,"
    " 'otto', 'forged', ? FROM wal_records WHERE wal_id = ?"
)
LEAVE = (
    "UPDATE wal_records SET status = 'pending', version = version + 1, due_at = updated_at"
    " WHERE wal_id = ?"
)
USE = "UPDATE approvals SET used_at = requested_at, used_for = 'forged' WHERE approval_id = ?"


def in_time(stage: Stage, approval: Approval) -> str:
    """Return a time at which the approval can be decided on."""
    [[at]] = stage.backend.sql(
        "SELECT requested_at FROM approvals WHERE approval_id = ?", approval.approval_id
    )
    return str(at)


def decision(stage: Stage, connection: Any, approval: Approval, actor: str, verdict: str) -> None:
    """Forge a decision together with its entry in the log."""
    subject = f"approval:{approval.approval_id}"
    log_entry(connection, actor, f"approval_{verdict}", subject)
    run(connection, DECIDE, approval.approval_id, actor, verdict, in_time(stage, approval))


def use(connection: Any, approval: Approval) -> None:
    """Forge a use together with its entry in the log."""
    log_entry(connection, "otto", "approval_use", f"approval:{approval.approval_id}")
    run(connection, USE, approval.approval_id)


def leave(connection: Any, approval: Approval | None, wal_id: str) -> None:
    """Forge a way out of quarantine, journaled with an approval or not at all."""
    if approval is not None:
        run(connection, JOURNAL, approval.approval_id, wal_id)
    run(connection, LEAVE, wal_id)


#: Way → statements, the last of which the database must refuse.
RAW: dict[str, Callable[[Stage, Any], Any]] = {
    "add an actor that the log does not know": lambda _, c: run(
        c, "INSERT INTO actors (name, role, token_sha256, created_by, created_at)"
        " VALUES ('mal', 'approver', ?, 'ann', ?)", "0" * 64, NOW),
    "raise a role": lambda _, c: run(
        c, "UPDATE actors SET role = 'approver' WHERE name = 'otto'"),
    "set somebody's token": lambda _, c: run(
        c, "UPDATE actors SET token_sha256 = ?, rotated_at = ? WHERE name = 'bob'", "0" * 64, NOW),
    "rename an actor": lambda _, c: run(
        c, "UPDATE actors SET name = 'otto3' WHERE name = 'otto'"),
    "remove an actor": lambda _, c: run(c, "DELETE FROM actors WHERE name = 'vera'"),
    "revoke without the log": lambda _, c: run(
        c, "UPDATE actors SET revoked_at = ? WHERE name = 'bob'", NOW),
    "take a revocation back": lambda s, c: (
        revoked(s),
        run(c, "UPDATE actors SET revoked_at = NULL WHERE name = 'bob'")),
    "decide without the log": lambda s, c: run(
        c, DECIDE, s.open.approval_id, "bob", "approve", in_time(s, s.open)),
    "decide on one's own request": lambda s, c: decision(s, c, s.open, "ann", "approve"),
    "decide as an operator": lambda s, c: decision(s, c, s.open, "otto", "approve"),
    "decide after the end": lambda s, c: (
        log_entry(c, "bob", "approval_approve", f"approval:{s.open.approval_id}"),
        run(c, DECIDE, s.open.approval_id, "bob", "approve", NOW)),
    "decide before the request": lambda s, c: (
        log_entry(c, "bob", "approval_approve", f"approval:{s.open.approval_id}"),
        run(c, DECIDE, s.open.approval_id, "bob", "approve", "2000-01-01T00:00:00.000000Z")),
    "decide on what was used": lambda s, c: decision(s, c, s.used, "bob", "reject"),
    "turn a rejection round": lambda _, c: run(
        c, "UPDATE approval_decisions SET decision = 'approve' WHERE decision = 'reject'"),
    "remove a rejection": lambda _, c: run(
        c, "DELETE FROM approval_decisions WHERE decision = 'reject'"),
    "request without the log": lambda _, c: run(
        c, "INSERT INTO approvals (approval_id, purpose, subject_sha256, summary, reason, needed,"
        " requested_by, requested_at, expires_at) VALUES (?, 'replay', ?, '{}', 'x', 1, 'otto',"
        " '2026-06-01T00:00:00.000000Z', ?)", "0" * 36, "0" * 64, NOW),
    "use what nobody approved": lambda s, c: use(c, s.open),
    "use what was rejected": lambda s, c: use(c, s.rejected),
    "use without the log": lambda s, c: run(
        c, "UPDATE approvals SET used_at = expires_at, used_for = 'x' WHERE approval_id = ?",
        s.ready.approval_id),
    "use again": lambda s, c: run(
        c, "UPDATE approvals SET used_at = NULL, used_for = NULL WHERE approval_id = ?",
        s.used.approval_id),
    "use after the end": lambda s, c: (
        log_entry(c, "otto", "approval_use", f"approval:{s.ready.approval_id}"),
        run(c, "UPDATE approvals SET used_at = ?, used_for = 'x' WHERE approval_id = ?", NOW,
            s.ready.approval_id)),
    "make an approval last longer": lambda s, c: run(
        c, "UPDATE approvals SET expires_at = ? WHERE approval_id = ?", NOW, s.ready.approval_id),
    "bind an approval to another plan": lambda s, c: run(
        c, "UPDATE approvals SET subject_sha256 = ? WHERE approval_id = ?", "0" * 64,
        s.ready.approval_id),
    "need fewer approvals": lambda s, c: run(
        c, "UPDATE approvals SET needed = 0 WHERE approval_id = ?", s.ready.approval_id),
    "remove an approval": lambda s, c: run(
        c, "DELETE FROM approvals WHERE approval_id = ?", s.open.approval_id),
    "leave quarantine without a journal": lambda s, c: leave(c, None, s.unit),
    "leave quarantine by an approval that is not used": lambda s, c: leave(c, s.release, s.unit),
    "leave quarantine by the approval of a plan": lambda s, c: leave(c, s.used, s.unit),
    "leave quarantine by another unit's approval": lambda s, c: leave(
        c, s.used_release, s.other_unit),
    "journal an override without an approval": lambda s, c: run(
        c, JOURNAL.replace("?", "NULL", 1), s.unit),
}  # fmt: skip


@pytest.mark.conformance("C-49", "C-08")
@pytest.mark.parametrize("way", RAW)
def test_no_way_leads_around_by_raw_sql(stage: Stage, way: str) -> None:
    """The database itself refuses it, whoever holds the connection."""
    connection = stage.backend.connect()
    with undone(connection), pytest.raises(RAW_ERRORS) as refused:
        RAW[way](stage, connection)
    known = ("append_only", "approval_invalid", "unaudited", "illegal_transition", "override_is_")
    assert any(word in str(refused.value) for word in known)


def test_an_approved_way_out_of_quarantine_is_open(stage: Stage) -> None:
    """The guards refuse the wrong ones, not all: the unit that was approved can leave."""
    connection = stage.backend.connect()
    with undone(connection):
        leave(connection, stage.used_release, stage.unit)


def test_a_forged_actor_is_in_the_log(stage: Stage) -> None:
    """Whoever adds one by SQL must write the log's entry too, where it stays to be found."""
    connection = stage.backend.connect()
    with undone(connection):
        log_entry(connection, "ann", "actor_add", "actor:mal", f'{{"token_sha256":"{"0" * 64}"}}')
        run(
            connection,
            "INSERT INTO actors (name, role, token_sha256, created_by, created_at)"
            " VALUES ('mal', 'approver', ?, 'ann', ?)", "0" * 64, NOW,
        )  # fmt: skip


RACER = """
import sys
from tests.support.backends import Backend
name, url, approval_id, sha256, run = sys.argv[1:]
stores = Backend(name, url).open()
sys.stdin.readline()
try:
    stores.runner.run(lambda tx: stores.approvals.use(
        tx, approval_id, purpose="replay", subject_sha256=sha256, used_for=run, by="otto"))
    print("won")
except Exception as error:
    print(error.code)
stores.close()
"""


def test_two_processes_use_an_approval_once(stage: Stage) -> None:
    """They begin together; one runs, the other is told that it is used."""
    racers = [
        subprocess.Popen(
            [
                sys.executable, "-c", RACER, stage.backend.name, stage.backend.url,
                stage.ready.approval_id, stage.ready.subject_sha256, f"run-{number}",
            ],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for number in range(2)
    ]  # fmt: skip
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("\n")
        racer.stdin.flush()
    assert sorted(racer.communicate()[0].strip() for racer in racers) == ["approval_invalid", "won"]
