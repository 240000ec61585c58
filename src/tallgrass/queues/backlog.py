"""Since when the front of a backlog waits, also where the queue does not tell (SQS)."""

from datetime import datetime

from tallgrass.queues.protocol import QueueStatus


def front_of(
    status: QueueStatus | None,
    *,
    batch: int,
    newest_in_hand: datetime | None,
    before: datetime | None,
    now: datetime,
) -> datetime | None:
    """Return since when the messages at the front of a backlog wait; None if there is no backlog.

    Less than a batch is no backlog: messages of units that failed come again and again. Of a queue
    that does not tell its age, the newest message that workers have in hand tells it: messages that
    come again are older, and those that still wait were mostly sent later. While workers have none,
    the front stays what it was; at the first look (`before` is None) it is the time of that look,
    so that a backlog that nobody works on grows old.
    """
    if status is None or status.visible < batch:
        return None
    return status.oldest_sent_at or newest_in_hand or before or now
