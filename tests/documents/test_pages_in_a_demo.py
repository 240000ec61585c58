"""Pages that speak of an installation at work: each command is carried out on the demo's."""

from __future__ import annotations

import json
import re
import shutil
import tomllib
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.errors import ValidationError
from tallgrass.nodes import NodeRunner, effect
from tallgrass.sinks.signature import read_secret
from tests.documents.demo_world import demo_world
from tests.documents.markdown import DOCS, ROOT, all_documents, code_block, read
from tests.documents.page_commands import played
from tests.pipeline.scene import message_of, thing
from tests.release.folder import make_release, new_key
from tests.stac import schemas

if TYPE_CHECKING:
    from pathlib import Path

    from tests.documents.demo_world import DemoWorld


def test_a_dataset_of_ones_own_begins_with_a_good_file(world: DemoWorld) -> None:
    """concepts/datasets.md: what is printed is a file that passes the check."""
    printed = world.play("concepts/datasets.md")
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
    printed = world.play("concepts/poison-messages.md")
    assert len(printed) == 4
    assert "noaa-unheard-of-pds" in printed[1]
    assert "1 would be fed" in printed[2]
    assert world.command("operator", "queue", "status", "--output", "json").json["visible"] == 1


def test_two_people_and_a_freeze(world: DemoWorld) -> None:
    """governance/actors-and-approvals.md: a plan is approved; what a freeze set, its end clears."""
    printed = world.play("governance/actors-and-approvals.md")
    assert len(printed) == 8
    assert printed[0].startswith("ann (approver)\ntg_")
    assert "state         approved" in printed[4]
    on = world.backend.sql("SELECT scope, dataset FROM kill_switches WHERE is_on")
    assert [tuple(row) for row in on] == [("ingest", "goes-glm")]


def test_a_unit_leaves_quarantine_by_one_way(world: DemoWorld) -> None:
    """governance/policies.md: asked for by one, approved by another, released once."""
    printed = world.play("governance/policies.md")
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
    printed = world.play("how-to/backfill.md")
    assert len(printed) == 7
    assert "new, would be due          1" in printed[0]
    assert "new, made due          1" in printed[1]
    assert "units worked on    1" in printed[2]
    assert "new, would be due          0" in printed[3]


def test_reconciling_ends_with_1_where_something_is_amiss(world: DemoWorld) -> None:
    """how-to/reconcile.md: the demo's bad units are found, and files for mending them written."""
    lines = played("how-to/reconcile.md")
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
    printed = world.play("how-to/retention.md")
    assert len(printed) == 6
    assert re.search(r"^attempts +\S+ \S+Z +[1-9]", printed[0], re.MULTILINE), printed[0]
    assert len(list((world.folder / "archive").rglob("*.gz"))) >= 1
    assert "attempts" in printed[2]
    assert world.names["WAL_ID"] in printed[4]


def test_the_catalog_is_what_its_evidence_gives(world: DemoWorld) -> None:
    """how-to/verify.md: the counts that the page shows."""
    (printed,) = world.play("how-to/verify.md")
    shown = re.findall(
        r"^  \S.*$", code_block(read(DOCS / "how-to/verify.md"), "console"), re.MULTILINE
    )
    assert len(shown) == 5
    assert all(line in printed.splitlines() for line in shown)


def test_telemetry_is_exported_for_a_release(world: DemoWorld) -> None:
    """how-to/telemetry-files.md: three files below the release."""
    world.play("how-to/telemetry-files.md")
    assert len(list((world.folder / "releases" / "v1.2.0").iterdir())) == 3


def test_a_selection_file_gives_a_plan(world: DemoWorld) -> None:
    """replay-cli-usage.md: its selection is read, and the plan is a file of lines."""
    page = "replay/replay-engine/replay-cli-usage.md"
    (world.folder / "june.yaml").write_text(code_block(read(DOCS / page), "yaml"))
    assert len(world.play(page)) == 2
    header, *_ = (world.folder / "plan.jsonl").read_text().splitlines()
    assert '"incident"' in header


def test_runs_and_drains(world: DemoWorld, made_demo: Path, tmp_path: Path) -> None:
    """replay-engine.md: a run, a resumed one, an approved re-run of all, dead letters drained."""
    page = "replay/replay-engine/replay-engine.md"
    lines = played(page)
    assert len(lines) == 14
    own_queue = next(number for number, line in enumerate(lines) if "replay-queue" in line)
    printed = []
    for line in lines[:own_queue]:
        done = world.type_in(line)
        assert done.code == 0, f"{line}\n{done.out}{done.err}"
        printed.append(done.out)
    assert '"planned": 178' in printed[5]
    assert '"done": 174' in printed[5]
    assert "planned 4 = sent 4" in printed[-1]
    # The letters are gone now: another queue is another demo's.
    with demo_world(made_demo, tmp_path / "another") as another:
        plan, change = (line for line in lines if re.match("tallgrass (dlq plan|changes)", line))
        another.type_in(plan)
        another.type_in(change)
        for line in lines[own_queue:]:
            done = another.type_in(line)
            assert done.code == 0, f"{line}\n{done.out}{done.err}"
            run_id = another.names["RUN_ID"]
            another.replaced["URL"] = f"sqlite:///queue-replay-{run_id}.db"
        assert not list(another.folder.glob("queue-replay-*"))


def test_what_sqs_hands_out_is_inspected(world: DemoWorld, tmp_path: Path) -> None:
    """concepts/messages.md: what the AWS command line prints of a message is understood."""
    body = message_of(thing().event()).decode()
    told = {"Messages": [{"MessageId": "m-1", "ReceiptHandle": "r", "Body": body}]}
    (world.folder / "received.json").write_text(json.dumps(told), encoding="utf-8")
    world.programs.append(program(tmp_path, "aws", "sqs receive-message *", "cat received.json"))
    (printed,) = world.play("concepts/messages.md")
    assert thing().uri in printed


def program(folder: Path, name: str, wanted: str, does: str) -> Path:
    """Write a program that is called as the page says, and does no more than it is told here."""
    places = folder / "programs"
    places.mkdir(exist_ok=True)
    script = (
        f'#!/bin/sh\ncase "$*" in {wanted.replace(" ", chr(92) + " ")}) {does};; *) exit 2;; esac\n'
    )
    (places / name).write_text(script, encoding="utf-8")
    (places / name).chmod(0o755)
    return places


def test_a_stack_is_planned_deployed_and_checked(world: DemoWorld, tmp_path: Path) -> None:
    """how-to/aws.md: templates, the command that the plan itself prints, and the doctor."""
    deployed = "cloudformation deploy --template-file tallgrass-aws.json *"
    does = "python3 -m json.tool tallgrass-aws.json > deployed.json"
    world.programs.append(program(tmp_path, "aws", deployed, does))
    lines = played("how-to/aws.md")
    assert len(lines) == 6
    done = [world.type_in(line) for line in lines]
    assert [each.code for each in done] == [0] * 6, done[-1].out + done[-1].err
    for template in (world.folder / "deployed.json").read_text(), *(each.out for each in done[1:4]):
        kinds = [each["Type"] for each in json.loads(template)["Resources"].values()]
        assert kinds.count("AWS::SQS::Queue") == 2
    (shown,) = [line for line in lines if line.startswith("aws ")]
    assert shown in " ".join(done[0].err.replace("\\\n", "").split())
    assert "configuration" in done[-1].out


def test_the_catalog_is_served_exported_and_validated(world: DemoWorld) -> None:
    """how-to/catalog.md: each form holds what was chosen; documents are judged by their schemas."""
    world.replaced["--port 8080"] = "--port 0"
    lines = played("how-to/catalog.md")
    assert len(lines) == 7
    published = schemas.published()
    if published is None:
        (world.folder / "schemas").mkdir()
    else:
        shutil.copytree(published, world.folder / "schemas")
    done = [world.type_in(line) for line in lines]
    # Without the schemas of extensions, documents that declare some cannot be judged.
    judged = 0 if published is not None else 1
    codes = [0, 0, 0, 0, judged, judged, 0]
    assert [each.code for each in done] == codes, [each.out[-300:] + each.err for each in done]
    assert re.search(r"http://127\.0\.0\.1:\d+", done[0].out)
    assert len((world.folder / "items.ndjson").read_bytes().splitlines()) == 288
    assert (world.folder / "catalog" / "catalog.json").is_file()
    assert (world.folder / "items.parquet").read_bytes()[:4] == b"PAR1"
    assert published is not None or "proj" in done[4].out + done[4].err


def test_keys_and_files_are_explained(world: DemoWorld) -> None:
    """how-to/inspect.md: run and valid time of a forecast, keys from a file, and a radar volume."""
    volume = next((world.folder / "objects").glob("*nexrad*/**/*_V06"))
    shutil.copy(volume, world.folder / "KDMX20250101_225441_V06")
    (world.folder / "keys.txt").write_text(
        "s3://noaa-goes19/GLM-L2-LCFA/2026/152/12/"
        "OR_GLM-L2-LCFA_G19_s20261521259590_e20261521259599_c20261521300100.nc\n"
    )
    forecast, _, radar = world.play("how-to/inspect.md")
    assert json.loads(forecast)["reference_time"] == "2024-05-10T12:00:00.000000Z"
    assert json.loads(forecast)["valid_time"] == "2024-05-10T14:00:00.000000Z"
    (key,) = (world.folder / "keys.jsonl").read_text().splitlines()
    assert json.loads(key)["dataset"] == "goes-glm"
    assert json.loads(radar)["evidence"]


def test_a_failed_node_is_cleared(world: DemoWorld) -> None:
    """how-to/node-effects.md: planned, asked for, approved by another, cleared."""
    world.variables["TALLGRASS_NODES_FOLDER"] = str(world.folder / "nodes")

    def fails(_state: object) -> object:
        effect("put", key="object-1", do=lambda: None)
        raise ValidationError("wrong shape")

    with (
        NodeRunner(world.folder / "nodes", run_id="2026-11-16") as runner,
        pytest.raises(ValidationError),
    ):
        runner.run(
            node_id="publish", inputs={"x": 1}, exec_fn=fails, code_version="1", has_effects=True
        )
    failed = world.folder / "nodes" / "wal" / "2026-11-16" / "publish" / "failed.json"
    assert failed.exists()
    assert len(world.play("how-to/node-effects.md")) == 4
    assert not failed.exists()


def test_runs_of_nodes_are_looked_at(world: DemoWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """how-to/nodes.md: the run of the page's own example, in each of the ways shown."""
    monkeypatch.chdir(world.folder)
    names: dict[str, Any] = {"__name__": "example"}
    exec(code_block(read(DOCS / "how-to/nodes.md"), "python"), names)  # noqa: S102 - the page's own
    names["runner"].close()
    world.names["RUN"] = "2026-11-16"
    printed = world.play("how-to/nodes.md")
    assert len(printed) == 6
    assert "smooth" in printed[1]


def test_a_release_is_checked(world: DemoWorld) -> None:
    """how-to/release.md: by the command, by OpenSSL, and by sha256sum; and a key is made."""
    for tool in ("openssl", "unzip", "sha256sum"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    key = new_key()
    (world.folder / "releases").mkdir()
    make_release(world.folder / "releases" / "v0.1.0", key)
    (world.folder / "publisher.pem").write_bytes(key.public)
    folder = world.folder
    printed = world.play("how-to/release.md")
    assert len(printed) == 6
    assert "Signature Verified Successfully" in printed[2]
    assert (folder / "releases" / "v0.1.0" / "private.pem").is_file()


def test_a_secret_is_made(world: DemoWorld) -> None:
    """how-to/sinks.md: what is printed is a secret that a webhook takes."""
    (printed,) = world.play("how-to/sinks.md")
    assert len(read_secret(printed.strip())) == 32


def test_the_log_is_filtered(world: DemoWorld) -> None:
    """reference/telemetry.md: a line of JSON for the unit that failed, and no other."""
    late = thing(9999)
    world.put(late, content=b"x" * len(late.content))
    world.announce(late)
    _, printed = world.play("reference/telemetry.md")
    (line,) = printed.splitlines()
    assert json.loads(line)["event"] == "unit_failed"


def test_a_publisher_knows_the_policies(world: DemoWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """governance/policies.md: the Python of the page gives a publisher."""
    monkeypatch.chdir(world.folder)
    names: dict[str, Any] = {}
    exec(code_block(read(DOCS / "governance/policies.md"), "python"), names)  # noqa: S102
    assert names["publisher"].rules.masking is not None


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
