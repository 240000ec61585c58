"""What `tallgrass demo` left, in a folder where the commands of pages are carried out.

The pages speak of its datasets and its day, 2026-06-01. Two people act: an operator and an
approver, each with a token.
"""

from __future__ import annotations

import re
import shlex
import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tests.cli.command import Done
from tests.documents.markdown import DOCS, read
from tests.documents.runbook_world import World
from tests.support.backends import Backend

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


#: What pages write where only a run tells an id: of an approval, of a unit.
APPROVAL = "3f0a5b1c-2d3e-4cc1-9d7e-0190c7e85f4e"
HELD = "00e6e7b5-1c00-8f3a-9c1d-5a1b2c3d4e5f"

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
_BLOCK = re.compile(r"^```(?:sh|console)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_RUN = re.compile(rf'(?:[Rr]un |"replay_run_id": ")({_UUID.pattern})')


def commands(page: str) -> list[str]:
    """Return every command of a page, with or without `$`, whole, without its comment."""
    found: list[str] = []
    for block in _BLOCK.findall(read(DOCS / page)):
        prompted = block.startswith("$ ")
        found += [
            re.sub(r"\s+# .*$", "", line.removeprefix("$ "))
            for line in re.sub(r"\\\n\s*", "", block).splitlines()
            if line and (not prompted or line.startswith("$ "))
        ]
    return found


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
    yield world
    backend.close()


class DemoWorld(World):
    """A demo whose commands are those of a page."""

    def type_in(self, line: str) -> Done:
        """Carry out a command as whoever may; what it prints can go to a file."""
        line, _, file = line.partition(" > ")
        words = [self.names.get(word, word) for word in shlex.split(line)]
        if words[0] == "mkdir":
            (self.folder / words[1]).mkdir()
            return Done(0, "", "")
        assert words[0] == "tallgrass", line
        decides = words[1:3] in (["approvals", "approve"], ["actors", "add"])
        done = self.command("approver" if decides else "operator", *words[1:])
        if file:
            (self.folder / file).write_text(done.out, encoding="utf-8")
        found = _UUID.search(done.out)
        if words[1:3] == ["approvals", "request"] and found:
            self.names[APPROVAL] = self.names["ID"] = found[0]
        if (run := _RUN.search(done.out)) is not None:
            self.names["RUN_ID"] = run[1]
        return done
