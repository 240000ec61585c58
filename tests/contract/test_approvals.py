"""Approvals in the store: bound, expiring, used once, never by whoever asked."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.errors import ApprovalInvalid, InvalidInput, NotAuthorized, UnknownRecord
from tallgrass.governance.approvals import ApprovalState, Verdict
from tallgrass.storage.actor_store import run_guarded
from tests.support.backends import ManualClock
from tests.support.governance import plan, set_up, state_of_tables

if TYPE_CHECKING:
    from tests.support.backends import Backend

UNKNOWN_ID = "00000000-0000-4000-8000-00000000dead"


def actions(backend: Backend, approval_id: str) -> list[tuple[Any, ...]]:
    """Return what the log tells of an approval."""
    return backend.sql(
        "SELECT actor, action, reason FROM audit_log WHERE subject = ? ORDER BY entry_id",
        f"approval:{approval_id}",
    )


@pytest.mark.conformance("C-49")
def test_an_approval_lives_once(backend: Backend) -> None:
    """Requested by one, approved by another, used in somebody's transaction, all of it logged."""
    people = set_up(backend)
    approval = people.request(plan("a"))
    assert approval.expires_at - approval.requested_at == timedelta(hours=24)
    assert people.stores.approvals.find(approval.approval_id)[1] is ApprovalState.REQUESTED
    decided, state = people.stores.approvals.decide(
        approval.approval_id, Verdict.APPROVE, by=people.ann, note="looked at"
    )
    assert (state, decided.approvals) == (ApprovalState.APPROVED, 1)
    used = people.use(approval)
    assert used.used_for == "run-1"
    assert people.stores.approvals.find(approval.approval_id) == (used, ApprovalState.USED)
    with pytest.raises(ApprovalInvalid):
        people.use(approval)
    assert actions(backend, approval.approval_id) == [
        ("otto", "approval_request", "CHG-2041"),
        ("ann", "approval_approve", "looked at"),
        ("otto", "approval_use", "CHG-2041"),
    ]


@pytest.mark.conformance("C-49")
def test_nobody_decides_on_their_own_request(backend: Backend) -> None:
    """Not even an approver; the refusal is in the log."""
    people = set_up(backend)
    approval = people.request(by=people.ann)
    for verdict in Verdict:
        with pytest.raises(ApprovalInvalid) as refused:
            people.stores.approvals.decide(approval.approval_id, verdict, by=people.ann)
        assert refused.value.code == "self_approval"
    assert actions(backend, approval.approval_id)[1:] == [
        ("ann", "approval_approve_refused", "self_approval"),
        ("ann", "approval_reject_refused", "self_approval"),
    ]
    people.approve(approval, by=people.bob)


@pytest.mark.conformance("C-49")
def test_an_approval_ends(backend: Backend) -> None:
    """After its time it is neither decided on nor used; the time is a setting."""
    people = set_up(backend)
    late, ready = people.request(plan("late")), people.approved(plan("ready"))
    backend_past(backend, late.approval_id, ready.approval_id)
    assert people.stores.approvals.find(late.approval_id)[1] is ApprovalState.EXPIRED
    with pytest.raises(ApprovalInvalid):
        people.approve(late)
    with pytest.raises(ApprovalInvalid):
        people.use(ready)


def backend_past(backend: Backend, *approval_ids: str) -> None:
    """Let the time of approvals be over, with the guard that forbids it taken off and put back."""
    connection = backend.connect()
    sqlite = backend.name == "sqlite"
    made = ""
    if sqlite:
        [[made]] = connection.execute(
            "SELECT sql FROM sqlite_master WHERE name = 'approvals_updated'"
        ).fetchall()
        connection.execute("DROP TRIGGER approvals_updated")
    else:
        connection.execute("ALTER TABLE approvals DISABLE TRIGGER ALL")
    mark = "?" if sqlite else "%s"
    for approval_id in approval_ids:
        connection.execute(
            "UPDATE approvals SET requested_at = '2026-01-01T00:00:00.000000Z',"
            f" expires_at = '2026-01-02T00:00:00.000000Z' WHERE approval_id = {mark}",
            (approval_id,),
        )
    connection.execute(made if sqlite else "ALTER TABLE approvals ENABLE TRIGGER ALL")


def test_the_clock_decides_to_the_microsecond(tmp_path: Any) -> None:
    """At the last instant it is still good, one microsecond later not."""
    from tests.support.backends import prepare  # noqa: PLC0415 - SQLite's clock is the test's

    backend = prepare("sqlite", f"sqlite:///{tmp_path / 'clock.db'}")
    clock = ManualClock()
    people = set_up(backend, clock=clock)
    first, second = people.approved(plan("1")), people.approved(plan("2"))
    clock.advance(24 * 3600)
    people.use(first)
    clock.advance(0.000001)
    with pytest.raises(ApprovalInvalid):
        people.use(second)
    backend.close()


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"purpose": "release"}, "approval_invalid"),
        ({"subject_sha256": "0" * 64}, "plan_changed"),
        ({"needed": 2}, "approval_invalid"),
        ({"approval_id": UNKNOWN_ID}, "approval_unknown"),
    ],
)
def test_an_approval_is_good_for_its_subject_alone(
    backend: Backend, change: dict[str, Any], code: str
) -> None:
    """Another purpose, another plan, more approvals by policy, another id: nothing is used."""
    people = set_up(backend)
    approval = people.approved()
    before = state_of_tables(backend)
    with pytest.raises((ApprovalInvalid, UnknownRecord)) as refused:
        people.use(approval, **change)
    assert refused.value.code == code
    assert state_of_tables(backend) == before


def test_a_use_stands_or_falls_with_what_it_allows(backend: Backend) -> None:
    """If the caller's transaction is undone, the approval is as good as before."""
    people = set_up(backend)
    approval = people.approved()

    def work(tx: Any) -> None:
        people.stores.approvals.use(
            tx, approval.approval_id, purpose="replay",
            subject_sha256=approval.subject_sha256, used_for="run-1", by=people.otto,
        )  # fmt: skip
        raise InvalidInput("what it allows cannot be done")

    with pytest.raises(InvalidInput):
        people.stores.runner.run(work)
    assert people.stores.approvals.find(approval.approval_id)[1] is ApprovalState.APPROVED
    assert [action for _, action, _ in actions(backend, approval.approval_id)] == [
        "approval_request", "approval_approve",
    ]  # fmt: skip
    people.use(approval)


def test_as_many_approve_as_are_needed(backend: Backend) -> None:
    """Two different ones; the word of one who was revoked since does not count."""
    people = set_up(backend)
    approval = people.request(plan(needed=2))
    people.approve(approval)
    with pytest.raises(ApprovalInvalid):
        people.approve(approval)
    with pytest.raises(ApprovalInvalid):
        people.use(approval)
    people.approve(approval, by=people.bob)
    people.stores.actors.revoke("bob", by=people.ann)
    with pytest.raises(ApprovalInvalid):
        people.use(approval)


def test_what_is_approved_can_be_stopped_until_it_is_used(backend: Backend) -> None:
    """A second approver rejects it; after that nobody can approve it again."""
    people = set_up(backend)
    approval = people.approved()
    people.stores.approvals.decide(approval.approval_id, Verdict.REJECT, by=people.bob)
    with pytest.raises(ApprovalInvalid):
        people.use(approval)
    done = people.approved(plan("other"))
    people.use(done)
    with pytest.raises(ApprovalInvalid):
        people.stores.approvals.decide(done.approval_id, Verdict.REJECT, by=people.bob)


def test_a_request_needs_an_operator_a_reason_and_actors(backend: Backend) -> None:
    """A viewer, a blank reason and a store without actors get none."""
    stores = backend.open()
    from tallgrass.governance.actors import Actor, Role  # noqa: PLC0415

    nobody = Actor(name="ann", role=Role.APPROVER, proof="x" * 64)
    with pytest.raises(NotAuthorized) as refused:
        stores.approvals.request(plan(), reason="x", by=nobody)
    assert refused.value.code == "no_actors"
    people = set_up(backend)
    with pytest.raises(NotAuthorized):
        people.request(by=people.vera)
    with pytest.raises(InvalidInput):
        stores.approvals.request(plan(), reason=" ", by=people.otto)
    assert backend.sql("SELECT count(*) FROM approvals") == [(0,)]


def test_a_refused_use_is_kept_in_the_log(backend: Backend) -> None:
    """The guard that runs the transaction notes the refusal once the transaction is undone."""
    people = set_up(backend)
    approval = people.request()
    place = f"approval:{approval.approval_id}"
    stores = people.stores
    with pytest.raises(ApprovalInvalid):
        run_guarded(
            stores.runner,
            lambda tx: stores.approvals.use(
                tx, approval.approval_id, purpose=approval.purpose,
                subject_sha256=approval.subject_sha256, used_for="run-1", by=people.otto,
            ),
            people.otto, "approval_use", place,
        )  # fmt: skip
    assert actions(backend, approval.approval_id)[-1] == (
        "otto", "approval_use_refused", "approval_invalid",
    )  # fmt: skip


def test_of_many_uses_at_once_one_wins(backend: Backend) -> None:
    """Eight connections use the same approval at the same moment; seven are refused."""
    people = set_up(backend)
    approval = people.approved()
    start = threading.Barrier(8)
    won: list[str] = []
    lost: list[str] = []

    def use(name: str) -> None:
        stores = backend.open()
        start.wait()
        try:
            stores.runner.run(
                lambda tx: stores.approvals.use(
                    tx, approval.approval_id, purpose="replay",
                    subject_sha256=approval.subject_sha256, used_for=name, by=people.otto,
                )
            )  # fmt: skip
            won.append(name)
        except ApprovalInvalid:
            lost.append(name)
        stores.close()

    threads = [threading.Thread(target=use, args=(f"run-{n}",)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(won), len(lost)) == (1, 7)
    assert backend.sql("SELECT used_for FROM approvals") == [(won[0],)]


def test_approvals_are_listed_newest_first(backend: Backend) -> None:
    """All of them, page after page, each with its decisions and where it stands."""
    people = set_up(backend)
    asked = [people.request(plan(str(number))) for number in range(3)]
    people.approve(asked[1])
    listed = [(a.approval_id, state.value) for a, state in people.stores.approvals.each()]
    assert listed == [
        (asked[2].approval_id, "requested"),
        (asked[1].approval_id, "approved"),
        (asked[0].approval_id, "requested"),
    ]
    rest = people.stores.approvals.each(after=asked[2].approval_id)
    assert [a.approval_id for a, _ in rest] == [asked[1].approval_id, asked[0].approval_id]
