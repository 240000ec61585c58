"""With `CI` set, a skip whose reason is not in `tests/allowed-skips.toml` fails the run."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Sequence

ALLOWED_PATH = Path(__file__).resolve().parent.parent / "allowed-skips.toml"


def load_allowed(path: Path) -> list[re.Pattern[str]]:
    """Return the patterns of reasons; each entry says why it is right to skip."""
    entries = tomllib.loads(path.read_text(encoding="utf-8")).get("skip", [])
    for entry in entries:
        if set(entry) != {"reason", "why"} or not entry["why"].strip():
            raise ValueError(f"{path.name}: each skip has a reason and a why, not {entry}")
    return [re.compile(entry["reason"]) for entry in entries]


def reason_of(report: pytest.TestReport | pytest.CollectReport) -> str:
    """Return why the test or module was skipped."""
    if isinstance(report.longrepr, tuple):
        return str(report.longrepr[2]).removeprefix("Skipped: ")
    return str(report.longrepr)


class SkipRule:
    """Gathers skips in the process that owns the run and judges them at its end."""

    def __init__(self, allowed: Sequence[re.Pattern[str]]) -> None:
        self._allowed = allowed
        #: Node id to reason; workers may report the same module twice.
        self._refused: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Judge a skipped test; an expected failure is no skip."""
        if not hasattr(report, "wasxfail"):
            self._judge(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Judge a module that was skipped as a whole."""
        self._judge(report)

    def _judge(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if report.skipped:
            reason = reason_of(report)
            if not any(pattern.search(reason) for pattern in self._allowed):
                self._refused[report.nodeid] = reason

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Turn a run that would pass into a failed one."""
        if self._refused and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Name each refused skip."""
        if self._refused:
            terminalreporter.section("skips that tests/allowed-skips.toml does not allow")
            for node_id, reason in sorted(self._refused.items()):
                terminalreporter.line(f"{node_id}: {reason}")


def pytest_configure(config: pytest.Config) -> None:
    """Apply the rule where the run is owned, under CI."""
    if os.environ.get("CI") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(SkipRule(load_allowed(ALLOWED_PATH)), "skip-rule")
