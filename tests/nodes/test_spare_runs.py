"""Folders that are made ahead: they save syncs, and are never taken for runs or from runs."""

from __future__ import annotations

import errno
import os
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from tallgrass.nodes.entries import Kind, TaskId
from tallgrass.nodes.files import Files
from tallgrass.nodes.spare_runs import SpareRuns
from tallgrass.nodes.wal_store import JOURNAL_NAME, WalStore
from tests.nodes.faulty_files import ScriptedFiles, failing_at

if TYPE_CHECKING:
    from pathlib import Path

TASK = TaskId(node_id="n", task_id="t")


def begun(store: WalStore, run_id: str) -> None:
    """Begin a run, with an entry that is durable."""
    with store.run(run_id) as run:
        run.commit(run.append(Kind.PRE, TASK, {"identity": "k"}))


@pytest.mark.conformance("NR-5.8")
def test_a_run_is_made_of_a_spare_folder_with_fewer_syncs(tmp_path: Path) -> None:
    """Its journal and its own folder are on the disk already: only its name must be synced."""
    files = ScriptedFiles(lambda _number, _name: None)
    spares = SpareRuns(tmp_path / "spare", Files())
    spares.prepare()
    with closing(WalStore(tmp_path / "wal", files=files)) as store:
        store._spares = spares
        begun(store, "r")
        assert files.done == ["write", "write", "sync_data", "sync_folder"]
        assert [*store.read("r").tasks] == [TASK]
    assert list((tmp_path / "spare").iterdir()) == []


def test_a_spare_is_ready_after_a_run_began(tmp_path: Path) -> None:
    """It is no run, and closing the store leaves none behind."""
    store = WalStore(tmp_path / "wal")
    store.makes_ahead = True
    begun(store, "first")
    begun(store, "second")
    assert sorted(store.run_ids()) == ["first", "second"]
    store.close()
    assert list((tmp_path / "spare").iterdir()) == []
    assert [*store.read("second").tasks] == [TASK]


def test_processes_have_spares_of_their_own(tmp_path: Path) -> None:
    """Whoever is alive keeps its own; what a killed one left is used again."""
    one, two = (SpareRuns(tmp_path / "spare", Files()) for _ in range(2))
    one.prepare()
    two.prepare()
    assert sorted(path.name for path in (tmp_path / "spare").iterdir()) == ["0", "1"]
    one.abandon()
    three = SpareRuns(tmp_path / "spare", Files())
    three.prepare()
    assert sorted(path.name for path in (tmp_path / "spare").iterdir()) == ["0", "1"]
    two.remove()
    three.remove()
    assert list((tmp_path / "spare").iterdir()) == []


@pytest.mark.conformance("NR-5.6")
def test_what_holds_entries_is_never_a_spare(tmp_path: Path) -> None:
    """A disk that lost the move of a folder shows it in both places: its entries stay."""
    with closing(WalStore(tmp_path / "wal")) as store:
        begun(store, "r")
    (tmp_path / "spare").mkdir()
    (tmp_path / "wal" / "r").rename(tmp_path / "spare" / "0")
    before = (tmp_path / "spare" / "0" / JOURNAL_NAME).read_bytes()
    spares = SpareRuns(tmp_path / "spare", Files())
    spares.prepare()
    spares.remove()
    assert (tmp_path / "spare" / "0" / JOURNAL_NAME).read_bytes() == before


@pytest.mark.conformance("NR-5.1")
def test_a_run_that_another_made_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    """Nor is a link: the spare stays for the next run."""
    with closing(WalStore(tmp_path / "wal")) as store:
        begun(store, "r")
    (tmp_path / "wal" / "link").symlink_to(tmp_path)
    spares = SpareRuns(tmp_path / "spare", Files())
    spares.prepare()
    root = os.open(tmp_path / "wal", os.O_RDONLY)
    try:
        assert spares.given("r", root) is None
        assert spares.given("link", root) is None
        spare = spares.given("new", root)
        assert spare is not None
        spare.close()
    finally:
        os.close(root)
    with closing(WalStore(tmp_path / "wal")) as store:
        assert [*store.read("r").tasks] == [TASK]
        begun(store, "new")


@pytest.mark.conformance("NR-12.1")
def test_a_disk_without_room_for_a_spare_harms_no_run(tmp_path: Path) -> None:
    """Whichever operation on it fails, the run is made as it always was."""
    for number in range(6):
        place = tmp_path / str(number)
        with closing(WalStore(place / "wal")) as store:
            store._spares = SpareRuns(place / "spare", failing_at(number, errno.ENOSPC))
            store.makes_ahead = True
            begun(store, "first")
            begun(store, "second")
            assert sorted(store.run_ids()) == ["first", "second"]
