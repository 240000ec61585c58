"""The nodes' write-ahead log: ``wal/<run_id>/<node_id>/`` as views of one journal a run.

    wal/<run_id>/.journal                   the truth; locked while a node of the run is at work
    wal/<run_id>/<node_id>/                 the node's first task in the run
    wal/<run_id>/<node_id>/tasks/<task_id>/ each later one: a loop, a fan-out
        pre.json attempts.json post.json compensation.json failed.json

The files are for people and tools: they are replaced at once, never read back, and made again from
the journal when a run is opened. What is written is durable after `commit`.
"""

import contextlib
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from weakref import WeakValueDictionary

from tallgrass.clock import Clock, system_clock
from tallgrass.errors import InvalidInput, NodeRunUnknown, RunBusy
from tallgrass.nodes.entries import Entry, RunState
from tallgrass.nodes.files import (
    Files,
    lock_file,
    make_and_open,
    open_root,
    read_file,
    replace_file,
    translated,
)
from tallgrass.nodes.forks import begin_anew_after_forks
from tallgrass.nodes.identity import file_name_of, id_of_file_name
from tallgrass.nodes.journal import Journal, is_damaged, read_frames, salvaged
from tallgrass.nodes.run_wal import RunWal

JOURNAL_NAME: Final = ".journal"


class WalStore:
    """The logs of all runs below one folder."""

    def __init__(
        self,
        root: Path,
        *,
        files: Files | None = None,
        clock: Clock = system_clock,
        sleep: Callable[[float], None] = time.sleep,
        lock_timeout_s: float = 300.0,
        open_runs_max: int = 64,
    ) -> None:
        self.root = root
        self._files = files or Files()
        self._clock = clock
        self._sleep = sleep
        self._lock_timeout_s = lock_timeout_s
        self._open_runs_max = open_runs_max
        self._runs: OrderedDict[str, RunWal] = OrderedDict()
        self._doors: WeakValueDictionary[str, threading.Lock] = WeakValueDictionary()
        self._lock = threading.Lock()
        begin_anew_after_forks(self)

    def acquire(self, run_id: str, timeout_s: float | None = None) -> RunWal:
        """Open a run for one more node of this process; other processes wait until it is released.

        A journal that broke before is opened anew: what was never synced is not in it.
        """
        file_name_of(run_id)
        with self._door(run_id):
            run = self._held(run_id)
            if run.users == 0:
                try:
                    run.take(self._lock_timeout_s if timeout_s is None else timeout_s)
                except RunBusy:
                    raise
                except BaseException:
                    # It may have taken in a part of what others wrote: it must be read anew.
                    self._forget(run_id)
                    raise
            run.users += 1
            return run

    def release(self, run: RunWal) -> None:
        """One node of this process is done with the run."""
        with self._door(run.run_id):
            run.users -= 1
            if run.users == 0:
                run.give_back()
        self._close_oldest()

    @contextmanager
    def run(self, run_id: str) -> Iterator[RunWal]:
        """Hold a run."""
        run = self.acquire(run_id)
        try:
            yield run
        finally:
            self.release(run)

    def run_ids(self) -> list[str]:
        """Return the runs that have a journal."""
        found = []
        with translated(self.root):
            folders = sorted(self.root.iterdir()) if self.root.is_dir() else []
        for folder in folders:
            if (folder / JOURNAL_NAME).is_file():
                with contextlib.suppress(InvalidInput):
                    found.append(id_of_file_name(folder.name))
        return found

    def newest_run_ids(self) -> list[str]:
        """Return the runs that have a journal, the one that was written to last first."""
        return sorted(self.run_ids(), key=self._written_at, reverse=True)

    def read(self, run_id: str) -> RunState:
        """Return what a run's journal says now, without waiting and without changing anything."""
        state = RunState(run_id)
        for frame in read_frames(self._journal_bytes(run_id)).frames:
            state.apply(Entry.read(frame.payload), frame.end)
        return state

    def entries(self, run_id: str) -> list[Entry]:
        """Return what a run's journal holds now, entry by entry."""
        frames = read_frames(self._journal_bytes(run_id)).frames
        return [Entry.read(frame.payload) for frame in frames]

    def rebuild(self, run_id: str) -> int:
        """Make a run's files again from its journal; return how many were not as it says."""
        self._require_known(run_id)
        was_open = run_id in self._runs
        with self.run(run_id) as run:
            # To open a run puts its files right already; that counts.
            return run.rebuild_views() + (0 if was_open else run.views_mended)

    def salvage(self, run_id: str) -> int:
        """Keep what stands before a damage as the journal; return how many bytes were set aside.

        The damaged file stays beside it. Nodes whose entries are lost will run again.
        """
        self._require_known(run_id)
        with self._door(run_id), translated(self.root), contextlib.ExitStack() as opened:
            held = self._runs.get(run_id)
            if held is not None and held.users:
                raise RunBusy(f"a node of this process is at work on the run {run_id}")
            self._forget(run_id)
            folder = self._files.open_folder(str(self.root / file_name_of(run_id)))
            opened.callback(os.close, folder)
            journal = self._files.open(JOURNAL_NAME, os.O_RDWR, folder=folder)
            opened.callback(os.close, journal)
            lock_file(journal, self._lock_timeout_s, f"the run {run_id}", self._sleep)
            data = self._journal_bytes(run_id)
            whole, _ = salvaged(data)
            if not is_damaged(data):
                return 0
            replace_file(self._files, f"{JOURNAL_NAME}.damaged", data, folder=folder, durable=True)
            replace_file(self._files, JOURNAL_NAME, whole, folder=folder, durable=True)
            self._files.sync_folder(folder)
        return len(data.rstrip(b"\0")) - len(whole)

    def close(self) -> None:
        """Close every run that no node is at work on."""
        with self._lock:
            run_ids = list(self._runs)
        for run_id in run_ids:
            with self._door(run_id):
                run = self._runs.get(run_id)
                if run is not None and run.users == 0:
                    self._forget(run_id)

    def begin_anew(self) -> None:
        """Forget, in a process that was forked, what its parent has open."""
        runs, self._runs = self._runs, OrderedDict()
        self._doors, self._lock = WeakValueDictionary(), threading.Lock()
        for run in runs.values():
            run.abandon()

    def _door(self, run_id: str) -> threading.Lock:
        with self._lock:
            door = self._doors.get(run_id)
            if door is None:
                door = self._doors[run_id] = threading.Lock()
            return door

    def _held(self, run_id: str) -> RunWal:
        run = self._runs.get(run_id)
        if run is not None and run.is_broken and run.users == 0:
            self._forget(run_id)
            run = None
        if run is None:
            run = self._open(run_id)
        with self._lock:
            self._runs[run_id] = run
            self._runs.move_to_end(run_id)
        return run

    def _close_oldest(self) -> None:
        """Close the run that nobody used for longest, if too many are open."""
        with self._lock:
            if len(self._runs) <= self._open_runs_max:
                return
            oldest = next((each for each in self._runs.values() if each.users == 0), None)
        door = None if oldest is None else self._door(oldest.run_id)
        if oldest is None or door is None or not door.acquire(blocking=False):
            return
        try:
            # Another thread may have closed it meanwhile, and opened it anew.
            if oldest.users == 0 and self._runs.get(oldest.run_id) is oldest:
                self._forget(oldest.run_id)
        finally:
            door.release()

    def _forget(self, run_id: str) -> None:
        with self._lock:
            run = self._runs.pop(run_id, None)
        if run is not None:
            run.close()

    def _open(self, run_id: str) -> RunWal:
        place = f"{self.root / file_name_of(run_id) / JOURNAL_NAME}"
        with translated(place), contextlib.ExitStack() as opened:
            # Of its own for each run: whoever closes another one takes nothing away.
            root = open_root(self.root)
            opened.callback(os.close, root)
            folder = make_and_open(self._files, file_name_of(run_id), folder=root)
            opened.callback(os.close, folder)
            flags = os.O_RDWR | os.O_CREAT
            descriptor = self._files.open(JOURNAL_NAME, flags, folder=folder)
            opened.pop_all()
        journal = Journal(
            descriptor,
            place=place,
            files=self._files,
            sleep=self._sleep,
            folders=(folder, root),
        )
        return RunWal(run_id, (folder, root), journal, files=self._files, clock=self._clock)

    def _journal_bytes(self, run_id: str) -> bytes:
        self._require_known(run_id)
        with translated(self.root / run_id):
            folder = os.open(self.root / file_name_of(run_id), os.O_RDONLY | os.O_NOFOLLOW)
            try:
                data = read_file(JOURNAL_NAME, folder=folder)
            finally:
                os.close(folder)
        return data or b""

    def _written_at(self, run_id: str) -> int:
        with contextlib.suppress(OSError):
            return (self.root / file_name_of(run_id) / JOURNAL_NAME).lstat().st_mtime_ns
        return 0

    def _require_known(self, run_id: str) -> None:
        if not (self.root / file_name_of(run_id) / JOURNAL_NAME).is_file():
            message = f"there is no run {run_id!r} below {self.root}"
            raise NodeRunUnknown(message)
