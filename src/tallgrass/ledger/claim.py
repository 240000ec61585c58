"""A unit that a worker holds, and the lease by which it holds it."""

from dataclasses import dataclass

from tallgrass.ledger.outcome import Verdict
from tallgrass.ledger.receipt import Decision
from tallgrass.ledger.unit import IngestUnit
from tallgrass.ledger.vocabulary import Intent, Status
from tallgrass.made_often import made_often


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerLease:
    """Who holds units: one process. `worker_id` is a logical name that several may share."""

    #: Random for each process; the owner of its open attempts.
    incarnation: str
    worker_id: str
    ingest_run_id: str
    lease_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnedItem:
    """The catalog item of a unit, as its hash."""

    collection_id: str
    item_id: str
    sha256: str
    #: The activity that it stands for.
    activity_id: str | None = None


@made_often
class Replayed:
    """What a replay repeats: how its units were chosen, and the last attempt before it."""

    #: `single`, `range` or `dlq`; None where the run is not known.
    mode: str | None = None
    #: The pipeline run of that attempt, and its number; None if there was none.
    original_run: str | None = None
    original_attempt: int | None = None


NOT_REPLAYED = Replayed()


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """An open attempt. Only its holder may close it, and only while its lease stands."""

    unit: IngestUnit
    #: The fencing token.
    attempt_no: int
    #: Version of the record after the claim; the close compares it.
    version: int
    intent: Intent
    #: PENDING, or SUCCEEDED for a re-run, whose failure leaves the unit as it is.
    claimed_from: Status
    budget_from: int
    #: The replay run that asked for it.
    replay_run_id: str | None
    #: The item that the unit owns already; comparing with it needs no further read.
    owned_item: OwnedItem | None = None
    #: Whether a queue message stands behind it; otherwise the ledger itself retries it.
    has_message: bool
    #: Why the last replay asked for it; `none` if there was none.
    replay_reason: str = "none"
    replayed: Replayed = NOT_REPLAYED

    @property
    def wal_id(self) -> str:
        """The unit's id."""
        return self.unit.wal_id


@made_often
class Receipt:
    """What became of one announced unit; with a claim if it is to be worked on now."""

    unit: IngestUnit
    decision: Decision
    claim: Claim | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedClaim:
    """What the commit made of a claim."""

    verdict: Verdict
    #: Of the outcome; None for a success.
    error_code: str | None = None
    #: The back-off that the commit drew and recorded.
    retry_s: float = 0.0


#: What the commit of an ordinary unit makes of its claim.
SUCCEEDED = ClosedClaim(verdict=Verdict.SUCCEEDED)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitResult:
    """What became of each claim of a batch."""

    #: By wal_id, of the claims that this worker still held.
    closed: dict[str, ClosedClaim]
    #: Claims that were no longer this worker's; nothing of them was written.
    lost: tuple[str, ...] = ()
