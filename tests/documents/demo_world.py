"""What `tallgrass demo` left, in a folder where the commands of pages are carried out.

The pages speak of its datasets and its day, 2026-06-01. Two people act: an operator and an
approver, each with a token. Commands run in this process, since one each would cost a minute; those
that run on, and lines that a shell must read, are processes.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tests.cli.command import Done, environment
from tests.documents.page_commands import played
from tests.documents.runbook_world import World
from tests.documents.running import LONG_S, Running
from tests.support.backends import Backend
from tests.support.forking import shell_program

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: What pages write where only a run tells an id: of an approval, of a unit.
APPROVAL = "3f0a5b1c-2d3e-4cc1-9d7e-0190c7e85f4e"
HELD = "00e6e7b5-1c00-8f3a-9c1d-5a1b2c3d4e5f"
#: Where pages say that the console answers; the first one that is started.
SERVED = "http://127.0.0.1:8090"
#: Commands that run until they are told to stop, unless one of these words ends them.
RUNS_ON = re.compile(
    r"tallgrass (console|stac serve|metrics serve|status --watch|ingest|follow|outbox dispatch)\b"
)
ENDS = re.compile(r" --(drain|once|until-idle)\b")

_CONFIG = """
env = "prod"
[database]
url = "sqlite:///ledger.db"
[queue]
url = "sqlite:///queue.db"
[objects]
url = "file:objects"
[audit]
anchor_file = "audit-anchors.jsonl"
"""
_ASSIGNED = re.compile(r"([A-Z_]+)=(\S*) ")
_EXPORT = re.compile(r"export ([A-Z_]+)=(\S+)")
_ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+")
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_RUN = re.compile(rf'(?:[Rr]un |"replay_run_id": ")({_UUID.pattern})')
_HASH = re.compile(r'"plan_sha256": ?"([0-9a-f]{64})"')


def make_demo(folder: Path) -> None:
    """Run the demo, once for all pages."""
    world = World(folder.parent, Backend("sqlite", f"sqlite:///{folder / 'ledger.db'}"))
    done = world.command("", "demo", "--units", "300", "--dir", str(folder))
    assert done.code == 0, done.err


@contextmanager
def demo_world(made: Path, folder: Path) -> Iterator[DemoWorld]:
    """Open a copy of the demo, with its two people."""
    shutil.copytree(made, folder)
    (folder / "tallgrass.toml").write_text(_CONFIG, encoding="utf-8")
    backend = Backend("sqlite", f"sqlite:///{folder / 'ledger.db'}")
    world = DemoWorld(folder, backend)
    for role, name in (("approver", "day-lead"), ("operator", "night-shift")):
        done = world.command("approver", "actors", "add", name, "--role", role, "--output", "json")
        world.tokens[role] = done.json["token"]
    (held,) = backend.sql("SELECT min(wal_id) FROM wal_records WHERE status = 'quarantined'")
    world.names |= {HELD: str(held[0]), "WAL_ID": str(held[0]), "j.doe": "night-shift"}
    try:
        yield world
    finally:
        world.stop()
        backend.close()


@dataclass
class DemoWorld(World):
    """A demo whose commands are those of a page."""

    #: Parts of a line that stand for something that only the test knows, such as an address.
    replaced: dict[str, str] = field(default_factory=dict)
    #: Where programs of others lie that a page calls.
    programs: list[Path] = field(default_factory=list)
    #: What a program that asks for something is told.
    given: str = ""
    running: list[Running] = field(default_factory=list)

    def play(self, page: str, *languages: str) -> list[str]:
        """Carry out all commands of a page in their order; return what each printed."""
        printed = []
        for line in played(page, *languages):
            done = self.type_in(line)
            assert done.code == 0, f"{line}\n{done.out}{done.err}"
            printed.append(done.out)
        return printed

    def type_in(self, line: str) -> Done:
        """Carry out a command as whoever may."""
        for word, value in self.replaced.items():
            line = line.replace(word, value)
        if exported := _EXPORT.fullmatch(line):
            self.variables[exported[1]] = exported[2]
            return Done(0, "", "")
        if line.startswith("cd "):
            self.folder /= line.removeprefix("cd ")
            return Done(0, "", "")
        if RUNS_ON.search(line) and not ENDS.search(line):
            return self.start(line)
        if not line.startswith("tallgrass ") or re.search(r" [|<>] |&&|\$", line):
            return self.shell(line)
        words = [self.names.get(word, word) for word in shlex.split(line)]
        decides = words[1:3] in (["approvals", "approve"], ["actors", "add"])
        return self.heard(words, self.command("approver" if decides else "operator", *words[1:]))

    def heard(self, words: list[str], done: Done) -> Done:
        """Keep the ids that a command told, for those after it."""
        found = _UUID.search(done.out)
        if words[1:3] == ["approvals", "request"] and found:
            self.names[APPROVAL] = self.names["ID"] = found[0]
        if (run := _RUN.search(done.out)) is not None:
            self.names["RUN_ID"] = run[1]
        return done

    def shell(self, line: str) -> Done:
        """Let a shell read the line; `tallgrass` is a process there."""
        places = self.folder.parent / "programs-of-ours"
        places.mkdir(exist_ok=True)
        variables, control = shell_program(places)
        if "operator" in self.tokens:
            variables["TALLGRASS_TOKEN"] = self.tokens["operator"]
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", line], cwd=self.folder, input=self.given,
            env=self.environment(places, **variables), pass_fds=[control], timeout=LONG_S,
            capture_output=True, text=True, check=False,
            start_new_session=True,  # so that nobody is asked on a terminal
        )  # fmt: skip
        if (told := _HASH.search(done.stdout)) is not None:
            self.replaced["…"] = told[1]
        return Done(done.returncode, done.stdout, done.stderr)

    def start(self, line: str) -> Done:
        """Start a command that runs on, and wait until it says something."""
        variables = {}
        while assigned := _ASSIGNED.match(line):
            variables[assigned[1]] = self.tokens["operator"] if "tg_" in line else assigned[2]
            line = line[assigned.end() :]
        words = shlex.split(line)[1:]
        started = Running(words, self.folder, {**self.environment(), **variables})
        self.running.append(started)
        said = started.first_words()
        if (address := _ADDRESS.search(said)) is not None:
            self.replaced.setdefault(SERVED, address[0])
        return Done(0, said, "")

    def stop(self) -> list[str]:
        """End what runs on, in good order; return what each printed in all."""
        running, self.running = self.running, []
        return [started.stop() for started in running]

    def environment(self, *ours: Path, **changes: str) -> Mapping[str, str]:
        """Return the variables of a process: where programs are, and the page's own."""
        folders = [*self.programs, *ours, Path(sys.executable).parent, os.environ["PATH"]]
        path = os.pathsep.join(map(str, folders))
        return environment(PATH=path, **self.variables, **changes)
