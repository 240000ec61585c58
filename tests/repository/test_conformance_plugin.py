import json
from pathlib import Path
from typing import Any

import pytest

from tests.repository.inner_run import run_pytest

PLUGIN = ("-p", "tests.plugins.conformance", "--conformance-results=build/results.json")

TESTS = """
import os
import pytest

@pytest.mark.conformance("WAL-1.1", "SM-1.1")
@pytest.mark.parametrize("n", [1, 2])
def test_passes(n):
    pass

@pytest.mark.conformance("WAL-1.1")
def test_fails():
    assert False

@pytest.mark.conformance("WAL-1.2")
def test_skips():
    pytest.skip("no reason")

@pytest.mark.conformance("WAL-1.3")
@pytest.mark.xfail
def test_is_expected_to_fail():
    assert False

@pytest.fixture
def broken():
    yield
    raise RuntimeError

@pytest.mark.conformance("WAL-1.4")
def test_cleans_up_badly(broken):
    pass

@pytest.mark.conformance("WAL-1.5")
class TestClass:
    @pytest.mark.conformance("WAL-2.1")
    def test_carries_both(self):
        pass
"""

DYING = """
import os
import pytest

@pytest.mark.conformance("WAL-1.1")
def test_dies():
    os._exit(3)

@pytest.mark.conformance("WAL-1.2")
def test_lives():
    pass
"""


def results(folder: Path) -> dict[str, Any]:
    """Return what the inner run wrote."""
    body = json.loads((folder / "build" / "results.json").read_text(encoding="utf-8"))
    ids: dict[str, Any] = body["ids"]
    return ids


def passed(*names: str) -> dict[str, list[str]]:
    """Return an outcome with only passes."""
    return {"passed": [f"test_inner.py::{name}" for name in names], "skipped": [], "failed": []}


@pytest.mark.parametrize("options", [(), ("-n", "2")], ids=["alone", "workers"])
def test_outcomes_are_gathered(tmp_path: Path, options: tuple[str, ...]) -> None:
    """Each id lists the tests that passed, failed and were skipped, with and without workers."""
    run = run_pytest(tmp_path, TESTS, *PLUGIN, *options)
    assert run.code == 1, run.output
    found = results(tmp_path)
    assert found["SM-1.1"] == passed("test_passes[1]", "test_passes[2]")
    assert found["WAL-1.1"]["failed"] == ["test_inner.py::test_fails"]
    assert len(found["WAL-1.1"]["passed"]) == 2
    assert found["WAL-1.2"]["skipped"] == ["test_inner.py::test_skips"]
    assert found["WAL-1.3"]["skipped"] == ["test_inner.py::test_is_expected_to_fail"]
    assert found["WAL-1.4"]["failed"] == ["test_inner.py::test_cleans_up_badly"]
    assert found["WAL-1.5"] == found["WAL-2.1"] == passed("TestClass::test_carries_both")


def test_a_test_that_kills_its_worker_failed(tmp_path: Path) -> None:
    """A test that never ended covers nothing, though its set-up passed."""
    run = run_pytest(tmp_path, DYING, *PLUGIN, "-n", "1")
    assert run.code == 1, run.output
    found = results(tmp_path)
    assert found["WAL-1.1"]["failed"] == ["test_inner.py::test_dies"]
    assert found["WAL-1.2"] == passed("test_lives")


@pytest.mark.parametrize("options", [(), ("-n", "1")], ids=["alone", "workers"])
def test_an_unknown_id_stops_the_run(tmp_path: Path, options: tuple[str, ...]) -> None:
    """A misspelt id is refused before any test runs."""
    text = TESTS.replace('"WAL-1.2"', '"WAL-99.9"')
    run = run_pytest(tmp_path, text, *PLUGIN, *options)
    assert run.code != 0, run.output
    assert "passed" not in run.output
    assert "WAL-99.9 of test_skips is not in conformance.toml" in run.output


def test_old_results_do_not_outlive_a_run(tmp_path: Path) -> None:
    """A run that collects nothing has shown nothing, whatever the one before showed."""
    run_pytest(tmp_path, TESTS, *PLUGIN)
    assert run_pytest(tmp_path, "import nowhere", *PLUGIN).code == 2
    assert results(tmp_path) == {}
