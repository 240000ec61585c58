"""What the rows of a run add up to while it goes on, without counting all of them at each batch.

A row that has its outcome keeps it: the database refuses anything else. So what was counted once
stays right but for rows that were still due then. Those are few while the engine's own worker
follows it, and nearly all where others do the work. They are counted anew, with all the rest, each
time that the run has grown by a share: however large it is, a row is counted a few times only.
"""

from collections.abc import Callable, Iterable

from tallgrass.replay.run import RowCount, RowOutcome

#: Counted anew after each eighth: a row is counted about eight times more, at a microsecond each.
SHARE = 8

#: Counts the rows behind the first id, or all if there is none, up to and with the second.
CountRows = Callable[[str | None, str], list[RowCount]]


class RunTotals:
    """The rows of a run up to the one that its engine has come to."""

    def __init__(self, count: CountRows, applied_to: str | None) -> None:
        self._count = count
        self._upto = applied_to
        self._since = 0
        self.counts: list[RowCount] = [] if applied_to is None else count(None, applied_to)

    def add(self, handled: int, upto: str | None = None) -> list[RowCount]:
        """Return the totals after a batch: how many rows it went through, and up to which one."""
        self._since += handled
        after = self._upto
        if upto is not None and (after is None or upto > after):
            self._upto = upto
        if self._upto is None:
            return self.counts
        if self._is_outdated():
            self._since = 0
            self.counts = self._count(None, self._upto)
        elif self._upto != after:
            self.counts = _merged(self.counts, self._count(after, self._upto))
        return self.counts

    def _is_outdated(self) -> bool:
        open_rows = sum(each.records for each in self.counts if each.outcome is RowOutcome.DUE)
        all_rows = sum(each.records for each in self.counts)
        return open_rows > 0 and self._since * SHARE >= all_rows


def _merged(*given: Iterable[RowCount]) -> list[RowCount]:
    """Add up counts of rows that are alike."""
    found: dict[tuple[RowOutcome, str | None, bool], tuple[int, int]] = {}
    for each in (count for counts in given for count in counts):
        kind = (each.outcome, each.reason, each.tried)
        records, mismatches = found.get(kind, (0, 0))
        found[kind] = (records + each.records, mismatches + each.mismatches)
    return [
        RowCount(outcome=outcome, reason=reason, tried=tried, records=records, mismatches=bad)
        for (outcome, reason, tried), (records, bad) in found.items()
    ]
