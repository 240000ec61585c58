"""A short soak on each store; `make soak MINUTES=30` does so for longer, at the full rate."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.support.processes import ROOT

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_nothing_is_lost_while_everything_runs_and_breaks(store: str, tmp_path: Path) -> None:
    """Real workers, dispatchers and retention under load and faults; then the oracle."""
    command = ["-m", "tools.soak", "--minutes", "0.25", "--rate", "40", "--from", "7"]
    done = subprocess.run(
        [sys.executable, *command, "--store", store, "--plots", str(tmp_path)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    told = done.stdout + done.stderr
    assert done.returncode == 0, told
    assert re.search(rf"(?m)^{store}: .*, 0 lost, 0 duplicate, 0 stale, too short", done.stdout)
    # The premise: there was work, some of it was cut off, and old rows left meanwhile.
    (line,) = re.findall(rf"(?m)^{store}: .* kills.*$", done.stdout)
    pairs = re.findall(r"(\d[\d,]*) ([a-z ]*[a-z])", line)
    counts = {name: int(number.replace(",", "")) for number, name in pairs}
    assert counts["units"] >= 400, told
    assert counts["messages"] > counts["units"] > counts["items"] > 0
    assert counts["attempts"] > counts["units"]
    assert counts["kills"] >= 1
    assert counts["object outages"] >= 1
    assert counts["archived events"] > 0
    assert (counts["server restarts"] >= 1) is (store == "postgres")
    assert (tmp_path / f"soak-{store}.svg").read_text(encoding="utf-8").endswith("</svg>\n")
