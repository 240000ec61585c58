"""Runs tests against mutants: `python -m tools.mutant_session JSON`, one group of modules.

Tests are collected once; then each mutant gets a fork of this process, in which one function has
other code, and only the tests that reach its line run, the quickest first, until one fails. A
mutant outside of all functions needs modules that were never imported: it gets a fork from before
the package was.
"""

from __future__ import annotations

import ast
import gc
import importlib.abc
import importlib.util
import json
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

import pytest
from _pytest.runner import runtestprotocol
from hypothesis import Phase, settings

from tools.mutant_making import Mutant, mutants_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "tallgrass"
SURVIVED, KILLED, TIMEOUT, UNREACHED = "survived", "killed", "timeout", "unreached"
#: A mutant may take so many times as long as the tests do without one, and so much more.
PATIENCE, PATIENCE_S = 8.0, 20.0
#: A test that runs for longer is not worth its time for every mutant.
TEST_S_MAX = 6.0
NO_SERVERS = "not postgres and not ministack and not moto"
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - the system's own, for scratch files


@dataclass(kw_only=True)
class Reach:
    """Which lines of which module each test reaches, and how long it takes."""

    lines: dict[str, dict[str, list[int]]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    def tests(self, module: str, line: int) -> list[str]:
        """Return the tests that reach a line, the quickest first."""
        found = [
            name
            for name, reached in self.lines.items()
            if line in reached.get(module, ()) and self.seconds[name] <= TEST_S_MAX
        ]
        return sorted(found, key=lambda name: self.seconds[name])


@dataclass(kw_only=True)
class _Running:
    module: str
    mutant: Mutant
    folder: str
    ends_at: float


class Session:
    """A pytest plugin that runs mutants instead of tests."""

    def __init__(self, modules: Sequence[str], jobs: int, tell: Callable[[Any], None]) -> None:
        self._modules = modules
        self._jobs = jobs
        self._tell = tell
        self._running: dict[int, _Running] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Fork for each mutant."""
        items = {item.nodeid: item for item in session.items}
        reach = self._reach(list(items.values()))
        for module in self._modules:
            functions = _functions(SOURCE / module)
            self._control(module, functions, items, reach)
            for mutant in mutants_of((SOURCE / module).read_text(encoding="utf-8")):
                tests = [items[name] for name in reach.tests(module, mutant.line)]
                if mutant.function is None:
                    continue  # played by another session
                if not tests:
                    self._tell(_result(module, mutant, UNREACHED))
                    continue
                limit_s = PATIENCE * sum(reach.seconds[each.nodeid] for each in tests) + PATIENCE_S
                self._start(module, mutant, limit_s, _swapping(functions, mutant, tests))
        while self._running:
            self._wait()
        return True

    # --- the run without a mutant -----------------------------------------------------------------

    def _reach(self, items: list[pytest.Item]) -> Reach:
        """Run all tests once, in a child; it tells what each reaches."""
        with tempfile.NamedTemporaryFile(dir=_scratch()) as file:
            pid = os.fork()
            if pid == 0:
                _in_child(lambda: _trace(items, self._modules, Path(file.name)))
            os.waitpid(pid, 0)
            found = json.loads(Path(file.name).read_text(encoding="utf-8"))
        for name in found["failed"]:
            print(f"  left out, it fails without a mutant: {name}", file=sys.stderr)
        return Reach(lines=found["lines"], seconds=found["seconds"])

    def _control(
        self,
        module: str,
        functions: dict[int, FunctionType],
        items: dict[str, pytest.Item],
        reach: Reach,
    ) -> None:
        """Put the code in unchanged: nothing may fail, or every mutant would seem noticed."""
        reaching = [name for name, found in reach.lines.items() if found.get(module)]
        if not reaching:
            return
        tree = ast.parse((SOURCE / module).read_text(encoding="utf-8"))
        folder = tempfile.mkdtemp(dir=_scratch(), prefix="tallgrass-mutant-")

        def work() -> int:
            for function in functions.values():
                function.__code__ = _code_of(tree, function)
            _use_folder(items[reaching[0]], Path(folder))
            return _first_failure([items[name] for name in reaching])

        pid = os.fork()
        if pid == 0:
            _in_child(work)
        _, status = os.waitpid(pid, 0)
        shutil.rmtree(folder, ignore_errors=True)
        if status:
            pytest.exit(f"{module}: tests fail though nothing was changed", returncode=1)

    # --- the runs with one ------------------------------------------------------------------------

    def _start(
        self, module: str, mutant: Mutant, limit_s: float, work: Callable[[Path], int]
    ) -> None:
        while len(self._running) >= self._jobs:
            self._wait()
        folder = tempfile.mkdtemp(dir=_scratch(), prefix="tallgrass-mutant-")
        pid = os.fork()
        if pid == 0:
            _in_child(lambda: work(Path(folder)))
        self._running[pid] = _Running(
            module=module, mutant=mutant, folder=folder, ends_at=time.monotonic() + limit_s
        )

    def _wait(self) -> None:
        """Wait until one has ended, or took too long."""
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid in self._running:
                code = os.waitstatus_to_exitcode(status)
                self._finish(pid, SURVIVED if code == 0 else KILLED)
                return
            for late, running in list(self._running.items()):
                if time.monotonic() > running.ends_at:
                    os.killpg(late, signal.SIGKILL)
                    os.waitpid(late, 0)
                    self._finish(late, TIMEOUT)
                    return
            time.sleep(0.002)

    def _finish(self, pid: int, verdict: str) -> None:
        running = self._running.pop(pid)
        shutil.rmtree(running.folder, ignore_errors=True)
        self._tell(_result(running.module, running.mutant, verdict))


def _result(module: str, mutant: Mutant, verdict: str) -> dict[str, Any]:
    return {"module": module, "line": mutant.line, "what": mutant.what, "verdict": verdict}


# --- in a child -----------------------------------------------------------------------------------


def _in_child(work: Callable[[], int | None]) -> None:
    """Do it in silence, as the head of a group of processes, and end."""
    code = 1
    try:
        os.setsid()
        silent = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(silent, stream)
        code = work() or 0
    except BaseException:  # noqa: BLE001 - whatever it was, a test noticed it
        code = 1
    finally:
        os._exit(code)


def _swapping(
    functions: dict[int, FunctionType], mutant: Mutant, tests: Sequence[pytest.Item]
) -> Callable[[Path], int]:
    def work(folder: Path) -> int:
        function = functions[mutant.function or 0]
        function.__code__ = _code_of(mutant.tree(), function)
        _use_folder(tests[0], folder)
        return _first_failure(tests)

    return work


def _code_of(tree: ast.Module, function: FunctionType) -> CodeType:
    """Return the changed code of a function, which begins where it began."""
    waiting = [compile(tree, function.__code__.co_filename, "exec")]
    wanted = (function.__code__.co_qualname, function.__code__.co_firstlineno)
    while waiting:
        code = waiting.pop()
        if (code.co_qualname, code.co_firstlineno) == wanted:
            return code
        waiting += [each for each in code.co_consts if isinstance(each, CodeType)]
    raise LookupError(wanted)


def _first_failure(tests: Sequence[pytest.Item]) -> int:
    following = [*tests[1:], None]
    for test, after in zip(tests, following, strict=True):
        if any(report.failed for report in runtestprotocol(test, nextitem=after, log=False)):
            return 1
    return 0


def _use_folder(item: pytest.Item, folder: Path) -> None:
    """Let temporary files lie in a folder that whoever forked removes."""
    item.config._tmp_path_factory._basetemp = folder  # type: ignore[attr-defined]  # noqa: SLF001


def _trace(items: list[pytest.Item], modules: Sequence[str], answer: Path) -> None:
    """Run each test, noting the lines that it reaches."""
    names = {str(SOURCE / module): module for module in modules}
    lines: dict[str, dict[str, set[int]]] = {}
    seconds: dict[str, float] = {}
    failed: list[str] = []
    reached: dict[str, set[int]] = {}

    def trace(frame: Any, _event: str, _argument: object) -> Any:
        module = names.get(frame.f_code.co_filename)
        if module is None:
            return None
        here = reached.setdefault(module, set())

        def local(frame: Any, event: str, _argument: object) -> Any:
            if event == "line":
                here.add(frame.f_lineno)
            return local

        return local

    folder = tempfile.mkdtemp(dir=_scratch(), prefix="tallgrass-mutant-")
    _use_folder(items[0], Path(folder))
    for item, after in zip(items, [*items[1:], None], strict=True):
        reached.clear()
        began = time.monotonic()
        threading.settrace(trace)
        sys.settrace(trace)
        try:
            reports = runtestprotocol(item, nextitem=after, log=False)
        finally:
            sys.settrace(None)
            threading.settrace(None)
        seconds[item.nodeid] = time.monotonic() - began
        if any(report.failed for report in reports):
            failed.append(item.nodeid)
        elif any(report.skipped for report in reports):
            continue
        else:
            lines[item.nodeid] = {name: set(found) for name, found in reached.items()}
    shutil.rmtree(folder, ignore_errors=True)
    told = {
        "lines": {
            test: {name: sorted(found) for name, found in each.items()}
            for test, each in lines.items()
        },
        "seconds": seconds,
        "failed": failed,
    }
    answer.write_text(json.dumps(told), encoding="utf-8")


def _functions(file: Path) -> dict[int, FunctionType]:
    """Return the outermost functions of a module by their first line, wherever they are kept."""
    found: dict[int, FunctionType] = {}
    for each in gc.get_objects():
        if not isinstance(each, FunctionType) or each.__code__.co_filename != str(file):
            continue
        if "<locals>" not in each.__code__.co_qualname:
            found.setdefault(each.__code__.co_firstlineno, each)
    return found


def _scratch() -> str | None:
    return str(SHARED_MEMORY) if SHARED_MEMORY.is_dir() else None


# --- mutants outside of functions -----------------------------------------------------------------


class _MutantFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports one module of the package as the mutant has it."""

    def __init__(self, module: str, mutant: Mutant) -> None:
        self._name = "tallgrass." + module.removesuffix(".py").replace("/", ".")
        self._file = SOURCE / module
        self._mutant = mutant

    def find_spec(self, name: str, _path: Any = None, _target: Any = None) -> Any:
        """Claim the one module."""
        if name != self._name:
            return None
        return importlib.util.spec_from_file_location(name, self._file, loader=self)

    def exec_module(self, module: Any) -> None:
        """Run its code, changed."""
        exec(compile(self._mutant.tree(), str(self._file), "exec"), module.__dict__)  # noqa: S102


def _load_others() -> None:
    """Import what tests need beside the package, so that no fork has to."""
    for name in ("boto3", "psycopg", "numpy", "hypothesis.stateful", "click", "rich.console"):
        if importlib.util.find_spec(name.partition(".")[0]):
            importlib.import_module(name)


def _outside(modules: Sequence[str]) -> Iterator[tuple[str, Mutant]]:
    for module in modules:
        for mutant in mutants_of((SOURCE / module).read_text(encoding="utf-8")):
            if mutant.function is None:
                yield module, mutant


class OutsideSession(Session):
    """Runs the mutants that stand in no function, before anything of the package is imported."""

    def run(self, arguments: Sequence[str]) -> None:
        """Fork for each mutant; all tests of the group run, until one fails."""
        _load_others()
        limit_s = PATIENCE * self._unchanged_s(arguments) + PATIENCE_S
        for module, mutant in _outside(self._modules):

            def work(folder: Path, module: str = module, mutant: Mutant = mutant) -> int:
                sys.meta_path.insert(0, _MutantFinder(module, mutant))
                return int(pytest.main([*arguments, "-x", f"--basetemp={folder / 'tests'}"]))

            self._start(module, mutant, limit_s, work)
        while self._running:
            self._wait()

    def _unchanged_s(self, arguments: Sequence[str]) -> float:
        """Return how long the tests take, as they must, without a mutant."""
        began = time.monotonic()
        folder = tempfile.mkdtemp(dir=_scratch(), prefix="tallgrass-mutant-")
        pid = os.fork()
        if pid == 0:
            _in_child(
                lambda: int(pytest.main([*arguments, "-x", f"--basetemp={Path(folder) / 'tests'}"]))
            )
        _, status = os.waitpid(pid, 0)
        shutil.rmtree(folder, ignore_errors=True)
        if status:
            raise SystemExit("tests fail though nothing was changed")
        return time.monotonic() - began


# --- the process ----------------------------------------------------------------------------------


def _without_shrinking() -> None:
    """Let property tests end at the first example that fails."""
    register = settings.register_profile

    def registered(name: str, *arguments: Any, **options: Any) -> None:
        register(name, *arguments, phases=(Phase.explicit, Phase.generate), **options)

    # The class refuses to be changed by accident.
    type.__setattr__(settings, "register_profile", staticmethod(registered))


def main(arguments: str) -> int:
    """Play one group; a line of JSON for each mutant."""
    told = json.loads(arguments)
    answers = os.fdopen(os.dup(1), "w")

    def tell(result: Any) -> None:
        answers.write(json.dumps(result) + "\n")
        answers.flush()

    _without_shrinking()
    tests = [
        *("-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-m", "not slow", "-k", NO_SERVERS),
        # Hypothesis was imported before pytest could look at it.
        *("-W", "ignore::pytest.PytestAssertRewriteWarning"),
        *told["tests"],
    ]
    if told["outside"]:
        OutsideSession(told["modules"], told["jobs"], tell).run(tests)
        return 0
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    return int(pytest.main([*tests, "-s"], [Session(told["modules"], told["jobs"], tell)]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
