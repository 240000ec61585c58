"""What becomes of an overwritten source object, by the policy of its dataset."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tallgrass.governance.policy import Overwrite
from tallgrass.ledger.receipt import Action
from tallgrass.ledger.rules import DatasetException, LedgerRules
from tests.contract.scene import Scene, changed
from tests.support.backends import NO_BACKOFF
from tests.support.builders import overwritten

if TYPE_CHECKING:
    from tests.support.backends import Backend


def rules(overwrite: Overwrite, **changes: object) -> LedgerRules:
    """Return rules under which goes-glm is overwritten as given."""
    return LedgerRules(backoff=NO_BACKOFF, overwrites={"goes-glm": overwrite}, **changes)  # type: ignore[arg-type]


@pytest.mark.conformance("C-03")
@pytest.mark.parametrize(
    ("overwrite", "action"),
    [
        (Overwrite.REINGEST, Action.CLAIM),
        (Overwrite.KEEP, Action.NOT_REINGESTED),
        (Overwrite.APPROVE, Action.RECORD_NEWER),
    ],
)
def test_the_policy_decides(backend: Backend, overwrite: Overwrite, action: Action) -> None:
    """It counts more than the setting for all datasets."""
    opposite = overwrite is not Overwrite.REINGEST
    scene = Scene(backend, rules(overwrite, reingest=opposite))
    scene.succeed()
    [receipt] = scene.announce(overwritten(0))
    assert receipt.decision.action is action


def test_a_newer_object_waits_for_an_approval(backend: Backend) -> None:
    """It is written down with the record and audited; status, item and schedule stay."""
    scene = Scene(backend, rules(Overwrite.APPROVE))
    wal_id = scene.succeed()
    before = scene.row(wal_id)
    scene.announce(overwritten(0))
    after = scene.row(wal_id)
    assert changed(before, after) == {"next_object", "version", "updated_at"}
    assert "0055AED6DCD90281E6" in after["next_object"]
    assert scene.due() == []
    assert [entry[1] for entry in scene.audit(wal_id)] == ["newer_object_of_succeeded"]
    [again] = scene.announce(overwritten(0))
    assert again.decision.action is Action.DUPLICATE


def test_an_exception_that_was_approved_counts_more(backend: Backend) -> None:
    """`ledger.exceptions` names who allowed it, so it wins over the policy."""
    exception = DatasetException(dataset="goes-glm", approval_ref="CR-1", reingest=True)
    scene = Scene(backend, rules(Overwrite.APPROVE, exceptions={"goes-glm": exception}))
    scene.succeed()
    [receipt] = scene.announce(overwritten(0))
    assert receipt.decision.action is Action.CLAIM
