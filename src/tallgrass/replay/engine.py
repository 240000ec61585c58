"""The replay engine: puts the records of a plan to work, batch by batch, and sees them through.

Records become due in the ledger; no message is needed. A worker runs them by the phases of ingest,
through the same gates: that of the engine itself, unless somebody else's shall do it. The engine
only chooses when: not faster than its rate, not while ingest lags, not beyond the mismatches that
are allowed. It can be stopped or killed at any point, and the run be taken up again.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from tallgrass.replay.plan import WORKING, PlannedAction, SkipReason
from tallgrass.replay.run import Fate, RowCount, Run, RunReport, RunRules, RunState, report_of
from tallgrass.replay.run_totals import RunTotals

#: Rest between looks at work that others do, and at an ingest that lags.
REST_S = 0.2
LAG_REST_S = 1.0

#: Why a batch waits.
INGEST_LAGS = "ingest_lag"
RATE = "rate"


class RunStore(Protocol):
    """Runs as the engine needs them; each verb is one transaction."""

    def apply(self, run: Run, rows: Sequence[PlannedAction], rules: RunRules) -> list[Fate]:
        """Put planned records to work."""

    def apply_held(self, run: Run, rules: RunRules, *, after: str | None, size: int) -> list[str]:
        """Take up records that a switch held; return those that were looked at."""

    def settle(self, run: Run) -> int:
        """Close the records whose units nobody will run any more."""

    def finish(self, run: Run) -> None:
        """Note that the run came to its end."""


class RunView(Protocol):
    """What the engine looks at."""

    def counts(
        self, run: Run, *, after: str | None = None, upto: str | None = None
    ) -> list[RowCount]:
        """Count the rows of a run, or those behind one of them and up to another."""

    def waiting(self, run: Run) -> int:
        """Count the records that can be worked on now, or are being worked on."""


class Work(Protocol):
    """A worker of the engine's own."""

    def run_due(self) -> int:
        """Work on one batch of due units; return how many there were."""

    def recover(self) -> None:
        """Free what lost workers held."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How fast a run may go."""

    batch: int
    records_per_s: float
    lag_s_max: float
    #: The run is stopped beyond so many.
    mismatches_max: int

    @property
    def together(self) -> int:
        """How many records are put to work at once."""
        return within_rate(self.batch, self.records_per_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """Time, and what is asked from outside."""

    sleep: Callable[[float], object]
    monotonic: Callable[[], float]
    #: For how long the oldest work of ingest has waited.
    ingest_lag_s: Callable[[], float]
    stop: Callable[[], bool] = lambda: False
    #: Told after each batch.
    progress: Callable[[RunReport], None] = lambda _report: None
    #: Told once each time that the run begins to wait for ingest, with the lag.
    lagging: Callable[[float], None] = lambda _lag_s: None
    #: Told each time that a batch waits, with why: `ingest_lag` or `rate`.
    throttled: Callable[[str], None] = lambda _reason: None
    #: Told of each batch that was put to work and worked off: its records, and its seconds.
    batched: Callable[[Run, int, float], None] = lambda _run, _records, _seconds: None


def within_rate(batch: int, per_s: float) -> int:
    """Return how much of a batch goes at once: no more than a second's worth, and at least one."""
    return max(1, int(min(batch, per_s)))


def wait_s(applied: int, elapsed_s: float, records_per_s: float) -> float:
    """Return how long to rest so that so many records were not put to work too fast."""
    return max(0.0, applied / records_per_s - elapsed_s)


def batches_of(rows: Iterable[PlannedAction], pace: Pace) -> Iterator[list[PlannedAction]]:
    """Cut the rows of a plan into batches, in their order; those beyond its cap are left out.

    Rows that put nothing to work take none of the rate.
    """
    batch: list[PlannedAction] = []
    working, together = 0, pace.together
    for row in rows:
        if row.reason == SkipReason.BEYOND_MAX_EVENTS:
            continue
        works = row.action in WORKING
        if len(batch) == pace.batch or (works and working == together):
            yield batch
            batch, working = [], 0
        batch.append(row)
        working += works
    if batch:
        yield batch


class Engine:
    """Runs one replay."""

    def __init__(
        self,
        store: RunStore,
        view: RunView,
        rules: RunRules,
        pace: Pace,
        around: Surroundings,
        *,
        work: Work | None = None,
    ) -> None:
        self._store = store
        self._view = view
        self._rules = rules
        self._pace = pace
        self._around = around
        self._work = work
        self._totals: RunTotals

    def run(self, run: Run, rows: Iterable[PlannedAction]) -> RunReport:
        """Apply the rows that come after those applied before, and see all records through."""
        self._totals = self._begun(run)
        if self._take_up_held(run) and self._apply_all(run, _behind(rows, run.applied_to)):
            # Switches that were turned meanwhile may be back.
            self._take_up_held(run)
            self._see_through(run)
        self._store.settle(run)
        report = self._report(run, self._view.counts(run))
        if report.state is RunState.FINISHED:
            self._store.finish(run)
        return report

    def _apply_all(self, run: Run, rows: Iterable[PlannedAction]) -> bool:
        """Apply batch after batch; return whether none is left."""
        for batch in batches_of(rows, self._pace):
            self._wait_for_ingest()
            if self._around.stop():
                return False
            began = self._around.monotonic()
            fates = self._store.apply(run, batch, self._rules)
            self._work_off(run, len(batch), began)
            self._pause(sum(fate.is_put_to_work for fate in fates), began)
            if self._has_failed(run, len(batch), upto=batch[-1].wal_id):
                return False
        return True

    def _take_up_held(self, run: Run) -> bool:
        """Look once at all records that a switch held; return whether the run may go on."""
        after: str | None = None
        handled = 0
        while not self._around.stop() and not self._has_failed(run, handled):
            began = self._around.monotonic()
            seen = self._store.apply_held(run, self._rules, after=after, size=self._pace.together)
            if not seen:
                return True
            after, handled = seen[-1], len(seen)
            self._work_off(run, len(seen), began)
            self._pause(len(seen), began)
        return False

    def _work_off(self, run: Run, records: int, began: float) -> None:
        """Run what is due, as long as there is something; that ends the batch."""
        while self._work is not None and not self._around.stop() and self._work.run_due():
            pass
        self._around.batched(run, records, self._around.monotonic() - began)

    def _see_through(self, run: Run) -> None:
        """Work until no record waits for a worker; those that back off are the ledger's to retry.

        Without a worker of its own the engine leaves them to others.
        """
        while self._work is not None and not self._around.stop() and self._view.waiting(run):
            self._work.recover()
            if not self._work.run_due():
                self._around.sleep(REST_S)

    def _wait_for_ingest(self) -> None:
        """Let ingest catch up first; help it while waiting."""
        told = False
        while (lag_s := self._around.ingest_lag_s()) > self._pace.lag_s_max:
            if self._around.stop():
                return
            if not told:
                self._around.lagging(lag_s)
                self._around.throttled(INGEST_LAGS)
                told = True
            if self._work is None or not self._work.run_due():
                self._around.sleep(LAG_REST_S)

    def _pause(self, records: int, began: float) -> None:
        """Rest for what is left of a batch's time; slow ones before it earn it no haste."""
        elapsed_s = self._around.monotonic() - began
        if rest_s := wait_s(records, elapsed_s, self._pace.records_per_s):
            self._around.throttled(RATE)
            self._around.sleep(rest_s)

    def _has_failed(self, run: Run, handled: int, *, upto: str | None = None) -> bool:
        """Tell whether there are more mismatches than are allowed."""
        report = self._report(run, self._totals.add(handled, upto))
        self._around.progress(report)
        return report.state is RunState.MISMATCHED

    def _begun(self, run: Run) -> RunTotals:
        """Count what the run has come to before."""

        def count(after: str | None, upto: str) -> list[RowCount]:
            return self._view.counts(run, after=after, upto=upto)

        return RunTotals(count, run.applied_to)

    def _report(self, run: Run, counts: list[RowCount]) -> RunReport:
        return report_of(run, counts, mismatches_max=self._pace.mismatches_max)


def _behind(rows: Iterable[PlannedAction], wal_id: str | None) -> Iterator[PlannedAction]:
    return (row for row in rows if wal_id is None or row.wal_id > wal_id)
