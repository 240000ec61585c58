"""Confirming a subscription: SNS asks a new endpoint once whether it wants the messages.

Off unless it is asked for. Even then only for a message that SNS signed, of a topic that may send,
and only by the one address that confirms that very topic. SNS takes a repeated confirmation as the
first, so a message that comes again does no harm.
"""

from collections.abc import Callable

from tallgrass.errors import InvalidInput, TransientError
from tallgrass.intake.message import (
    Deferred,
    Ignored,
    IgnoreReason,
    ParsedMessage,
    Poison,
)
from tallgrass.intake.parse import Admission
from tallgrass.intake.sns_signature import CONFIRMATION, confirmation_address
from tallgrass.intake.strict_json import load_strict
from tallgrass.queues.sns_https import Get

#: The code of a message that asks for a confirmation.
UNCONFIRMED = "subscription_unconfirmed"

#: Takes the body of a message that asks for a confirmation and tells what became of it; None for a
#: body that only holds such a message somewhere inside.
Confirmer = Callable[[bytes], ParsedMessage | None]

_OK = 200
_REFUSALS = range(400, 500)
_BUSY = 429


def confirmer(admit: Admission, get: Get) -> Confirmer:
    """Return what confirms the subscriptions that `admit` lets through."""

    def confirm(body: bytes) -> ParsedMessage | None:
        try:
            envelope = load_strict(body)
            if not isinstance(envelope, dict) or envelope.get("Type") != CONFIRMATION:
                return None
            # First, as it needs no certificate: a message with a bad address makes nobody ask.
            address = confirmation_address(envelope)
            admit(envelope)
            return _answered(get(address).status)
        except InvalidInput as exc:
            return ParsedMessage(poison=Poison(code=exc.code, message=str(exc)))
        except TransientError as exc:
            return ParsedMessage(deferred=Deferred(code=exc.code, message=str(exc)))
        except OSError as exc:
            return _deferred(str(exc) or type(exc).__name__)

    return confirm


def _answered(status: int) -> ParsedMessage:
    if status == _OK:
        return ParsedMessage(ignored=(Ignored(reason=IgnoreReason.SUBSCRIPTION_CONFIRMED.value),))
    if status in _REFUSALS and status != _BUSY:
        # An old token: the subscription must be asked for again.
        raise InvalidInput(f"SNS answered HTTP {status}", code="subscription_refused")
    return _deferred(f"HTTP {status}")


def _deferred(problem: str) -> ParsedMessage:
    return ParsedMessage(
        deferred=Deferred(code="subscription_unanswered", message=f"confirming: {problem}")
    )
