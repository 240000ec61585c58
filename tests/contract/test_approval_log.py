"""What the log and the store tell of approvals: details, refusals, pages, uses."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.errors import ApprovalInvalid, NotAuthorized
from tallgrass.governance.approvals import ApprovalState
from tallgrass.storage import approval_store
from tests.support.governance import plan, set_up

if TYPE_CHECKING:
    from tallgrass.governance.approvals import Approval
    from tests.support.backends import Backend
    from tests.support.governance import People


def details(backend: Backend, subject: str) -> list[tuple[str, str, Any]]:
    """Return who did what, with the details, in order."""
    rows = backend.sql(
        "SELECT actor, action, detail FROM audit_log WHERE subject = ? ORDER BY entry_id", subject
    )
    return [(actor, action, json.loads(detail)) for actor, action, detail in rows]


def used_for(people: People, approval: Approval, **changes: Any) -> str | None:
    """Ask what an approval was used for."""
    wanted = {"purpose": approval.purpose, "subject_sha256": approval.subject_sha256, **changes}
    return people.stores.runner.run(
        lambda tx: people.stores.approvals.used_for(tx, approval.approval_id, **wanted)
    )


def test_the_log_tells_what_was_approved(backend: Backend) -> None:
    """Each entry holds the hash of what was looked at, so that it can be told by the log alone."""
    people = set_up(backend)
    subject = plan("two eyes", needed=1)
    approval = people.approved(subject)
    people.use(approval)
    assert details(backend, f"approval:{approval.approval_id}") == [
        (
            "otto",
            "approval_request",
            {"purpose": "replay", "subject_sha256": subject.sha256, "needed": 1},
        ),
        ("ann", "approval_approve", {"note": "", "subject_sha256": subject.sha256}),
        (
            "otto",
            "approval_use",
            {"purpose": "replay", "subject_sha256": subject.sha256, "used_for": "run-1"},
        ),
    ]


def test_a_request_that_is_refused_is_told_by_its_subject(backend: Backend) -> None:
    """It has no id yet: the log names what was asked for."""
    people = set_up(backend)
    subject = plan("by a viewer")
    with pytest.raises(NotAuthorized):
        people.request(subject, by=people.vera)
    told = details(backend, f"replay:{subject.sha256}")
    assert [(actor, action) for actor, action, _ in told] == [("vera", "approval_request_refused")]


def test_what_an_approval_was_used_for_can_be_asked(backend: Backend) -> None:
    """Nothing before, its run afterwards; for another purpose or plan the answer is a refusal."""
    people = set_up(backend)
    approval = people.approved()
    assert used_for(people, approval) is None
    people.use(approval)
    assert used_for(people, approval) == "run-1"
    for changes in ({"purpose": "release"}, {"subject_sha256": "0" * 64}, {"needed": 2}):
        with pytest.raises(ApprovalInvalid):
            used_for(people, approval, **changes)
    with pytest.raises(ApprovalInvalid):
        used_for(people, people.request(plan("not approved")))


class Hasty:
    """A transaction in which somebody uses the approval just before the caller does."""

    def __init__(self, tx: Any) -> None:
        self._tx = tx

    def __getattr__(self, verb: str) -> Any:
        return getattr(self._tx, verb)

    def execute(self, name: str, **values: Any) -> Any:
        """Run a named statement; of the use, another's first."""
        if name == "use_approval":
            self._tx.execute(name, **{**values, "used_for": "another run"})
        return self._tx.execute(name, **values)


def test_a_use_that_finds_no_row_to_change_is_refused(backend: Backend) -> None:
    """Somebody used it past the lock: nothing of the transaction stays."""
    people = set_up(backend)
    approval = people.approved()
    wanted: dict[str, Any] = {"purpose": approval.purpose, "used_for": "run-1", "by": people.otto}
    with pytest.raises(ApprovalInvalid, match="is used, not approved"):
        people.stores.runner.run(
            lambda tx: people.stores.approvals.use(
                Hasty(tx),
                approval.approval_id,
                subject_sha256=approval.subject_sha256,
                **wanted,
            )
        )
    assert backend.sql("SELECT used_for FROM approvals") == [(None,)]


def test_approvals_of_one_plan_are_found(backend: Backend) -> None:
    """The newest first, each with where it stands; those of another plan are not among them."""
    people = set_up(backend)
    first, other, second = (people.request(plan(text)) for text in ("a", "b", "a"))
    people.approve(second)
    store = people.stores.approvals
    found = store.of_subject("replay", first.subject_sha256)
    assert {each.approval_id: state for each, state in found} == {
        first.approval_id: ApprovalState.REQUESTED,
        second.approval_id: ApprovalState.APPROVED,
    }
    assert [each.requested_at for each, _ in found] == sorted(
        (first.requested_at, second.requested_at), reverse=True
    )
    assert store.of_subject("release", first.subject_sha256) == []
    read = people.stores.runner.run(lambda tx: store.read(tx, other.approval_id))
    assert read == other


@pytest.mark.parametrize("number", [1, 3, 4, 7])
def test_all_approvals_are_listed_whatever_the_pages(
    number: int, backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each once, also where the last page is full."""
    monkeypatch.setattr(approval_store, "_PAGE_SIZE", 2)
    people = set_up(backend)
    asked = [people.request(plan(str(each))).approval_id for each in range(number)]
    listed = [each.approval_id for each, _ in people.stores.approvals.each()]
    assert sorted(listed) == sorted(asked)
