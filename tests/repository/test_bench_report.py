"""The benchmark's report: its form, its verdict, and what the documents show of it."""

from __future__ import annotations

import json
import platform
import re
import xml.etree.ElementTree as ET
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

import bench.__main__ as bench_main
from bench import growth, machine, report, report_plot, report_text
from bench.__main__ import PARTS, main, write
from bench.report import Row, Stamp, beside, exit_code, in_turn, of_run, row
from tests.documents.markdown import DOCS, ROOT, read
from tools import generate_docs

if TYPE_CHECKING:
    from pathlib import Path

NOTED = Stamp(date="2026-11-18", commit="abc", machine="a machine")
SVG = "{http://www.w3.org/2000/svg}"


def some_rows(run: str = report.FULL) -> list[Row]:
    """Return a row of each kind, as a run makes them."""
    rows = [
        beside("beside a peer", [(300, 100), (440, 110), (500, 100)], "a/s", at_least=2, peer="p"),
        row("of a limit", [0.5], at_most=1.0, limit=50, unit="ms", steady=True),
        row("only reported", [7.0]),
        *(
            Row(name=f"at {size}", ratio=0.9, spread=0, target=None, met=True, curve="c", size=size)
            for size in (10_000, 100_000)
        ),
    ]
    return of_run(rows, "pipeline", quick=run == report.QUICK)


def test_a_row_is_the_median_of_its_rounds() -> None:
    """Ratios of the rounds are 3, 4 and 5: 4 in the middle, 2 between the quartiles."""
    (first, *_) = some_rows()
    assert (first.ratio, first.spread, first.rounds) == (4.0, 2.0, 3)
    assert (first.ours, first.theirs, first.unit) == (440.0, 100.0, "a/s")
    assert (first.target, first.met) == (">= 2", True)


@pytest.mark.parametrize(
    ("ratio", "bounds", "met"),
    [
        (1.0, {"at_most": 1.0}, True),
        (1.01, {"at_most": 1.0}, False),
        (0.8, {"at_least": 0.8}, True),
        (0.79, {"at_least": 0.8}, False),
        (99.0, {}, True),
    ],
)
def test_a_missed_target_ends_the_run_with_1(
    ratio: float, bounds: dict[str, float], *, met: bool
) -> None:
    """The bound itself is met; what has no target counts as met; one miss among many is enough."""
    judged = row("x", [ratio], **bounds)  # type: ignore[arg-type]
    assert judged.met is met
    assert exit_code([*some_rows(), judged]) == (0 if met else 1)


def test_the_report_is_a_list_of_rows(tmp_path: Path) -> None:
    """Each row says at least its name, ratio, spread, target and whether it is met."""
    write(some_rows(), tmp_path)
    told = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert isinstance(told, list)
    assert {"name", "ratio", "spread", "target", "met", "part", "run"} <= set(told[0])
    assert [each["target"] for each in told] == [">= 2", "<= 1", None, None, None]
    assert [each["met"] for each in told] == [True] * 5
    assert report.read(tmp_path / "report.json") == some_rows()


def test_a_quick_report_has_the_same_form() -> None:
    """Small counts judge only what they can: the others are reported and count as met."""
    missed = row("slow", [0.1], at_least=1.0)
    broken = row("too large", [2.0], at_most=1.0, steady=True)
    rows = of_run([missed, broken], "ledger", quick=True)
    assert [(each.target, each.met) for each in rows] == [(None, True), ("<= 1", False)]
    full, quick = (
        json.loads(report.as_json(some_rows(run))) for run in (report.FULL, report.QUICK)
    )
    assert [set(each) for each in quick] == [set(each) for each in full]
    assert {each["run"] for each in quick} == {"quick"}


def test_in_every_second_round_the_last_goes_first() -> None:
    """Whoever is always first meets cold caches, or a machine that has just rested."""
    assert [in_turn(number, "abc") for number in range(3)] == [
        ["a", "b", "c"],
        ["c", "b", "a"],
        ["a", "b", "c"],
    ]


def test_the_readable_report_shows_both_sides_and_the_verdict() -> None:
    """A reader sees who is compared, by how much, against what, and what was missed."""
    rows = [*some_rows(), row("slow", [0.5], at_least=0.8)]
    text = report_text.document(rows)
    assert "6 figures, 3 with a target, 1 beyond it: slow." in text
    assert "| beside a peer | 440 a/s | 100 a/s | 4 ± 1 | ≥ 2 | yes |" in text
    assert "| of a limit | 25 ms |  | 0.5 | ≤ 1 | yes |" in text
    assert "| slow |  |  | 0.5 | ≥ 0.8 | **no** |" in text
    assert "quick run" not in text
    assert "quick run" in report_text.document(some_rows(report.QUICK))


def test_the_plot_is_of_the_same_rows() -> None:
    """Each peer has a bar with its name and ratio; each curve has a point for each size."""
    drawn = ET.fromstring(report_plot.svg(some_rows()))  # noqa: S314 - made here
    texts = [each.text for each in drawn.iter(f"{SVG}text")]
    assert {"beside a peer", "4×", "c", "10,000", "100,000"} <= set(texts)
    (line,) = drawn.iter(f"{SVG}polyline")
    assert len(line.attrib["points"].split()) == 2
    assert "prefers-color-scheme: dark" in report_plot.svg(some_rows())
    assert ET.fromstring(report_plot.svg([])).tag == f"{SVG}svg"  # noqa: S314 - made here


def test_an_unknown_part_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """A typing error does not look like a run in which all is well."""
    with pytest.raises(SystemExit) as left:
        main(["no-such-part"])
    assert left.value.code == 2
    assert "unknown: no-such-part; known: intake, " in capsys.readouterr().err


def test_every_part_has_a_title() -> None:
    """Readers see words, not the names of modules."""
    assert set(PARTS) <= set(report_text.TITLES)


@pytest.mark.parametrize("words", [[], ["--quick"]], ids=["full", "quick"])
@pytest.mark.parametrize(("ratio", "code"), [(0.5, 0), (1.5, 1)], ids=["met", "missed"])
def test_a_run_writes_its_report_and_ends_with_its_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], ratio: float, code: int
) -> None:
    """All parts are in the report, each with what kind of run it was; a miss ends it with 1."""
    measured = [row("a limit", [ratio], at_most=1.0, steady=True)]
    parts = {name: lambda *_: measured for name in ("ledger", "outbox")}
    monkeypatch.setattr(bench_main, "PARTS", parts)
    monkeypatch.setattr(bench_main, "_private_postgres", lambda: nullcontext(str))
    monkeypatch.setattr(machine, "stamp", lambda _url: NOTED)
    monkeypatch.setattr(bench_main, "write", lambda rows: write(rows, tmp_path))
    assert main(words) == code
    told = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert [(each["part"], each["met"]) for each in told] == [
        ("ledger", not code),
        ("outbox", not code),
    ]
    assert {each["run"] for each in told} == {"quick" if words else "full"}
    assert {each["commit"] for each in told} == {"abc"}
    assert {path.name for path in tmp_path.iterdir()} == {"report.json", "report.md", "report.svg"}


def test_single_parts_write_no_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A part of the figures would pass for all of them."""
    monkeypatch.setattr(bench_main, "PARTS", {"ledger": lambda *_: [row("x", [1.0])]})
    monkeypatch.setattr(bench_main, "_private_postgres", lambda: nullcontext(str))
    monkeypatch.setattr(machine, "stamp", lambda _url: NOTED)
    monkeypatch.setattr(bench_main, "write", lambda rows: write(rows, tmp_path))
    assert main(["ledger"]) == 0
    assert not list(tmp_path.iterdir())


def test_a_part_takes_the_place_of_its_old_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With --write the other parts stay as they were, each in its place."""
    old = [replace(row(f"old {part}", [1.0]), part=part) for part in ("intake", "ledger", "outbox")]
    monkeypatch.setattr(report, "read", lambda: old)
    parts = {name: lambda *_: [row("new", [1.0])] for name in ("intake", "ledger", "outbox")}
    monkeypatch.setattr(bench_main, "PARTS", parts)
    monkeypatch.setattr(bench_main, "_private_postgres", lambda: nullcontext(str))
    monkeypatch.setattr(machine, "stamp", lambda _url: NOTED)
    monkeypatch.setattr(bench_main, "write", lambda rows: write(rows, tmp_path))
    assert main(["ledger", "--write"]) == 0
    told = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert [each["name"] for each in told] == ["old intake", "new", "old outbox"]


def test_a_run_that_is_cut_off_keeps_what_it_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each part is in the report as soon as it is measured, beside what was there of the others."""

    def cut_off(*_: object) -> list[Row]:
        raise KeyboardInterrupt

    old = [replace(row(f"old {part}", [1.0]), part=part) for part in ("intake", "ledger")]
    monkeypatch.setattr(report, "read", lambda: old)
    parts = {"intake": lambda *_: [row("new", [1.0])], "ledger": cut_off}
    monkeypatch.setattr(bench_main, "PARTS", parts)
    monkeypatch.setattr(bench_main, "_private_postgres", lambda: nullcontext(str))
    monkeypatch.setattr(machine, "stamp", lambda _url: NOTED)
    monkeypatch.setattr(bench_main, "write", lambda rows: write(rows, tmp_path))
    with pytest.raises(KeyboardInterrupt):
        main([])
    told = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert [each["name"] for each in told] == ["new", "old ledger"]


def test_full_and_quick_figures_stand_in_no_report_together() -> None:
    """A quick part puts away a full report's rows, and a full one a quick report's."""
    full, quick = (replace(row(run, [1.0]), part=run[0], run=run) for run in ("full", "quick"))
    assert report.renewed([full], [quick], ["f", "q"]) == [quick]
    assert report.renewed([quick], [full], ["f", "q"]) == [full]


def docs_in(folder: Path) -> Path:
    """Return a folder of documents with the page and, above it, a front page."""
    docs = folder / "docs"
    (docs / "reference").mkdir(parents=True)
    page = "# B\n\n<!-- generated: benchmarks -->\nold\n<!-- end -->\n"
    (docs / "reference" / "benchmarks.md").write_text(page, encoding="utf-8")
    (docs / "reference" / "reliability.md").write_text("# R\n", encoding="utf-8")
    proof = "<!-- proof -->\n<!-- /proof -->"
    front = f"# T\n\n{proof}\n\n<!-- bench -->\nold\n<!-- /bench -->\n\nrest\n"
    (folder / "README.md").write_text(front, encoding="utf-8")
    return docs


def test_documents_show_the_last_full_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Page, plot and front page come from the report; a second run changes nothing."""
    monkeypatch.setattr(report, "read", some_rows)
    docs = docs_in(tmp_path)
    assert generate_docs.main([], docs) == 0
    page = (docs / "reference" / "benchmarks.md").read_text(encoding="utf-8")
    front = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert "## The pipeline" in page
    assert "old" not in page + front
    assert "| beside a peer | 440 a/s | 100 a/s | 4 ± 1 |" in front
    assert front.endswith("<!-- /bench -->\n\nrest\n")
    assert (docs / "reference" / "benchmarks.svg").read_text(encoding="utf-8").startswith("<svg ")
    assert generate_docs.main(["--check"], docs) == 0


@pytest.mark.parametrize("rows", [[], some_rows(report.QUICK)], ids=["none", "quick"])
def test_documents_keep_their_figures_without_a_full_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: list[Row]
) -> None:
    """A quick run is no measurement: what documents say stays."""
    monkeypatch.setattr(report, "read", lambda: rows)
    docs = docs_in(tmp_path)
    generate_docs.main([], docs)
    assert "old" in (docs / "reference" / "benchmarks.md").read_text(encoding="utf-8")
    assert "old" in (tmp_path / "README.md").read_text(encoding="utf-8")
    assert not (docs / "reference" / "benchmarks.svg").exists()


def test_each_part_tells_when_of_what_and_where_it_was_measured() -> None:
    """Parts may be measured on different days and machines; what was not noted is said so."""
    first, second, none = (
        of_run([row("x", [1.0])], part, quick=False, stamp=stamp)
        for part, stamp in (
            ("intake", Stamp(date="2026-11-18", commit="abc", machine="2 cores of a CPU")),
            (
                "ledger",
                Stamp(date="2026-11-19", commit="def+", machine="4 cores of another", pace_ms=48.5),
            ),
            ("outbox", None),
        )
    )
    text = report_text.body([*first, *second, *none])
    beside_peer = beside("y", [(2, 1)], "a/s", peer="p")
    (told,) = of_run([beside_peer], "ledger", quick=False, stamp=first[0].stamp)
    assert "\n\nMeasured 2026-11-18 on 2 cores of a CPU.\n" in report_text.summary([told])
    assert "- Machine A: 2 cores of a CPU.\n- Machine B: 4 cores of another.\n" in text
    assert "## Messages\n\nMeasured 2026-11-18, commit `abc`, machine A.\n\n| what" in text
    assert (
        "## The ledger\n\nMeasured 2026-11-19, commit `def+`, machine B at a pace of 48.5 ms.\n\n"
        in text
    )
    assert "Measured at a time not noted, commit not noted, machine not noted." in text


def test_a_machine_is_described_and_not_named(tmp_path: Path, postgres_url: str) -> None:
    """Cores, CPU, memory and versions; neither its name nor a path of it."""
    info = tmp_path / "cpuinfo"
    info.write_text("processor\t: 0\nmodel name\t: Fast  CPU @ 3 GHz\nflags\t: a\n")
    told = machine.description("18.4", info)
    assert re.fullmatch(
        r"\d+ cores of Fast CPU @ 3 GHz, \d+ GB of memory, Python 3\.\d+\.\d+, SQLite 3\.[\d.]+,"
        r" PostgreSQL 18\.4",
        told,
    )
    stamp = machine.stamp(postgres_url)
    assert re.fullmatch(r"\d{4}-\d{2}-\d{2}", stamp.date)
    assert re.fullmatch(r"[0-9a-f]{12}\+?|unknown\+?", stamp.commit)
    assert re.search(r"PostgreSQL \d+\.\d+$", stamp.machine)
    assert platform.node() not in stamp.machine
    assert "/" not in stamp.machine
    assert stamp.pace_ms is not None
    assert 1 < stamp.pace_ms < 10_000  # a million additions


def test_the_report_that_is_kept_is_stamped() -> None:
    """A figure without a date and a commit cannot be traced."""
    rows = report.read()
    assert rows
    assert [each.name for each in rows if not (each.date and each.commit)] == []


def test_the_page_says_how_far_and_how_long_a_run_goes() -> None:
    """Sizes are the benchmark's own, and time and room are those that `make help` tells."""
    page = read(DOCS / "reference" / "benchmarks.md")
    sizes = re.search(r"grow to ([\d,]+) records; .*--growth 6\"` stops at ([\d,]+)\.", page)
    assert sizes is not None
    assert [int(each.replace(",", "")) for each in sizes.groups()] == [growth.SIZES[-1], 10**6]
    told = re.search(r"^bench:.*\((\w+ \w+), (\d+ GB)\)", read(ROOT / "Makefile"), re.MULTILINE)
    assert told is not None
    assert f"It takes {told[1]} on two cores, and {told[2]} of disk." in page
