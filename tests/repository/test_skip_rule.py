import re
from pathlib import Path

import pytest

from tests.plugins.skips import ALLOWED_PATH, load_allowed
from tests.repository.inner_run import run_pytest

PLUGIN = ("-p", "tests.plugins.skips")

LISTED = """
import pytest

def test_skips():
    pytest.skip("TALLGRASS_TEST_DATA names no folder")
"""
UNLISTED = LISTED.replace("TALLGRASS_TEST_DATA names no folder", "too tired")
MODULE = 'import pytest\npytest.skip("too tired", allow_module_level=True)\n'
EXPECTED = "import pytest\n@pytest.mark.xfail\ndef test_fails():\n    assert False\n"


@pytest.mark.parametrize("options", [(), ("-n", "1")], ids=["alone", "workers"])
@pytest.mark.parametrize("text", [UNLISTED, MODULE], ids=["test", "module"])
def test_an_unlisted_skip_fails_under_ci(
    tmp_path: Path, text: str, options: tuple[str, ...]
) -> None:
    """A skip without a listed reason fails the run and is named."""
    run = run_pytest(tmp_path, text + "\ndef test_ok(): pass\n", *PLUGIN, *options, ci=True)
    assert run.code != 0, run.output
    assert "allowed-skips.toml does not allow" in run.output
    assert "too tired" in run.output


@pytest.mark.parametrize("text", [LISTED, EXPECTED], ids=["listed", "expected-failure"])
def test_a_listed_skip_passes_under_ci(tmp_path: Path, text: str) -> None:
    """A listed reason, or an expected failure, does not fail the run."""
    run = run_pytest(tmp_path, text, *PLUGIN, ci=True)
    assert run.code == 0, run.output


def test_any_skip_passes_elsewhere(tmp_path: Path) -> None:
    """At a contributor's desk a skip is only reported."""
    assert run_pytest(tmp_path, UNLISTED, *PLUGIN).code == 0


def test_each_allowed_skip_says_why(tmp_path: Path) -> None:
    """The list holds patterns with a reason each; anything else is refused."""
    assert all(isinstance(pattern, re.Pattern) for pattern in load_allowed(ALLOWED_PATH))
    wrong = tmp_path / "allowed.toml"
    wrong.write_text('[[skip]]\nreason = "x"\nwhy = ""\n', encoding="utf-8")
    with pytest.raises(ValueError, match="reason and a why"):
        load_allowed(wrong)
