"""Several workers, each a process of its own, that end with the one that started them.

Parent and child share a pipe. The child stops in good order as soon as the parent writes to the
pipe or closes it. The kernel closes the pipe however the parent ends, so no worker outlives its
parent.
"""

import contextlib
import multiprocessing
import random
import signal
import sys
import threading
import time
from dataclasses import dataclass, fields
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

from tallgrass.bootstrap.ingesting import ingest
from tallgrass.bootstrap.telemetry import open_recorder
from tallgrass.cli.text import log_line
from tallgrass.config import Config
from tallgrass.errors import PermanentError, TallgrassError, TransientError, text_of
from tallgrass.ingest_loop import LoopReport, Until
from tallgrass.ledger.redaction import redact
from tallgrass.retry import Backoff
from tallgrass.telemetry import names
from tallgrass.telemetry.recorder import Recorder

#: How soon a signal to the parent reaches its children.
_LOOK_EVERY_S = 0.2
#: The rest before a worker that died is replaced, by how many died shortly before.
_REPLACED_AFTER = Backoff(base_s=0.5, cap_s=30.0)
#: Deaths in a row that are made up for: whoever waits for an end must be told in the end.
_REPLACED_MAX = {Until.ONCE: 0, Until.DRAINED: 50, Until.STOPPED: sys.maxsize}
#: A worker that lived for so long did not die of how it was started.
_STEADY_S = 60.0


class WorkerDied(PermanentError):
    """A worker process ended without its report, or with an error that nobody foresaw."""

    default_code = "internal_error"


def run_processes(
    config: Config,
    until: Until,
    stop: threading.Event,
    number: int,
    recorder: Recorder,
    *,
    replay_run_id: str | None = None,
    metrics_port: int | None = None,
) -> LoopReport:
    """Run that many workers and add up what they did.

    The metrics port is that of this process; its workers answer Prometheus at the ports after it.

    A worker that dies, or ends with an error, is told at once. It is replaced after a rest, unless
    each has only one round. An error that would meet its successor too is raised at the end; where
    the workers have no end of their own, all are told to stop for it.
    """
    crew = _Crew(config, until, recorder, replay_run_id, metrics_port)
    try:
        for place in range(1, number + 1):
            crew.start(place)
        crew.watch(stop)
    finally:
        crew.end()
    if crew.failures:
        raise crew.failures[0]
    return crew.total


@dataclass(frozen=True, slots=True)
class _Member:
    process: BaseProcess
    started_at: float
    #: Which of the workers it is, from 1; the one that replaces it has the same.
    place: int


class _Crew:
    """The worker processes that run now, and those that are to be started again."""

    def __init__(
        self,
        config: Config,
        until: Until,
        recorder: Recorder,
        replay_run_id: str | None,
        metrics_port: int | None,
    ) -> None:
        self._config = config
        self._replay_run_id = replay_run_id
        self._metrics_port = metrics_port
        self._until = until
        self._recorder = recorder
        self._context = multiprocessing.get_context("spawn")
        self._members: dict[Connection, _Member] = {}
        #: When each replacement is due, and whose place it takes.
        self._replacements: list[tuple[float, int]] = []
        self._deaths_in_row = 0
        self.total = LoopReport()
        self.failures: list[TallgrassError] = []

    def start(self, place: int) -> None:
        """Start the worker of a place."""
        ours, theirs = self._context.Pipe()
        port = self._metrics_port and self._metrics_port + place
        child = self._context.Process(
            target=_work, args=(self._config, self._until, theirs, self._replay_run_id, port)
        )
        child.start()
        theirs.close()  # otherwise nobody would notice that the child has died
        self._members[ours] = _Member(child, time.monotonic(), place)

    def watch(self, stop: threading.Event) -> None:
        """Wait until all have ended and nobody is to be replaced."""
        told = False
        while self._members or self._replacements:
            if stop.is_set():
                self._replacements.clear()
                if not told:
                    told = True
                    for connection in self._members:
                        _tell(connection)
            self._replace()
            ready = wait(list(self._members), timeout=_LOOK_EVERY_S)
            for connection in [each for each in self._members if each in ready]:
                self._hear(connection, stop)

    def end(self) -> None:
        """Let every worker that still runs end in good order."""
        for connection in self._members:
            connection.close()
        for member in self._members.values():
            member.process.join()

    def _replace(self) -> None:
        now = time.monotonic()
        due = [place for at, place in self._replacements if at <= now]
        self._replacements = [each for each in self._replacements if each[0] > now]
        for place in due:
            self.start(place)

    def _hear(self, connection: Connection, stop: threading.Event) -> None:
        member = self._members.pop(connection)
        try:
            answer = connection.recv()
        except (EOFError, OSError):
            answer = None
        finally:
            connection.close()
        member.process.join()
        pid, exit_code = member.process.pid, member.process.exitcode
        if isinstance(answer, LoopReport):
            _add(self.total, answer)
        elif answer is None:
            self._recorder.event(names.WORKER_DIED, pid=pid, exit_code=exit_code)
            died = WorkerDied(f"worker process {pid} ended with {exit_code}")
            self._make_up_for(member, died, stop)
        else:
            self._recorder.event(
                names.WORKER_FAILED, pid=pid, error_code=answer.code, message=redact(str(answer))
            )
            if isinstance(answer, TransientError | WorkerDied):
                self._make_up_for(member, answer, stop)
            else:
                self.failures.append(answer)
                if self._until is Until.STOPPED:
                    stop.set()

    def _make_up_for(self, member: _Member, error: TallgrassError, stop: threading.Event) -> None:
        """Have a worker replaced, unless the end is near or too many ended so in a row."""
        now = time.monotonic()
        steady = now - member.started_at > _STEADY_S
        self._deaths_in_row = 1 if steady else self._deaths_in_row + 1
        if stop.is_set() or self._deaths_in_row > _REPLACED_MAX[self._until]:
            self.failures.append(error)
            return
        rest_s = _REPLACED_AFTER.delay_s(self._deaths_in_row, random.random)
        self._replacements.append((now + rest_s, member.place))


def _tell(connection: Connection) -> None:
    with contextlib.suppress(OSError):  # it has ended by itself
        connection.send(None)


def _work(
    config: Config,
    until: Until,
    parent: Connection,
    replay_run_id: str | None = None,
    metrics_port: int | None = None,
) -> None:
    """Be a worker process."""
    told = threading.Event()
    # Ctrl-C reaches the whole group: the parent says what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda _number, _frame: told.set())

    def sleep(seconds: float) -> None:
        if not told.is_set():
            parent.poll(seconds)

    try:
        with open_recorder(config, log_line, metrics_port=metrics_port) as recorder:
            answer: object = ingest(
                config,
                until=until,
                stop=lambda: told.is_set() or parent.poll(),
                sleep=sleep,
                recorder=recorder,
                replay_run_id=replay_run_id,
            )
    except TallgrassError as error:
        answer = error
    except Exception as error:  # noqa: BLE001 - the parent tells it as every command does
        answer = WorkerDied(f"{type(error).__name__}: {text_of(error)}")
    with contextlib.suppress(OSError):  # the parent is gone
        parent.send(answer)


def _add(total: LoopReport, report: LoopReport) -> None:
    for each in fields(LoopReport):
        value = getattr(report, each.name)
        if isinstance(value, dict):
            counts: dict[str, int] = getattr(total, each.name)
            for name, number in value.items():
                counts[name] = counts.get(name, 0) + number
        else:
            setattr(total, each.name, getattr(total, each.name) + value)
