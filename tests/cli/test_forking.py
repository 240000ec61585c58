"""A command that is forked cannot be told from one that was started."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.cli.main import COMMANDS
from tests.cli.command import PROGRAM, environment
from tests.support.forking import Forked, can_fork, run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: Answers line by line, and waits for the next.
ANSWERS = ("inspect", "key", "-")
KEY = b"s3://noaa-hrrr-bdp-pds/hrrr.20260101/conus/hrrr.t00z.wrfsfcf00.grib2\n"
#: Lines of a process's status that tell how it began.
STATUS = ("Threads", "Umask", "SigBlk", "SigIgn", "SigCgt")


def start() -> subprocess.Popen[bytes]:
    """Start for real."""
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [*PROGRAM, *ANSWERS], env=environment(), stdin=pipe, stdout=pipe, stderr=pipe
    )


def fork() -> Forked:
    """Start by a fork."""
    return Forked(ANSWERS, env=environment())


@contextlib.contextmanager
def talking(begin: Callable[[], Any]) -> Iterator[Any]:
    """Begin a command; it has answered one line and waits for the next."""
    with begin() as process:
        process.stdin.write(KEY)
        process.stdin.flush()
        assert b'"hrrr"' in process.stdout.readline()
        yield process


def facts(pid: int) -> dict[str, object]:
    """Return what the kernel tells of a process, and its parent has no say in."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    status = dict(line.split(":\t", 1) for line in lines)
    return {
        "status": {
            name: status[name] for name in ("Threads", "Umask", "SigBlk", "SigIgn", "SigCgt")
        },
        "group": os.getpgid(pid),
        "session": os.getsid(pid),
        "folder": Path(f"/proc/{pid}/cwd").readlink(),
        "program": Path(f"/proc/{pid}/exe").readlink(),
        "descriptors": sorted(each.name for each in Path(f"/proc/{pid}/fd").iterdir()),
        "limits": Path(f"/proc/{pid}/limits").read_text(encoding="ascii"),
    }


def test_the_kernel_sees_no_difference() -> None:
    """Signals, descriptors, group, folder, limits and threads are those of a start."""
    with talking(start) as started, talking(fork) as forked:
        assert facts(forked.pid) == facts(started.pid)
        assert facts(forked.pid)["descriptors"] == ["0", "1", "2"]


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGTERM, -signal.SIGTERM), (signal.SIGKILL, -signal.SIGKILL), (signal.SIGINT, 130)],
)
def test_signals_end_it_alike(number: signal.Signals, code: int) -> None:
    """The exit code, and what is said at the end, are the same."""
    said = []
    for begin in (start, fork):
        with talking(begin) as process:
            os.kill(process.pid, number)
            assert process.wait(60) == code
            said.append(process.stderr.read())
    assert said[0] == said[1]
    assert (said[0] == b"") == (code < 0)


def both(*arguments: str, **options: Any) -> list[tuple[int, bytes, bytes]]:
    """Run a command line by a start and by a fork; return how each ended."""
    variables = environment(**options.pop("env", {}))
    assert can_fork(variables)
    done = [
        subprocess.run(
            [*PROGRAM, *arguments], env=variables, capture_output=True, check=False, **options
        ),
        run(arguments, env=variables, timeout=120, **options),
    ]
    return [(each.returncode, each.stdout, each.stderr) for each in done]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_starts_for_real(name: str) -> None:
    """`--help` of each, by a start of its own; a fork says the same."""
    started, forked = both(name, "--help")
    assert started == forked
    assert started[0] == 0
    assert f"Usage: tallgrass {name}".encode() in started[1]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [(["explain", "io_error"], 0), (["wla"], 2), (["wal", "list", "--limit", "0"], 2),
     (["explain", "io_eror", "--output", "json"], 2), (["wal", "show", "ä\udcff"], 2)],
    ids=str,
)  # fmt: skip
def test_answers_and_errors_are_the_same(arguments: list[str], code: int) -> None:
    """Exit code, stdout and stderr."""
    started, forked = both(*arguments)
    assert started == forked
    assert started[0] == code


def test_folder_environment_and_stdin_are_its_own(tmp_path: Path) -> None:
    """A file beside it, a variable and its input count, and none of another call."""
    (tmp_path / "tallgrass.toml").write_text('[worker]\nid = "from-file"\n', encoding="utf-8")
    shown = ("config", "show", "--output", "json")
    here = both(*shown, cwd=tmp_path, env={"TALLGRASS_QUEUE_NAME": "mine"})
    assert here[0] == here[1]
    assert b"from-file" in here[1][1]
    assert b'"mine"' in here[1][1]
    elsewhere = both(*shown)
    assert elsewhere[0] == elsewhere[1]
    assert b"from-file" not in elsewhere[1][1]
    assert b'"mine"' not in elsewhere[1][1]
    read = both(*ANSWERS, input=KEY * 3)
    assert read[0] == read[1]
    assert len(read[1][1].splitlines()) == 3


def test_an_unexpected_error_is_told_alike(tmp_path: Path) -> None:
    """A library that breaks as it is loaded: the folder comes first on the path, as at a start."""
    (tmp_path / "yaml.py").write_text("1 / 0\n", encoding="utf-8")
    (tmp_path / "plan.yaml").write_text("a: 1\n", encoding="utf-8")
    started, forked = both("replay", "--dry-run", "--selection-file", "plan.yaml", cwd=tmp_path)
    assert started == forked
    assert started[0] == 1
    assert b"ZeroDivisionError" in started[2]


def test_calls_at_the_same_time_get_their_own_answers() -> None:
    """Each has its own process; none waits for another."""
    codes = ["io_error", "size_zero", "lease_expired", "schema_missing"] * 3
    with talking(fork), ThreadPoolExecutor(4) as pool:
        done = list(
            pool.map(lambda code: run(["explain", code], env=environment(), timeout=120), codes)
        )
    for code, each in zip(codes, done, strict=True):
        assert each.returncode == 0
        assert code.encode() in each.stdout


def test_what_takes_too_long_is_ended(tmp_path: Path) -> None:
    """As `subprocess.run` does it: nothing is left behind."""
    with talking(fork) as process:
        with pytest.raises(TimeoutError):
            process.wait(0.01)
        assert Path(f"/proc/{process.pid}").exists()
        process.kill()
        assert process.wait(60) == -signal.SIGKILL
        assert not Path(f"/proc/{process.pid}").exists()
    with pytest.raises(TimeoutError):
        run(["demo", "--units", "1000000"], env=environment(), timeout=0.01, cwd=tmp_path)


@pytest.mark.parametrize(
    "variable", ["PYTHONPATH", "PYTHONHASHSEED", "LC_ALL", "TZ", "COVERAGE_PROCESS_START"]
)
def test_what_counts_at_the_start_is_not_forked(variable: str) -> None:
    """A variable that is read before any of our code asks for a start of its own."""
    assert can_fork(environment())
    assert not can_fork(environment(**{variable: "1"}))
