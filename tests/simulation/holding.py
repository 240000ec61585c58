"""Who holds units in a simulated world by word of mouth, and lets them go with somebody's leave."""

from __future__ import annotations

from dataclasses import dataclass, field

from tallgrass.bootstrap.approving import subject_of_release
from tallgrass.bootstrap.datasets import open_policies
from tallgrass.bootstrap.governing import release_units
from tallgrass.datasets.catalogue import default_catalogue
from tallgrass.errors import InvalidInput, Refused, TransientError
from tallgrass.governance.approvals import Verdict
from tests.simulation.actors import Operator
from tests.simulation.disturbed import STORE_FAULTS, Crashed

MAY_BE_HELD = {"pending", "failed"}
_UNITS = "SELECT wal_id, version, status FROM wal_records ORDER BY wal_id"
_HELD = "SELECT wal_id FROM wal_records WHERE status = 'quarantined' ORDER BY wal_id"


@dataclass
class Warden(Operator):
    """An operator who holds units and releases them; what nobody may do is tried, and refused."""

    #: Units that he held though nothing was wrong with them: all are let go in the end.
    held: set[str] = field(default_factory=set)

    def act(self) -> str:
        """Hold a unit, or let some go; at times the database fails him."""
        if self.random.random() < 0.2:
            self.store_faults.armed.append(
                (self.random.choice((0, 1, 2)), self.random.choice(STORE_FAULTS))
            )
        try:
            return self._hold() if self.random.random() < 0.5 else self._let_some_go()
        except (TransientError, Crashed) as error:
            return f"is broken off: {type(error).__name__}"

    def finish(self) -> str:
        """Let all go that was held by hand; nothing disturbs any more."""
        left = [wal_id for wal_id in self._quarantined() if wal_id in self.held]
        return self._release(left) if left else "holds nothing"

    def _hold(self) -> str:
        """Hold a unit that waits or failed; one that is not so, or has moved on, stays as it is."""
        units = self.world.ledger.execute(_UNITS).fetchall()
        if not units:
            return "finds nothing to hold"
        wal_id, version, status = self.random.choice(units)
        is_late = version > 1 and self.random.random() < 0.2
        may_be = status in MAY_BE_HELD and not is_late
        if may_be:
            self.held.add(wal_id)
        moved = self.stores.interventions.quarantine(
            [(wal_id, version - is_late)], reason="simulated", actor=self.world.otto
        )
        if bool(moved.done) != may_be:
            self.world.violations.append(
                f"a quarantine of {wal_id} ({status}, {'late' if is_late else 'in time'})"
                f" ended as {moved}"
            )
        return f"{'holds' if moved.done else 'may not hold'} {wal_id}, which was {status}"

    def _let_some_go(self) -> str:
        there = self._quarantined()
        if not there:
            return "finds nothing to release"
        chosen = self.random.sample(there, self.random.randint(1, min(3, len(there))))
        return self._release(chosen) if self.random.random() < 0.8 else self._release_alone(chosen)

    def _release(self, chosen: list[str]) -> str:
        """Release units with leave; the leave is then used up."""
        approval_id = self._approved(chosen)
        if not self.world.replayer.calm and self.random.random() < 0.3:
            # A newer object may be heard of meanwhile: then it is no longer what was approved.
            self.random.choice(self.world.processes).step()
        try:
            release_units(
                self.world.config, self.stores, chosen, approval_id=approval_id, by=self.world.otto
            )
        except Refused as refusal:
            return f"may not release {len(chosen)} units: {refusal.code}"
        self._must_be_refused(chosen, approval_id, "by a leave that was used up")
        return f"releases {len(chosen)} units"

    def _release_alone(self, chosen: list[str]) -> str:
        self._must_be_refused(chosen, None, "without leave")
        return "may not release units without leave"

    def _approved(self, chosen: list[str]) -> str:
        policies = open_policies(self.world.config, default_catalogue())
        subject = subject_of_release(self.stores, policies, chosen)
        approvals = self.stores.approvals
        approval = approvals.request(subject, reason="simulated", by=self.world.otto)
        approvals.decide(approval.approval_id, Verdict.APPROVE, by=self.world.ann)
        return approval.approval_id

    def _must_be_refused(self, chosen: list[str], approval_id: str | None, how: str) -> None:
        try:
            release_units(
                self.world.config, self.stores, chosen, approval_id=approval_id, by=self.world.otto
            )
        except (Refused, InvalidInput):
            return
        self.world.violations.append(f"units left quarantine {how}: {chosen}")

    def _quarantined(self) -> list[str]:
        return [row[0] for row in self.world.ledger.execute(_HELD)]
