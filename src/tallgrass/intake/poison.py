"""Messages that no unit could be made of, as they are kept."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

#: As much of a poison body is kept: all that a queue takes.
POISON_BYTES_MAX = 1_048_576


class PoisonState(StrEnum):
    """Where a stored message stands. One that comes again as poison is open again."""

    OPEN = "open"  # nobody fed it since it came last
    BEGUN = "begun"  # a feeding was recorded and not confirmed: its message may be in the queue
    FED = "fed"  # it was put into the queue again


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPoison:
    """A poison message as it is kept: once, however often it came. Its body is asked for apart."""

    poison_id: int
    queue: str
    #: Of the whole body.
    body_sha256: str
    #: Length of the whole body, and of what is kept of it.
    body_bytes: int
    kept_bytes: int
    message_id: str | None
    error_code: str
    error_message: str
    times_seen: int
    first_seen_at: datetime
    last_seen_at: datetime
    #: The last feeding, begun or done; None while it is open.
    feed_id: str | None
    fed_at: datetime | None
    #: The message by which it was fed.
    fed_message_id: str | None

    @property
    def state(self) -> PoisonState:
        """Where it stands."""
        if self.fed_at is not None:
            return PoisonState.FED
        return PoisonState.OPEN if self.feed_id is None else PoisonState.BEGUN

    @property
    def is_cut(self) -> bool:
        """Whether only the beginning of its body is kept."""
        return self.body_bytes > self.kept_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class PoisonFilter:
    """Which stored messages are meant; all conditions hold together."""

    queue: str | None = None
    error_code: str | None = None
    #: Last seen at or after this instant.
    since: datetime | None = None
    state: PoisonState | None = None
