"""Feeds poison messages to the queue again, for the command line, the API and the pages."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tallgrass.bootstrap.queues import open_queue
from tallgrass.bootstrap.stores import Stores
from tallgrass.bootstrap.workers import open_feeder
from tallgrass.config import Config
from tallgrass.governance.actors import Acting
from tallgrass.poison_feeding import Candidate, select_named, select_waiting
from tallgrass.views.poison import candidate_document

if TYPE_CHECKING:
    from tallgrass.intake.poison import StoredPoison

#: Messages of which a feeding tells more than their number.
DETAILS_MAX = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedRequest:
    """Which messages somebody wants fed, and why."""

    #: By their numbers; where none is given, all that wait, with this code if one is given.
    poison_ids: Sequence[int] = ()
    code: str | None = None
    reason: str = ""
    #: Also what is not understood, was fed already, or came from another queue.
    force: bool = False


@dataclass(slots=True)
class FeedReport:
    """What a feeding did, added up."""

    dry_run: bool
    fed: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    #: The first of them, to be told one by one.
    details: list[Candidate] = field(default_factory=list)

    def add(self, candidate: Candidate) -> None:
        """Count one message."""
        if candidate.left_out is None:
            self.fed += 1
        else:
            self.left_out[candidate.left_out.value] += 1
        if len(self.details) < DETAILS_MAX:
            self.details.append(candidate)

    @property
    def untold(self) -> int:
        """How many messages are counted only."""
        return self.fed + self.left_out.total() - len(self.details)

    def document(self) -> dict[str, object]:
        """Return the report as a JSON value."""
        return {
            "dry_run": self.dry_run,
            "fed": 0 if self.dry_run else self.fed,
            "would_feed": self.fed if self.dry_run else 0,
            "left_out": dict(sorted(self.left_out.items())),
            "messages": [candidate_document(candidate) for candidate in self.details],
            "untold": self.untold,
        }


def feed_poison(
    config: Config, stores: Stores, request: FeedRequest, *, by: Acting | None
) -> Iterator[Candidate]:
    """Put messages into the configured queue again, and tell of each; without `by`, only look."""
    chosen: Iterable[StoredPoison] = (
        select_named(stores.poison, request.poison_ids)
        if request.poison_ids
        else select_waiting(stores.poison, request.code)
    )
    feeder = open_feeder(config, stores)
    if by is None:
        yield from feeder.consider(chosen, force=request.force)
        return
    with closing(open_queue(config)) as queue:
        yield from feeder.feed(
            chosen,
            queue,
            actor=by,
            reason=request.reason,
            force=request.force,
            named=bool(request.poison_ids),
        )
