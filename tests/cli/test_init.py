"""`tallgrass init`: a file with every setting, which changes nothing until it is edited."""

from __future__ import annotations

import tomllib
from itertools import pairwise
from typing import TYPE_CHECKING

from tallgrass.config import load_config
from tests.cli.command import tallgrass

if TYPE_CHECKING:
    from pathlib import Path


def test_the_file_holds_every_setting_with_its_default(tmp_path: Path) -> None:
    """What it says equals what holds without it, and every value comes from it."""
    done = tallgrass("init", "--output", "json", cwd=tmp_path)
    assert done.code == 0
    file = tmp_path / "tallgrass.toml"
    assert done.json["file"] == "tallgrass.toml"
    without = load_config(file=empty(tmp_path), environment={})
    with_it = load_config(file=file, environment={})
    assert with_it.values == without.values
    assert set(with_it.origins.values()) == {str(file)}
    assert with_it.settings_version == without.settings_version
    assert done.json["settings"] == len(without.values)
    written = tomllib.loads(file.read_text(encoding="utf-8"))
    assert (written["worker"]["batch"], written["queue"]["max_receive_count"]) == (500, 5)
    assert written["ledger"]["max_attempts"] == 8
    assert tallgrass("config", "check", cwd=tmp_path).code == 0


def test_every_setting_is_explained(tmp_path: Path) -> None:
    """A comment with its variable stands above each, and the tables are named."""
    assert "Wrote tallgrass.toml" in tallgrass("init", cwd=tmp_path).out
    lines = (tmp_path / "tallgrass.toml").read_text(encoding="utf-8").splitlines()
    for above, line in pairwise(lines):
        if " = " in line and not line.startswith("#"):
            assert above.startswith("# ")
            assert "($TALLGRASS_" in above
    assert any("ledger.replay_reasons" in line for line in lines)


def test_a_file_that_is_there_stays(tmp_path: Path) -> None:
    """Refused with exit code 3; with `--force` it is written over."""
    file = tmp_path / "mine.toml"
    file.write_text("[worker]\nbatch = 7\n")
    refused = tallgrass("--config", str(file), "init", "--output", "json")
    assert (refused.code, refused.error["code"]) == (3, "refused")
    assert file.read_text() == "[worker]\nbatch = 7\n"
    assert tallgrass("--config", str(file), "init", "--force").code == 0
    assert tomllib.loads(file.read_text())["worker"]["batch"] == 500
    assert [path.name for path in tmp_path.iterdir()] == ["mine.toml"]


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    """A folder that is not there: an error with a code, nothing made."""
    done = tallgrass("--config", str(tmp_path / "no" / "t.toml"), "init", "--output", "json")
    assert (done.code, done.error["code"]) == (1, "output_failed")
    assert list(tmp_path.iterdir()) == []


def empty(folder: Path) -> Path:
    """Return a configuration file without settings."""
    file = folder / "empty.toml"
    file.write_text("")
    return file
