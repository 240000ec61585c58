"""What a demo tells: how it goes, and what is left of it when it is over."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from tallgrass.bootstrap.views import LedgerStats
    from tallgrass.governance.audit import Anchor
    from tallgrass.queues.protocol import QueueStatus
    from tallgrass.simulate.feed import FeedManifest
    from tallgrass.simulate.pipeline_proof import Proof


class Watcher:
    """Is told how the demo goes; this one does not care."""

    def begin(self, title: str, total: int) -> None:
        """A part begins."""

    def advance(self, number: int) -> None:
        """So much of it is done."""

    def end(self, title: str, told: str) -> None:
        """A part is over; this happened."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoResult:
    """What is left of a demo when it is over."""

    folder: Path
    manifest: FeedManifest
    stats: LedgerStats
    queue: QueueStatus
    #: Reason → messages that brought no unit.
    ignored: dict[str, int]
    poison: int
    items: int
    catalog_sha256: str
    #: That the pipeline worked; making the feed is not counted.
    seconds: float
    #: Units that waited while their dataset was switched off.
    parked: int
    #: Objects of the units that the dying worker held.
    taken_over: tuple[str, ...]
    head: Anchor | None
    proofs: list[Proof]

    @property
    def broken(self) -> list[str]:
        """The promises that do not hold."""
        return [proof.promise for proof in self.proofs if not proof.holds]

    @property
    def by_status(self) -> dict[str, int]:
        """Units by what became of them."""
        counts: dict[str, int] = {}
        for of_dataset in self.stats.by_dataset.values():
            for status, number in of_dataset.items():
                counts[status] = counts.get(status, 0) + number
        return counts
