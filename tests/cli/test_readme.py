"""The README shows what the commands really print."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path

import pytest

from tallgrass.config import load_config
from tests.cli.command import tallgrass

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")


def block(language: str, number: int = 0) -> str:
    """Return the text of a fenced block."""
    found = re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    return str(found[number])


def shown(text: str, printed: str) -> None:
    """Check that every line but `…` stands in the output, in this order."""
    lines = iter(printed.splitlines())
    for line in text.splitlines():
        if line.strip() not in ("…", ""):
            assert line in lines, line


@pytest.mark.parametrize("number", [1, 2], ids=["demo", "by hand"])
def test_the_tour_is_real(tmp_path: Path, number: int) -> None:
    """Each command of the tour, run in its order, prints the lines that stand below it."""
    env: dict[str, str] = {}
    for part in re.split(r"^\$ ", block("console", number), flags=re.MULTILINE)[1:]:
        command, _, expected = part.partition("\n")
        words = shlex.split(command)
        if words[0] == "export":
            name, _, value = words[1].partition("=")
            env[name] = value
            continue
        if words[0] == "unset":
            # The two parts of the tour are one shell for a reader, and two tests here.
            assert words[1] in README.partition(command)[0]
            env.pop(words[1], None)
            continue
        assert words[0] == "tallgrass"
        done = tallgrass(*words[1:], cwd=tmp_path, env=env)
        shown(expected, done.out + done.err)


def test_the_proof_is_real(tmp_path: Path) -> None:
    """The ticks in the quick start are those of the demo without options."""
    done = tallgrass("demo", "--dir", str(tmp_path))
    assert done.code == 0
    shown(block("text"), done.out)


def test_the_example_configuration_is_accepted(tmp_path: Path) -> None:
    """The example in the README can be used as it stands."""
    file = tmp_path / "tallgrass.toml"
    file.write_text(block("toml"), encoding="utf-8")
    assert tomllib.loads(block("toml"))["ledger"]["max_attempts"] == 8
    config = load_config(file=file, environment={})
    assert config.rules.max_attempts_of("nexrad-l2") == 20
    assert tallgrass("--config", str(file), "config", "check").code == 0


def test_the_links_lead_somewhere() -> None:
    """Every relative link of the README names a file."""
    links = re.findall(r"\]\(([^)#]+)\)", README)
    assert links
    root = Path(__file__).parents[2]
    assert [link for link in links if "://" not in link and not (root / link).exists()] == []
