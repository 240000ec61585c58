"""Who drains dead letters in a simulated world: plans, is killed in the middle, and goes on."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from unittest import mock

from tallgrass.bootstrap import draining
from tallgrass.bootstrap.dead_letters import open_dead_letters
from tallgrass.bootstrap.drain_preparing import DrainRequest, prepare_drain
from tallgrass.bootstrap.draining import DeadLetterDesk, DrainOptions, DrainPlanRequest
from tallgrass.bootstrap.queues import open_queue
from tallgrass.datasets.catalogue import default_catalogue
from tallgrass.errors import QueueMissing, Refused, TransientError
from tallgrass.replay.dead_letters import Wanted
from tallgrass.replay.selection import Selection
from tests.oracle.tables import announced_objects
from tests.simulation.actors import Operator, no_sleep, seeded_ids
from tests.simulation.disturbed import Crashed, StoreFaults, disturb
from tests.simulation.replaying import REFERENCE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tallgrass.replay.dead_letter_plan import DrainPlan

#: Units that wait for the message of a drain.
_WAITING = "SELECT object_uri FROM wal_records WHERE status = 'pending' AND due_at IS NULL"


@dataclass
class Drainer(Operator):
    """An operator who drains by plans; store and queue may fail under way."""

    queue_faults: StoreFaults = field(default_factory=StoreFaults)
    #: Plans that may not be carried out to their end.
    open_plans: dict[str, DrainPlan] = field(default_factory=dict)
    _runs: int = 0
    _names: list[str] = field(default_factory=list)

    def drain(self) -> str:
        """Plan a drain of all letters, and carry it out."""
        self._runs += 1
        name = f"drain-{self._runs}"
        request = DrainPlanRequest(wanted=Wanted(selection=Selection()), replay_run_id=name)
        try:
            self.open_plans[name] = self._desk().plan(request)
        except QueueMissing:
            raise
        except (TransientError, Crashed):
            return "could not plan"
        return self._carry_out(name)

    def resume(self) -> str:
        """Go on with a plan that may not be at its end."""
        if not self.open_plans:
            return "has nothing to resume"
        return self._carry_out(self.random.choice(sorted(self.open_plans)))

    def is_needed(self) -> bool:
        """Tell whether units wait for messages that are dead."""
        waiting = self.world.messages.execute("SELECT count(*) FROM messages").fetchone()[0]
        return not waiting and self.world.ledger.execute(_WAITING).fetchone() is not None

    def finish(self) -> str:
        """Bring everything through that waits for a message; nothing disturbs any more."""
        self.store_faults.armed.clear()
        self.queue_faults.armed.clear()
        # Letters that a killed drain held are to be seen again.
        self.world.pass_time(self.world.visibility_s + 1)
        told = [self._carry_out(name) for name in sorted(self.open_plans)]
        return "; ".join([*told, self.drain()])

    def settle(self) -> str:
        """Close the records of drains whose units went their own way."""
        desk = self._desk()
        for name in self._names:
            self.stores.drains.settle(desk.find(name))
        return f"settles {len(self._names)} drains"

    def _desk(self) -> DeadLetterDesk:
        world = self.world
        return DeadLetterDesk(
            world.config,
            self.stores,
            default_catalogue(),
            clock=world.clock,
            ids=seeded_ids(self.random),
        )

    def _carry_out(self, name: str) -> str:
        plan = self.open_plans[name]
        config, otto = self.world.config, self.world.otto
        request = DrainRequest(plan=plan, change_ref=REFERENCE, remediation="simulated")
        options = DrainOptions(batch=self.random.choice((1, 3)), sleep=no_sleep)
        try:
            prepared = prepare_drain(config, self.stores, default_catalogue(), request, by=otto)
            with _disturbed(self.queue_faults):
                report = self._desk().drain(prepared, options, by=otto)
        except Refused as refusal:
            del self.open_plans[name]
            return f"{name} is refused: {refusal.code}"
        except (TransientError, Crashed) as error:
            told = f"{name} is broken off: {type(error).__name__}"
        except Exception as error:  # noqa: BLE001 - whatever ends a drain is a finding
            self.world.violations.append(f"{name} died of {type(error).__name__}: {error}")
            told = f"{name} died"
        else:
            del self.open_plans[name]
            told = f"{name}: {report.document()}"
        if name not in self._names and self._is_registered(name):
            self._names.append(name)
        self._check()
        return told

    def _is_registered(self, name: str) -> bool:
        query = "SELECT 1 FROM replay_runs WHERE replay_run_id = ?"
        return self.world.ledger.execute(query, (name,)).fetchone() is not None

    def _check(self) -> None:
        """Whatever happened: each unit that waits for a message has one, or a letter."""
        named: set[str] = set()
        for table in ("messages", "dead_letters"):
            for (body,) in self.world.messages.execute(f"SELECT body FROM {table}"):
                named |= announced_objects(body)
        waiting = {row[0] for row in self.world.ledger.execute(_WAITING)}
        self.world.violations += [f"no message leads to {uri}" for uri in sorted(waiting - named)]


@contextmanager
def _disturbed(faults: StoreFaults) -> Iterator[None]:
    """Let the queue's file fail for a drain as the ledger does."""

    def breaking(real: Any) -> Any:
        def opened(*args: Any, **options: Any) -> Any:
            made = real(*args, **options)
            disturb(made._store._database, faults)
            return made

        return opened

    with (
        mock.patch.object(draining, "open_queue", breaking(open_queue)),
        mock.patch.object(draining, "open_dead_letters", breaking(open_dead_letters)),
    ):
        yield
