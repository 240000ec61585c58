"""Live figures: one reader for all who look, however many they are.

A look at the pipeline costs some queries, so everybody who asks within a few seconds gets the same
look. While somebody listens, a thread looks every few seconds and wakes the listeners; otherwise it
looks now and then, so that charts have a past to draw. Looks take at most a fifth of the thread's
time: on a large ledger a look takes longer, and looks come less often. If the database cannot be
reached, the error is what listeners are shown, until the database answers again.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from tallgrass.api.once import Once
from tallgrass.errors import TallgrassError, TransientError
from tallgrass.ledger.vocabulary import Status

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tallgrass.views.status import Overview

#: Seconds between two looks while somebody listens, and while nobody does.
EVERY_S = 2.0
SELDOM_S = 15.0
#: A page shows a look that is no older than this.
RECENT_S = 2 * SELDOM_S
#: After a look comes a rest of so many times what it took.
REST = 4.0
#: Throughput is that of so many seconds.
SMOOTHED_S = 60.0
LISTENERS_MAX = 200
#: Looks that are remembered: half an hour of the seldom ones.
PAST_MAX = 120
_LOG = logging.getLogger("tallgrass.api")


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The result of one look: an overview, or the error that prevented it."""

    number: int
    #: On the clock that only goes forward.
    taken_at: float
    overview: Overview | None
    error: TallgrassError | None = None
    #: Of a look that found something: a database that comes back is seen soon.
    took_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Moment:
    """What is kept of a past look."""

    taken_at: float
    succeeded: int


class Figures:
    """Holds the latest look, and wakes whoever waits for the next one."""

    def __init__(
        self,
        look: Callable[[], Overview],
        *,
        monotonic: Callable[[], float],
        age_s: float = 1.0,
        recent_s: float = RECENT_S,
        every_s: float = EVERY_S,
        seldom_s: float = SELDOM_S,
    ) -> None:
        self._look = look
        self._monotonic = monotonic
        self._age_s = age_s
        self._recent_s = recent_s
        self._every_s = every_s
        self._seldom_s = seldom_s
        self._looking = threading.Lock()
        self._latest: Snapshot | None = None
        #: That of the look that began last; it may be under way.
        self._number = 0
        #: Looks up to this number are too old for a page.
        self._expired = 0
        self._past: deque[Moment] = deque(maxlen=PAST_MAX)
        self._listeners: set[Listener] = set()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False
        #: The event of a look, parts of pages that show it, and who of the listeners may still.
        self.events: Once[bytes] = Once()
        self.fragments: Once[bytes] = Once()
        self.admitted: Once[bool] = Once()

    def overview(self) -> Overview:
        """Return a look that is young enough; raise what the database raised."""
        snapshot = self.snapshot()
        if snapshot.overview is None:
            raise snapshot.error or AssertionError
        return snapshot.overview

    def recent(self) -> Overview:
        """Return the last look if it is of the last half minute: pages must not wait for a new one.

        The thread that looks keeps it young, and live events bring the next.
        """
        return self.recent_look()[1]

    def recent_look(self) -> tuple[int, Overview]:
        """Return the same, with the number of the look."""
        latest = self._latest
        self.start()
        if latest is None or latest.overview is None or not self._is_recent(latest):
            latest = self.snapshot()
        if latest.overview is None:
            raise latest.error or AssertionError
        return latest.number, latest.overview

    def _is_recent(self, latest: Snapshot) -> bool:
        young = self._monotonic() - latest.taken_at < self._recent_s
        return young and self._expired < latest.number

    def expire(self) -> None:
        """Let no page show a look that began before now: somebody has changed something."""
        self._expired = self._number

    def snapshot(self) -> Snapshot:
        """Return a look that is young enough; many who ask at once share one."""
        with self._looking:
            latest = self._latest
            if latest is not None and self._is_young(latest):
                return latest
            self._number += 1
            snapshot = self._take(self._number)
            self._latest = snapshot
            if snapshot.overview is not None:
                succeeded = snapshot.overview.by_status[Status.SUCCEEDED.value]
                self._past.append(Moment(snapshot.taken_at, succeeded))
        self._wake()
        return snapshot

    def _is_young(self, latest: Snapshot) -> bool:
        """Tell whether a look may be shared: for longer where it took longer."""
        age_s = min(self._age_s * max(1.0, (1 + REST) * latest.took_s), self._recent_s)
        young = self._monotonic() - latest.taken_at < age_s
        return young and self._expired < latest.number

    def _take(self, number: int) -> Snapshot:
        began = self._monotonic()
        found: Overview | None = None
        error: TallgrassError | None = None
        try:
            found = self._look()
        except TallgrassError as exc:
            error = exc
        now = self._monotonic()
        return Snapshot(
            number=number,
            taken_at=now,
            overview=found,
            error=error,
            took_s=0.0 if found is None else now - began,
        )

    def throughput(self) -> list[float]:
        """Return units a minute that reached the catalog, at the looks that are remembered."""
        return rates(list(self._past))

    @property
    def latest(self) -> Snapshot | None:
        """The last look, however old."""
        return self._latest

    def require_room(self) -> None:
        """Refuse one listener too many, while there is still an answer to refuse it by."""
        if self._closed or len(self._listeners) >= LISTENERS_MAX:
            raise TransientError("too many listen already", code="server_busy")

    @contextmanager
    def listening(self) -> Iterator[Listener]:
        """Listen to looks until the end of the block; in the loop that waits for them."""
        listener = Listener(self)
        with self._changed:
            self._listeners.add(listener)
            self._changed.notify_all()
        self.start()
        try:
            yield listener
        finally:
            with self._changed:
                self._listeners.discard(listener)

    def start(self) -> None:
        """Start the thread that looks, once."""
        with self._changed:
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(target=self._run, name="figures", daemon=True)
                self._thread.start()

    def end_listening(self) -> None:
        """Let all listeners end; the thread as well."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._wake()

    def close(self) -> None:
        """End everything and wait for the thread."""
        self.end_listening()
        if self._thread is not None:
            self._thread.join()

    @property
    def closed(self) -> bool:
        """Whether the server is about to end."""
        return self._closed

    def _run(self) -> None:
        while not self._closed:
            try:
                self.snapshot()
            except Exception:  # noqa: BLE001 - the reader must outlive what nobody expected
                _LOG.exception("reading the figures")
            with self._changed:
                if not self._closed:
                    self._changed.wait(self.rest_s())

    def rest_s(self) -> float:
        """Return how long the thread rests before it looks again."""
        rest_s = self._every_s if self._listeners else self._seldom_s
        took_s = 0.0 if self._latest is None else self._latest.took_s
        return max(rest_s, min(REST * took_s, self._seldom_s))

    def _wake(self) -> None:
        with self._changed:
            listeners = list(self._listeners)
        for listener in listeners:
            listener.wake()


class Listener:
    """Somebody who waits in an event loop for the next look."""

    def __init__(self, figures: Figures) -> None:
        self._figures = figures
        self._loop = asyncio.get_running_loop()
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """Tell that there is something new; from any thread."""
        try:
            self._loop.call_soon_threadsafe(self._woken.set)
        except RuntimeError:  # its loop has ended, and so has it
            return

    async def next(self, after: int, wait_s: float) -> Snapshot | None:
        """Return a look with a higher number; None when there was none for so long."""
        until = self._loop.time() + wait_s
        while not self._figures.closed:
            # Cleared before the look is read: one that comes now is not slept through.
            self._woken.clear()
            latest = self._figures.latest
            if latest is not None and latest.number > after:
                return latest
            try:
                await asyncio.wait_for(self._woken.wait(), until - self._loop.time())
            except TimeoutError:
                break
        return None


def rates(past: Sequence[Moment]) -> list[float]:
    """Return units a minute at each look but the first, over the minute before it.

    Between two looks alone, units that come singly would make it leap. A restored database, which
    has fewer, counts as none.
    """
    return [rate for number in range(1, len(past)) if (rate := _rate(past, number)) is not None]


def _rate(past: Sequence[Moment], number: int) -> float | None:
    latest = past[number].taken_at
    young = (each for each in range(number) if latest - past[each].taken_at <= SMOOTHED_S)
    window = past[next(young, number - 1) : number + 1]
    gained = sum(max(0, after.succeeded - before.succeeded) for before, after in pairwise(window))
    seconds = latest - window[0].taken_at
    return gained * 60 / seconds if seconds > 0 else None
