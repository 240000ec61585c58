import os
import re
import subprocess

import pytest

from tools.conformance_list import ROOT

TARGETS = (
    "help", "setup", "run", "test", "test-full", "lint", "conformance", "faults", "bench",
    "docs", "release", "screenshots",
)  # fmt: skip


def lines_of(name: str) -> list[str]:
    """Return a file's lines without comments and blanks."""
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def run_make(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run make as from a fresh shell, also when the tests were started by make."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("MAKE")}
    return subprocess.run(
        ["make", "--no-print-directory", *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_constraints_are_names_and_versions() -> None:
    """The pinned versions name no address, file or hash."""
    for line in lines_of("constraints.txt"):
        assert re.fullmatch(r"[a-z0-9-]+==[0-9][0-9a-z.]*", line), line


def test_constraints_pin_each_direct_dependency() -> None:
    """Nothing that the project asks for floats."""
    pinned = {line.split("==")[0] for line in lines_of("constraints.txt")}
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    asked = set(re.findall(r'"([a-z0-9-]+)(?:\[[a-z]+\])?>=', text))
    assert asked
    assert asked - pinned == set()


@pytest.mark.parametrize("target", TARGETS)
def test_each_make_target_exists_and_is_explained(target: str) -> None:
    """Each target can be made and `make help` says what it does."""
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert re.search(rf"^{target}:.*## \S", text, re.MULTILINE)
    done = run_make("--dry-run", target)
    assert done.returncode == 0, done.stderr


def test_make_alone_shows_the_help() -> None:
    """A newcomer who types make sees what there is."""
    done = run_make()
    assert [target for target in TARGETS if f"make {target} " not in done.stdout] == []


def test_continuous_integration_runs_what_everyone_runs() -> None:
    """CI's script and workflow call `make test`."""
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert lines_of(".ci/run")[-1] == "exec make test"
    workflow = (ROOT / ".github" / "workflows" / "test.yml").read_text(encoding="utf-8")
    assert re.findall(r"run: (.*)", workflow) == ["make test"]


def test_the_migration_rule_is_written_down() -> None:
    """Contributors read that a shipped migration is never edited and who reviews a new one."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    for word in ("never edited", "SHA256SUMS", "second reviewer", "both", "upgrade test"):
        assert word in text
