"""Which records somebody wants to see."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from tallgrass.ledger.vocabulary import Intent, Status


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFilter:
    """Which records to list; all conditions hold together. Times are data times, half open."""

    datasets: Sequence[str] = ()
    statuses: Sequence[Status] = ()
    since: datetime | None = None
    until: datetime | None = None
    error_code: str | None = None
    #: Of the last attempt, or of the one that is wished for.
    intent: Intent | None = None
    #: Only succeeded units whose item is behind.
    stale: bool = False
