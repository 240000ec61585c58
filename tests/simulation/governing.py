"""People in a simulated world: some err, some lost their rights; and somebody reads the catalog."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

from tallgrass.bootstrap.planning import PlanRequest, open_plan
from tallgrass.datasets.catalogue import default_catalogue
from tallgrass.errors import Refused, TransientError
from tallgrass.governance.actors import Role, make_token
from tallgrass.governance.approvals import Verdict, plan_subject
from tallgrass.governance.switches import SwitchScope
from tallgrass.replay.selection import Selection
from tallgrass.stac.search import ItemSearch
from tests.simulation.actors import Operator
from tests.simulation.disturbed import Crashed


@dataclass
class Governor(Operator):
    """Somebody who does what nobody may do; each time it must be refused, and change nothing."""

    _people: int = 0

    def err(self) -> str:
        """Try one of these."""
        tried = self.random.choice(
            (self._act_without_rights, self._approve_alone, self._approve_twice)
        )
        try:
            return tried()
        except (TransientError, Crashed) as error:
            return f"is broken off: {type(error).__name__}"

    def _act_without_rights(self) -> str:
        """Turn a switch by the word of somebody who was let go in between."""
        self._people += 1
        name, ann = f"olga-{self._people}", self.world.ann
        token = make_token(hashlib.sha256(name.encode()).digest())
        olga = self.stores.actors.add(name, Role.OPERATOR, token=token, by=ann)
        self.stores.actors.revoke(name, by=ann)
        try:
            self.stores.switches.set(
                SwitchScope.REPLAY, "hrrr", is_on=True, actor=olga, reason="simulated"
            )
        except Refused as refusal:
            return f"lets {name} go, who is refused: {refusal.code}"
        self.world.violations.append(f"{name} was let go, and turned a switch")
        return f"lets {name} go, who turns a switch"

    def _approve_alone(self) -> str:
        """Approve what one asked for oneself."""
        ann = self.world.ann
        approval = self.stores.approvals.request(
            plan_subject(*self._plan()), reason="simulated", by=ann
        )
        return self._decide(approval.approval_id, "approved a request of their own")

    def _approve_twice(self) -> str:
        """Approve what was rejected."""
        world = self.world
        approval = self.stores.approvals.request(
            plan_subject(*self._plan()), reason="simulated", by=world.otto
        )
        self.stores.approvals.decide(approval.approval_id, Verdict.REJECT, by=world.ann)
        return self._decide(approval.approval_id, "approved what was rejected")

    def _decide(self, approval_id: str, what: str) -> str:
        try:
            self.stores.approvals.decide(approval_id, Verdict.APPROVE, by=self.world.ann)
        except Refused as refusal:
            return f"would have {what}: {refusal.code}"
        self.world.violations.append(f"somebody {what}")
        return what

    def _plan(self) -> tuple[dict[str, object], str]:
        self._people += 1
        request = PlanRequest(
            selection=Selection(), reason="test", replay_run_id=f"erring-{self._people}"
        )
        plan = open_plan(self.world.config, self.stores, request, catalogue=default_catalogue())
        line = plan.stream.first_line()
        return json.loads(line), hashlib.sha256(line).hexdigest()


@dataclass
class Reader(Operator):
    """Somebody who looks at the catalog while others write it."""

    def look(self) -> str:
        """Read all items with their provenance: they are those of the tables, and none lacks it."""
        with self.stores.catalog.view() as view:
            items = list(view.walk(ItemSearch()))
            documents = view.provenance(items)
        seen = {(item.key.collection, item.key.id): item.body for item in items}
        rows = self.world.ledger.execute("SELECT collection_id, item_id, body FROM stac_items")
        there = {(collection, item): bytes(body) for collection, item, body in rows}
        if seen != there or len(seen) != len(items):
            self.world.violations.append(f"a reader saw {sorted(seen)}, not {sorted(there)}")
        bare = [item.key.id for item in items if item.key not in documents]
        if bare:
            self.world.violations.append(f"a reader saw items without provenance: {bare}")
        return f"reads {len(items)} items"
