"""A small installation in a folder, in which the commands of a runbook can be carried out.

Two people act: an operator and an approver, each with a token. Objects lie in a folder, messages in
an embedded queue; the ledger is a SQLite file. Everything is as `tallgrass.toml` says, which the
commands find in the folder they are run in.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from unittest import mock

from tallgrass.bootstrap.queues import open_embedded_queue
from tallgrass.cli import tables
from tallgrass.cli.main import run
from tallgrass.clock import format_instant, parse_instant
from tallgrass.config import load_config
from tallgrass.datasets.catalogue import default_catalogue
from tallgrass.ledger.unit import ObjectReference
from tests.cli.command import Done, environment
from tests.documents.markdown import DOCS, read
from tests.pipeline.scene import Thing, message_of, thing
from tests.support.backends import prepare
from tests.support.builders import failure, unit

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.backends import Backend

RUNBOOKS = DOCS / "replay" / "runbooks"
#: Ten objects of one satellite, every 20 seconds from noon on; and one of another dataset.
OBJECTS: list[Thing] = [thing(2 * number) for number in range(10)]
FORECAST = thing(0, dataset="hrrr")
#: Promises are judged over the last 30 days: these are not long ago.
SOON = OBJECTS[0].place.start + timedelta(days=1)

_CONFIG = """
env = "prod"
[database]
url = "sqlite:///ledger.db"
[queue]
url = "sqlite:///queue.db"
max_receive_count = 2
[objects]
url = "file:objects"
[ledger]
retry_base_s = 0.01
retry_cap_s = 0.01
[outbox]
attempts = 2
base_s = 0.01
[retention]
attempts_days = 30
archive = "archives"
"""

_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_ENDS = re.compile(r"\s+# ends with (\d)\b.*$")


@dataclass(frozen=True)
class Step:
    """One command of a runbook: whose it is, and how it ends."""

    role: str
    line: str
    code: int


def steps(name: str) -> list[Step]:
    """Return all commands of a runbook, in order; `# operator` says whose the next ones are."""
    found: list[Step] = []
    for block in _BLOCK.findall(read(RUNBOOKS / f"{name}-runbook.md")):
        role = ""
        for line in block.splitlines():
            if line.startswith("# "):
                role = line.removeprefix("# ")
                continue
            ends = _ENDS.search(line)
            found.append(Step(role, _ENDS.sub("", line), int(ends[1]) if ends is not None else 0))
    return found


@dataclass
class World:
    """The installation, and what stands for the capital words of a runbook."""

    folder: Path
    backend: Backend
    tokens: dict[str, str] = field(default_factory=dict)
    #: What the last command of a kind printed, for ids that the next one needs.
    last: str = ""
    names: dict[str, str] = field(default_factory=dict)
    #: Further variables of the environment.
    variables: dict[str, str] = field(default_factory=dict)

    def command(self, role: str, *words: str) -> Done:
        """Run a command in the folder, in this process: a process each would cost a minute."""
        streams = [io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2)]
        token = {"TALLGRASS_TOKEN": self.tokens[role]} if role in self.tokens else {}
        tables.console.cache_clear()
        with (
            contextlib.chdir(self.folder),
            mock.patch.dict(os.environ, environment(**token, **self.variables), clear=True),
            mock.patch("tallgrass.cli.slo.system_clock", return_value=SOON),
            contextlib.redirect_stdout(streams[0]),
            contextlib.redirect_stderr(streams[1]),
        ):
            code = run(list(words))
        tables.console.cache_clear()
        for stream in streams:
            stream.seek(0)
        return Done(code, *(stream.read() for stream in streams))

    def carry_out(self, step: Step) -> Done:
        """Run a step of a runbook, with the ids that earlier steps gave."""
        words = shlex.split(step.line)
        assert words[0] == "tallgrass", step.line
        done = self.command(step.role, *(self.names.get(word, word) for word in words[1:]))
        assert done.code == step.code, (step.line, done.out, done.err)
        assert "Traceback" not in done.out + done.err
        asked = re.search(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", done.out)
        if words[1:3] == ["audit", "list"]:
            assert len(done.out.splitlines()) > 1, f"{step.line}: nothing is in the log"
        if words[1:3] == ["approvals", "request"] and asked:
            self.names["APPROVAL_ID"] = asked[0]
        return done

    # --- what happened before ---------------------------------------------------------------------

    def put(self, *given: Thing, content: bytes | None = None) -> None:
        """Write objects."""
        for each in given:
            path = self.folder / "objects" / each.place.bucket / each.place.key
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(each.content if content is None else content)

    def announce(self, *given: Thing, body: bytes | None = None) -> None:
        """Send one message for each."""
        bodies = [message_of(each.event()) for each in given] if body is None else [body]
        config = load_config(
            environment={}, flags={"queue.url": f"sqlite:///{self.folder / 'queue.db'}"}
        )
        queue = open_embedded_queue(config)
        queue.send(bodies)
        queue.close()

    def ingest(self) -> None:
        """Work everything off."""
        assert self.command("operator", "ingest", "--drain").code == 0

    def hold(self, given: Thing) -> None:
        """Bring a unit into quarantine, and name it."""
        stores = self.backend.open(catalogue=default_catalogue())
        worker = stores.leases.register("w", ingest_run_id="run", lease_s=60)
        announced = unit(
            object_uri=given.uri,
            time_range_start=given.place.start,
            time_range_end=given.place.end,
            object_ref=ObjectReference(etag=given.event().etag, size=len(given.content)),
        )
        claim = stores.ledger.record_and_claim(worker, [announced])[0].claim
        assert claim is not None
        stores.ledger.commit(worker, [failure(claim, "governance_hard_fail")])
        stores.leases.stop(worker)
        self.names["WAL_ID"] = claim.wal_id

    def age_objects(self, by: timedelta) -> None:
        """Let the objects be older than they are."""
        for path in (self.folder / "objects").rglob("*.nc"):
            then = path.stat().st_mtime - by.total_seconds()
            os.utime(path, (then, then))

    def make_attempts_old(self, by: timedelta) -> None:
        """Let all attempts be closed longer ago, which only a clock could do."""
        connection = self.backend.connect()
        names = "SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'"
        triggers = connection.execute(names).fetchall()
        for name, _ in triggers:
            connection.execute(f"DROP TRIGGER {name}")
        (last,) = connection.execute("SELECT max(closed_at) FROM wal_attempts").fetchone()
        then = format_instant(parse_instant(last) - by)
        connection.execute("UPDATE wal_attempts SET closed_at = ?, claimed_at = ?", (then, then))
        for _, sql in triggers:
            connection.execute(sql)
        connection.close()

    # --- looking ----------------------------------------------------------------------------------

    def statuses(self) -> dict[str, int]:
        """Count records by status."""
        return dict(self.backend.sql("SELECT status, count(*) FROM wal_records GROUP BY status"))

    def dead(self) -> int:
        """Count dead letters."""
        found: dict[str, Any] = self.command("operator", "queue", "status", "--output", "json").json
        return int(found["dead"])


@contextlib.contextmanager
def world(folder: Path) -> Iterator[World]:
    """Set up an installation with its two people."""
    (folder / "tallgrass.toml").write_text(_CONFIG, encoding="utf-8")
    (folder / "objects").mkdir()
    (folder / "archives").mkdir()
    backend = prepare("sqlite", f"sqlite:///{folder / 'ledger.db'}")
    made = World(folder, backend)
    for role, name in (("approver", "day-lead"), ("operator", "night-shift")):
        words = ("actors", "add", name, "--role", role, "--output", "json")
        done = made.command("approver", *words)
        assert done.code == 0, done.err
        made.tokens[role] = done.json["token"]
    yield made
    backend.close()
