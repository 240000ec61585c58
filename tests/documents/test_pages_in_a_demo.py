"""Pages that speak of an installation at work: each command is carried out on the demo's."""

from __future__ import annotations

import json
import re
import tomllib
from typing import TYPE_CHECKING

import pytest

from tests.documents.demo_world import commands, demo_world, make_demo
from tests.documents.markdown import DOCS, ROOT, all_documents, code_block, read

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.documents.demo_world import DemoWorld


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo, as it is left."""
    folder = tmp_path_factory.mktemp("demo") / "made"
    make_demo(folder)
    return folder


@pytest.fixture
def world(made: Path, tmp_path: Path) -> Iterator[DemoWorld]:
    """A copy for one page."""
    with demo_world(made, tmp_path / "demo") as opened:
        yield opened


def play(world: DemoWorld, page: str) -> list[str]:
    """Carry out all commands of a page in their order; return what each printed."""
    printed = []
    for line in commands(page):
        done = world.type_in(line)
        assert done.code == 0, f"{line}\n{done.out}{done.err}"
        printed.append(done.out)
    return printed


def test_a_dataset_of_ones_own_begins_with_a_good_file(world: DemoWorld) -> None:
    """concepts/datasets.md: what is printed is a file that passes the check."""
    printed = play(world, "concepts/datasets.md")
    assert len(printed) == 3
    assert "my-radar" in printed[-1]


def test_poison_is_fed_again_once_its_dataset_is_known(world: DemoWorld) -> None:
    """concepts/poison-messages.md: looked at, tried, fed; the message is in the queue again."""
    (world.folder / "datasets").mkdir()
    # The template's bucket is named after its dataset.
    template = world.command("", "datasets", "new", "noaa-unheard-of").out
    (world.folder / "datasets" / "new.toml").write_text(template, encoding="utf-8")
    config = world.folder / "tallgrass.toml"
    config.write_text(config.read_text() + '[datasets]\nfolder = "datasets"\n', encoding="utf-8")
    printed = play(world, "concepts/poison-messages.md")
    assert len(printed) == 4
    assert "noaa-unheard-of-pds" in printed[1]
    assert "1 would be fed" in printed[2]
    assert world.command("operator", "queue", "status", "--output", "json").json["visible"] == 1


def test_two_people_and_a_freeze(world: DemoWorld) -> None:
    """governance/actors-and-approvals.md: a plan is approved; what a freeze set, its end clears."""
    printed = play(world, "governance/actors-and-approvals.md")
    assert len(printed) == 8
    assert printed[0].startswith("ann (approver)\ntg_")
    assert "state         approved" in printed[4]
    on = world.backend.sql("SELECT scope, dataset FROM kill_switches WHERE is_on")
    assert [tuple(row) for row in on] == [("ingest", "goes-glm")]


def test_a_unit_leaves_quarantine_by_one_way(world: DemoWorld) -> None:
    """governance/policies.md: asked for by one, approved by another, released once."""
    printed = play(world, "governance/policies.md")
    assert len(printed) == 5
    unit = world.names["WAL_ID"]
    assert f"Released {unit}." in printed[-1]
    (row,) = world.backend.sql("SELECT status FROM wal_records WHERE wal_id = ?", unit)
    assert row[0] == "pending"


def test_a_backfill_brings_in_what_no_message_brought(world: DemoWorld) -> None:
    """how-to/backfill.md: a listed object is new, then known; an approved order is carried out."""
    folder = world.folder / "objects" / "noaa-goes19" / "GLM-L2-LCFA" / "2026" / "152" / "12"
    known = min(path for path in folder.iterdir() if path.stat().st_size > 1000)
    late = "OR_GLM-L2-LCFA_G19_s20261521259590_e20261521259599_c20261521300100.nc"
    (folder / late).write_bytes(known.read_bytes())
    printed = play(world, "how-to/backfill.md")
    assert len(printed) == 7
    assert "new, would be due          1" in printed[0]
    assert "new, made due          1" in printed[1]
    assert "units worked on    1" in printed[2]
    assert "new, would be due          0" in printed[3]


def test_reconciling_ends_with_1_where_something_is_amiss(world: DemoWorld) -> None:
    """how-to/reconcile.md: the demo's bad units are found, and files for mending them written."""
    lines = commands("how-to/reconcile.md")
    assert len(lines) == 2
    for line in lines:
        done = world.type_in(line)
        assert done.code == 1, done.err
        found = [each.split()[0] for each in done.out.splitlines() if "s3://" in each]
        assert found.count("failed") == 4
        assert found.count("quarantined") == 2
    assert list((world.folder / "mend").iterdir())


def test_old_rows_leave_for_an_archive(world: DemoWorld) -> None:
    """how-to/retention.md: with the page's settings the demo's attempts are old; one is found."""
    (text, _) = re.findall(
        r"^```toml\n(.*?)^```$", read(DOCS / "how-to/retention.md"), re.DOTALL | re.MULTILINE
    )
    config = world.folder / "tallgrass.toml"
    config.write_text(config.read_text() + text.replace("/srv/archive", "archive"))
    (world.folder / "archive").mkdir()
    printed = play(world, "how-to/retention.md")
    assert len(printed) == 6
    assert re.search(r"^attempts +\S+ \S+Z +[1-9]", printed[0], re.MULTILINE), printed[0]
    assert len(list((world.folder / "archive").rglob("*.gz"))) >= 1
    assert "attempts" in printed[2]
    assert world.names["WAL_ID"] in printed[4]


def test_the_catalog_is_what_its_evidence_gives(world: DemoWorld) -> None:
    """how-to/verify.md: the counts that the page shows."""
    (printed,) = play(world, "how-to/verify.md")
    shown = re.findall(
        r"^  \S.*$", code_block(read(DOCS / "how-to/verify.md"), "console"), re.MULTILINE
    )
    assert len(shown) == 5
    assert all(line in printed.splitlines() for line in shown)


def test_telemetry_is_exported_for_a_release(world: DemoWorld) -> None:
    """how-to/telemetry-files.md: three files below the release."""
    play(world, "how-to/telemetry-files.md")
    assert len(list((world.folder / "releases" / "v1.2.0").iterdir())) == 3


def test_a_selection_file_gives_a_plan(world: DemoWorld) -> None:
    """replay-cli-usage.md: its selection is read, and the plan is a file of lines."""
    page = "replay/replay-engine/replay-cli-usage.md"
    (world.folder / "june.yaml").write_text(code_block(read(DOCS / page), "yaml"))
    assert len(play(world, page)) == 2
    header, *_ = (world.folder / "plan.jsonl").read_text().splitlines()
    assert '"incident"' in header


def test_runs_and_drains(world: DemoWorld) -> None:
    """replay-engine.md: a run, a resumed one, an approved re-run of all, dead letters drained."""
    lines = commands("replay/replay-engine/replay-engine.md")
    assert len(lines) == 13
    queue = next(number for number, line in enumerate(lines) if "--queue URL" in line)
    printed = []
    for line in lines[:queue]:
        done = world.type_in(line)
        assert done.code == 0, f"{line}\n{done.out}{done.err}"
        printed.append(done.out)
    assert '"planned": 178' in printed[5]
    assert '"done": 174' in printed[5]
    assert "planned 4 = sent 4" in printed[-1]


@pytest.mark.parametrize("number", range(4))
def test_stacks_are_planned(world: DemoWorld, number: int) -> None:
    """how-to/aws.md: each call prints a template that has a queue and its dead letters."""
    line = [line for line in commands("how-to/aws.md") if " aws plan " in line][number]
    done = world.type_in(line)
    kinds = [each["Type"] for each in json.loads(done.out)["Resources"].values()]
    assert kinds.count("AWS::SQS::Queue") == 2


def test_the_catalog_is_exported_and_its_collections_refreshed(world: DemoWorld) -> None:
    """how-to/catalog.md: each form holds what was chosen; a schema that is missing is named."""
    served, *lines = [line for line in commands("how-to/catalog.md") if not line.startswith("pip")]
    assert served == "tallgrass stac serve --port 8080"  # runs on: tests/web
    assert len(lines) == 6
    (world.folder / "schemas").mkdir()
    done = [world.type_in(line) for line in lines]
    # The folder of schemas is empty: documents with extensions cannot be judged.
    assert [each.code for each in done] == [0, 0, 0, 1, 1, 0], [each.err for each in done]
    assert len((world.folder / "items.ndjson").read_bytes().splitlines()) == 288
    assert (world.folder / "catalog" / "catalog.json").is_file()
    assert (world.folder / "items.parquet").read_bytes()[:4] == b"PAR1"
    assert "proj" in done[3].out + done[3].err


def test_a_key_is_explained(world: DemoWorld) -> None:
    """how-to/inspect.md: its first call tells run and valid time of a forecast."""
    found = json.loads(world.type_in(commands("how-to/inspect.md")[0]).out)
    assert found["reference_time"] == "2024-05-10T12:00:00.000000Z"
    assert found["valid_time"] == "2024-05-10T14:00:00.000000Z"


def test_extras_that_pages_name_exist() -> None:
    """What a page says to install is an extra of the package."""
    project = tomllib.loads(read(ROOT / "pyproject.toml"))["project"]
    named = {
        extra
        for path in all_documents()
        for extras in re.findall(r"pip install '(?:tallgrass|\.)\[([a-z,]+)\]", read(path))
        for extra in extras.split(",")
    }
    assert len(named) > 5
    assert named <= project["optional-dependencies"].keys()
