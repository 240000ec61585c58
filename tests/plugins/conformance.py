"""Collect which requirements the tests of a run showed.

Ids travel with each test's report (`user_properties`), so that parallel workers need nothing
else. With `--conformance-results=FILE` the run writes, for each id, the tests that passed, failed
and were skipped.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tools.conformance_list import LIST_PATH, load_conformance_list

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable

PROPERTY = "conformance"
#: The worst outcome of a test's phases is the test's.
ORDER = ("passed", "skipped", "failed")


class Results:
    """The outcome of each test that carries ids."""

    def __init__(self) -> None:
        self._ids: dict[str, tuple[str, ...]] = {}
        self._outcomes: dict[str, list[str]] = {}
        self._called: set[str] = set()

    def add(self, node_id: str, ids: Iterable[str], phase: str, outcome: str) -> None:
        """Note one phase of a test; a later phase need not repeat the ids."""
        self._ids[node_id] = tuple(ids) or self._ids.get(node_id, ())
        self._outcomes.setdefault(node_id, []).append(outcome)
        if phase == "call":
            self._called.add(node_id)

    def outcome(self, node_id: str) -> str:
        """Return the worst outcome; a test whose body never ended did not pass."""
        worst = max(self._outcomes[node_id], key=ORDER.index)
        return "failed" if worst == "passed" and node_id not in self._called else worst

    def by_id(self) -> dict[str, dict[str, list[str]]]:
        """Return, for each id, the node ids by outcome, sorted."""
        found: dict[str, dict[str, list[str]]] = {}
        for node_id in sorted(self._ids):
            for requirement_id in self._ids[node_id]:
                outcomes = found.setdefault(requirement_id, {name: [] for name in ORDER})
                outcomes[self.outcome(node_id)].append(node_id)
        return dict(sorted(found.items()))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that names the file of results."""
    parser.addoption(
        "--conformance-results",
        metavar="FILE",
        help="write which requirements the tests of this run showed",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Start empty, and leave no results of an earlier run behind."""
    path = results_path(config)
    if path is not None:
        path.unlink(missing_ok=True)
        config.pluginmanager.register(Collector(path), "conformance-collector")


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Make an id that is not listed an error of the file's collection."""
    report = yield
    known = load_conformance_list().requirements
    unknown = {
        f"{name} of {item.name} is not in {LIST_PATH.name}"
        for item in report.result or ()
        if isinstance(item, pytest.Item)
        for name in ids_of(item)
        if name not in known
    }
    if unknown:
        report.outcome = "failed"
        report.longrepr = "\n".join(sorted(unknown))
        report.result = []
    return report


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Attach the ids to each test, from where they reach its reports."""
    for item in items:
        ids = ids_of(item)
        if ids:
            item.user_properties.append((PROPERTY, ids))


def ids_of(item: pytest.Item) -> list[str]:
    """Return the ids that the test and its class carry, each once."""
    ids = [str(name) for mark in item.iter_markers("conformance") for name in mark.args]
    return list(dict.fromkeys(ids))


def outcome_of(report: pytest.TestReport) -> str:
    """Return the phase's outcome; an expected failure shows nothing and counts as a skip."""
    return "skipped" if hasattr(report, "wasxfail") else report.outcome


class Collector:
    """Gathers the reports in the process that owns the run, and writes the results at its end."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._results = Results()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note the report; that of a worker which died brings no ids of its own."""
        carried = [value for name, value in report.user_properties if name == PROPERTY]
        ids = [str(name) for value in carried if isinstance(value, list) for name in value]
        self._results.add(report.nodeid, ids, str(report.when), outcome_of(report))

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, exitstatus: int) -> None:
        """Write the results."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        body = {"exit_status": int(exitstatus), "ids": self._results.by_id()}
        self._path.write_text(json.dumps(body, indent=1) + "\n", encoding="utf-8")


def results_path(config: pytest.Config) -> Path | None:
    """Return where this process writes results: nowhere if not asked, or in a worker."""
    name = config.getoption("--conformance-results")
    if not name or hasattr(config, "workerinput"):
        return None
    return Path(config.invocation_params.dir) / str(name)
