"""`tallgrass reconcile` as a real process: what it finds, what it writes, what it ends with."""

from __future__ import annotations

import json
import shlex
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from tallgrass.bootstrap.reconciling import ReconcileRequest, Reconciliation
from tallgrass.config import load_config
from tallgrass.datasets.catalogue import Catalogue, default_catalogue
from tallgrass.inventory.listed import ListedObject, listed_line
from tallgrass.inventory.reconcile import Kind
from tests.cli.command import Done, here, tallgrass
from tests.inventory.scene import (
    CHANGED,
    EXPECTED,
    FAILED,
    GIVEN,
    GONE,
    ITEMLESS,
    LEDGERLESS,
    STALE,
    UNSAID,
    WINDOW,
    Mess,
    make_mess,
)
from tests.pipeline.scene import Pipeline

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.backends import Backend

GLM = ("reconcile", "--dataset", "goes-glm")


@pytest.fixture
def mess(backend: Backend, tmp_path: Path) -> Mess:
    """Ten units, nine of them with something wrong."""
    return make_mess(backend, tmp_path)


def by_kind(done: Done) -> dict[str, list[str]]:
    """Return the objects of the findings by kind, from the JSON document."""
    found: dict[str, list[str]] = {}
    for finding in done.json["findings"]:
        found.setdefault(finding["kind"], []).append(finding.get("object_uri", ""))
    return found


def run(mess: Mess, *flags: str, code: int = 1) -> Done:
    """Reconcile the window, whatever is young included."""
    done = here(
        *GLM, *WINDOW, "--objects", mess.objects, "--grace", "0", *flags, at=mess.pipeline.backend
    )
    assert (done.code, done.err) == (code, "")
    return done


@pytest.mark.conformance("C-20")
def test_each_thing_that_is_wrong_is_found_once(mess: Mess) -> None:
    """Bucket, ledger and catalog: every finding by its kind and object, and the command ends 1."""
    done = tallgrass(
        *GLM, *WINDOW, "--objects", mess.objects, "--grace", "0", "--output", "json",
        at=mess.pipeline.backend,
    )  # fmt: skip
    assert (done.code, done.err) == (1, "")
    found = by_kind(done)
    assert found.pop("item_without_ledger") == [""]
    assert len(found.pop("gap")) == 2
    assert found == EXPECTED
    document = done.json
    (orphan,) = (f for f in document["findings"] if f["kind"] == "item_without_ledger")
    assert orphan["wal_id"] == mess.orphan
    gaps = [f for f in document["findings"] if f["kind"] == "gap"]
    assert [gap["start"] for gap in gaps] == [
        "2026-06-01T12:02:00.000000Z",
        "2026-06-01T12:02:40.000000Z",
    ]
    assert (document["listed"], document["records"]) == (8, 8)
    assert {kind: number for kind, number in document["counts"].items() if number} == {
        **dict.fromkeys(EXPECTED, 1),
        "item_without_ledger": 1,
        "gap": 2,
    }


def test_it_reads_only(mess: Mess) -> None:
    """Nothing in ledger, catalog or folder is another afterwards."""
    before = mess.pipeline.stored()
    files = sorted(str(path) for path in mess.pipeline.folder.rglob("*"))
    run(mess)
    assert mess.pipeline.stored() == before
    assert sorted(str(path) for path in mess.pipeline.folder.rglob("*")) == files


def test_nothing_found_ends_with_zero(backend: Backend, tmp_path: Path) -> None:
    """A pipeline whose three sides agree, as a person sees it; a ledger of nothing has one gap."""
    pipeline = Pipeline(backend, tmp_path)
    pipeline.feed(*GIVEN)
    pipeline.drain()
    flags = (*WINDOW, "--objects", f"file:{pipeline.objects}", "--grace", "0")
    done = tallgrass(*GLM, *flags, at=backend)
    assert (done.code, done.err) == (0, "")
    assert "all three agree" in done.out
    assert ["listed", "objects", "10"] in [line.split() for line in done.out.splitlines()]
    empty = here(*GLM, "--since", "2026-06-02", "--until", "2026-06-03", *flags[4:], at=backend)
    assert (empty.code, empty.json["counts"]["gap"]) == (1, 1)
    assert "4,320 missing" in empty.json["findings"][0]["detail"]


def test_people_see_kinds_counts_and_what_to_do(mess: Mess) -> None:
    """A line a finding, then the counts, then the advice where no command mends."""
    done = tallgrass(
        *GLM, *WINDOW, "--objects", mess.objects, "--grace", "0", at=mess.pipeline.backend
    )
    assert f"never_notified  {UNSAID.uri}  listed, but the ledger does not know it" in done.out
    assert "quarantined: look at each: `tallgrass quarantine list`" in done.out
    assert ["gap", "2"] in [line.split() for line in done.out.splitlines()]


def test_the_grace_leaves_alone_what_is_young(mess: Mess) -> None:
    """Files and records of a moment ago are no news yet; the files are counted."""
    done = run(mess, "--grace", "3600")
    assert not by_kind(done).keys() & {"never_notified", "object_changed", "object_gone"}
    assert done.json["recent"] == 2


def test_without_a_bucket_ledger_and_catalog_are_compared(mess: Mess) -> None:
    """--catalog-only finds what the two tell, and needs no objects; the cadence is the ledger's."""
    done = here(*GLM, *WINDOW, "--catalog-only", "--grace", "0", at=mess.pipeline.backend)
    found = by_kind(done)
    bucket = {"never_notified", "object_gone", "object_changed"}
    assert found.keys() == (EXPECTED.keys() | {"item_without_ledger", "gap"}) - bucket
    assert done.json["listed"] is None
    # The unit that was never announced, and the one whose record is gone.
    gaps = [each["start"] for each in done.json["findings"] if each["kind"] == "gap"]
    assert gaps == ["2026-06-01T12:00:00.000000Z", "2026-06-01T12:02:40.000000Z"]


def test_without_a_bucket_nothing_is_said_of_the_source(mess: Mess) -> None:
    """A gap of the ledger alone: the bucket may have it."""
    done = tallgrass(*GLM, *WINDOW, "--catalog-only", "--grace", "0", at=mess.pipeline.backend)
    assert "gap: the ledger has nothing there" in done.out
    assert "the source has nothing" not in done.out


def test_a_prefix_narrows_both_sides(mess: Mess) -> None:
    """Only objects whose key begins so, and only records of such objects."""
    key = GONE.place.key.split("_e")[0]
    done = run(mess, "--prefix", key)
    assert by_kind(done) == {"object_gone": [GONE.uri]}
    assert done.json["records"] == 1


def test_a_bucket_that_was_not_listed_says_nothing(mess: Mess, tmp_path: Path) -> None:
    """With a list of another bucket the ledger's own findings stay, and no object is gone."""
    listing = tmp_path / "objects.txt"
    listing.write_text("s3://noaa-goes18/GLM-L2-LCFA/README.txt\n")
    done = run(mess, "--listing", str(listing))
    bucket = {"never_notified", "object_gone", "object_changed"}
    assert by_kind(done).keys() == (EXPECTED.keys() | {"item_without_ledger"}) - bucket


def test_a_bucket_narrows_both_sides(mess: Mess) -> None:
    """Of another bucket nothing is known; its own findings are all there, but for the item."""
    other = run(mess, "--bucket", "noaa-goes18")
    assert (set(by_kind(other)), other.json["records"]) == ({"gap"}, 0)
    own = by_kind(run(mess, "--bucket", GIVEN[0].place.bucket))
    assert own.keys() == EXPECTED.keys() | {"gap"}


def test_lines_that_name_no_object_are_counted(mess: Mess, tmp_path: Path) -> None:
    """As a backfill counts them: they harm no neighbour."""
    listing = tmp_path / "objects.jsonl"
    listing.write_text('{"uri":"abc"}\ns3://noaa-goes19\n' + f"{UNSAID.uri}\n")
    done = run(mess, "--listing", str(listing))
    assert done.json["ignored"] == {"invalid_object_uri": 2}
    assert by_kind(done)["never_notified"] == [UNSAID.uri]


def test_a_provider_of_the_configuration_is_known(mess: Mess, tmp_path: Path) -> None:
    """What a backfill would record is told as never notified, and not passed over."""
    listing, file = tmp_path / "objects.txt", tmp_path / "own.toml"
    listing.write_text(f"ibm://ibm-goes/{UNSAID.place.key}\n")
    file.write_text('[ledger]\nproviders = ["ibm"]\n')
    glm = default_catalogue().named("goes-glm")
    catalogue = Catalogue([replace(glm, mirrors={"ibm": ("ibm-goes",)})])
    config = load_config(environment={}, file=file, flags=mess.pipeline.config.values)
    since = datetime(2026, 6, 1, 12, tzinfo=UTC)
    request = ReconcileRequest(
        dataset="goes-glm", since=since, until=since + timedelta(hours=1), listing=listing
    )
    found = Reconciliation(config, mess.pipeline.stores, request, catalogue=catalogue).findings()
    uris = [each.object_uri for each in found if each.kind is Kind.NEVER_NOTIFIED]
    assert uris == [f"ibm://ibm-goes/{UNSAID.place.key}"]


def test_a_file_stands_for_the_bucket(mess: Mess, tmp_path: Path) -> None:
    """A list of objects is compared in place of the bucket, for the buckets that it names."""
    listing = tmp_path / "objects.jsonl"
    wanted = [each for each in GIVEN if each not in (GONE, LEDGERLESS)]
    later, earlier = (datetime(year, 1, 1, tzinfo=UTC) for year in (2100, 2000))
    expected = {**EXPECTED, "item_without_ledger": [""]}
    del expected["object_changed"]  # by the file, that object is as it was
    for newest in (later, earlier, None):
        other = ListedObject("s3://noaa-goes18/GLM-L2-LCFA/README.txt", 1, None, newest)
        lines = [ListedObject(each.uri, len(each.content), None, None) for each in wanted]
        listing.write_text("".join(f"{listed_line(each)}\n" for each in [*lines, other]))
        done = run(mess, "--listing", str(listing))
        # A file that is older than the record of an object cannot tell that it is gone.
        gone = {} if newest is later else {"object_gone": None}
        assert by_kind(done) == {k: v for k, v in expected.items() if k not in gone}
        assert sum(done.json["ignored"].values()) == 1


def test_the_limit_cuts_the_document_and_not_the_counts(mess: Mess) -> None:
    """Of each kind at most N are told; all are counted."""
    done = run(mess, "--limit", "1")
    kinds = [finding["kind"] for finding in done.json["findings"]]
    assert kinds.count("gap") == 1
    assert done.json["counts"]["gap"] == 2
    assert run(mess, "--limit", "0").json["findings"] == []


def test_a_plan_folder_holds_what_mends(mess: Mess, tmp_path: Path) -> None:
    """All findings, objects for a backfill, units for replays, and the commands that use them."""
    folder = tmp_path / "mend"
    done = run(mess, "--plan-dir", str(folder))
    assert sorted(path.name for path in folder.iterdir()) == [
        "findings.jsonl", "objects.jsonl", "rebuild-1.yaml", "replay-size_zero-1.yaml",
        "rerun-1.yaml",
    ]  # fmt: skip
    lines = [json.loads(line) for line in (folder / "findings.jsonl").read_text().splitlines()]
    assert lines == done.json["findings"]
    objects = [json.loads(line)["uri"] for line in (folder / "objects.jsonl").read_text().split()]
    assert sorted(objects) == sorted([UNSAID.uri, CHANGED.uri])
    commands = done.json["commands"]
    assert [command.split()[1] for command in commands] == ["backfill", *["replay"] * 3]
    assert str(folder / "objects.jsonl") in commands[0]
    for name, given in (
        ("replay-size_zero-1", FAILED),
        ("rerun-1", STALE),
        ("rebuild-1", ITEMLESS),
    ):
        wal_id = mess.pipeline.row(given)["wal_id"]
        assert wal_id in (folder / f"{name}.yaml").read_text()
        (command,) = (each for each in commands if f"{name}.yaml" in each)
        assert ("--force" in command) == (name == "rebuild-1")
    # A second run replaces its own folder; another's is left alone.
    run(mess, "--plan-dir", str(folder))
    (folder / "findings.jsonl").unlink()
    refused = here(
        *GLM, *WINDOW, "--objects", mess.objects, "--plan-dir", str(folder),
        at=mess.pipeline.backend,
    )  # fmt: skip
    assert (refused.code, refused.error["code"]) == (3, "export_target_in_use")


def test_the_commands_that_are_printed_mend_what_failed(mess: Mess, tmp_path: Path) -> None:
    """A code that is not retried by itself is named in the selection: its unit is replayed."""
    backend, folder = mess.pipeline.backend, tmp_path / "mend"
    commands = run(mess, "--plan-dir", str(folder)).json["commands"]
    (command,) = (each for each in commands if "replay-" in each)
    opened = here("incidents", "open", "INC-7", "--title", "empty", "--actor", "ann", at=backend)
    assert opened.code == 0, opened.err
    words = shlex.split(command.replace(" REF", " INC-7"))[1:]
    done = tallgrass(
        *words, "--yes", "--actor", "ann", "--output", "json", at=backend,
        env={"TALLGRASS_OBJECTS_URL": mess.objects},
    )  # fmt: skip
    assert (done.code, done.json["planned"], done.json["done"]) == (0, 1, 1), done.err
    assert mess.pipeline.row(FAILED)["status"] == "succeeded"


def test_without_a_folder_the_advice_names_each_code(mess: Mess) -> None:
    """The flags that select the failed units, and the code that counts as mended; it runs."""
    backend = mess.pipeline.backend
    done = tallgrass(*GLM, *WINDOW, "--objects", mess.objects, "--grace", "0", at=backend)
    (line,) = (each for each in done.out.splitlines() if each.startswith("failed: "))
    assert "size_zero (1): mend its cause first (`tallgrass explain size_zero`), then" in line
    assert run(mess).json["failed_codes"] == {"size_zero": 1}
    command = line.rpartition("then `")[2].rstrip("`")
    words = shlex.split(command.removesuffix(" --incident REF"))[1:]
    plan = here(*words, "--dry-run", at=backend).json["summary"]
    assert (plan["candidates"], plan["by_action"]["replay"]) == (1, 1)
    for kind in ("never_notified", "object_changed", "stale", "ledger_without_item"):
        assert f"\n{kind}: " in done.out, kind


def test_a_rate_holds_the_comparison_back(mess: Mess) -> None:
    """Three a second of eight: by an injected clock, and as a process that takes its time."""
    flags = (*GLM, *WINDOW, "--objects", mess.objects, "--grace", "0", "--output", "json")
    began = time.monotonic()
    slow = tallgrass(*flags, "--rate", "3", at=mess.pipeline.backend)
    assert (slow.code, slow.json["listed"]) == (1, 8)
    assert time.monotonic() - began > 8 / 3
    assert by_kind(slow) == by_kind(tallgrass(*flags, at=mess.pipeline.backend))
    rests, clock = [], [100.0]

    def sleep(seconds: float) -> None:
        rests.append(seconds)
        clock[0] += seconds

    since = datetime(2026, 6, 1, 12, tzinfo=UTC)
    request = ReconcileRequest(
        dataset="goes-glm", since=since, until=since + timedelta(seconds=200), rate=3
    )
    reconciliation = Reconciliation(
        mess.pipeline.config, mess.pipeline.stores, request,
        sleep=sleep, monotonic=lambda: clock[0],
    )  # fmt: skip
    assert len(list(reconciliation.findings())) > 0
    assert rests == [1.0, 1.0, pytest.approx(2 / 3)]


def test_a_comparison_that_is_told_to_stop_ends(mess: Mess) -> None:
    """Between two parts; of ledger and catalog nothing is said then."""
    since = datetime(2026, 6, 1, 12, tzinfo=UTC)
    request = ReconcileRequest(
        dataset="goes-glm", since=since, until=since + timedelta(seconds=200), rate=3
    )
    asked: list[bool] = []

    def stop() -> bool:
        asked.append(True)
        return len(asked) > 1

    reconciliation = Reconciliation(
        mess.pipeline.config, mess.pipeline.stores, request, stop=stop, sleep=lambda _s: None
    )
    list(reconciliation.findings())
    assert (reconciliation.report.listed, reconciliation.report.records) == (3, 0)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--since", "2026-06-02", "--until", "2026-06-01"), "--since must be before --until"),
        (("--since", "yesterday"), "yesterday"),
        (("--since", "2026-06-01", "--catalog-only", "--prefix", "a"), "--catalog-only"),
    ],
)
def test_mistakes_are_told_before_anything_is_read(flags: tuple[str, ...], said: str) -> None:
    """Bad arguments end with 2 and name what is wrong."""
    done = tallgrass(*GLM, *flags, at="sqlite:///nowhere.db")
    assert done.code == 2
    assert said in done.err
