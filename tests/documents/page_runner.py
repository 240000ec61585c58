"""Runs a page: its files are written, its commands carried out in order, their output compared.

    ```console
    $ a command              run by bash in the page's folder; it must end with 0
    > its next line
    a line of its output     must be printed, in this order; … stands for anything
    ```

    ```toml
    # some/file.toml         a first line like this one: the block is that file
    ```

A command below which an `error:` is shown must fail.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tests.cli.command import environment
from tests.documents.page_commands import elsewhere
from tests.support.forking import shell_program

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_BLOCK = re.compile(r"^```(?P<language>\w+)\n(?P<body>.*?)^```$", re.DOTALL | re.MULTILINE)
_FILE = re.compile(r"# (?P<name>[\w./-]+\.\w+)\n(?P<text>.*)", re.DOTALL)
_EXPORT = re.compile(r"export (?P<name>\w+)=(?P<value>\S+)")


@dataclass(frozen=True)
class Step:
    """A command of a page, and what is shown below it."""

    command: str
    shown: tuple[str, ...]


@dataclass
class Folder:
    """Where a page is played."""

    path: Path
    #: What the page writes for something that only the test knows, such as an address.
    replaced: Mapping[str, str] = field(default_factory=dict)
    exported: dict[str, str] = field(default_factory=dict)

    @property
    def programs(self) -> Path:
        """Where the program is that the page calls."""
        return self.path.parent / f"{self.path.name}-programs"

    def play(self, text: str) -> int:
        """Play a page from its first line to its last; return how many commands were run."""
        played = 0
        for match in _BLOCK.finditer(text):
            if match["language"] == "console":
                for step in steps(match["body"]):
                    if elsewhere(step.command) is None:
                        self._run(step)
                        played += 1
            elif named := _FILE.fullmatch(match["body"]):
                path = self.path / named["name"]
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(self._filled(named["text"]), encoding="utf-8")
        return played

    def _run(self, step: Step) -> None:
        if exported := _EXPORT.fullmatch(step.command):
            self.exported[exported["name"]] = self._filled(exported["value"])
            return
        if step.command.startswith("unset "):
            del self.exported[step.command.removeprefix("unset ")]
            return
        env, control = self._environment()
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", self._filled(step.command)],
            cwd=self.path, env=env, pass_fds=[control], check=False, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=240,
        )  # fmt: skip
        fails = any("error:" in line for line in step.shown)
        assert bool(done.returncode) is fails, f"$ {step.command}\n{done.stdout}"
        require_shown(step, done.stdout)

    def _filled(self, text: str) -> str:
        for word, value in self.replaced.items():
            text = text.replace(word, value)
        return text

    def _environment(self) -> tuple[dict[str, str], int]:
        """Return the variables of a command, and the file by which it asks for a process."""
        self.programs.mkdir(exist_ok=True)
        forked, control = shell_program(self.programs)
        places = [self.programs, Path(sys.executable).parent]
        path = os.pathsep.join([*map(str, places), os.environ["PATH"]])
        plain = {"PATH": path, "COLUMNS": "200", "NO_COLOR": "1"}
        return environment(**plain, **self.exported, **forked), control


def steps(body: str) -> Iterator[Step]:
    """Yield the commands of a block."""
    for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
        first, *lines = part.splitlines()
        command = [first]
        while lines and lines[0].startswith("> "):
            command.append(lines.pop(0)[2:])
        yield Step("\n".join(command), tuple(lines))


def require_shown(step: Step, printed: str) -> None:
    """Check that every shown line but `…` was printed, in order; widths of columns may differ."""
    found = iter([" ".join(line.split()) for line in printed.splitlines()])
    for line in step.shown:
        wanted = " ".join(line.split())
        if wanted and wanted != "…":
            assert wanted in found, f"$ {step.command}\nnot printed: {line}\n{printed}"
