"""`tallgrass verify` as a real process: what it counts, names and ends with."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.cli.main import run as run_here
from tests.cli.command import Done, tallgrass
from tests.pipeline.scene import Pipeline, Thing, thing, things
from tests.replay.tampering import tamper
from tests.support.backends import prepare

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.backends import Backend


@pytest.fixture
def pipeline(backend: Backend, tmp_path: Path) -> Pipeline:
    """Nine units of three datasets, ingested, and one that waits for its object."""
    made = Pipeline(backend, tmp_path)
    made.feed(*GIVEN)
    made.drain()
    made.announce(thing(50))
    made.worker.run_messages()
    assert made.statuses() == {"succeeded": 9, "pending": 1}
    return made


GIVEN: list[Thing] = things(9)


def run(pipeline: Pipeline, *flags: str, **options: Any) -> Done:
    """Verify the pipeline's ledger."""
    objects = f"file:{pipeline.objects}"
    return tallgrass(
        "verify", "--store", pipeline.backend.url, "--objects", objects, *flags, **options
    )


def counted(done: Done) -> dict[str, int]:
    """Return the verdicts that occurred, from the JSON document."""
    names = ("identical", "differs", "source_changed", "source_gone", "unread")
    return {name: done.json[name] for name in names if done.json[name]}


def test_it_counts_names_and_ends_with_one_if_anything_differs(pipeline: Pipeline) -> None:
    """An untouched catalog ends with 0; a tampered one with 1, with unit and fields."""
    backend = pipeline.backend
    before = pipeline.stored()
    done = run(pipeline, "--output", "json")
    assert (done.code, counted(done), done.err) == (0, {"identical": 9}, "")
    assert done.json["without_item"] == 1
    assert pipeline.stored() == before

    edited, changed, gone = (pipeline.row(GIVEN[number])["wal_id"] for number in (0, 1, 2))
    statement = "UPDATE provenance SET body = ? WHERE wal_id = ?"
    tamper(backend, statement, b'{"@graph":[]}', edited)
    pipeline.put(thing(1, dataset="nexrad-l2", version=2))
    pipeline.path(GIVEN[2]).unlink()
    done = run(pipeline, "--reread", "--output", "json")
    assert (done.code, counted(done)) == (
        1,
        {"identical": 6, "differs": 1, "source_changed": 1, "source_gone": 1},
    )
    units = {each["wal_id"]: each for each in done.json["units"]}
    assert {name: each["verdict"] for name, each in units.items()} == {
        edited: "differs", changed: "source_changed", gone: "source_gone",
    }  # fmt: skip
    assert {"part": "ledger", "field": "provenance.sha256"}.items() <= (
        units[edited]["fields"][0].items()
    )
    assert units[edited]["object_uri"] == GIVEN[0].uri
    assert units[gone]["failure"]["code"] == "missing_object"

    told = run(pipeline)
    assert told.code == 1
    assert f"differs  {edited}  {GIVEN[0].uri}" in told.out
    assert "provenance /@context" in told.out
    assert "source_gone" not in told.out  # nothing was read again


def test_a_changed_source_is_no_mismatch(pipeline: Pipeline) -> None:
    """Objects that changed or went are told; the command ends with 0."""
    pipeline.path(GIVEN[0]).unlink()
    done = run(pipeline, "--reread")
    assert done.code == 0
    assert f"source_gone  {pipeline.row(GIVEN[0])['wal_id']}" in done.out


def test_a_changed_dataset_file_is_found(pipeline: Pipeline, tmp_path: Path) -> None:
    """With another dataset file in the configured folder its units differ, by these fields."""
    folder = tmp_path / "datasets"
    folder.mkdir()
    text = files("tallgrass.datasets").joinpath("files", "goes-glm.toml").read_text("utf-8")
    assert text.count("gsd = 8000") == 1
    (folder / "goes-glm.toml").write_text(text.replace("gsd = 8000", "gsd = 4000"), "utf-8")
    done = run(pipeline, "--output", "json", env={"TALLGRASS_DATASETS_FOLDER": str(folder)})
    assert (done.code, counted(done)) == (1, {"identical": 6, "differs": 3})
    assert done.json["other_versions"] == 9
    for each in done.json["units"]:
        assert each["dataset"] == "goes-glm"
        assert each["fields"][0] == {
            "part": "item", "field": "/properties/gsd", "stored": "8000", "found": "4000",
        }  # fmt: skip


@pytest.fixture
def on_sqlite(tmp_path: Path) -> Pipeline:
    """The same nine units, where the database is not the matter."""
    made = Pipeline(prepare("sqlite", f"sqlite:///{tmp_path / 'ledger.db'}"), tmp_path)
    made.feed(*GIVEN)
    made.drain()
    return made


def in_this_process(capsys: pytest.CaptureFixture[str], *args: str) -> Done:
    """Run a command line where no process of its own is the matter: many flags are quicker so."""
    code = run_here(args)
    told = capsys.readouterr()
    return Done(code, told.out, told.err)


def test_its_flags_choose(
    on_sqlite: Pipeline, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Datasets, times, ids, files and samples narrow what is verified."""
    rows = [on_sqlite.row(each) for each in GIVEN]
    one = rows[4]
    ids = tmp_path / "ids.txt"
    ids.write_text("\n".join(row["wal_id"] for row in rows[:2]), encoding="utf-8")
    saved = tmp_path / "saved.yaml"
    saved.write_text(
        "apiVersion: kfm.nodd.replay/v1alpha1\nkind: ReplaySelection\n"
        "spec: {filters: {datasets: [hrrr, nexrad-l2], status: [failed]}}\n",
        encoding="utf-8",
    )
    starts = sorted(row["time_range_start"] for row in rows)
    for flags, expected in (
        (("--dataset", "hrrr"), 3),
        (("--wal-id", one["wal_id"]), 1),
        (("--wal-id-file", str(ids)), 2),
        (("--bucket-prefix", "s3://noaa-hrrr-bdp-pds/"), 3),
        (("--since", starts[-1]), starts.count(starts[-1])),
        (("--until", starts[-1]), sum(each < starts[-1] for each in starts)),
        (("--selection-file", str(saved)), 6),
        (("--sample", "4"), 4),
    ):
        store = ("--store", on_sqlite.backend.url)
        done = in_this_process(capsys, "verify", *store, *flags, "--output", "json")
        assert (done.code, done.json["verified"]) == (0, expected), flags
    on_sqlite.backend.close()


def test_the_seed_of_a_sample_chooses_other_units(
    on_sqlite: Pipeline, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same seed takes the same units; another one others."""
    for each in GIVEN:
        on_sqlite.path(each).unlink()

    def sampled(seed: str) -> list[str]:
        flags = ("--sample", "4", "--seed", seed, "--reread", "--output", "json")
        places = ("--store", on_sqlite.backend.url, "--objects", f"file:{on_sqlite.objects}")
        done = in_this_process(capsys, "verify", *places, *flags)
        return [each["wal_id"] for each in done.json["units"]]

    assert len(sampled("1")) == 4
    assert sampled("1") == sampled("1") != sampled("2")
    on_sqlite.backend.close()


@pytest.mark.parametrize(
    ("flags", "code", "word"),
    [
        (("--wal-id", "00000000-0000-8000-8000-000000000000"), 1, "has no unit"),
        (("--dataset", "goes-gml"), 2, "goes-glm"),
        (("--reread", "--objects", "event"), 2, "objects.url"),
        (("--since", "2026-06-02", "--until", "2026-06-01"), 2, "--until"),
        (("--sample", "0"), 2, "--sample"),
        (("--status", "failed"), 2, "--status"),
        (("--store", "sqlite:///nowhere/ledger.db"), 4, "nowhere"),
    ],
)
def test_what_cannot_be_verified_is_refused(
    flags: tuple[str, ...],
    code: int,
    word: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """An unknown unit or dataset, nothing to read, an empty span: said before any work."""
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    prepare("sqlite", url).close()
    store = () if "--store" in flags else ("--store", url)
    done = in_this_process(capsys, "verify", *store, *flags)
    assert (done.code, done.out) == (code, "")
    assert word in done.err
