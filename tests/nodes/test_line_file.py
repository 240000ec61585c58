"""Files of lines that several processes add to: each line once, and nobody hangs."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tallgrass.errors import NodeWalUnusable
from tallgrass.nodes.line_file import LineFile
from tests.support.processes import ROOT

if TYPE_CHECKING:
    from pathlib import Path

ADDING = """
import sys
from pathlib import Path
from tallgrass.nodes.line_file import LineFile

file = LineFile(Path(sys.argv[1]))
for number in range(100):
    file.add([str(number).encode(), f"{sys.argv[2]}-{number}".encode()])
"""


def test_processes_add_each_line_once(tmp_path: Path) -> None:
    """What they share stands there once, what is their own too, and no line is mixed."""
    path = tmp_path / "lines"
    command = [sys.executable, "-c", ADDING, str(path)]
    processes = [subprocess.Popen([*command, name], cwd=ROOT) for name in ("a", "b", "c")]
    assert [process.wait(60) for process in processes] == [0, 0, 0]
    expected = [str(n) for n in range(100)] + [f"{p}-{n}" for p in "abc" for n in range(100)]
    assert sorted(path.read_text().splitlines()) == sorted(expected)


def test_a_file_that_is_cut_off_while_it_is_read_stops_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between asking for its size and reading it somebody may have emptied it."""
    path = tmp_path / "lines"
    path.write_bytes(b"a\nb\n")
    real, seen, asked = os.pread, list[bytes](), list[int]()

    def emptied(descriptor: int, size: int, place: int) -> bytes:
        asked.append(place)
        assert len(asked) < 10, "it is read for ever"
        os.truncate(path, 0)
        return real(descriptor, size, place)

    file = LineFile(path, seen.append)
    with monkeypatch.context() as patched:
        patched.setattr(os, "pread", emptied)
        file.refresh()
    assert file.add([b"c"]) == 1
    assert (seen, path.read_bytes()) == ([b"c"], b"c\n")


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    """Whoever may write to the folder could lead to any other file."""
    (tmp_path / "other").write_bytes(b"")
    (tmp_path / "lines").symlink_to(tmp_path / "other")
    with pytest.raises(NodeWalUnusable):
        LineFile(tmp_path / "lines").add([b"a"])
    assert (tmp_path / "other").read_bytes() == b""
