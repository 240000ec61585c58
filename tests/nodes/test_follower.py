"""What follows a durable result is done behind a graph's back, and is there when the graph ends."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.nodes import NodeRunner
from tallgrass.nodes.follower import Follower
from tallgrass.nodes.graphs import reliable
from tallgrass.nodes.wal_store import WalStore
from tallgrass.telemetry import names
from tests.nodes.faulty_files import ScriptedFiles
from tests.nodes.graphing import Noted, chain, thread
from tests.nodes.running import Watched
from tests.nodes.test_crashes import play_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FILES = ("attempts.json", "post.json", "pre.json")


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    """A runner in a folder of its own."""
    made = Watched(tmp_path, options={"run_id": None})
    yield made
    made.close()


def test_work_is_done_in_order_and_settling_waits_for_it() -> None:
    """All that was handed on before is done when `settle` returns; later work is not waited for."""
    follower, gate, done = Follower("test"), threading.Event(), []

    def first() -> None:
        assert gate.wait(60)
        done.append("first")

    follower.hand_on(first)
    follower.hand_on(lambda: done.append("second"))
    settled = threading.Thread(target=follower.settle)
    settled.start()
    assert done == []
    gate.set()
    settled.join()
    assert done == ["first", "second"]


def test_who_never_handed_anything_on_need_not_wait() -> None:
    """No thread is made for that."""
    before = threading.active_count()
    Follower("test").settle()
    assert threading.active_count() == before


@pytest.mark.conformance("NR-5.3", "NR-5.4")
def test_a_graph_ends_when_its_files_are_there(watched: Watched) -> None:
    """Files, cache and locks are as after single nodes, for a call, a stream and one cut short."""
    noted = Noted()
    builder = chain(a=noted.node("a"), b=noted.node("b"))
    runner = watched.runner()
    graph = reliable(builder, runner, code_version="1").compile()
    graph.invoke({"log": []}, thread("t"))
    for node in "ab":
        assert all(watched.view(f"t/{node}/{name}") is not None for name in FILES)
    assert runner.cache.stats().entries == 2
    stream = graph.stream({"log": ["x"]}, thread("u"), stream_mode="updates")
    next(stream)
    stream.close()
    assert all(watched.view(f"u/a/{name}") is not None for name in FILES)
    with closing(WalStore(watched.root / "wal", lock_timeout_s=0)) as other, other.run("u"):
        assert other.rebuild("u") == 0


@pytest.mark.conformance("NR-3.3")
def test_a_run_is_held_until_its_files_are_there(watched: Watched) -> None:
    """Another process is not let in between a result and its files."""
    at_the_files, go_on = threading.Event(), threading.Event()

    def before(_number: int, _name: str) -> None:
        if threading.current_thread().name == "tallgrass-follower":
            at_the_files.set()
            assert go_on.wait(60)

    noted = Noted()
    runner = watched.runner(files=ScriptedFiles(before))
    graph = reliable(chain(a=noted.node("a")), runner, code_version="1").compile()
    call = threading.Thread(target=graph.invoke, args=({"log": []}, thread("t")))
    call.start()
    assert at_the_files.wait(60)
    found: list[Any] = []
    other = WalStore(watched.root / "wal", lock_timeout_s=30)

    def ask() -> None:
        with other.run("t"):
            found.append([watched.view(f"t/a/{name}") is not None for name in FILES])

    asks = threading.Thread(target=ask)
    asks.start()
    go_on.set()
    asks.join()
    call.join()
    other.close()
    assert found == [[True, True, True]]


@pytest.mark.conformance("NR-5.8", "NR-12.1")
def test_files_that_cannot_be_written_are_told_and_put_right(watched: Watched) -> None:
    """The result stands, for the journal has it; whoever opens the run next makes its files."""

    def before(_number: int, name: str) -> None:
        if name == "replace" and threading.current_thread().name == "tallgrass-follower":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    noted = Noted()
    runner = watched.runner(files=ScriptedFiles(before))
    graph = reliable(chain(a=noted.node("a")), runner, code_version="1").compile()
    assert graph.invoke({"log": []}, thread("t"))["log"] == ["a"]
    told = [said for name, said in watched.recorder.events if name == names.NODE_HOOK_FAILED]
    assert [(each["node"], each["hook"]) for each in told] == [("a", "files")]
    assert watched.view("t/a/post.json") is None
    watched.close()
    watched.runners.clear()
    again = reliable(chain(a=noted.node("a")), watched.runner(), code_version="1").compile()
    assert again.invoke({"log": []}, thread("t"))["log"] == ["a"]
    assert noted.calls == ["a"]
    assert watched.view("t/a/post.json") is not None


@pytest.mark.conformance("NR-1.2", "NR-3.11", "NR-5.6")
def test_a_graph_survives_a_kill_at_any_file_operation(tmp_path: Path) -> None:
    """It ends with the same result, calls no node again that had one, and its files are right."""
    found = play_of("graph_roles", "every_kill", tmp_path)
    assert found["result"] == 14 + 24
    assert found["kills"] > 10
    assert found["faults"] == []


def test_a_process_that_just_ends_leaves_its_files(tmp_path: Path) -> None:
    """A graph whose nodes are called without it, and nobody who closes anything."""
    script = (
        "import sys\n"
        "from tallgrass.nodes import NodeRunner\n"
        "from tallgrass.nodes.steps import by_follower\n"
        "runner = NodeRunner(sys.argv[1], run_id='r')\n"
        "runner._following = by_follower\n"
        "runner.run(node_id='n', code_version='1', inputs={}, exec_fn=lambda _: 1)\n"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=True)
    assert all((tmp_path / "wal" / "r" / "n" / name).exists() for name in FILES)


def test_plain_nodes_wait_for_their_files(tmp_path: Path) -> None:
    """Who calls a node by itself finds its files when the call returns, and no thread was made."""
    before = threading.active_count()
    with NodeRunner(tmp_path, run_id="r") as runner:
        runner.run(node_id="n", code_version="1", inputs={}, exec_fn=lambda _: 1)
        assert all((tmp_path / "wal" / "r" / "n" / name).exists() for name in FILES)
    assert threading.active_count() == before
