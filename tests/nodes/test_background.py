"""A thread for what nobody waits for, and graphs whose runs are made ahead by one."""

from __future__ import annotations

import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest

from tallgrass.nodes import NodeRunner
from tallgrass.nodes.background import Background
from tests.nodes.test_crashes import play_of

if TYPE_CHECKING:
    from pathlib import Path


def test_work_is_done_in_order_and_settling_waits_for_it() -> None:
    """All that was handed on before is done when `settle` returns."""
    background, gate, done = Background("test"), threading.Event(), []

    def first() -> None:
        assert gate.wait(60)
        done.append("first")

    background.hand_on(first)
    background.hand_on(lambda: done.append("second"))
    settled = threading.Thread(target=background.settle)
    settled.start()
    assert done == []
    gate.set()
    settled.join()
    assert done == ["first", "second"]


def test_who_never_handed_anything_on_need_not_wait() -> None:
    """No thread is made for that."""
    before = threading.active_count()
    Background("test").settle()
    assert threading.active_count() == before


def test_a_forked_process_has_a_thread_of_its_own() -> None:
    """Work that is handed on in a child is done there, whatever the parent's thread does."""
    script = (
        "import os\n"
        "from tallgrass.nodes.background import Background\n"
        "background, done = Background('test'), []\n"
        "background.hand_on(lambda: None)\n"
        "background.settle()\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    background.hand_on(lambda: done.append(1))\n"
        "    background.settle()\n"
        "    os._exit(0 if done == [1] else 1)\n"
        "raise SystemExit(os.waitpid(child, 0)[1])\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_plain_nodes_make_nothing_ahead(tmp_path: Path) -> None:
    """Nodes that are called by themselves need no thread, and leave no folder beside the log."""
    before = threading.active_count()
    with NodeRunner(tmp_path, run_id="r") as runner:
        runner.run(node_id="n", code_version="1", inputs={}, exec_fn=lambda _: 1)
        assert not (tmp_path / "spare").exists()
    assert threading.active_count() == before


@pytest.mark.conformance("NR-1.2", "NR-3.11", "NR-5.6")
def test_a_graph_survives_a_kill_at_any_file_operation(tmp_path: Path) -> None:
    """It ends with the same result, calls no node again that had one, and its files are right."""
    found = play_of("graph_roles", "every_kill", tmp_path)
    assert found["result"] == 14 + 24
    assert found["kills"] > 10
    assert found["faults"] == []
