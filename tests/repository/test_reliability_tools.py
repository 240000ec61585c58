"""The commands that break Tallgrass on purpose sum up, fail when they should, and publish."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.chaos.run import Outcome
from tests.fuzz.parsers import PARSERS, Parser
from tests.io_faults.lives import Tally
from tests.soak.run import Outcome as Soaked
from tests.soak.sampling import Sample
from tools import chaos, explore, fuzz, io_faults, reliability, soak
from tools.conformance_list import ROOT

if TYPE_CHECKING:
    from pathlib import Path

PAGE = "# Title\n\n<!-- fuzz -->\nold\n<!-- /fuzz -->\n\nRest, never touched.\n"


@pytest.fixture(autouse=True)
def _unpublished(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test writes the page of the checkout."""
    monkeypatch.delenv("PUBLISH", raising=False)


def test_figures_are_published_only_on_demand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without PUBLISH=1 the page stays; with it the command's own part alone is replaced."""
    page = tmp_path / "page.md"
    page.write_text(PAGE, encoding="utf-8")
    reliability.publish("fuzz", {"cases": 20_000}, page)
    assert page.read_text(encoding="utf-8") == PAGE
    monkeypatch.setenv("PUBLISH", "1")
    reliability.publish("fuzz", {"cases": 20_000, "first seed": "7"}, page)
    text = page.read_text(encoding="utf-8")
    assert text.startswith("# Title\n\n<!-- fuzz -->\n| | |\n|---|---|\n| date | 20")
    assert "| cases | 20,000 |\n| first seed | 7 |\n<!-- /fuzz -->\n\nRest, never touched." in text
    assert re.search(r"\| commit \| `(?:[0-9a-f]{12}|unknown)\+?` \|", text)
    assert "old" not in text


def test_a_run_may_be_published_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PUBLISH=add adds counts to those that stand there, and lists what cannot be added."""
    page = tmp_path / "page.md"
    page.write_text(PAGE, encoding="utf-8")
    monkeypatch.setenv("PUBLISH", "add")
    for first in ("0", "1500", "1500"):
        counts: dict[str, int | str] = {"first seed": first, "seeds": 1500, "lost": 0}
        reliability.publish("fuzz", counts, page)
    text = page.read_text(encoding="utf-8")
    assert "| first seed | 0, 1500 |\n| seeds | 4,500 |\n| lost | 0 |\n<!-- /fuzz -->" in text
    assert re.search(r"\| commit \| `(?:[0-9a-f]{12}|unknown)\+?` \|\n", text)
    monkeypatch.setenv("PUBLISH", "1")
    reliability.publish("fuzz", {"seeds": 1500}, page)
    assert "| seeds | 1,500 |\n<!-- /fuzz -->" in page.read_text(encoding="utf-8")


def test_a_page_without_markers_is_refused() -> None:
    """Figures are not put just anywhere."""
    with pytest.raises(SystemExit, match="no markers of chaos"):
        reliability.replaced(PAGE, "chaos", "new")


def test_the_page_has_a_place_for_every_command() -> None:
    """Each make target that publishes has its markers, once, and its section."""
    text = (ROOT / "docs" / "reference" / "reliability.md").read_text(encoding="utf-8")
    for command in ("chaos", "io-faults", "explore", "fuzz", "soak", "mutants"):
        assert text.count(f"<!-- {command} -->\n") == text.count(f"<!-- /{command} -->\n") == 1
        assert f"`make {command}" in text


def test_faults_of_disk_are_summed_up(capsys: pytest.CaptureFixture[str]) -> None:
    """The command tells how many points were met on each store, and that nothing was torn."""
    assert io_faults.main(["--only", "files"]) == 0
    lines = capsys.readouterr().out.splitlines()
    found = re.fullmatch(r"(\d+) fault points, 0 violations", lines[-1])
    assert found is not None
    assert int(found[1]) > 250


def test_a_torn_store_fails_the_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A violation is shown, and the command ends with 1."""
    torn = Tally(violations=["exports: torn"])
    monkeypatch.setitem(io_faults.PLAYED, "files", lambda _folder, _units: torn)
    assert io_faults.main(["--only", "files"]) == 1
    assert "VIOLATION exports: torn" in capsys.readouterr().out


def test_exploration_is_summed_up(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every world counts; one that breaks a promise shows the way to it and fails the command."""
    alone = {"workers": 1, "crashes": 0, "endings": 0, "failures": 0}
    monkeypatch.setattr(explore, "WORLDS", {"one alone": alone})
    assert explore.main([]) == 0
    assert re.search(r"(?m)^\d+ states, \d+ edges, 0 broken promises$", capsys.readouterr().out)


def test_fuzzing_is_summed_up(capsys: pytest.CaptureFixture[str]) -> None:
    """The command tells its seed, how much was tried and that nothing crashed."""
    assert fuzz.main(["--cases", "50", "--from", "3", "--only", "plan row"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Seeds from FROM=3"
    assert re.fullmatch(r"\d+ cases, 0 crashes", lines[-1])


def test_a_crash_fails_the_fuzzing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A parser that raises what it must not is told, and the command ends with 1."""
    broken = Parser(name="plan row", read=lambda data: data[0], seeds=[b"x"])
    monkeypatch.setitem(PARSERS, "plan row", broken)
    assert fuzz.main(["--cases", "300", "--from", "3", "--only", "plan row"]) == 1
    assert "plan row: IndexError" in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["lost", "duplicate", "stale"])
def test_any_breach_fails_the_chaos(
    kind: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One thing lost, doubled or written too late ends the command with 1, and is shown."""
    judgement = {"lost": [], "duplicate": [], "stale": [], "counts": {"units": 1}, kind: ["u1"]}
    outcome = Outcome(kills=3, judgement=judgement)
    monkeypatch.setattr(chaos, "play", lambda *_arguments: outcome)
    assert chaos.main(["--cycles", "3", "--from", "5", "--only", "sqlite"]) == 1
    out = capsys.readouterr().out
    assert f"{kind.upper()} sqlite, seed 5: u1" in out
    assert out.splitlines()[-1].startswith("3 kills, ")
    assert f"1 {kind}" in out


@pytest.mark.parametrize(
    ("lag_s", "lost", "ended", "code"),
    [(2.0, [], {}, 0), (9.0, [], {}, 1), (2.0, ["u1"], {}, 1), (2.0, [], {"worker": 1}, 1)],
)
def test_a_soak_that_is_not_flat_or_loses_anything_fails(
    lag_s: float,
    lost: list[str],
    ended: dict[str, int],
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Also if a process that nobody killed ended; the last line says what it was."""
    samples = [
        Sample(
            at_s=float(second), units=second, processes={}, latencies=[0.5], waiting=0,
            lag_s=2.0 if second < 60 else lag_s, database_bytes=second, log_bytes=0,
        )
        for second in range(91)
    ]  # fmt: skip
    judgement = {"lost": lost, "duplicate": [], "stale": [], "counts": {"units": 900}}
    outcome = Soaked(samples=samples, judgement=judgement, ended=ended, seconds=90.0)
    monkeypatch.setattr(soak, "play", lambda *_arguments: outcome)
    arguments = ["--minutes", "3", "--from", "5", "--store", "sqlite", "--plots", str(tmp_path)]
    assert soak.main(arguments) == code
    out = capsys.readouterr().out
    verdict = "NOT flat: oldest unit not done, mean" if lag_s > 2 else "flat"
    last = out.splitlines()[-1]
    assert last.startswith(f"sqlite: 10 units/s for 90 s, {len(lost)} lost, 0 duplicate, 0 stale,")
    assert verdict in last
    assert ("LOST u1" in out) is bool(lost)
    assert ("ENDED worker" in out) is bool(ended)
