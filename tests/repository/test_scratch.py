"""Where the files of a test run lie."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.plugins import scratch

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_files_lie_in_memory_where_there_is_room(tmp_path: Path) -> None:
    """Not where somebody named another place, and not where there is no such memory."""
    chosen: dict[str, str] = {}
    scratch.use_memory(chosen, tmp_path)
    assert chosen == {"TMPDIR": str(tmp_path)}
    given = {"TMPDIR": "/elsewhere"}
    scratch.use_memory(given, tmp_path)
    assert given == {"TMPDIR": "/elsewhere"}
    absent: dict[str, str] = {}
    scratch.use_memory(absent, tmp_path / "absent")
    assert absent == {}


def test_a_small_memory_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A container's shared memory may have 64 MB: a run would fill it."""
    monkeypatch.setattr(scratch, "ROOM_BYTES", 1 << 60)
    chosen: dict[str, str] = {}
    scratch.use_memory(chosen, tmp_path)
    assert chosen == {}
