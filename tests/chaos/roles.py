"""What the processes of a chaotic run do. Each is forked, so that the modules are loaded once."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import time
from contextlib import closing
from itertools import count
from typing import TYPE_CHECKING, Any

import psycopg

from tallgrass.bootstrap.ingesting import ingest
from tallgrass.bootstrap.outbox import dispatch
from tallgrass.bootstrap.planning import PlanRequest, open_plan
from tallgrass.bootstrap.queues import open_queue
from tallgrass.bootstrap.replay_preparing import ReplayRequest, prepare_replay
from tallgrass.bootstrap.replaying import RunOptions, run_replay
from tallgrass.bootstrap.stores import migrate_database, open_stores
from tallgrass.datasets.catalogue import default_catalogue
from tallgrass.governance.actors import Role
from tallgrass.governance.approvals import Verdict, plan_subject
from tallgrass.ingest_loop import Until
from tallgrass.outbox.dispatch_loop import DispatchUntil
from tallgrass.replay.selection import Purpose, Selection
from tallgrass.simulate.feed import FeedObject
from tests.nodes.crash_roles import graph
from tests.nodes.faulty_files import ScriptedFiles
from tests.support.governance import token_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tallgrass.bootstrap.stores import Stores
    from tallgrass.simulate.feed import FeedMessage
    from tests.chaos.arena import Arena
    from tests.chaos.points import Points

#: Units of one replay, and how long the calm may take to come.
REPLAYED = 6
CALM_S_MAX = 240.0
_SUCCEEDED = "SELECT wal_id FROM wal_records WHERE status = 'succeeded' ORDER BY updated_at DESC"
_BUSY = """SELECT (SELECT count(*) FROM wal_records
    WHERE status IN ('pending', 'in_progress') OR due_at IS NOT NULL)
  + (SELECT count(*) FROM wal_attempts WHERE status = 'pending')"""


def never() -> bool:
    """Nobody asks these processes to stop; they are killed."""
    return False


def work(arena: Arena, _points: Points, _life: int) -> None:
    """Ingest until the end."""
    ingest(arena.config, until=Until.STOPPED, stop=never)


def deliver(arena: Arena, _points: Points, _life: int) -> None:
    """Deliver events until the end."""
    dispatch(arena.config, until=DispatchUntil.STOPPED, stop=never)


def replay(arena: Arena, points: Points, life: int) -> None:
    """Run finished units again, by plans that somebody else approves, one run after the other."""
    for number in count():
        with closing(open_stores(arena.config, catalogue=default_catalogue())) as stores:
            chosen = [row[0] for row in arena.rows(f"{_SUCCEEDED} LIMIT {REPLAYED}")]
            if chosen:
                name = f"run-{life}-{number}"
                approval = _approve(arena, stores, name, tuple(map(str, chosen)))
                points.reach("approved")
                _carry_out(arena, stores, name, approval, points)
        time.sleep(0.02)


def nodes(arena: Arena, points: Points, life: int) -> None:
    """Run graphs of nodes, each in a folder of its own; a life that was cut off leaves its last."""
    for number in count():
        files = ScriptedFiles(lambda _number, _name: points.reach("file operation"))
        graph(arena.folder / "nodes" / f"{life}-{number}", files)


ROLES: dict[str, Callable[[Arena, Points, int], None]] = {
    "worker": work,
    "dispatcher": deliver,
    "replayer": replay,
    "node": nodes,
}


def _approve(arena: Arena, stores: Stores, name: str, chosen: tuple[str, ...]) -> str:
    """Plan a run, ask for its approval and give it; what is needed to go on is noted first."""
    otto = stores.actors.authenticate(token_of("otto"), action="chaos")
    ann = stores.actors.authenticate(token_of("ann"), action="chaos")
    request = PlanRequest(
        selection=Selection(wal_ids=chosen, purpose=Purpose.REPAIR),
        reason="backfill",
        replay_run_id=name,
        forced=True,
    )
    plan = open_plan(arena.config, stores, request, catalogue=default_catalogue())
    lines = [plan.stream.first_line(), *(line for _, _, line in plan.rows())]
    arena.plan(name).write_bytes(b"".join(lines))
    digest = hashlib.sha256(b"".join(lines)).hexdigest()
    subject = plan_subject(json.loads(lines[0]), digest)
    approval = stores.approvals.request(subject, reason="CHG-1", by=otto).approval_id
    stores.approvals.decide(approval, Verdict.APPROVE, by=ann)
    arena.plan(name).with_suffix(".approval").write_text(approval, encoding="utf-8")
    return approval


def _carry_out(
    arena: Arena, stores: Stores, name: str, approval: str, points: Points | None = None
) -> None:
    reach = (lambda _name: None) if points is None else points.reach
    otto = stores.actors.authenticate(token_of("otto"), action="chaos")
    request = ReplayRequest(
        plan=None, plan_file=arena.plan(name), replay_run_id=name, approval_id=approval
    )
    options = RunOptions(progress=lambda _: reach("between batches"), ingest_lag_s=lambda: 0.0)
    catalogue = default_catalogue()
    with closing(prepare_replay(arena.config, stores, catalogue, request, by=otto)) as prepared:
        reach("prepared")
        run_replay(arena.config, stores, catalogue, prepared, options, by=otto)


# --- before, meanwhile and afterwards -------------------------------------------------------------


def set_up(arena: Arena) -> None:
    """Migrate, and add the people."""
    migrate_database(arena.config)
    with closing(open_stores(arena.config)) as stores:
        ann = stores.actors.add("ann", Role.APPROVER, token=token_of("ann"), by=None)
        stores.actors.add("otto", Role.OPERATOR, token=token_of("otto"), by=ann)


def feed(arena: Arena, steps: Sequence[FeedObject | FeedMessage]) -> None:
    """Write objects and send messages."""
    bodies = []
    for step in steps:
        if isinstance(step, FeedObject):
            step.write(arena.objects)
        else:
            bodies.append(step.body)
    with closing(open_queue(arena.config)) as queue:
        queue.send(bodies)


def calm(arena: Arena) -> None:
    """Let everything come to its end: runs that were cut off, units, events, graphs."""
    ends_at = time.monotonic() + CALM_S_MAX
    _finish_runs(arena)
    while time.monotonic() < ends_at:
        ingest(arena.config, until=Until.DRAINED, stop=never)
        if not arena.rows(_BUSY)[0][0] and arena.queue_is_empty():
            break
        time.sleep(0.2)
    while time.monotonic() < ends_at:
        if not dispatch(arena.config, until=DispatchUntil.DRAINED, stop=never).undelivered:
            break
        time.sleep(0.2)
    for root in sorted((arena.folder / "nodes").glob("*")):
        graph(root, None)


def _finish_runs(arena: Arena) -> None:
    """Take up runs that were cut off; one that was never registered did nothing."""
    cut_off = arena.rows("SELECT replay_run_id FROM replay_runs WHERE finished_at IS NULL")
    with closing(open_stores(arena.config, catalogue=default_catalogue())) as stores:
        for (name,) in cut_off:
            approval = arena.plan(name).with_suffix(".approval").read_text(encoding="utf-8")
            _carry_out(arena, stores, name, approval)


def connect(url: str) -> Any:
    """Return a raw connection."""
    if url.startswith("sqlite:///"):
        path = url.removeprefix("sqlite:///")
        return sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=30)
    return psycopg.connect(url, autocommit=True)


def end_quietly() -> None:
    """Let nothing be printed by a process whose end is the test."""
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 2)


def folder_of(path: Path) -> Path:
    """Make a folder and return it."""
    path.mkdir(parents=True, exist_ok=True)
    return path
