"""What a sink is: takes events, says for each what became of it.

A sink of your own is a function from its settings to a `Sink`, named by an entry point of the group
``tallgrass.sinks``; its name is the `kind` of a target in the configuration.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from tallgrass.outbox.event import OutboxEvent

#: Group of entry points.
ENTRY_POINTS = "tallgrass.sinks"
#: No target can put an event off for longer than this.
RETRY_AFTER_S_MAX = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """The target has the event for good."""

    #: Whether it said that it had it before.
    duplicate: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Undelivered:
    """The target does not have the event, as far as is known."""

    #: A unit of the closed registry of error codes, such as `sink_unreachable` or `sink_refused`.
    code: str
    #: For people; redacted before it is stored.
    message: str
    #: Whether trying again cannot help: the row is exhausted at once.
    permanent: bool = False
    #: What the target asked to wait for.
    retry_after_s: float | None = None


Delivery = Delivered | Undelivered


class Sink(Protocol):
    """Sends events to one target. May be called from several threads at a time."""

    #: Most events of one `send`.
    batch_max: int

    def send(self, events: Sequence[OutboxEvent]) -> Sequence[Delivery]:
        """Send events in order; answer for each, in the order given.

        Returns within its own time limit, which is shorter than a lease. What it raises counts as
        undelivered, all of it, to be tried again; a ConnectionError or a TimeoutError as a target
        that is down, which is then left alone for a while.
        """

    def close(self) -> None:
        """Let connections go."""


#: Makes a sink from the settings of its target; refuses wrong ones with ConfigError.
SinkFactory = Callable[[Mapping[str, object]], Sink]
