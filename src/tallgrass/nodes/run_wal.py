"""The log of one run: its journal, what that says, and the files that show it."""

import os
import secrets
import threading
from collections.abc import Mapping
from typing import Any, Final

from tallgrass.clock import Clock, format_instant
from tallgrass.errors import InvalidInput
from tallgrass.nodes.entries import FORMAT, Entry, Kind, RunState, TaskId, TaskState
from tallgrass.nodes.files import Files, make_and_open, read_file, replace_file, translated
from tallgrass.nodes.identity import file_name_of
from tallgrass.nodes.journal import Frame, Journal
from tallgrass.nodes.views import views_of

TASKS_NAME: Final = "tasks"


class RunWal:
    """The log of one run, held by this process while one of its nodes is at work."""

    def __init__(
        self,
        run_id: str,
        folders: tuple[int, int],
        journal: Journal,
        *,
        files: Files,
        clock: Clock,
    ) -> None:
        self.run_id = run_id
        self.state = RunState(run_id)
        #: The run's own, and the one around it; closed with the run.
        self._folders = folders
        self._folder = folders[0]
        self._journal = journal
        self._files = files
        self._clock = clock
        self._lock = threading.Lock()
        self._views_checked = False
        #: How many files were wrong when it was opened.
        self.views_mended = 0
        #: Nodes of this process that are at work on it.
        self.users = 0

    @property
    def is_broken(self) -> bool:
        """Whether it must be opened anew before anything else can be written."""
        return self._journal.is_broken

    def take(self, timeout_s: float) -> None:
        """Take the run's lock, learn what others wrote, and put its views right."""
        self.absorb(self._journal.lock(timeout_s))
        try:
            if self.state.begun_at is None:
                salt = secrets.token_hex(16)
                body = {"run_id": self.run_id, "format": FORMAT, "salt": salt}
                self._append(Entry(kind=Kind.RUN, task=None, at=self._now(), body=body))
            if not self._views_checked:
                self.views_mended = self.rebuild_views()
                self._views_checked = True
        except BaseException:
            self._journal.unlock()
            raise

    def give_back(self) -> None:
        """Let other processes have the run."""
        self._journal.unlock()

    def absorb(self, frames: tuple[Frame, ...]) -> None:
        """Take in entries that were read."""
        for frame in frames:
            self.state.apply(Entry.read(frame.payload), frame.end)

    def task(self, task: TaskId) -> TaskState:
        """Return what the log says of a task; ids that would share a folder are refused."""
        file_name_of(task.node_id)
        file_name_of(task.task_id)
        with self._lock:
            clash = self.state.clash_of(task)
            if clash is not None:
                raise InvalidInput(
                    f"{task.node_id}/{task.task_id} differs from {clash} by case alone",
                    code="node_id_invalid",
                )
            return self.state.task(task)

    def append(self, kind: Kind, task: TaskId, body: Mapping[str, Any]) -> int:
        """Write an entry; it is durable after `commit` of what is returned."""
        return self._append(Entry(kind=kind, task=task, at=self._now(), body=body))

    def append_both(
        self,
        task: TaskId,
        first: tuple[Kind, Mapping[str, Any]],
        then: tuple[Kind, Mapping[str, Any]],
    ) -> int:
        """Write two entries at once."""
        now = self._now()
        return self._append(
            Entry(kind=first[0], task=task, at=now, body=first[1]),
            Entry(kind=then[0], task=task, at=now, body=then[1]),
        )

    def commit(self, end: int) -> None:
        """Return when the log is on the disk up to `end`."""
        self._journal.commit(end)

    def write_views(self, task: TaskId, *names: str) -> None:
        """Replace the named files of a task by what the journal says, or all of them."""
        with self._lock, translated(self._place(task)):
            folder = self._open_task_folder(task)
            try:
                for name, data in views_of(self.run_id, self.state.task(task), names).items():
                    if data is not None:
                        replace_file(self._files, name, data, folder=folder)
            finally:
                os.close(folder)

    def rebuild_views(self) -> int:
        """Make every file say what the journal says; return how many did not."""
        return sum(self._rebuild(task) for task in list(self.state.tasks))

    def close(self) -> None:
        """Close what is open."""
        self._journal.close()
        self._close_folders()

    def abandon(self) -> None:
        """Close a fork's copy: it writes nothing, and keeps nobody from the run."""
        self._lock = threading.Lock()
        self._journal.abandon()
        self._close_folders()

    def _close_folders(self) -> None:
        for folder in self._folders:
            os.close(folder)

    def _rebuild(self, task: TaskId) -> int:
        with self._lock, translated(self._place(task)):
            folder = self._open_task_folder(task)
            try:
                views = views_of(self.run_id, self.state.task(task))
                wrong = {n: data for n, data in views.items() if _content(n, folder) != data}
                for name, data in wrong.items():
                    if data is None:
                        self._files.remove(name, folder=folder)
                    else:
                        replace_file(self._files, name, data, folder=folder)
            finally:
                os.close(folder)
        return len(wrong)

    def _append(self, *entries: Entry) -> int:
        payloads = [entry.payload() for entry in entries]
        with self._lock:
            end = self._journal.append(*payloads)
            for entry in entries:
                self.state.apply(entry, end)
            return end

    def _open_task_folder(self, task: TaskId) -> int:
        state = self.state.task(task)
        # Before its first attempt, or after a hit of the cache, nothing was shown of it.
        is_new = state.is_first and len(state.attempts) + (state.post is not None) <= 1
        name = file_name_of(task.node_id)
        folder = make_and_open(self._files, name, folder=self._folder, is_new=is_new)
        if state.is_first:
            return folder
        for name in (TASKS_NAME, file_name_of(task.task_id)):
            outer = folder
            try:
                folder = make_and_open(self._files, name, folder=outer)
            finally:
                os.close(outer)
        return folder

    def _place(self, task: TaskId) -> str:
        return f"the log of {self.run_id}/{task.node_id}/{task.task_id}"

    def _now(self) -> str:
        return format_instant(self._clock())


def _content(name: str, folder: int) -> bytes | None:
    """Return a view's content; what cannot be read, a link for one, is not what it should be."""
    try:
        return read_file(name, folder=folder)
    except OSError:
        return b""
