"""The wheel in an environment of its own: the core's dependencies suffice, and no checkout."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
import venv
from importlib.metadata import distribution
from pathlib import Path

import pytest

from tests.cli.command import environment
from tools.conformance_list import ROOT
from tools.release_components import closure, pinned

pytestmark = pytest.mark.slow


def build_wheel(folder: Path) -> Path:
    """Build the wheel of this checkout."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


def lay_out_dependencies(folder: Path) -> list[str]:
    """Link what the core asks for, and what that asks for, from this environment: nothing else."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    core = {**project, "optional-dependencies": {}}
    _, components = closure(core, pinned(ROOT / "constraints.txt"))
    folder.mkdir()
    for component in components:
        found = distribution(component.name)
        tops = {path.parts[0] for path in found.files or () if path.parts[0] != ".."}
        for top in tops - {"__pycache__"}:
            (folder / top).symlink_to(Path(str(found.locate_file(top))))
    return [component.name for component in components]


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel, and the core's dependencies beside it."""
    folder = tmp_path_factory.mktemp("clean")
    wheel = build_wheel(folder)
    names = lay_out_dependencies(folder / "dependencies")
    assert {"click", "orjson", "obstore"} <= set(names)
    assert not {"psycopg", "boto3", "fastapi", "pytest"} & set(names)
    venv.create(folder / "venv", with_pip=False, symlinks=True)
    python = folder / "venv" / "bin" / "python"
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-index",
         "--no-deps", "--disable-pip-version-check", str(wheel)],
        check=True, capture_output=True,
    )  # fmt: skip
    (site,) = (folder / "venv" / "lib").glob("python3.*/site-packages")
    (site / "dependencies.pth").write_text(f"{folder / 'dependencies'}\n", encoding="utf-8")
    return folder / "venv" / "bin"


def run(program: Path, *arguments: str, at: Path) -> subprocess.CompletedProcess[str]:
    """Run a program of the environment in a folder, as somebody without this checkout."""
    kept = {name: value for name, value in environment().items() if name != "PYTHONPATH"}
    return subprocess.run(
        [str(program), *arguments], cwd=at, env=kept, check=False, capture_output=True, text=True
    )


def test_the_demo_works_from_an_empty_folder(clean: Path, tmp_path: Path) -> None:
    """Every promise of the demo holds, with no file of the repository in reach."""
    where = run(clean / "python", "-c", "import tallgrass; print(tallgrass.__file__)", at=tmp_path)
    assert Path(where.stdout.strip()).is_relative_to(clean.parent)
    done = run(clean / "tallgrass", "demo", "--units", "200", "--dir", "d", "--output", "json",
               at=tmp_path)  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["units"] == 200
    assert told["items"] == told["by_status"]["succeeded"] > 150


def test_what_needs_an_extra_says_which(clean: Path, tmp_path: Path) -> None:
    """PostgreSQL without its driver is an error with the command that installs it."""
    done = run(clean / "tallgrass", "--database", "postgresql://nobody@127.0.0.1:1/none", "db",
               "check", at=tmp_path)  # fmt: skip
    assert done.returncode == 1
    assert "pip install 'tallgrass[postgres]'" in done.stderr


def test_each_command_answers_without_extras(clean: Path, tmp_path: Path) -> None:
    """`--help` of every command: none needs a library that the core does not bring."""
    look = (
        "import sys, click\n"
        "from tallgrass.cli.main import COMMANDS, run\n"
        "print([name for name in COMMANDS if run([name, '--help'])], file=sys.stderr)"
    )
    done = run(clean / "python", "-c", look, at=tmp_path)
    assert done.stderr == "[]\n"


def test_the_alias_is_installed(clean: Path, tmp_path: Path) -> None:
    """`nodd-replay` is `tallgrass replay`."""
    done = run(clean / "nodd-replay", "--help", at=tmp_path)
    assert done.returncode == 0
    assert "Usage: tallgrass replay" in done.stdout
