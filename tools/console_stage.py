"""A pipeline that really ran, with something on every page of the console: for pictures and tests.

Everything is made by what users run: the demo's feed and worker fill the store, people act by
commands, the nodes are those of an example. Nothing but a folder is needed.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import dropwhile
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

from tallgrass.bootstrap.stores import migrate_database
from tallgrass.cli.main import run
from tallgrass.config import load_config
from tallgrass.simulate.demo_folder import CONFIG_NAME, OBJECTS_NAME, written_config
from tallgrass.simulate.demo_telling import Watcher
from tallgrass.simulate.feed import Feed, FeedMessage, FeedObject
from tallgrass.simulate.feed_plan import FeedFaults
from tallgrass.simulate.pipeline_demo import PipelineDemo

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

EXAMPLE = Path(__file__).parents[1] / "examples" / "climate_downscaling" / "run.py"
#: How far back the feed begins, how long it is, and when the demo's worker stops: its last
#: retries must not be later than now.
BACK, LENGTH, BEFORE_NOW = timedelta(hours=4), timedelta(hours=6), timedelta(minutes=8)
FAULTS = FeedFaults(
    overwritten=0.004,
    stale=0.001,
    truncated=0.005,
    zero_bytes=0.002,
    missing=0.003,
    late=0.005,
    reordered=0.02,
    poison=0.002,
)
#: Messages that arrive before the worker looks again: it keeps up.
CHUNK_MAX = 2
POLICY = "POL-2031"
#: Nobody answers there.
NOWHERE = "http://127.0.0.1:9/graph"
#: People and their roles; the first may decide on what the others ask for.
PEOPLE = {"m.reyes": "approver", "a.larsen": "approver", "j.okafor": "operator", "lee": "viewer"}
APPROVER, OPERATOR = "m.reyes", "j.okafor"
CHANGE, INCIDENT = "CHG-2041", "INC-7"
DATASET = "goes-glm"

_MORE = """
[nodes]
folder = "{folder}/nodes/nodes"

[console]
plans_folder = "{folder}/plans"
requests_per_minute = 6000

[ledger]
retry_base_s = 1.0
retry_cap_s = 30.0

[replay]
max_records_per_second = 10000.0

[outbox]
attempts = 2
base_s = 0.01
cap_s = 0.02
pause_s_max = 0

[outbox.targets.archive]
kind = "file"
path = "{folder}/events.jsonl"

[outbox.targets.graph]
kind = "graph-store"
url = "{nowhere}"

[[outbox.routes]]
events = ["*"]
targets = ["archive"]

[[outbox.routes]]
events = ["nodd.item.updated"]
datasets = ["hrrr", "nexrad-l2"]
targets = ["graph"]
"""
#: The policy of today; items of yesterday do not know it.
_POLICY = """
[governance.policies.goes-glm]
policy_ref = "{policy}"
"""

#: Runs of the example: one fails, one goes to its end, one waits for a person.
NODE_RUNS = (
    ("--run", "ssp370", "--scenario", "ssp370", "--approve", "--fail-in", "publish"),
    ("--run", "ssp245", "--approve"),
    ("--run", "ssp585", "--scenario", "ssp585"),
)


class StageError(Exception):
    """A command of the stage ended in an error."""


@dataclass(frozen=True, slots=True)
class Stage:
    """The folder of a pipeline, and its people's tokens."""

    folder: Path
    tokens: Mapping[str, str]
    feed: Feed
    #: What the feed announced before this has come in.
    until: datetime

    @property
    def config(self) -> Path:
        """The configuration that points to all of it."""
        return self.folder / CONFIG_NAME

    def rest(self) -> Iterator[FeedObject | FeedMessage]:
        """Yield what the feed has not brought yet; it goes on after now."""
        return dropwhile(
            lambda step: isinstance(step, FeedObject) or step.at < self.until, self.feed.steps()
        )

    def command(self, *words: str, by: str | None = None) -> Any:
        """Run a command of `tallgrass` here; return the JSON that it prints."""
        return _command(self.config, words, None if by is None else self.tokens[by])


def _command(config: Path, words: tuple[str, ...], token: str | None) -> Any:
    kept = {name: text for name, text in os.environ.items() if not name.startswith("TALLGRASS_")}
    signed = {} if token is None else {"TALLGRASS_TOKEN": token}
    streams = [io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2)]
    with (
        mock.patch.dict(os.environ, kept | signed, clear=True),
        contextlib.redirect_stdout(streams[0]),
        contextlib.redirect_stderr(streams[1]),
    ):
        code = run(["--config", str(config), *words, "--output", "json"])
    for stream in streams:
        stream.seek(0)
    out, err = (stream.read() for stream in streams)
    if code:
        raise StageError(f"{' '.join(words)}: {code}\n{out}{err}")
    return json.loads(out) if out else None


def set_the_stage(
    folder: Path, *, units: int, runs: Sequence[tuple[str, ...]] = NODE_RUNS, seed: int = 3
) -> Stage:
    """Fill a folder that is empty."""
    now = datetime.now(UTC)
    start = now.replace(minute=0, second=0, microsecond=0) - BACK
    feed = Feed(seed, units, FAULTS, start=start, window=LENGTH)
    until = now - BEFORE_NOW
    ingest(folder, feed, start, until)
    config = folder / CONFIG_NAME
    config.write_text(config.read_text("utf-8") + _POLICY.format(policy=POLICY), "utf-8")
    stage = Stage(folder, dict(_people(config)), feed, until)
    _refer(stage)
    _replay(stage, start)
    _drain(stage)
    _release(stage)
    _stop_something(stage)
    stage.command("outbox", "dispatch", "--drain")
    _run_nodes(folder / "nodes", runs)
    stage.command("audit", "seal", by=APPROVER)
    return stage


def ingest(folder: Path, feed: Feed, start: datetime, until: datetime) -> None:
    """Play a feed to a worker, from its first message to the last retry of what came in time."""
    folder.mkdir(parents=True, exist_ok=True)
    written_config(folder)
    file = folder / CONFIG_NAME
    more = _MORE.format(folder=folder, nowhere=NOWHERE)
    file.write_text(file.read_text("utf-8") + more, "utf-8")
    config = load_config(file=file, environment={})
    migrate_database(config)
    (folder / OBJECTS_NAME).mkdir()
    demo = PipelineDemo(config, folder, feed, Watcher(), start=start, chunk_max=CHUNK_MAX)
    with contextlib.closing(demo):
        demo.run_plainly(until)


def _people(config: Path) -> Iterator[tuple[str, str]]:
    """Add the people; yield each with their token."""
    first = None
    for name, role in PEOPLE.items():
        token = _command(config, ("actors", "add", name, "--role", role), first)["token"]
        first = first or token
        yield name, token


def _refer(stage: Stage) -> None:
    """Open what acts refer to."""
    change = ("--title", "New care policy for lightning data")
    stage.command("changes", "open", CHANGE, *change, by=OPERATOR)
    incident = ("--title", "Short files from the lightning mapper")
    stage.command("incidents", "open", INCIDENT, *incident, by=OPERATOR)


def _replay(stage: Stage, start: datetime) -> None:
    """Make items again that the policy of today changes, by an approved plan."""
    plan = stage.folder / "plan.jsonl"
    stage.command(
        "replay", "--dry-run", "--dataset", DATASET, "--since", start.isoformat(),
        "--until", (start + timedelta(minutes=10)).isoformat(), "--include-succeeded",
        "--reason", "backfill", "--change", CHANGE, "--expect-changes",
        "/properties/kfm:policy_ref", "--plan-out", str(plan), by=OPERATOR,
    )  # fmt: skip
    asked = f"{CHANGE}: items name the new policy"
    approval = _asked(stage, "--plan", str(plan), "--reason", asked)
    stage.command("approvals", "approve", approval, by=APPROVER)
    stage.command("replay", "--plan", str(plan), "--approval", approval, "--confirm", by=OPERATOR)


def _asked(stage: Stage, *words: str) -> str:
    approval: str = stage.command("approvals", "request", *words, by=OPERATOR)["approval_id"]
    return approval


def _drain(stage: Stage) -> None:
    """Take a few letters out of the dead-letter queue."""
    plan = stage.folder / "drain.jsonl"
    stage.command(
        "dlq", "plan", "--code", "size_too_small", "--max-events", "2", "--file", str(plan),
        by=OPERATOR,
    )  # fmt: skip
    stage.command(
        "dlq", "drain", "--plan", str(plan), "--incident-ref", INCIDENT,
        "--remediation", "the files were sent again", "--yes", by=OPERATOR,
    )  # fmt: skip


def _release(stage: Stage) -> None:
    """Ask for the release of a unit that is held; nobody has decided yet."""
    held = stage.command("quarantine", "list")["units"][0]["wal_id"]
    _asked(stage, "--release", held, "--reason", f"{INCIDENT}: the object is there now")


def _stop_something(stage: Stage) -> None:
    reason = f"{INCIDENT}: no re-runs before the files are whole"
    stage.command(
        "switches", "on", "--scope", "replay", "--dataset", "nexrad-l2", "--reason", reason,
        by=OPERATOR,
    )  # fmt: skip


def _run_nodes(folder: Path, runs: Sequence[tuple[str, ...]]) -> None:
    """Run the example; a run that is made to fail does."""
    for words in runs:
        subprocess.run(
            [sys.executable, str(EXAMPLE), str(folder), *words], check=False, capture_output=True
        )
