"""Sensitive values apart from log and cache."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from tallgrass.nodes.payloads import Payloads
from tests.nodes.faulty_files import ScriptedFiles

if TYPE_CHECKING:
    from pathlib import Path


def test_two_threads_may_keep_the_same_value_at_once(tmp_path: Path) -> None:
    """A fan-out whose nodes are given the same: each writes a file of its own, and one stays."""
    both = threading.Barrier(2, timeout=60)

    def meet(_number: int, name: str) -> None:
        if name == "sync_data":
            both.wait()

    kept: list[Any] = []
    root = tmp_path / "sensitive"

    def keep() -> None:
        files = ScriptedFiles(meet)
        kept.append(Payloads(root, files=files).put({"lat": 38.5}, sensitive=True))

    threads = [threading.Thread(target=keep) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(kept) == 2
    assert kept[0] == kept[1]
    assert Payloads(root).get(kept[0]) == {"lat": 38.5}
    assert [path.name for path in root.glob("*/*")] == [kept[0]["$apart"]["sha256"]]


def test_what_stands_apart_already_stays_there(tmp_path: Path) -> None:
    """To keep it again keeps nothing more."""
    payloads = Payloads(tmp_path / "sensitive")
    kept = payloads.put({"lat": 38.5}, sensitive=True)
    assert payloads.put(kept, sensitive=True) == kept
