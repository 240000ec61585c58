"""Several workers, each a process of its own, that end with the one that started them.

Parent and child share a pipe. The child stops in good order as soon as the other end says anything
or is closed, and the kernel closes it however the parent ends: no worker outlives it.
"""

import contextlib
import multiprocessing
import signal
import threading
from dataclasses import fields
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

from tallgrass.bootstrap import LoopReport, Until, ingest
from tallgrass.clock import system_clock
from tallgrass.config import Config
from tallgrass.errors import PermanentError, TallgrassError
from tallgrass.telemetry.log_recorder import LogRecorder

#: How soon a signal to the parent reaches its children.
_LOOK_EVERY_S = 0.2


class WorkerDied(PermanentError):
    """A worker process ended without its report."""

    default_code = "internal_error"


def run_processes(config: Config, until: Until, stop: threading.Event, number: int) -> LoopReport:
    """Run so many workers and add up what they did; what ended badly is told at the end."""
    context = multiprocessing.get_context("spawn")
    running: dict[Connection, BaseProcess] = {}
    try:
        for _ in range(number):
            ours, theirs = context.Pipe()
            child: BaseProcess = context.Process(target=_work, args=(config, until, theirs))
            child.start()
            theirs.close()  # otherwise nobody would notice that the child has died
            running[ours] = child
        return _gathered(running, stop)
    finally:
        for connection in running:
            connection.close()
        for child in running.values():
            child.join()


def _gathered(running: dict[Connection, BaseProcess], stop: threading.Event) -> LoopReport:
    total = LoopReport()
    failures: list[TallgrassError] = []
    open_ends = list(running)
    told = False
    while open_ends:
        if stop.is_set() and not told:
            told = True
            for connection in open_ends:
                _tell(connection)
        ready = wait(open_ends, timeout=_LOOK_EVERY_S)
        for connection in [each for each in open_ends if each in ready]:
            open_ends.remove(connection)
            try:
                answer = connection.recv()
            except (EOFError, OSError):
                child = running[connection]
                child.join()
                failures.append(
                    WorkerDied(f"worker process {child.pid} ended with {child.exitcode}")
                )
                continue
            if isinstance(answer, LoopReport):
                _add(total, answer)
            else:
                failures.append(answer)
    if failures:
        raise failures[0]
    return total


def _tell(connection: Connection) -> None:
    with contextlib.suppress(OSError):  # it has ended by itself
        connection.send(None)


def _work(config: Config, until: Until, parent: Connection) -> None:
    """Be a worker process."""
    from tallgrass.cli.ingest import log_line  # noqa: PLC0415 - imports this module

    told = threading.Event()
    # Ctrl-C reaches the whole group: the parent says what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda _number, _frame: told.set())

    def sleep(seconds: float) -> None:
        if not told.is_set():
            parent.poll(seconds)

    try:
        answer: object = ingest(
            config,
            until=until,
            stop=lambda: told.is_set() or parent.poll(),
            sleep=sleep,
            recorder=LogRecorder(log_line, system_clock),
        )
    except TallgrassError as error:
        answer = error
    except Exception as error:  # noqa: BLE001 - the parent tells it as every command does
        answer = WorkerDied(f"{type(error).__name__}: {error}")
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
