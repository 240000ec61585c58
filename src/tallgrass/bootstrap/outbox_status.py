"""Where events stand, by target, and sending exhausted ones again."""

import uuid
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime

from tallgrass.bootstrap.outbox import chosen_targets, stopped_datasets
from tallgrass.bootstrap.stores import Stores
from tallgrass.clock import age_s
from tallgrass.config import Config
from tallgrass.error_codes import nearest, registry
from tallgrass.errors import InvalidInput, Refused, UnknownRecord, did_you_mean
from tallgrass.governance.actors import Acting
from tallgrass.outbox.breaker import DOWN
from tallgrass.outbox.deliveries import (
    DeliveryFilter,
    LastFailure,
    Requeued,
    StoredDelivery,
    TargetCounts,
    TransactionWait,
    WholeDelivery,
)
from tallgrass.outbox.dispatch_rules import DeliveryState
from tallgrass.views.text import plain


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxStatus:
    """What is told of the outbox, by target."""

    counts: Mapping[str, TargetCounts]
    #: Events behind an exhausted one, by dataset.
    held: Mapping[str, Mapping[str, int]]
    waits: Mapping[str, TransactionWait]
    failures: Mapping[str, LastFailure]
    #: Targets that the configuration declares.
    known: AbstractSet[str]
    #: Datasets whose events a switch holds; `*` for all.
    stopped: Sequence[str]
    now: datetime

    @property
    def names(self) -> list[str]:
        """All targets, in order."""
        return sorted({*self.counts, *self.known})

    def counts_of(self, name: str) -> TargetCounts:
        """Return the counts of a target; one that has no events has none of any kind."""
        return self.counts.get(name, TargetCounts(target=name, dispatched=0))

    def down(self, name: str) -> LastFailure | None:
        """Return how a target failed last, if it seems to be down and may be paused."""
        failure = self.failures.get(name)
        return failure if failure is not None and failure.error_code in DOWN else None


def read_outbox_status(
    config: Config, stores: Stores, *, now: datetime, with_dispatched: bool = True
) -> OutboxStatus:
    """Count the events of each target by where they stand; tell what keeps them."""
    ordered = [target.name for target in chosen_targets(config) if target.ordered]
    deliveries = stores.deliveries
    waits = {name: deliveries.waits_for_transaction(name) for name in ordered}
    return OutboxStatus(
        counts=deliveries.counts(with_dispatched=with_dispatched),
        held={name: deliveries.held_back(name) for name in ordered},
        waits={name: wait for name, wait in waits.items() if wait is not None},
        failures=deliveries.last_failures(),
        known=frozenset(config.routing.targets),
        stopped=stopped_datasets(stores),
        now=now,
    )


def require_target(config: Config, stores: Stores, name: str) -> None:
    """Refuse an unknown target; one that is no longer declared may still have events."""
    known = {*config.routing.targets, *stores.deliveries.counts()}
    if name not in known:
        hint = did_you_mean(name, known)
        raise InvalidInput(f"there is no target {name!r}{hint}", code="unknown_target")


def status_document(status: OutboxStatus) -> dict[str, object]:
    """Return the counts of each target, with what is odd about it."""
    return {
        "stopped": list(status.stopped),
        "targets": [
            {
                **plain(status.counts_of(name)),
                "oldest_s": age_s(status.counts_of(name).oldest_at, status.now),
                "declared": name in status.known,
                "held_back": dict(status.held.get(name, {})),
                "waits_for_transaction": plain(status.waits.get(name)),
                "down": plain(status.down(name)),
            }
            for name in status.names
        ],
    }


def delivery_document(delivery: StoredDelivery) -> dict[str, object]:
    """Return a delivery's facts."""
    document: dict[str, object] = plain(delivery)
    return document


def whole_document(whole: WholeDelivery) -> dict[str, object]:
    """Return a delivery with its event, payload and attempts."""
    event = whole.event._asdict()
    del event["trace"]  # of a send that is under way
    return {
        **delivery_document(whole.delivery),
        "event": plain(event),
        "attempts": [plain(each) for each in whole.attempts],
    }


def delivery_filter(
    *,
    target: str | None = None,
    dataset: str | None = None,
    event_name: str | None = None,
    code: str | None = None,
    state: DeliveryState | None = None,
) -> DeliveryFilter:
    """Read the conditions as people write them."""
    require_code(code)
    return DeliveryFilter(
        target=target, dataset=dataset, event_name=event_name, error_code=code, state=state
    )


def event_id(text: str) -> str:
    """Return the id of an event in its one form."""
    try:
        return str(uuid.UUID(text))
    except ValueError:
        message = f"{text!r} is no id of an event"
        raise InvalidInput(message) from None


def require_code(code: str | None) -> None:
    """Refuse a code that no event can have."""
    if code is not None and code not in registry():
        message = f"no event can have the code {code!r}{nearest(code)}"
        raise InvalidInput(message, code="unknown_code")


def find_delivery(stores: Stores, outbox_id: str) -> WholeDelivery:
    """Return one event with its payload and attempts."""
    wanted = event_id(outbox_id)
    whole = stores.deliveries.find(wanted)
    if whole is None:
        raise UnknownRecord(f"there is no event {wanted}", code="outbox_unknown")
    return whole


@dataclass(frozen=True, slots=True, kw_only=True)
class RequeueRequest:
    """Which exhausted events are to be sent again."""

    #: By their ids; where none is given, all of the target and with the code, if these are given.
    outbox_ids: Sequence[str] = ()
    target: str | None = None
    code: str | None = None


def requeue(stores: Stores, request: RequeueRequest, *, by: Acting, reason: str) -> Requeued:
    """Send exhausted events again, with all their attempts anew."""
    require_code(request.code)
    if request.outbox_ids:
        wanted = [event_id(each) for each in request.outbox_ids]
        return stores.outbox.requeue(wanted, actor=by, reason=reason)
    pages = stores.outbox.requeue_all(
        target=request.target, error_code=request.code, actor=by, reason=reason
    )
    return Requeued(requeued=tuple(each for page in pages for each in page), left_out={})


def refuse_left_out(done: Requeued) -> None:
    """Raise where a named event could not be requeued."""
    if not done.left_out:
        return
    unknown = all(state is None for state in done.left_out.values())
    if unknown and not done.requeued:
        message = f"there is no event {_some(list(done.left_out))}"
        raise UnknownRecord(message, code="outbox_unknown")
    total = len(done.left_out) + len(done.requeued)
    message = f"{len(done.left_out)} of {total} events were not requeued"
    raise Refused(message, code="outbox_not_requeued")


def _some(ids: Sequence[str]) -> str:
    return ids[0] if len(ids) == 1 else f"{ids[0]} nor the {len(ids) - 1} others"
