import os
import re
import subprocess

import pytest

from tools.conformance_list import ROOT

TARGETS = (
    "help", "setup", "run", "test", "test-full", "lint", "conformance", "faults", "bench",
    "bench-quick", "docs", "release", "screenshots",
)  # fmt: skip


LINES_MAX = 500
#: Modules that are longer, each with the reason why it cannot be parted.
LONG_MODULES: dict[str, str] = {}


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


def test_each_file_has_a_plain_name() -> None:
    """Nothing that a run left behind is kept under a name of accident."""
    done = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    names = done.stdout.split("\0")[:-1]
    assert "pyproject.toml" in names
    plain = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_./-]*")
    assert [name for name in names if not plain.fullmatch(name)] == []


def test_the_migration_rule_is_written_down() -> None:
    """Contributors read that a shipped migration is never edited and who reviews a new one."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    for word in ("never edited", "SHA256SUMS", "second reviewer", "both", "upgrade test"):
        assert word in text


def test_every_package_is_in_the_layout() -> None:
    """Contributors find each package of the source in the listing, in its place in the flow."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    layout = text.partition("```text\nsrc/tallgrass/\n")[2].partition("```")[0]
    named = set(re.findall(r"([a-z_]+)/", layout))
    packages = {path.parent.name for path in (ROOT / "src" / "tallgrass").glob("*/__init__.py")}
    assert named == packages


def test_no_module_is_long_without_a_reason() -> None:
    """Source, tests, tools and benchmarks stay within 500 lines; what is longer says why."""
    modules = [
        path
        for folder in ("src", "tests", "tools", "bench", "examples")
        for path in (ROOT / folder).rglob("*.py")
    ]
    assert len(modules) > 900, "the premise: they are found"
    long = {
        path.relative_to(ROOT).as_posix()
        for path in modules
        if len(path.read_text(encoding="utf-8").splitlines()) > LINES_MAX
    }
    assert long == LONG_MODULES.keys()
    assert all(len(reason) > 20 for reason in LONG_MODULES.values())


def test_the_map_of_the_wiring_names_every_module_once() -> None:
    """Whoever opens the largest package finds each of its modules, and what it is for."""
    folder = ROOT / "src" / "tallgrass" / "bootstrap"
    text = (folder / "__init__.py").read_text(encoding="utf-8")
    lines = re.findall(r"^    ([a-z_]+(?:, [a-z_]+)*)  +\S", text, re.MULTILINE)
    named = [name for line in lines for name in line.split(", ")]
    modules = sorted(path.stem for path in folder.glob("*.py") if path.stem != "__init__")
    assert sorted(named) == modules
