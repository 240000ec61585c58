"""Work that outlives a request: started by one, watched by others, ended in good order.

At most one job of each kind runs at a time. The result of a job is kept for a while, in memory
only: what its work did is in the database, and work that was cut off can be taken up again, as by
the command line.
"""

import logging
import threading
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from tallgrass.api.problems import problem_of
from tallgrass.clock import Clock
from tallgrass.errors import PermanentError, Refused, TallgrassError, UnknownRecord

#: Jobs that are remembered, those under way among them.
KEPT_MAX: Final = 50
#: How long the end of the server waits for jobs to finish their batch. What then still runs is cut
#: off, as by a crash, and the next start of it goes on.
GRACE_S: Final = 30.0
_LOG = logging.getLogger("tallgrass.api.jobs")


class JobKind(StrEnum):
    """What a job does; the database guards each of them by itself, too."""

    REPLAY = "replay"
    DRAIN = "drain"
    BACKFILL = "backfill"
    RECONCILE = "reconcile"
    VERIFY = "verify"
    AUDIT_CHECK = "audit-check"
    RETENTION = "retention"
    VALIDATE = "validate"


class JobState(StrEnum):
    """How far a job is."""

    RUNNING = "running"
    DONE = "done"
    #: Somebody, or the end of the server, said stop, and it did.
    STOPPED = "stopped"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One job as it stands."""

    job_id: str
    kind: JobKind
    title: str
    started_by: str
    started_at: datetime
    state: JobState = JobState.RUNNING
    #: What it tells while it runs.
    progress: Mapping[str, Any] = field(default_factory=dict)
    ended_at: datetime | None = None
    #: What it came to; None while it runs, or where it failed.
    result: Mapping[str, Any] | None = None
    #: Why it failed, in the form of all errors.
    problem: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class JobSide:
    """What a job hands to its work: whether to stop, and where to report progress."""

    _stop: threading.Event
    #: Tell how far it is; the last word counts.
    tell: Callable[[Mapping[str, Any]], None]

    def stop(self) -> bool:
        """Tell whether it shall end after what it has in hand."""
        return self._stop.is_set()

    def sleep(self, seconds: float) -> None:
        """Wait, but no longer than until it shall end."""
        self._stop.wait(seconds)


Work = Callable[[JobSide], Mapping[str, Any]]


@dataclass(slots=True)
class _Running:
    thread: threading.Thread
    stop: threading.Event


class Jobs:
    """The jobs of one server."""

    def __init__(self, *, clock: Clock, ids: Callable[[], uuid.UUID] = uuid.uuid4) -> None:
        self._clock = clock
        self._ids = ids
        self._lock = threading.Lock()
        self._jobs: dict[str, Job] = {}
        self._running: dict[str, _Running] = {}
        self._closed = False

    def start(self, kind: JobKind, title: str, work: Work, *, by: str) -> Job:
        """Begin work in the background; while one of its kind runs, no other does."""
        stop = threading.Event()
        with self._lock:
            self._require_free(kind)
            job = Job(
                job_id=str(self._ids()),
                kind=kind,
                title=title,
                started_by=by,
                started_at=self._clock(),
            )
            # A thread that hangs must not keep the process alive beyond the grace of `close`.
            thread = threading.Thread(
                target=self._run, args=(job.job_id, work, stop), name=f"job-{kind}", daemon=True
            )
            self._jobs[job.job_id] = job
            self._running[job.job_id] = _Running(thread, stop)
            self._forget()
            thread.start()
        return job

    def require_free(self, kind: JobKind) -> None:
        """Refuse while one of the kind runs, before anything is done for another."""
        with self._lock:
            self._require_free(kind)

    def find(self, job_id: str) -> Job:
        """Return a job as it stands."""
        with self._lock:
            job = self._jobs.get(job_id)
        if job is None:
            raise UnknownRecord(f"there is no job {job_id[:80]!r}", code="job_unknown")
        return job

    def all(self, kind: JobKind | None = None) -> list[Job]:
        """Return the jobs that are remembered, the latest first."""
        with self._lock:
            found = list(self._jobs.values())
        return [job for job in reversed(found) if kind is None or job.kind is kind]

    def stop(self, job_id: str) -> Job:
        """Ask a job to end after what it has in hand; one that has ended stays as it is."""
        job = self.find(job_id)
        with self._lock:
            running = self._running.get(job_id)
        if running is not None:
            running.stop.set()
        return job

    def wait(self, job_id: str, timeout_s: float) -> Job:
        """Wait until a job has ended, or the time is over; return it as it stands then."""
        with self._lock:
            running = self._running.get(job_id)
        if running is not None:
            running.thread.join(timeout_s)
        return self.find(job_id)

    def close(self, *, grace_s: float = GRACE_S) -> None:
        """Begin none any more, ask all to stop, and wait until they have."""
        with self._lock:
            self._closed = True
            running = list(self._running.values())
        for each in running:
            each.stop.set()
        for each in running:
            each.thread.join(grace_s)

    def _require_free(self, kind: JobKind) -> None:
        if self._closed:
            raise Refused("the server is about to end", code="job_running")
        for job_id in self._running:
            job = self._jobs[job_id]
            if job.kind is kind:
                message = f"a {kind.value} runs already, started by {job.started_by}: {job_id}"
                raise Refused(message, code="job_running")

    def _forget(self) -> None:
        """Let go of the oldest that have ended."""
        ended = [job_id for job_id in self._jobs if job_id not in self._running]
        for job_id in ended[: max(0, len(self._jobs) - KEPT_MAX)]:
            del self._jobs[job_id]

    def _run(self, job_id: str, work: Work, stop: threading.Event) -> None:
        def tell(progress: Mapping[str, Any]) -> None:
            with self._lock:
                self._jobs[job_id] = replace(self._jobs[job_id], progress=dict(progress))

        try:
            result = work(JobSide(stop, tell))
        except TallgrassError as error:
            self._end(job_id, JobState.FAILED, problem=problem_of(error))
        except BaseException as error:  # whatever it was, the job must not seem to run on
            _LOG.exception("job %s", job_id)
            unexpected = PermanentError("something went wrong; the log says more")
            self._end(job_id, JobState.FAILED, problem=problem_of(unexpected))
            if not isinstance(error, Exception):
                raise
        else:
            state = JobState.STOPPED if stop.is_set() else JobState.DONE
            self._end(job_id, state, result=result)

    def _end(
        self,
        job_id: str,
        state: JobState,
        *,
        result: Mapping[str, Any] | None = None,
        problem: Mapping[str, Any] | None = None,
    ) -> None:
        with self._lock:
            self._jobs[job_id] = replace(
                self._jobs[job_id],
                state=state,
                ended_at=self._clock(),
                result=result,
                problem=problem,
            )
            del self._running[job_id]
