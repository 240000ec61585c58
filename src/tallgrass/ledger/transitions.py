"""The one table of legal edges. Code, database triggers and documents are checked against it."""

from dataclasses import dataclass

from tallgrass.errors import IllegalTransition
from tallgrass.ledger.vocabulary import AttemptStatus, Status


@dataclass(frozen=True, slots=True)
class Edge:
    """A legal change of a record's status; `source` is None for a record that is created."""

    source: Status | None
    target: Status
    when: str


#: The seven edges; every other pair is refused by code and by the database.
EDGES: tuple[Edge, ...] = (
    Edge(None, Status.PENDING, "a unit is seen for the first time"),
    Edge(Status.PENDING, Status.IN_PROGRESS, "a worker claims it; this alone counts an attempt"),
    Edge(Status.IN_PROGRESS, Status.SUCCEEDED, "every operator reported an acceptable outcome"),
    Edge(Status.IN_PROGRESS, Status.FAILED, "a hard failure, a lost lease, or a hand-back"),
    Edge(Status.FAILED, Status.PENDING, "a retry, recovery or replay within the limits"),
    Edge(Status.PENDING, Status.QUARANTINED, "a person, or the limit reached at the claim"),
    Edge(Status.FAILED, Status.QUARANTINED, "a person, a governance rule, or the limit reached"),
)
LEGAL: frozenset[tuple[Status | None, Status]] = frozenset((e.source, e.target) for e in EDGES)

#: No edge leaves these.
TERMINAL: frozenset[Status] = frozenset(Status) - {e.source for e in EDGES if e.source}

#: The edges of an attempt; `failed → rolled_back` is recovery's alone.
ATTEMPT_EDGES: frozenset[tuple[AttemptStatus | None, AttemptStatus]] = frozenset(
    {
        (None, AttemptStatus.PENDING),
        (AttemptStatus.PENDING, AttemptStatus.APPLIED),
        (AttemptStatus.PENDING, AttemptStatus.FAILED),
        (AttemptStatus.FAILED, AttemptStatus.ROLLED_BACK),
    }
)


def require_legal(source: Status | None, target: Status, *, wal_id: str) -> None:
    """Refuse a change of status that is not one of the seven edges."""
    if (source, target) not in LEGAL:
        raise IllegalTransition(
            f"{wal_id}: {source or 'no record'} → {target} is not a legal transition"
        )
