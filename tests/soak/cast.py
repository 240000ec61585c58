"""The processes of a soak: started, killed, started again, and measured while they live."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import psutil

from tests.support.processes import ROOT

if TYPE_CHECKING:
    from tests.soak.place import Place
    from tests.soak.run import Order

END_S_MAX = 60
TALLGRASS = ("-m", "tallgrass")


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What a process takes at a moment."""

    resident: int
    handles: int
    #: Seconds of CPU since it was started.
    cpu_s: float


@dataclass(kw_only=True)
class Member:
    """A process that is started again whenever it has ended."""

    name: str
    command: tuple[str, ...]
    place: Place
    #: Whether its end is somebody's wish: then it says nothing of the process.
    kills: int = 0
    ends: int = 0
    #: Seconds of CPU of its earlier lives.
    spent_s: float = 0.0
    _process: subprocess.Popen[str] | None = field(default=None, init=False)

    def start(self) -> None:
        """Start it; what it logs goes to a file of its name."""
        with (self.place.folder / f"{self.name}.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, *self.command],
                cwd=self.place.folder,
                env={**self.place.environment, "PYTHONPATH": str(ROOT)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE if self.name == "feeder" else log,
                stderr=log,
                text=True,
            )

    @property
    def process(self) -> subprocess.Popen[str]:
        """The process, which was started."""
        assert self._process is not None
        return self._process

    @property
    def lives(self) -> bool:
        """Whether it runs now."""
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        """End it by SIGKILL and start the next one."""
        self._remember()
        self.process.kill()
        self.process.wait()
        self.kills += 1
        self.start()

    def keep_alive(self) -> None:
        """Start it again if it ended by itself."""
        if not self.lives:
            self.ends += 1
            self.start()

    def measure(self) -> Measured | None:
        """Return what it takes now; None where it has just ended."""
        try:
            process = psutil.Process(self.process.pid)
            with process.oneshot():
                times = process.cpu_times()
                return Measured(
                    resident=process.memory_info().rss,
                    handles=process.num_fds(),
                    cpu_s=self.spent_s + times.user + times.system
                    + times.children_user + times.children_system,
                )  # fmt: skip
        except psutil.NoSuchProcess:
            return None

    def end(self) -> int:
        """Ask it to end, and return its code; one that does not is killed."""
        if self._process is None:
            return 0
        self._process.terminate()
        try:
            return self._process.wait(timeout=END_S_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()
        finally:
            if self._process.stdout is not None:
                self._process.stdout.close()

    def _remember(self) -> None:
        measured = self.measure()
        self.spent_s = self.spent_s if measured is None else measured.cpu_s


def cpu_of(pid: int) -> float:
    """Return the seconds of CPU of a process and of all that it started."""
    total: float = 0.0
    try:
        head = psutil.Process(pid)
        for process in (head, *head.children(recursive=True)):
            times = process.cpu_times()
            total += float(times.user + times.system)
        reaped = head.cpu_times()
        total += float(reaped.children_user + reaped.children_system)
    except psutil.NoSuchProcess:
        return total
    return total


def cast(place: Place, order: Order) -> dict[str, Member]:
    """Return the processes: a worker that stays and one that is killed, a dispatcher, the rest."""

    def told(**more: Any) -> str:
        return json.dumps({"flags": place.flags, **more})

    commands: dict[str, tuple[str, ...]] = {
        "worker": (*TALLGRASS, "ingest"),
        "killed worker": (*TALLGRASS, "ingest"),
        "dispatcher": (*TALLGRASS, "outbox", "dispatch"),
        "retention": ("-m", "tests.soak.retaining", told(kept_s=order.kept_s)),
        "feeder": (
            "-m",
            "tests.soak.feeding",
            told(
                seed=order.seed,
                rate=order.rate,
                seconds=order.seconds,
                long=not order.is_short,
                objects=str(place.written),
                enough=str(place.enough),
                manifests=str(place.folder / "manifests.jsonl"),
            ),
        ),
    }
    return {
        name: Member(name=name, command=command, place=place) for name, command in commands.items()
    }
