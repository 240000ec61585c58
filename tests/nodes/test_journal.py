"""The journal: whole entries or none, loud errors, one sync for many."""

from __future__ import annotations

import errno
import os
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallgrass.errors import NodeWalDamaged, NodeWalFull, NodeWalUnusable, RunBusy, TallgrassError
from tallgrass.nodes.files import Files
from tallgrass.nodes.journal import Journal, framed, read_frames, salvaged
from tests.nodes.faulty_files import HalfWriting, ScriptedFiles, failing_at

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

payloads = st.lists(st.binary(max_size=40), max_size=8)


@contextmanager
def opened(path: Path, files: Files | None = None, *, lock: bool = True) -> Iterator[Journal]:
    """A journal, locked by this process."""
    flags = os.O_RDWR | os.O_CREAT
    journal = Journal(os.open(path, flags, 0o600), place=str(path), files=files or Files())
    try:
        if lock:
            journal.lock(1)
        yield journal
    finally:
        journal.close()


def contents(path: Path) -> list[bytes]:
    """The entries that a new reader finds."""
    return [frame.payload for frame in read_frames(path.read_bytes()).frames]


def chained(entries: list[bytes], synced: list[bool]) -> tuple[bytes, int]:
    """A journal whose entries were synced after each that says so, and what was synced of it."""
    data, known = b"", 0
    for entry, sync in zip(entries, synced, strict=True):
        data += framed(entry, known)
        known = len(data) if sync else known
    return data, known


@pytest.mark.conformance("NR-5.6", "C-43")
@given(entries=payloads, cut=st.integers(min_value=0, max_value=1000))
def test_every_prefix_reads_as_whole_entries(entries: list[bytes], cut: int) -> None:
    """However much of the end is missing, the entries before it are read, and nothing else."""
    data, _ = chained(entries, [False] * len(entries))
    reading = read_frames(data[: min(cut, len(data))])
    found = [frame.payload for frame in reading.frames]
    assert found == entries[: len(found)]
    whole = chained(entries[: len(found) + 1], [False] * len(entries[: len(found) + 1]))[0]
    assert len(found) == len(entries) or min(cut, len(data)) < len(whole)


@pytest.mark.conformance("NR-5.6", "C-43")
@given(st.data())
def test_lost_blocks_are_torn_or_damage_but_never_an_entry(data: st.DataObject) -> None:
    """Zeroed, flipped or missing bytes give old entries or an error, and never a false entry.

    What was synced, as a later entry knows, is missed loudly.
    """
    entries = data.draw(st.lists(st.binary(min_size=1, max_size=40), min_size=1, max_size=8))
    synced = data.draw(st.lists(st.booleans(), min_size=len(entries), max_size=len(entries)))
    whole, _ = chained(entries, synced)
    begin = data.draw(st.integers(0, len(whole) - 1))
    end = data.draw(st.integers(begin + 1, len(whole)))
    flip = data.draw(st.integers(1, 255))
    broken = whole[:begin] + bytes(byte ^ flip for byte in whole[begin:end]) + whole[end:]
    places = [frame.end for frame in read_frames(whole).frames]
    struck = next(number for number, place in enumerate(places) if place > begin)
    knows = any(
        known > (places[struck - 1] if struck else 0)
        for known, place in _knowing(whole)
        if place >= end
    )
    try:
        found = [frame.payload for frame in read_frames(broken).frames]
    except NodeWalDamaged:
        assert knows
        kept, lost = salvaged(broken)
        assert [frame.payload for frame in read_frames(kept).frames] == entries[:struck]
        assert lost == len(broken) - len(kept)
    else:
        assert not knows
        assert found == entries[:struck]


def _knowing(whole: bytes) -> list[tuple[int, int]]:
    """What each entry knows to be synced, and where it begins."""
    frames = read_frames(whole).frames
    begins = [0, *(frame.end for frame in frames)]
    return [(frame.synced_to, begin) for frame, begin in zip(frames, begins, strict=False)]


def test_a_torn_end_is_cut_off_by_who_takes_the_lock(tmp_path: Path) -> None:
    """The next writer goes on after the last whole entry."""
    path = tmp_path / "journal"
    path.write_bytes(framed(b"one", 0) + framed(b"two", 0)[:-1])
    with opened(path) as journal:
        journal.append(b"three")
    assert contents(path) == [b"one", b"three"]
    # Blocks reach the disk in any order: what follows a torn entry must not come to life again
    # behind an entry that is written over it.
    torn = bytearray(framed(b"two", 0))
    torn[-1] ^= 1
    path.write_bytes(framed(b"one", 0) + torn + framed(b"old", 0))
    with opened(path) as journal:
        journal.append(b"new")
    assert contents(path) == [b"one", b"new"]


@pytest.mark.conformance("NR-5.6", "C-43")
@pytest.mark.parametrize("lost", [4, 4096])
def test_a_lost_beginning_is_damage_to_who_takes_the_lock(tmp_path: Path, lost: int) -> None:
    """Zeros at the front are no empty journal where a later entry knows what was synced."""
    path = tmp_path / "journal"
    with opened(path) as journal:
        for entry in (b"1" * 3000, b"2" * 3000, b"three"):
            journal.commit(journal.append(entry))
    broken = bytes(lost) + path.read_bytes()[lost:]
    path.write_bytes(broken)
    with pytest.raises(NodeWalDamaged, match="from byte 0 on"), opened(path):
        pass
    assert path.read_bytes() == broken


@pytest.mark.conformance("NR-5.6", "C-43")
def test_a_torn_beginning_is_cut_off_with_all_that_follows(tmp_path: Path) -> None:
    """Nobody was told of it; what follows must not come to life again behind a new entry."""
    path = tmp_path / "journal"
    path.write_bytes(bytes(4) + framed(b"one", 0)[4:] + framed(b"old", 0))
    with opened(path) as journal:
        journal.append(b"new")
    assert contents(path) == [b"new"]


def test_a_file_of_nothing_but_room_is_begun(tmp_path: Path) -> None:
    """Room whose first entry never reached the disk is as good as an empty file."""
    path = tmp_path / "journal"
    path.write_bytes(bytes(16 << 10))
    with opened(path) as journal:
        journal.append(b"one")
    assert contents(path) == [b"one"]


def test_room_behind_the_entries_is_no_entry(tmp_path: Path) -> None:
    """A file grows in large steps; zeros are neither read, nor torn, nor waited for.

    Two who take turns see each other's entries all the same, over the end of the room too.
    """
    path = tmp_path / "journal"
    large = b"x" * 10_000
    with opened(path) as first, opened(path, lock=False) as second:
        first.append(b"one")
        size = path.stat().st_size
        first.append(b"two")
        assert path.stat().st_size == size > len(framed(b"one", 0) + framed(b"two", 0))
        reading = read_frames(path.read_bytes())
        assert (len(reading.frames), reading.torn_bytes) == (2, 0)
        first.unlock()
        assert [frame.payload for frame in second.lock(1)] == [b"one", b"two"]
        second.append(large)
        second.append(large)
        assert path.stat().st_size > size
        second.unlock()
        assert [frame.payload for frame in first.lock(1)] == [large, large]
        first.append(b"three")
        first.unlock()
        assert [frame.payload for frame in second.lock(1)] == [b"three"]
        second.unlock()
        assert second.lock(1) == ()
    assert contents(path) == [b"one", b"two", large, large, b"three"]


def test_a_journal_that_was_replaced_takes_no_entry(tmp_path: Path) -> None:
    """Whoever still has the old file open must not write where nobody reads."""
    path = tmp_path / "journal"
    with opened(path) as journal:
        journal.append(b"one")
        journal.unlock()
        path.unlink()
        with pytest.raises(NodeWalUnusable, match="replaced or removed"):
            journal.lock(1)
        assert journal.is_broken


@pytest.mark.conformance("NR-5.8")
def test_the_first_commit_makes_the_journals_name_durable_too(tmp_path: Path) -> None:
    """An entry on the disk is of no use in a folder that is not; a failure is not a success."""
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        for number, code in ((None, 0), (2, errno.EIO)):
            files = ScriptedFiles(lambda _n, _name: None)
            if number is not None:
                files = failing_at(number, code)
            path = tmp_path / f"journal-{number}"
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            journal = Journal(descriptor, place=str(path), files=files, folders=(folder,))
            journal.lock(1)
            end = journal.append(b"one")
            if number is None:
                journal.commit(end)
                journal.commit(journal.append(b"two"))
                assert files.done == ["write", "sync_data", "sync_folder", "write", "sync_data"]
            else:
                with pytest.raises(NodeWalUnusable):
                    journal.commit(end)
                assert journal.is_broken
                assert contents(path) == []
            journal.close()
    finally:
        os.close(folder)


@pytest.mark.conformance("NR-12.1")
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EROFS, errno.EDQUOT])
def test_a_write_that_fails_leaves_no_half_entry(tmp_path: Path, code: int) -> None:
    """Half an entry is cut off again; a full disk may be tried again, other errors need opening."""
    path = tmp_path / "journal"
    full = code in {errno.ENOSPC, errno.EDQUOT}
    with opened(path, HalfWriting(1, code)) as journal:
        journal.commit(journal.append(b"one"))
        with pytest.raises(NodeWalFull if full else NodeWalUnusable):
            journal.append(b"lost")
        assert contents(path) == [b"one"]
        assert path.stat().st_size == len(framed(b"one", 0))
        assert journal.is_broken == (not full)
        if full:
            journal.commit(journal.append(b"later"))
            assert contents(path) == [b"one", b"later"]
        else:
            with pytest.raises(NodeWalUnusable, match="opened again"):
                journal.append(b"later")


@pytest.mark.conformance("NR-12.1", "NR-5.8")
def test_a_sync_that_failed_is_never_tried_again(tmp_path: Path) -> None:
    """The kernel may have dropped what it could not write: the entry goes, the file is opened anew.

    What was synced before stays.
    """
    path = tmp_path / "journal"
    files = failing_at(3, errno.EIO)
    with opened(path, files) as journal:
        journal.commit(journal.append(b"one"))
        end = journal.append(b"two")
        with pytest.raises(NodeWalUnusable):
            journal.commit(end)
        with pytest.raises(NodeWalUnusable, match="opened again"):
            journal.commit(end)
        assert files.done.count("sync_data") == 2
    assert contents(path) == [b"one"]


@pytest.mark.conformance("NR-5.8")
def test_commit_returns_after_the_sync_of_what_was_written(tmp_path: Path) -> None:
    """Write, sync, return: in this order, and one sync where nothing new came."""
    files = ScriptedFiles(lambda _number, _name: None)
    with opened(tmp_path / "journal", files) as journal:
        first = journal.append(b"one")
        assert files.done == ["write"]
        journal.commit(first)
        assert files.done == ["write", "sync_data"]
        journal.commit(first)
        assert files.done == ["write", "sync_data"]


def test_many_writers_share_syncs_and_lose_nothing(tmp_path: Path) -> None:
    """Sixteen threads at once: every entry that was committed is there, with fewer syncs."""
    path = tmp_path / "journal"
    gate = threading.Event()

    def before(_number: int, name: str) -> None:
        if name == "sync_data":
            gate.wait(10)

    files = ScriptedFiles(before)
    with opened(path, files) as journal:
        ends = [journal.append(b"%d" % number) for number in range(16)]
        threads = [threading.Thread(target=journal.commit, args=(end,)) for end in ends]
        for thread in threads:
            thread.start()
        gate.set()
        for thread in threads:
            thread.join()
        assert files.done.count("sync_data") == 1
    assert contents(path) == [b"%d" % number for number in range(16)]


def test_a_failed_sync_fails_all_who_wait_for_it(tmp_path: Path) -> None:
    """Nobody is told of success by a sync that did not succeed."""
    started, go_on = threading.Event(), threading.Event()

    def before(_number: int, name: str) -> None:
        if name == "sync_data":
            started.set()
            go_on.wait(10)
            raise OSError(errno.EIO, "broken")

    failures: list[Exception] = []
    with opened(tmp_path / "journal", ScriptedFiles(before)) as journal:

        def commit() -> None:
            try:
                journal.commit(end)
            except TallgrassError as error:
                failures.append(error)

        end = journal.append(b"one")
        threads = [threading.Thread(target=commit) for _ in range(4)]
        for thread in threads:
            thread.start()
        started.wait(10)
        go_on.set()
        for thread in threads:
            thread.join()
    assert len(failures) == 4


@pytest.mark.conformance("NR-3.3")
def test_one_process_at_a_time_has_the_lock(tmp_path: Path) -> None:
    """A second opener waits, then says who is in the way; closing the file lets it in."""
    path = tmp_path / "journal"
    with opened(path) as first, opened(path, lock=False) as second:
        with pytest.raises(RunBusy):
            second.lock(0)
        first.append(b"one")
        first.unlock()
        assert [frame.payload for frame in second.lock(1)] == [b"one"]
        second.append(b"two")
        second.unlock()
        assert [frame.payload for frame in first.lock(1)] == [b"two"]


def test_damage_in_the_middle_is_an_error(tmp_path: Path) -> None:
    """A synced entry that was changed is not passed over in silence."""
    path = tmp_path / "journal"
    with opened(path) as journal:
        for entry in (b"one", b"two", b"three"):
            journal.commit(journal.append(entry))
    data = bytearray(path.read_bytes())
    data[len(framed(b"one", 0)) - 1] ^= 1
    path.write_bytes(bytes(data))
    with pytest.raises(NodeWalDamaged), opened(path):
        pass
