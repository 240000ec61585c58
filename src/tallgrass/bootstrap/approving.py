"""Requests for approvals, made, found and listed: for the command line, the API and the pages."""

import uuid
from collections import deque
from collections.abc import Sequence
from itertools import islice
from typing import BinaryIO

from tallgrass.bootstrap.stores import Stores
from tallgrass.errors import InvalidInput
from tallgrass.governance.approvals import (
    RELEASE_UNITS_MAX,
    Approval,
    ApprovalState,
    Subject,
    plan_subject,
    release_subject,
)
from tallgrass.governance.gate import Action, approvals_needed
from tallgrass.governance.plan_lines import PLAN_BYTES_MAX
from tallgrass.governance.policy import Policies
from tallgrass.inventory.backfill import backfill_plan
from tallgrass.ledger.vocabulary import Status
from tallgrass.replay.dead_letter_plan import is_drain_plan, read_plan
from tallgrass.replay.plan import PlanAction
from tallgrass.replay.plan_file import PlanReading
from tallgrass.views.places import telling_of, told


def subject_of_plan(lines: BinaryIO) -> Subject:
    """Read a whole plan; return its hash, and a summary that is counted from its rows."""
    from tallgrass.nodes import clear_plan, rerun_plan  # noqa: PLC0415 - 80 ms for few plans

    data = lines.read(PLAN_BYTES_MAX + 1)
    if (order := backfill_plan(data)) is not None:
        return plan_subject(*order)
    if (clearing := clear_plan.read_clear_plan(data)) is not None:
        return plan_subject(clearing[0].document(), clearing[1])
    if (rerun := rerun_plan.read_rerun_plan(data)) is not None:
        return plan_subject(rerun[0].document(), rerun[1])
    lines.seek(0)
    if is_drain_plan(lines.readline()):
        lines.seek(0)
        plan = read_plan(lines)
        counted: dict[str, int] = dict(sorted(plan.by_action.items()))
        return plan_subject({**plan.header.document(), "actions": counted}, plan.sha256)
    lines.seek(0)
    reading = PlanReading(lines)
    header, rows = reading.open()
    deque(rows, maxlen=0)
    counted = {
        each.value: reading.by_action[each] for each in PlanAction if reading.by_action[each]
    }
    return plan_subject({**header.document(), "actions": counted}, reading.sha256)


def subject_of_release(stores: Stores, policies: Policies, names: Sequence[str]) -> Subject:
    """Return the subject of a release: the quarantined units at their present versions."""
    if len(names) > RELEASE_UNITS_MAX:
        raise InvalidInput(f"a release names at most {RELEASE_UNITS_MAX:,} units")
    records = [stores.reader.record(name) for name in dict.fromkeys(names)]
    needed = 1
    for record in records:
        if record.status is not Status.QUARANTINED:
            message = f"{record.wal_id} is {record.status.value}, not quarantined"
            raise InvalidInput(message)
        if policy := policies.of(record.dataset):
            needed = max(needed, approvals_needed(Action.RELEASE, policy, None))
    shown = {
        # It is kept beyond the ledger and shown to approvers: no more exact than anywhere else.
        "objects": {
            record.wal_id: told(record.object_uri, telling_of(policies, record.dataset))
            for record in records
        },
        "codes": {record.wal_id: record.last_error_code for record in records},
    }
    units = [(record.wal_id, record.version) for record in records]
    return release_subject(units, needed=needed, shown=shown)


def page_of_approvals(
    stores: Stores,
    *,
    state: ApprovalState | None = None,
    purpose: str | None = None,
    after: str | None = None,
    limit: int,
) -> tuple[list[tuple[Approval, ApprovalState]], str | None]:
    """Return a page, newest first, and the id after which the next page begins."""
    matching = (
        (approval, now)
        for approval, now in stores.approvals.each(after=after)
        if state in {None, now} and purpose in {None, approval.purpose}
    )
    found = list(islice(matching, limit + 1))
    page, more = found[:limit], len(found) > limit
    return page, page[-1][0].approval_id if more else None


def require_approval_id(text: str) -> str:
    """Return the id of an approval in the form in which the store has it."""
    try:
        return str(uuid.UUID(text))
    except ValueError:
        message = f"{text!r} is no id of an approval"
        raise InvalidInput(message) from None
