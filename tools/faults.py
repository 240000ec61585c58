"""Plant each fault of `tests/faults.toml` and see that its tests find it.

Each fault goes into a copy of `src/`, which comes first on the path of the tests and of the
processes they start. The named tests must pass without the fault and fail with it.
Usage: `python -m tools.faults [--only NAME] [--jobs N]`.
"""

from __future__ import annotations

import argparse
import enum
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tools.conformance_list import ROOT
from tools.fault_list import FAULTS_PATH, Fault, FaultListError, load_faults, plant, planted_text

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Pytest's exit codes: all passed, some failed.
PASSED = 0
FAILED = 1
RUN_S_MAX = 900
OUTPUT_LINES_MAX = 25


class Verdict(enum.Enum):
    """What came of one planted fault."""

    FOUND = "found"
    NOT_FOUND = "NOT FOUND"
    #: The tests could not be run: the list is wrong, not the code.
    ERROR = "ERROR"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One fault, its verdict, and the output that explains it."""

    fault: Fault
    verdict: Verdict
    seconds: float
    output: str


def pytest_command(tests: Sequence[str], *options: str) -> list[str]:
    """Return the pytest command for the tests, without state from or for other runs."""
    base = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    return [*base, *options, *tests]


def environment(source: Path) -> dict[str, str]:
    """Return an environment in which `source` comes before the installed package."""
    # CI's rule on skips is for the whole suite; a fault is found by a failing test alone.
    inherited = {key: value for key, value in os.environ.items() if key != "CI"}
    return {**inherited, "PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1"}


def run(command: Sequence[str], *, root: Path, source: Path) -> tuple[int | None, str]:
    """Run the command in `root`; the code is None when it took too long."""
    try:
        done = subprocess.run(
            command,
            cwd=root,
            env=environment(source),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=RUN_S_MAX,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return None, f"did not end within {RUN_S_MAX} s"
    return done.returncode, done.stdout


def judge(code: int | None) -> Verdict:
    """Return the verdict on a run with the fault planted: only failing tests find a fault."""
    if code == FAILED:
        return Verdict.FOUND
    return Verdict.NOT_FOUND if code == PASSED else Verdict.ERROR


def try_fault(fault: Fault, root: Path) -> Finding:
    """Plant one fault in a copy of `src` and run its tests on the copy."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tallgrass-fault-") as folder:
        copy = Path(folder)
        shutil.copytree(
            root / "src", copy / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info")
        )
        plant(fault, copy)
        command = pytest_command(fault.tests, "-x", "-p", "no:xdist")
        code, output = run(command, root=root, source=copy / "src")
    seconds = time.monotonic() - started
    return Finding(fault=fault, verdict=judge(code), seconds=seconds, output=output)


def check_copy_is_used(root: Path) -> None:
    """Raise unless a package on PYTHONPATH is imported rather than the installed one."""
    with tempfile.TemporaryDirectory(prefix="tallgrass-fault-") as folder:
        package = Path(folder) / "tallgrass"
        package.mkdir()
        (package / "__init__.py").write_text("", encoding="utf-8")
        command = [sys.executable, "-c", "import tallgrass; print(tallgrass.__file__)"]
        code, output = run(command, root=root, source=Path(folder))
        if code != PASSED or Path(output.strip()).parent.resolve() != package.resolve():
            raise FaultListError(f"the copy of src would not be imported, but {output.strip()}")


def check_tests_pass(faults: Sequence[Fault], root: Path, jobs: int) -> None:
    """Raise unless all named tests pass while no fault is planted."""
    tests = list(dict.fromkeys(test for fault in faults for test in fault.tests))
    code, output = run(pytest_command(tests, "-n", str(jobs)), root=root, source=root / "src")
    if code != PASSED:
        raise FaultListError(f"the named tests must pass without a fault:\n{_tail(output)}")


def try_all(faults: Sequence[Fault], root: Path, jobs: int) -> list[Finding]:
    """Try all faults, `jobs` at a time, and print a line as each ends."""
    findings = []
    width = max(len(fault.name) for fault in faults)
    with ThreadPoolExecutor(max_workers=jobs) as pool:
        running = [pool.submit(try_fault, fault, root) for fault in faults]
        for done in as_completed(running):
            finding = done.result()
            findings.append(finding)
            ids = " ".join(finding.fault.ids)
            line = f"{finding.fault.name:<{width}}  {finding.verdict.value:<9}"
            print(f"{line}  {finding.seconds:6.1f} s  {ids}", flush=True)
    return findings


def _tail(output: str) -> str:
    return "\n".join(f"    {line}" for line in output.splitlines()[-OUTPUT_LINES_MAX:])


def _print_problems(findings: Sequence[Finding]) -> None:
    for finding in findings:
        if finding.verdict is Verdict.NOT_FOUND:
            print(f"\n{finding.fault.name}: no test failed. {finding.fault.why}")
        elif finding.verdict is Verdict.ERROR:
            print(f"\n{finding.fault.name}: the tests could not be run.\n{_tail(finding.output)}")


def _chosen(faults: list[Fault], only: list[str]) -> list[Fault]:
    unknown = set(only) - {fault.name for fault in faults}
    if unknown:
        raise FaultListError(f"no fault is named {', '.join(sorted(unknown))}")
    return [fault for fault in faults if not only or fault.name in only]


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tools.faults", description=__doc__)
    parser.add_argument("--only", action="append", default=[], help="try this fault (repeatable)")
    parser.add_argument("--jobs", type=int, default=2, help="how many at a time (default 2)")
    parser.add_argument("--faults", type=Path, default=FAULTS_PATH, help="the list of faults")
    parser.add_argument("--root", type=Path, default=ROOT, help="the checkout")
    return parser.parse_args(argv)


def _try_chosen(arguments: argparse.Namespace) -> list[Finding]:
    faults = _chosen(load_faults(arguments.faults), arguments.only)
    root = arguments.root.resolve()
    for fault in faults:
        planted_text(fault, root)
    if not faults:
        return []
    check_copy_is_used(root)
    print(f"{len(faults)} faults; first their tests without any fault ...", flush=True)
    check_tests_pass(faults, root, arguments.jobs)
    return try_all(faults, root, arguments.jobs)


def main(argv: Sequence[str] | None = None) -> int:
    """Try the faults; 0 if each was found."""
    try:
        findings = _try_chosen(_arguments(argv))
    except FaultListError as error:
        print(f"faults: {error}", file=sys.stderr)
        return 1
    _print_problems(findings)
    found = sum(finding.verdict is Verdict.FOUND for finding in findings)
    print(f"\n{len(findings)} faults planted, {found} found")
    return 0 if found == len(findings) else 1


if __name__ == "__main__":
    sys.exit(main())
