"""Where a command writes a whole file: what stands there already stays what it is."""

from __future__ import annotations

import os
import stat
import threading
from typing import TYPE_CHECKING

import pytest

from tallgrass.cli.whole_files import appearing_whole

if TYPE_CHECKING:
    from pathlib import Path


def write(path: Path, data: bytes) -> None:
    """Write as commands do."""
    with appearing_whole(path) as file:
        file.write(data)


def test_a_link_leads_to_the_new_file(tmp_path: Path) -> None:
    """The file that it leads to is replaced, whole; the link stays, also one that leads nowhere."""
    (tmp_path / "target").write_bytes(b"old")
    for name in ("target", "nowhere"):
        link = tmp_path / f"to-{name}"
        link.symlink_to(name)
        write(link, b"new")
        assert link.is_symlink()
        assert (tmp_path / name).read_bytes() == b"new"


def test_a_link_that_fails_leaves_what_it_leads_to(tmp_path: Path) -> None:
    """Half of it was written: the old file is there, and nothing beside it."""
    (tmp_path / "target").write_bytes(b"old")
    (tmp_path / "link").symlink_to("target")

    def half() -> None:
        with appearing_whole(tmp_path / "link") as file:
            file.write(b"half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        half()
    assert (tmp_path / "target").read_bytes() == b"old"
    assert {path.name for path in tmp_path.iterdir()} == {"target", "link"}


def test_a_link_that_leads_to_itself_is_replaced(tmp_path: Path) -> None:
    """It leads to nothing that could stay."""
    (tmp_path / "loop").symlink_to("loop")
    write(tmp_path / "loop", b"new")
    assert (tmp_path / "loop").read_bytes() == b"new"


def test_a_pipe_takes_what_is_written(tmp_path: Path) -> None:
    """Its reader gets all of it; no file stands in its place."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    taken: list[bytes] = []
    reader = threading.Thread(target=lambda: taken.append(pipe.read_bytes()), daemon=True)
    reader.start()
    write(pipe, b"all of it")
    reader.join(30)
    assert taken == [b"all of it"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_folder_is_refused(tmp_path: Path) -> None:
    """Nothing is written into it."""
    with pytest.raises(IsADirectoryError):
        write(tmp_path, b"x")
    assert list(tmp_path.iterdir()) == []
