"""A replay of named units without plan file, gate and worker: failed ones become due again."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

from tallgrass.ledger.vocabulary import Intent
from tallgrass.replay.plan import PlanAction, PlannedAction
from tallgrass.replay.run import NewRun, RunRules
from tallgrass.replay.selection import Selection

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tallgrass.bootstrap.stores import Stores
    from tallgrass.governance.actors import Acting

_NUMBERS = count(1)


def put_back(
    stores: Stores,
    selection: Sequence[tuple[str, int]],
    *,
    reason: str = "backfill",
    actor: Acting = "ann",
    run_id: str | None = None,
    codes: Sequence[str] = (),
    incident_ref: str | None = None,
) -> dict[str, str | None]:
    """Replay units at the versions given; return why each was left alone, None if it was not.

    `codes` are those that somebody names, so that units that failed with them are replayed too.
    """
    rows = [PlannedAction(*each, PlanAction.REPLAY) for each in sorted(selection)]
    chosen = Selection(wal_ids=tuple(row.wal_id for row in rows), error_codes=tuple(codes))
    order = NewRun(
        replay_run_id=run_id or f"put-back-{next(_NUMBERS)}",
        mode=chosen.mode,
        intent=Intent.INGEST,
        reason=reason,
        selection=chosen,
        plan_sha256="0" * 64,
        code_version="1.0.0",
        config_version="c",
        planned=len(rows),
        incident_ref=incident_ref,
    )
    run = stores.replays.register(order, by=actor, needed=0)
    rules = RunRules(
        ledger=stores.config.rules,
        selection=chosen,
        denies=lambda *_: None,
        code_version=order.code_version,
    )
    fates = stores.replays.apply(run, rows, rules)
    return {
        row.wal_id: None if fate.is_put_to_work else fate.reason
        for row, fate in zip(rows, fates, strict=True)
    }
