import json
from pathlib import Path
from typing import NamedTuple

import pytest

from tools.conformance import main

LIST = """
switched_on = ["WAL"]

[[requirement]]
id = "WAL-1.1"
document = "WAL"
kinds = ["U"]
requirement = "First."

[[requirement]]
id = "WAL-1.2"
document = "WAL"
kinds = ["I", "C"]
requirement = "Second."
planned = "outbox"

[[requirement]]
id = "SM-1.1"
document = "SM"
kinds = ["U"]
requirement = "Third."
"""

FAULT = """
[[fault]]
name = "one"
file = "src/tallgrass/x.py"
find = "a"
replace = "b"
test = "tests/test_a.py::test_two"
ids = ["WAL-1.2"]
why = "Because."
"""

ONE = "tests/test_a.py::test_one"
TWO = "tests/test_a.py::test_two[sqlite]"


class Report(NamedTuple):
    """What the tool answered."""

    code: int
    lines: list[str]


class Tool:
    """The report tool on files of its own."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._folder = folder
        self._capsys = capsys

    def run(self, ids: dict[str, dict[str, list[str]]], faults: str = "") -> Report:
        """Report on the given results; outcomes left out are empty."""
        empty: dict[str, list[str]] = {"passed": [], "failed": [], "skipped": []}
        body = {"exit_status": 0, "ids": {key: empty | value for key, value in ids.items()}}
        files = {"list": LIST, "faults": faults, "results": json.dumps(body)}
        arguments = []
        for name, text in files.items():
            path = self._folder / name
            path.write_text(text, encoding="utf-8")
            arguments += [f"--{name}", str(path)]
        code = main(arguments)
        return Report(code, self._capsys.readouterr().out.splitlines())


@pytest.fixture
def tool(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Tool:
    """The report tool."""
    return Tool(tmp_path, capsys)


def test_one_line_a_document_in_fixed_order(tool: Tool) -> None:
    """The report begins with the counts of all documents."""
    report = tool.run({"WAL-1.1": {"passed": [ONE]}})
    assert report.code == 0
    assert report.lines == [
        "WAL: 2 ids, 1 covered, 1 planned, 0 waived, 0 missing",
        "SM: 1 ids, 0 covered, 0 planned, 0 waived, 1 missing",
        "RP: 0 ids, 0 covered, 0 planned, 0 waived, 0 missing",
        "OB: 0 ids, 0 covered, 0 planned, 0 waived, 0 missing",
        "NR: 0 ids, 0 covered, 0 planned, 0 waived, 0 missing",
        "C: 0 ids, 0 covered, 0 planned, 0 waived, 0 missing",
    ]


@pytest.mark.parametrize(
    "outcome",
    [{}, {"skipped": [ONE]}, {"failed": [ONE]}, {"passed": [ONE], "failed": [TWO]}],
    ids=["no-test", "skip-only", "failure", "pass-and-failure"],
)
def test_what_does_not_cover_is_missing(tool: Tool, outcome: dict[str, list[str]]) -> None:
    """Without a pass, or with any failure, an id of a switched-on document fails the build."""
    report = tool.run({"WAL-1.1": outcome})
    assert report.code == 1
    assert "WAL: 2 ids, 0 covered, 1 planned, 0 waived, 1 missing" in report.lines
    assert "  WAL-1.1   [U] First." in report.lines
    assert not any("Third." in line for line in report.lines)


def test_a_skip_beside_a_pass_does_no_harm(tool: Tool) -> None:
    """One pass covers, though another parameter set was skipped."""
    assert tool.run({"WAL-1.1": {"passed": [ONE], "skipped": [TWO]}}).code == 0


def test_a_plan_does_not_excuse_a_failure(tool: Tool) -> None:
    """A planned id whose test fails is missing."""
    report = tool.run({"WAL-1.1": {"passed": [ONE]}, "WAL-1.2": {"failed": [TWO]}})
    assert report.code == 1
    assert "WAL: 2 ids, 1 covered, 0 planned, 0 waived, 1 missing" in report.lines


def test_a_race_needs_a_planted_fault(tool: Tool) -> None:
    """A covered id of kind P, X or C without a fault fails the build."""
    results = {"WAL-1.1": {"passed": [ONE]}, "WAL-1.2": {"passed": [TWO]}}
    assert tool.run(results).code == 1
    report = tool.run(results, FAULT)
    assert report.code == 0
    assert "WAL: 2 ids, 2 covered, 0 planned, 0 waived, 0 missing" in report.lines


@pytest.mark.parametrize(
    "faults",
    [FAULT.replace("::test_two", "::test_t"), FAULT.replace('["WAL-1.2"]', '["WAL-1.1"]')],
    ids=["other-test", "other-id"],
)
def test_a_fault_proves_only_what_it_lists_and_its_test_carries(tool: Tool, faults: str) -> None:
    """A fault of another test, or for another id, proves nothing here."""
    results = {"WAL-1.1": {"passed": [ONE]}, "WAL-1.2": {"passed": [TWO]}}
    report = tool.run(results, faults)
    assert report.code == 1
    assert "  WAL-1.2   [CI] Second." in report.lines


def test_no_results_are_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a test run there is nothing to report, and it says what to do."""
    assert main(["--results", str(tmp_path / "none.json")]) == 1
    assert "make conformance" in capsys.readouterr().err
