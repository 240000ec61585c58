"""The log of a run: views of its journal, rebuilt from it; folders that cannot be led astray."""

from __future__ import annotations

import errno
import json
import os
import shutil
import stat
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.errors import InvalidInput, NodeWalDamaged, NodeWalUnusable, RunBusy, TallgrassError
from tallgrass.nodes.entries import AttemptStatus, Kind, RunState, TaskId
from tallgrass.nodes.wal_store import JOURNAL_NAME, WalStore
from tests.nodes.faulty_files import ScriptedFiles, failing_at

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tallgrass.nodes.files import Files
    from tallgrass.nodes.run_wal import RunWal

FETCH = TaskId(node_id="fetch", task_id="t1")
AGAIN = TaskId(node_id="fetch", task_id="t2")
KEY = {"identity": "k1"}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[WalStore]:
    """A store in a folder of its own."""
    made = WalStore(tmp_path / "wal", lock_timeout_s=0)
    yield made
    made.close()


def succeed(run: RunWal, task: TaskId, result: Any = 1) -> None:
    """Write what a node that succeeds at once writes."""
    run.append(Kind.PRE, task, {**KEY, "inputs": {"x": 1}})
    run.commit(run.append(Kind.ATTEMPT, task, {**KEY, "attempt": 1}))
    run.write_views(task, "pre.json")
    run.append(Kind.ATTEMPT_END, task, {"attempt": 1, "status": AttemptStatus.SUCCEEDED.value})
    run.commit(run.append(Kind.POST, task, {**KEY, "result": result}))
    run.write_views(task)


def files_below(folder: Path) -> dict[str, Any]:
    """Every view below a folder, as JSON."""
    return {
        str(path.relative_to(folder)): json.loads(path.read_bytes())
        for path in sorted(folder.rglob("*.json"))
    }


@pytest.mark.conformance("NR-5.1", "NR-5.2", "NR-5.3", "NR-5.4", "NR-5.5")
def test_the_files_lie_where_they_should(store: WalStore) -> None:
    """The first task has the node's folder, later ones one below it; no file without a cause."""
    with store.run("run-1") as run:
        succeed(run, FETCH)
        succeed(run, AGAIN, result=2)
        run.append(Kind.PRE, TaskId(node_id="other", task_id="x"), KEY)
        run.write_views(TaskId(node_id="other", task_id="x"))
    found = files_below(store.root / "run-1")
    assert list(found) == [
        "fetch/attempts.json",
        "fetch/post.json",
        "fetch/pre.json",
        "fetch/tasks/t2/attempts.json",
        "fetch/tasks/t2/post.json",
        "fetch/tasks/t2/pre.json",
        "other/pre.json",
    ]
    assert found["fetch/post.json"]["result"] == 1
    assert found["fetch/tasks/t2/post.json"]["result"] == 2
    assert found["fetch/pre.json"]["run_id"] == "run-1"
    (attempt,) = found["fetch/attempts.json"]
    assert attempt["started_at"] <= attempt["ended_at"]
    assert (attempt["attempt"], attempt["status"]) == (1, "succeeded")


@pytest.mark.conformance("NR-5.6", "NR-5.9", "C-43")
def test_views_are_made_again_from_the_journal(store: WalStore, tmp_path: Path) -> None:
    """Torn, missing, foreign and linked files are replaced by what the journal says."""
    with store.run("r") as run:
        succeed(run, FETCH)
        succeed(run, AGAIN)
    store.close()
    folder = store.root / "r" / "fetch"
    before = files_below(store.root)
    (folder / "post.json").write_bytes(b'{"resu')
    (folder / "attempts.json").unlink()
    (folder / "failed.json").write_text("{}")
    secret = tmp_path / "secret"
    secret.write_text("untouched")
    (folder / "pre.json").unlink()
    (folder / "pre.json").symlink_to(secret)
    assert store.read("r").tasks.keys() == {FETCH, AGAIN}
    with store.run("r"):
        assert files_below(store.root) == before
    assert secret.read_text() == "untouched"
    (folder / "post.json").unlink()
    assert store.rebuild("r") == 1
    assert files_below(store.root) == before


@pytest.mark.conformance("NR-5.1")
@pytest.mark.parametrize("part", ["run", "node", "journal"])
def test_a_link_in_the_way_is_refused(store: WalStore, tmp_path: Path, part: str) -> None:
    """Nothing is written through a link, wherever it leads."""
    outside = tmp_path / "outside"
    outside.mkdir()
    store.root.mkdir()
    run_folder = store.root / "r"
    if part == "run":
        run_folder.symlink_to(outside)
    else:
        run_folder.mkdir()
        link = run_folder / ("fetch" if part == "node" else JOURNAL_NAME)
        link.symlink_to(outside if part == "node" else outside / "file")
    with pytest.raises(NodeWalUnusable) as refused, store.run("r") as run:
        succeed(run, FETCH)
    assert refused.value.code == "node_wal_unsafe"
    assert list(outside.iterdir()) == []


@pytest.mark.conformance("NR-5.1", "C-42")
def test_hostile_ids_stay_inside(store: WalStore) -> None:
    """Whatever the ids are, every file lies in its run's folder and is read under its id."""
    ids = ["..", "a/b", "nul\x00", "../../x", ".journal", "tasks", "C:", " "]
    for run_id in ids:
        with store.run(run_id) as run:
            for number, node_id in enumerate(ids):
                run.append(Kind.PRE, TaskId(node_id=node_id, task_id=ids[number - 1]), KEY)
            run.rebuild_views()
    assert sorted(store.run_ids()) == sorted(ids)
    for run_id in ids:
        assert {task.node_id for task in store.read(run_id).tasks} == set(ids)
    root = store.root.resolve()
    assert all(root in path.resolve().parents for path in root.rglob("*"))
    assert {path.name for path in root.parent.iterdir()} == {root.name}
    with pytest.raises(InvalidInput):
        store.acquire("x" * 300)


@pytest.mark.conformance("NR-5.1")
def test_ids_that_differ_by_case_alone_are_refused(store: WalStore) -> None:
    """On a disk that knows no case the two would share a folder."""
    with store.run("r") as run:
        run.append(Kind.PRE, FETCH, KEY)
        with pytest.raises(InvalidInput, match="case"):
            run.task(TaskId(node_id="Fetch", task_id="t1"))
        with pytest.raises(InvalidInput, match="case"):
            run.task(TaskId(node_id="fetch", task_id="T1"))
        assert run.task(AGAIN).attempts == []


def test_files_are_the_owners_alone(store: WalStore) -> None:
    """Folders are 0700 and files 0600, whatever the umask is."""
    before = os.umask(0)
    try:
        with store.run("r") as run:
            succeed(run, FETCH)
            succeed(run, AGAIN)
    finally:
        os.umask(before)
    for path in [store.root, *store.root.rglob("*")]:
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode == (0o700 if path.is_dir() else 0o600), path


@pytest.mark.conformance("NR-3.3")
def test_another_process_waits_while_a_node_is_at_work(store: WalStore, tmp_path: Path) -> None:
    """Between nodes the run is free, and each learns what the other wrote."""
    other = WalStore(tmp_path / "wal", lock_timeout_s=0)
    with store.run("r") as run:
        succeed(run, FETCH)
        with pytest.raises(RunBusy):
            other.acquire("r")
        with store.run("r") as same:
            assert same is run
    with other.run("r") as seen:
        assert seen.task(FETCH).result_for("k1") is not None
        succeed(seen, AGAIN)
    with store.run("r") as run:
        assert run.task(AGAIN).result_for("k1") is not None
    other.close()


def test_a_run_of_another_id_is_not_taken_for_this_one(store: WalStore) -> None:
    """A journal says whose it is: a copied folder, or a disk without case, is found out."""
    with store.run("one") as run:
        succeed(run, FETCH)
    store.close()
    (store.root / "one").rename(store.root / "two")
    with pytest.raises(NodeWalDamaged, match="one"):
        store.acquire("two")


@pytest.mark.conformance("NR-12.6")
def test_a_damaged_journal_is_loud_and_can_be_salvaged(store: WalStore) -> None:
    """Nothing runs on it until somebody asks for what stands before the damage."""
    with store.run("r") as run:
        succeed(run, FETCH)
        succeed(run, AGAIN)
    store.close()
    path = store.root / "r" / JOURNAL_NAME
    data = bytearray(path.read_bytes())
    place = bytes(data).index(b'"t2"')
    data[place] ^= 255
    path.write_bytes(bytes(data))
    for _ in range(2):
        with pytest.raises(NodeWalDamaged):
            store.acquire("r")
    assert store.salvage("r") > 0
    with store.run("r") as run:
        assert run.task(FETCH).result_for("k1") is not None
        assert run.task(AGAIN).pre is None
    assert (store.root / "r" / f"{JOURNAL_NAME}.damaged").read_bytes() == bytes(data)
    assert store.salvage("r") == 0


def test_a_run_with_a_node_at_work_is_not_salvaged(store: WalStore) -> None:
    """Its journal is not closed under the node, which writes on."""
    with store.run("r") as run:
        succeed(run, FETCH)
        with pytest.raises(RunBusy, match="at work"):
            store.salvage("r")
        succeed(run, AGAIN)
    assert store.salvage("r") == 0
    assert store.read("r").task(AGAIN).result_for("k1") is not None


def written(root: Path, files: Files | None) -> None:
    """One run of two nodes."""
    store = WalStore(root, files=files, lock_timeout_s=0)
    try:
        with store.run("r") as run:
            if run.task(FETCH).result_for("k1") is None:
                succeed(run, FETCH)
            if run.task(AGAIN).result_for("k1") is None:
                succeed(run, AGAIN)
    finally:
        store.close()


@pytest.mark.conformance("NR-12.1")
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EROFS])
def test_every_operation_may_fail(tmp_path: Path, code: int) -> None:
    """Whichever operation fails, it is said by an error of ours, and the next try ends well."""
    whole = failing_at(-1, code)
    written(tmp_path / "whole", whole)
    expected = files_below(tmp_path / "whole")
    assert len(whole.done) > 30
    for number in range(0, len(whole.done), 1 if code == errno.ENOSPC else 4):
        root = tmp_path / f"at-{number}"
        with pytest.raises(TallgrassError):
            written(root, failing_at(number, code))
        written(root, None)
        assert _without_times(files_below(root)) == _without_times(expected)


def _without_times(found: dict[str, Any]) -> dict[str, Any]:
    """The results of views: a repeated node has more attempts than one that ran once."""
    results = {name: each["result"] for name, each in found.items() if name.endswith("post.json")}
    return dict.fromkeys(found) | results


def test_a_run_whose_opening_was_interrupted_is_read_anew(
    store: WalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody presses Ctrl-C and goes on: what others wrote meanwhile must not be forgotten."""
    with store.run("r"):
        pass
    with closing(WalStore(tmp_path / "wal")) as other, other.run("r") as run:
        succeed(run, FETCH)

    def interrupted(*_given: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(RunState, "apply", interrupted)
        with pytest.raises(KeyboardInterrupt):
            store.acquire("r")
    with store.run("r") as run:
        assert run.task(FETCH).result_for("k1") is not None


def test_closing_takes_nothing_from_a_run_that_is_being_opened(tmp_path: Path) -> None:
    """Whoever closes the store while another thread opens a run closes what is open, no more."""
    made: list[WalStore] = []

    def close_meanwhile(_number: int, name: str) -> None:
        if name == "make_folder":
            made[0].close()

    files = ScriptedFiles(close_meanwhile)
    with closing(WalStore(tmp_path / "wal", files=files)) as store:
        made.append(store)
        for run_id in ("run-1", "run-2"):
            with store.run(run_id) as run:
                succeed(run, FETCH)
        assert store.run_ids() == ["run-1", "run-2"]


class Crowded(WalStore):
    """A store in which another thread does something just before a run's door is asked for."""

    meanwhile: Callable[[], object] | None = None

    def _door(self, run_id: str) -> threading.Lock:
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            meanwhile()
        return super()._door(run_id)


def test_two_may_close_at_the_same_time(tmp_path: Path) -> None:
    """What the other has closed is closed."""
    store = Crowded(tmp_path / "wal")
    with store.run("run-1") as run:
        succeed(run, FETCH)
    store.meanwhile = store.close
    store.close()


def test_a_run_that_was_opened_anew_is_not_closed_for_its_age(tmp_path: Path) -> None:
    """Of too many open runs the oldest is closed; not one in use that has taken its place."""
    opened: list[RunWal] = []
    with closing(Crowded(tmp_path / "wal", open_runs_max=1)) as store:
        with store.run("run-1"):
            pass

        def meanwhile() -> None:
            store.close()
            opened.append(store.acquire("run-1"))

        with store.run("run-2"):
            store.meanwhile = meanwhile
            store._close_oldest()
        succeed(opened[0], FETCH)
        store.release(opened[0])


def test_a_store_whose_folder_was_removed_begins_anew(store: WalStore) -> None:
    """Who was at work in it is told once; then there is a folder again."""
    with store.run("run-1") as run:
        succeed(run, FETCH)
    shutil.rmtree(store.root)
    with pytest.raises(NodeWalUnusable, match="was replaced or removed"):
        store.acquire("run-1")
    for run_id in ("run-1", "run-2"):
        with store.run(run_id) as run:
            assert not run.state.tasks
            succeed(run, FETCH)
