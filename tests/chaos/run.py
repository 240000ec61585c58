"""A chaotic run: processes are forked, killed and frozen while they work; then all comes to rest.

The parent has no connection and no thread, so it can fork at any time; all that needs one is done
in a child.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
import traceback
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from tallgrass.simulate.feed import Feed
from tallgrass.simulate.feed_plan import FeedFaults
from tests.chaos import roles
from tests.chaos.arena import ATTEMPTS_MAX, LEASE_S
from tests.chaos.judgement import judge, unfinished_graphs
from tests.chaos.points import POINTS, Points, install
from tests.chaos.roles import ROLES, connect, end_quietly

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from random import Random

    from tests.chaos.arena import Arena

#: The processes that live at the same time.
CAST = ("worker", "worker", "dispatcher", "replayer", "node")
UNITS_A_CYCLE = 8
RESTART_EVERY_S = 4.0
#: So many are never frozen at the same time.
AWAKE_MIN = 2
#: A process that does not come to its crash point within this is killed where it is.
POINT_S_MAX = 5.0
FAULTS = FeedFaults(
    overwritten=0.1, stale=0.05, truncated=0.0, zero_bytes=0.0, missing=0.0, late=0.0,
    duplicated=0.1, reordered=0.1, poison=0.02, deletions=0.02, sidecars=0.02,
)  # fmt: skip


@dataclass
class Member:
    """One process of the cast."""

    role: str
    pid: int
    life: int
    point: str | None = None
    #: Frozen until then, by the monotonic clock.
    frozen_until: float = 0.0
    _ended: bool = False

    def has_ended(self) -> bool:
        """Tell whether it has ended; it is waited for once, since its pid may be another's then."""
        if not self._ended:
            self._ended = os.waitpid(self.pid, os.WNOHANG)[0] != 0
        return self._ended

    def kill(self) -> None:
        """Kill it; it is gone when this returns."""
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        self._ended, self.frozen_until = True, 0.0


@dataclass(kw_only=True)
class Outcome:
    """What was done to an arena, and what was found there."""

    kills: int = 0
    freezes: int = 0
    restarts: int = 0
    points: Counter[str] = field(default_factory=Counter)
    judgement: dict[str, Any] = field(default_factory=dict)


class Chaos:
    """One run in one arena."""

    def __init__(self, arena: Arena, cycles: int, random: Random) -> None:
        self._arena = arena
        self._cycles = cycles
        self._random = random
        self._lives = 0
        self._cast: list[Member] = []
        self._restarted_at = time.monotonic()
        self.outcome = Outcome()
        self._feed = Feed(random.randrange(1 << 30), max(40, cycles * UNITS_A_CYCLE), FAULTS)
        self._steps = list(self._feed.steps())
        self._points = _in_turn(random)

    def run(self) -> Outcome:
        """Play all cycles, let all come to rest, and judge."""
        self._child(lambda: roles.set_up(self._arena))
        portion = -(-len(self._steps) // max(self._cycles, 1))
        try:
            for role in CAST:
                self._cast.append(self._start(role))
            for _ in range(self._cycles):
                self._cycle(portion)
        finally:
            self._end_all()
        self._bring(len(self._steps))
        self._child(lambda: roles.calm(self._arena))
        self.outcome.judgement = self._child(self._judged)
        return self.outcome

    # --- one cycle --------------------------------------------------------------------------------

    def _cycle(self, portion: int) -> None:
        self._wake()
        self._restart_server()
        method = self._random.choices(("point", "moment", "freeze"), (6, 3, 1))[0]
        if method == "point":
            self._strike_point(portion)
            return
        self._bring(portion)
        if method == "moment":
            victim = self._any()
            time.sleep(self._random.random() * 0.15)
            self._kill(victim)
            self._replace(victim)
        else:
            # Somebody must be left to be killed, and to take over what a frozen one held.
            if len(self._awake()) > AWAKE_MIN:
                self._freeze(self._any())
            victim = self._any()
            self._kill(victim)
            self._replace(victim)

    def _strike_point(self, portion: int) -> None:
        """Kill all of a role; the one that takes their work ends itself at a named point."""
        role, point = next(self._points)
        olds = [each for each in self._cast if each.role == role]
        for old in olds:
            self._kill(old, counted=False)
        armed = self._start(role, point)
        self._cast[self._cast.index(olds[0])] = armed
        self._bring(portion)
        ends_at = time.monotonic() + POINT_S_MAX
        while not armed.has_ended():
            if time.monotonic() > ends_at:
                self._kill(armed)
                break
            time.sleep(0.005)
        else:
            self.outcome.kills += 1
            self.outcome.points[f"{role}: {point}"] += 1
        for member in (armed, *olds[1:]):
            self._replace(member)

    def _bring(self, portion: int) -> None:
        """Bring the next objects and messages of the feed."""
        some = self._steps[:portion]
        del self._steps[:portion]
        if some:
            self._child(partial(roles.feed, self._arena, some))

    def _freeze(self, victim: Member) -> None:
        """Stop a process for longer than its lease; it goes on as if nothing had been."""
        os.kill(victim.pid, signal.SIGSTOP)
        victim.frozen_until = time.monotonic() + LEASE_S * self._random.uniform(1.3, 2.5)
        self.outcome.freezes += 1

    def _wake(self) -> None:
        self._wake_frozen()
        for member in self._cast:
            if not member.frozen_until and member.has_ended():
                # The server was away for too long for it; whoever supervises starts it again.
                self._replace(member)

    def _wake_frozen(self) -> None:
        for member in self._cast:
            if member.frozen_until and member.frozen_until < time.monotonic():
                member.frozen_until = 0.0
                os.kill(member.pid, signal.SIGCONT)

    def _restart_server(self) -> None:
        server = self._arena.server
        if server is not None and time.monotonic() - self._restarted_at > RESTART_EVERY_S:
            server.restart(self._random.choice(("fast", "immediate")))
            self._restarted_at = time.monotonic()
            self.outcome.restarts += 1

    # --- processes --------------------------------------------------------------------------------

    def _any(self) -> Member:
        return self._random.choice(self._awake())

    def _awake(self) -> list[Member]:
        return [each for each in self._cast if not each.frozen_until]

    def _replace(self, member: Member) -> None:
        self._cast[self._cast.index(member)] = self._start(member.role)

    def _start(self, role: str, point: str | None = None) -> Member:
        self._lives += 1
        life, number = self._lives, self._random.choice((1, 1, 2, 3))
        pid = os.fork()
        if pid == 0:
            _play(lambda: self._live(role, Points(point, number), life))
        return Member(role, pid, life, point)

    def _live(self, role: str, points: Points, life: int) -> None:
        end_quietly()
        os.chdir(self._arena.folder)
        install(points)
        ROLES[role](self._arena, points, life)

    def _kill(self, member: Member, *, counted: bool = True) -> None:
        if not member.has_ended():
            member.kill()
            self.outcome.kills += 1
        elif counted:
            # It ended by itself a moment ago: nothing was killed.
            self.outcome.points["ended before it was killed"] += 1

    def _end_all(self) -> None:
        for member in self._cast:
            self._kill(member, counted=False)
        self._cast.clear()

    def _child(self, work: Callable[[], Any]) -> Any:
        """Return what the work returns in a process of its own; a failure ends the run."""
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reading)
            os.chdir(self._arena.folder)
            _play(lambda: os.write(writing, json.dumps(work()).encode()))
        os.close(writing)
        while not select.select([reading], [], [], 0.05)[0]:
            # Whoever was frozen may hold the lock of a file that this one waits for.
            self._wake_frozen()
        with os.fdopen(reading) as answers:
            said = answers.read()
        _, status = os.waitpid(pid, 0)
        if status:
            raise SystemExit(f"{self._arena.name}: a helper ended with {status}: {said}")
        return json.loads(said)

    def _judged(self) -> dict[str, Any]:
        arena = self._arena
        with closing(connect(arena.database_url)) as database:
            found = judge(
                database,
                arena.queue_contents(),
                self._feed.manifest().to_json(),
                arena.events,
                attempts_max=ATTEMPTS_MAX,
            )
        found.lost += unfinished_graphs(arena.folder / "nodes", ["object-20"])
        found.counts["graphs"] = len(list((arena.folder / "nodes").glob("*")))
        return found.to_json()


def _play(work: Callable[[], Any]) -> None:
    """Do the work of a child and end, whatever happens."""
    code = 1
    try:
        work()
        code = 0
    except BaseException:  # noqa: BLE001 - a child never comes back into its parent's code
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _in_turn(random: Random) -> Iterator[tuple[str, str]]:
    """Yield each named point of each role, in another order each time round."""
    while True:
        found = [(role, point) for role, points in POINTS.items() for point in points]
        random.shuffle(found)
        yield from found
