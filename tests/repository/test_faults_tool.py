from pathlib import Path

import pytest

from tests.repository.inner_run import PLUGINS
from tools.faults import Verdict, judge, main

PACKAGE = """
def larger(a, b):
    return a if a > b else b

def unused():
    return 1
"""

TESTS = """
import subprocess, sys
from tallgrass import larger

def test_larger():
    assert larger(1, 2) == 2

def test_larger_in_a_process():
    code = "import tallgrass, sys; sys.exit(tallgrass.larger(1, 2) != 2)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0

def test_fails_always():
    assert False
"""


def fault(name: str, find: str, replace: str, test: str) -> str:
    """Return one entry of a list of faults."""
    lines = {
        "name": name,
        "file": "src/tallgrass/__init__.py",
        "find": find,
        "replace": replace,
        "test": f"tests/test_larger.py::{test}",
        "why": "Because.",
    }
    body = "\n".join(f'{key} = "{value}"' for key, value in lines.items())
    return f'[[fault]]\n{body}\nids = ["WAL-1.2"]\n'


FOUND = fault("swapped", "a > b", "a < b", "test_larger")
FOUND_IN_PROCESS = fault("swapped-too", "a > b", "a < b", "test_larger_in_a_process")
NOT_FOUND = fault("unseen", "return 1", "return 2", "test_larger")
BROKEN = fault("broken", "def larger", "def smaller", "test_larger")
ALREADY_FAILING = fault("failing", "a > b", "a < b", "test_fails_always")
MISFIT = fault("misfit", "a >> b", "a < b", "test_larger")


class Tool:
    """The fault tool on a small checkout of its own."""

    def __init__(self, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._root = root
        self._capsys = capsys
        for name, text in {
            "src/tallgrass/__init__.py": PACKAGE,
            "tests/test_larger.py": TESTS,
            "pytest.ini": "[pytest]\n",
        }.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")

    def run(self, faults: str, *options: str) -> tuple[int, str]:
        """Try the faults and return the exit code and all output."""
        path = self._root / "faults.toml"
        path.write_text(faults, encoding="utf-8")
        code = main(["--root", str(self._root), "--faults", str(path), *options])
        printed = self._capsys.readouterr()
        return code, printed.out + printed.err


@pytest.fixture
def tool(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Tool:
    """The fault tool."""
    for name, value in PLUGINS.items():
        monkeypatch.setenv(name, value)
    return Tool(tmp_path, capsys)


def test_a_fault_is_found_here_and_in_started_processes(tool: Tool) -> None:
    """The copy with the fault comes before the installed package, in child processes too."""
    code, output = tool.run(FOUND + FOUND_IN_PROCESS)
    assert code == 0, output
    assert output.endswith("2 faults planted, 2 found\n")


def test_a_fault_that_no_test_finds_is_an_error(tool: Tool) -> None:
    """A fault that its tests do not notice fails the run and is named."""
    code, output = tool.run(FOUND + NOT_FOUND)
    assert code == 1
    assert "NOT FOUND" in output
    assert "unseen: no test failed." in output
    assert output.endswith("2 faults planted, 1 found\n")


def test_a_fault_that_breaks_the_import_is_no_find(tool: Tool) -> None:
    """Tests that cannot even be collected have found nothing."""
    code, output = tool.run(BROKEN)
    assert code == 1
    assert "broken: the tests could not be run." in output


def test_only_the_chosen_are_tried(tool: Tool) -> None:
    """One fault can be tried alone; an unknown name is an error."""
    code, output = tool.run(FOUND + NOT_FOUND, "--only", "swapped")
    assert code == 0
    assert output.endswith("1 faults planted, 1 found\n")
    code, output = tool.run(FOUND, "--only", "none-such")
    assert code == 1
    assert "no fault is named none-such" in output


@pytest.mark.parametrize(
    ("faults", "message"),
    [(ALREADY_FAILING, "must pass without a fault"), (MISFIT, "occurs 0 times")],
)
def test_a_list_that_cannot_prove_anything_is_refused(
    tool: Tool, faults: str, message: str
) -> None:
    """Tests that fail anyway, or a fault that does not fit, stop the run at once."""
    code, output = tool.run(faults)
    assert code == 1
    assert message in output


def test_no_faults_are_no_error(tool: Tool) -> None:
    """An empty list has nothing to find."""
    assert tool.run("") == (0, "\n0 faults planted, 0 found\n")


@pytest.mark.parametrize(
    ("code", "verdict"),
    [
        (0, Verdict.NOT_FOUND),
        (1, Verdict.FOUND),
        (2, Verdict.ERROR),
        (4, Verdict.ERROR),
        (5, Verdict.ERROR),
        (-9, Verdict.ERROR),
        (None, Verdict.ERROR),
    ],
)
def test_only_failing_tests_find_a_fault(code: int | None, verdict: Verdict) -> None:
    """Pytest's exit code 1 is a find; interrupted, misused and empty runs are errors."""
    assert judge(code) is verdict
