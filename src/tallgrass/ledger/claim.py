"""A unit that a worker holds, and the lease by which it holds it."""

from dataclasses import dataclass

from tallgrass.ledger.receipt import Decision
from tallgrass.ledger.unit import IngestUnit
from tallgrass.ledger.vocabulary import Intent, Status


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerLease:
    """Who holds units: one process. `worker_id` is a logical name that several may share."""

    #: Random for each process; the owner of its open attempts.
    incarnation: str
    worker_id: str
    ingest_run_id: str
    lease_s: float


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
    #: Whether a queue message stands behind it; otherwise the ledger itself retries it.
    has_message: bool

    @property
    def wal_id(self) -> str:
        """The unit's id."""
        return self.unit.wal_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """What became of one announced unit; with a claim if it is to be worked on now."""

    unit: IngestUnit
    decision: Decision
    claim: Claim | None = None
