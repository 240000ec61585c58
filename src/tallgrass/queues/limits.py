"""What every queue refuses, before anything is changed: SQS's limits."""

import re
from collections.abc import Sequence

from tallgrass.errors import InvalidInput
from tallgrass.queues.protocol import BODY_BYTES_MAX, VISIBILITY_S_MAX

#: A receive that waits on SQS does so in polls of this length, so that a worker told to stop soon
#: does.
POLL_S_MAX = 2

#: Characters that SQS does not keep as they are.
NO_TEXT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")


def is_sendable(body: bytes, *, as_text: bool) -> bool:
    """Tell whether a queue takes a body; SQS takes it as text only."""
    if not 0 < len(body) <= BODY_BYTES_MAX:
        return False
    if not as_text:
        return True
    try:
        return NO_TEXT.search(body.decode()) is None
    except UnicodeDecodeError:
        return False


def require_bodies(queue: str, bodies: Sequence[bytes]) -> None:
    """Refuse a batch with a body that is empty or too long."""
    for number, body in enumerate(bodies, start=1):
        if not 0 < len(body) <= BODY_BYTES_MAX:
            raise InvalidInput(
                f"queue {queue}: message {number} of {len(bodies)} has {len(body):,} "
                f"bytes; a queue takes 1 to {BODY_BYTES_MAX:,}. Nothing was sent"
            )


def require_visibility(queue: str, changes: Sequence[tuple[str, float]]) -> None:
    """Refuse a batch that would hide a message for longer than a queue can."""
    for _, seconds in changes:
        if not 0 <= seconds <= VISIBILITY_S_MAX:
            raise InvalidInput(
                f"queue {queue}: cannot hide a message for {seconds:g} s; "
                f"it must be between 0 and {VISIBILITY_S_MAX:g} s"
            )
