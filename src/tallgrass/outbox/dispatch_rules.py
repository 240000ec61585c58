"""What a delivery makes of an event's row: pure, chance is passed in.

`failed` with a wait is tried again, without one it is exhausted and stays for a person. The attempt
counts from the claim on, so one whose dispatcher died counts too; one given back unsent does not.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from itertools import islice
from typing import Any, NamedTuple

from tallgrass.error_codes import is_error_code
from tallgrass.governance.gate import Action, GateRequest, gate
from tallgrass.governance.policy import Policies
from tallgrass.governance.switches import SwitchedOff
from tallgrass.outbox.event import OutboxEvent
from tallgrass.retry import Backoff
from tallgrass.sinks.protocol import RETRY_AFTER_S_MAX, Delivered, Delivery, Undelivered

_BACKOFF = Backoff(base_s=0.5, cap_s=30.0)

#: The code of whatever a sink raised or did not answer.
SINK_ERROR = "sink_error"
#: The code of what the gate does not let out.
GUARD_REFUSED = "guard_refused"

#: An event that was claimed is sent: switches are asked when it is claimed.
_CLAIMED = SwitchedOff(())


class DeliveryState(StrEnum):
    """Where the delivery of an event stands, as people see it."""

    PENDING = "pending"  # never tried, or asked for again
    IN_FLIGHT = "in_flight"  # a dispatcher has claimed it
    RETRYING = "retrying"  # failed, and due again at some time
    EXHAUSTED = "exhausted"  # failed for good, until somebody asks for it again
    DISPATCHED = "dispatched"


class AttemptOutcome(StrEnum):
    """How an attempt ended."""

    DISPATCHED = "dispatched"
    FAILED = "failed"
    LOST = "lost"  # its dispatcher was not heard of again
    RELEASED = "released"  # given back unsent


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchRules:
    """How often and how fast a delivery is tried."""

    attempts_max: int = 5
    backoff: Backoff = _BACKOFF
    #: Whoever claimed an event and was not heard of for this long has lost it.
    lease_s: float = 60.0


class ClaimedEvent(NamedTuple):
    """An event that one dispatcher may send now. A tuple, like `Settlement`: quicker to make."""

    event: OutboxEvent
    #: Attempts that count against the limit, this one included.
    tries: int


class Settlement(NamedTuple):
    """What is to be written of one claimed event."""

    event: OutboxEvent
    outcome: AttemptOutcome
    #: Until it is due again; None if it never is.
    wait_s: float | None = None
    error_code: str | None = None
    error: str | None = None
    #: Whether the target said that it had the event before.
    duplicate: bool = False

    @property
    def exhausted(self) -> bool:
        """Whether it failed for good."""
        return self.outcome is AttemptOutcome.FAILED and self.wait_s is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """What a claim gave."""

    events: Sequence[ClaimedEvent] = ()
    #: Due events that no try was left for: given up by the claim itself.
    exhausted: Sequence[Settlement] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """What came of writing a batch of settlements."""

    #: By the database's clock.
    at: datetime
    #: Events whose lease had ended: another has them now, and nothing was written of them.
    lost: frozenset[str]


def refusal_of(event: OutboxEvent, policies: Policies) -> str | None:
    """Return why an event must not leave under the policies of today, or None."""
    admission = gate(
        GateRequest(
            action=Action.DISPATCH,
            dataset=event.dataset_id,
            policy=policies.of(event.dataset_id),
            switched_off=_CLAIMED,
            care_label=event.care_label,
            governance_ref=event.governance_ref,
        )
    )
    return None if admission.rule is None else f"{admission.rule.value}: {admission.refusal}"


def settle(
    claimed: ClaimedEvent, delivery: Delivery, rules: DispatchRules, random: Callable[[], float]
) -> Settlement:
    """Decide what becomes of an event after one send."""
    event = claimed.event
    if isinstance(delivery, Delivered):
        return Settlement(
            event=event, outcome=AttemptOutcome.DISPATCHED, duplicate=delivery.duplicate
        )
    spent = delivery.permanent or claimed.tries >= rules.attempts_max
    return Settlement(
        event=event,
        outcome=AttemptOutcome.FAILED,
        wait_s=None if spent else wait_s(claimed.tries, delivery.retry_after_s, rules, random),
        error_code=delivery.code if is_error_code(delivery.code) else SINK_ERROR,
        error=delivery.message,
    )


def put_behind(settlement: Settlement, pause_s: float) -> Settlement:
    """Let an event that was tried in vain wait until the target is tried next.

    It is behind those that are due by then: whatever is wrong with it, the others get their turn.
    """
    if settlement.wait_s is None:
        return settlement
    return settlement._replace(wait_s=max(settlement.wait_s, pause_s))


def release(claimed: ClaimedEvent) -> Settlement:
    """Give an event back that was not sent; it is due at once."""
    return Settlement(event=claimed.event, outcome=AttemptOutcome.RELEASED, wait_s=0.0)


def wait_s(
    tries: int, retry_after_s: float | None, rules: DispatchRules, random: Callable[[], float]
) -> float:
    """Return the wait after a failure: full jitter inside the cap, on top of what was asked for.

    On top, so that a thousand events that are told the same time do not come back together.
    """
    asked = retry_after_s if retry_after_s is not None and math.isfinite(retry_after_s) else 0.0
    jitter = rules.backoff.delay_s(tries, random)
    return min(max(asked, 0.0), RETRY_AFTER_S_MAX) + jitter


def answers(count: int, given: object) -> Sequence[Delivery]:
    """Return a sink's answers, or none of them if they are not one for each event.

    Which of them would belong to which event is anybody's guess. Sinks are written by others: an
    answer that is none counts as undelivered, and whatever yields them may raise.
    """
    if not isinstance(given, Iterable):
        message = f"the sink answered {type(given).__name__}, not a list"
        return [_undelivered(message)] * count
    found = list(islice(given, count + 1))
    if len(found) != count:
        message = f"the sink answered {_times(len(found), count)} for {count} events"
        return [_undelivered(message)] * count
    return [_answer(each) for each in found]


def _times(found: int, count: int) -> str:
    return f"{found} times" if found < count else f"more than {count} times"


def _answer(given: object) -> Delivery:
    """Return an answer whose parts are what they must be, or that it is none."""
    if isinstance(given, Delivered) and isinstance(given.duplicate, bool):
        return given
    if isinstance(given, Undelivered) and _is_whole(given):
        return given
    return _undelivered(f"the sink gave no Delivered or Undelivered, but {type(given).__name__}")


def _is_whole(given: Any) -> bool:
    return (
        isinstance(given.code, str)
        and isinstance(given.message, str)
        and isinstance(given.permanent, bool)
        and (given.retry_after_s is None or isinstance(given.retry_after_s, int | float))
    )


def _undelivered(message: str) -> Undelivered:
    return Undelivered(code=SINK_ERROR, message=message)
