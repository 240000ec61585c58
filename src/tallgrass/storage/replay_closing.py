"""What a commit tells the replay runs that asked for its units, in the same transaction.

Whoever runs a unit closes its row: the engine's own worker or any other. The item as it was is
compared here with the one that takes its place, since afterwards it is gone.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import orjson

from tallgrass.ledger.claim import Claim
from tallgrass.ledger.outcome import Outcome
from tallgrass.ledger.replay_reasons import DLQ_DRAIN
from tallgrass.ledger.vocabulary import Status
from tallgrass.made_often import made_often
from tallgrass.operators.effects import Effects
from tallgrass.replay.comparison import Comparison, Made, changes_text, compare
from tallgrass.replay.run import RowOutcome
from tallgrass.storage.unit_of_work import Row, Transaction

_NO_CHANGE = Comparison()
#: The attempt ended from outside: it says nothing of the unit.
_NOT_TRIED = "handed_back"


@made_often
class ReplayClose:
    """A claim that a replay run asked for, now or before it failed once more, and how it ends."""

    claim: Claim
    outcome: Outcome
    succeeded: bool
    #: Whether the ledger will run it again by itself.
    scheduled: bool


@dataclass(slots=True)
class ReplayClosing:
    """The rows of one commit; made anew for each try of its transaction."""

    closes: Mapping[str, ReplayClose]
    effects: Mapping[str, Effects]
    _before: Sequence[Row] = ()
    #: Dataset and reason of each record that its run had executed for the first time.
    executed: list[tuple[str, str]] = field(default_factory=list)
    #: Dataset of each record that differs as nobody announced.
    mismatched: list[tuple[str]] = field(default_factory=list)
    #: Dataset of each dead letter whose units have all succeeded with this commit.
    reprocessed: list[tuple[str]] = field(default_factory=list)

    def look(self, tx: Transaction) -> None:
        """Read what is stored, before the commit replaces it."""
        if self.closes:
            self._before = tx.select("replayed_before", rows=sorted(self.closes))

    def write(self, tx: Transaction) -> None:
        """Write what came of each record."""
        if self._before:
            tx.write("close_run_records", list(self._rows()))
        if drained := self._drained():
            letters = tx.select("reprocessed_letters", rows=drained)
            self.reprocessed += [(row["dataset"],) for row in letters]

    def _drained(self) -> list[str]:
        """Return the units that a drain put back and that succeed now, whatever came between."""
        return [
            wal_id
            for wal_id, close in sorted(self.closes.items())
            if close.succeeded
            and close.claim.replay_reason == DLQ_DRAIN
            and close.claim.claimed_from is not Status.SUCCEEDED
        ]

    def _rows(self) -> Iterator[tuple[object, ...]]:
        for row in self._before:
            close = self.closes[row["wal_id"]]
            if close.outcome.error_code == _NOT_TRIED:
                continue
            dataset = close.claim.unit.dataset
            if row["attempt_no"] is None:
                self.executed.append((dataset, row["replay_reason"]))
            outcome, reason, found = RowOutcome.DONE, None, _NO_CHANGE
            if close.succeeded:
                found = self._compared(row, close)
                if found.mismatch:
                    self.mismatched.append((dataset,))
            else:
                outcome = RowOutcome.DUE if close.scheduled else RowOutcome.FAILED
                reason = close.outcome.error_code
            yield (
                row["replay_run_id"],
                row["wal_id"],
                outcome.value,
                reason,
                close.claim.attempt_no,
                found.mismatch,
                changes_text(found.changes),
            )

    def _compared(self, row: Row, close: ReplayClose) -> Comparison:
        effects = self.effects.get(row["wal_id"])
        if row["item"] is None or effects is None or effects.provenance is None:
            return _NO_CHANGE
        stored = bytes(row["item"])
        reference = close.claim.unit.object_ref
        before = Made(
            activity_id=row["prov_activity_id"],
            object_version=(row["object_version_id"], row["etag"]),
            item=stored,
            provenance=None if row["provenance"] is None else bytes(row["provenance"]),
        )
        after = Made(
            activity_id=effects.provenance.activity_id,
            object_version=(reference.version_id, close.outcome.read_etag or reference.etag),
            item=stored if effects.item is None else effects.item.body,
            provenance=effects.provenance.body,
        )
        return compare(before, after, orjson.loads(row["expected"]))
