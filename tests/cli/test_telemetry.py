"""`tallgrass telemetry export`: three files, each as its schema says, from what really happened."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from tallgrass.bootstrap import telemetry_files
from tallgrass.errors import PermanentError
from tallgrass.nodes import NodeHooks, NodeRunner, RetryPolicy, current_node
from tallgrass.nodes.energy_policy import CpuEnergyMeter
from tallgrass.sinks.protocol import Delivered
from tallgrass.telemetry.files import nodd_document
from tallgrass.telemetry.names import METRICS
from tests.cli.command import Done, here, tallgrass
from tests.pipeline.scene import VISIBILITY_S, things
from tests.replay.scene import Replays, Unreadable
from tests.support.backends import ManualClock
from tests.support.events import MemorySink, down, write
from tests.support.outbox_roles import open_dispatcher
from tests.support.recording import MemoryRecorder

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.backends import Backend

NODD, FOCUS, RELIABILITY = (
    f"{name}-telemetry.json" for name in ("nodd-sns", "focus", "reliability")
)
SCHEMAS = {
    NODD: "nodd-sns-sqs-v1",
    FOCUS: "pipelines-idempotency-outbox-v1",
    RELIABILITY: "reliability-execution-engine-v11",
}
ALL = [*SCHEMAS.values(), "energy-v2", "carbon-v2"]


def shipped(name: str) -> dict[str, Any]:
    """Return a schema of the package."""
    path = files("tallgrass.telemetry").joinpath("schemas", f"{name}.json")
    read: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return read


def faults(name: str, document: Any) -> list[str]:
    """Ask another library than the export's own."""
    validator = jsonschema.Draft202012Validator(shipped(name))
    return [error.message for error in validator.iter_errors(document)]


def ingested(backend: Backend, folder: Path) -> MemoryRecorder:
    """Three units fail, two come again and succeed, one is replayed; all is told in memory."""
    replays = Replays(backend, folder)
    pipeline, recorder = replays.pipeline, MemoryRecorder()
    stores = replays.opened(recorder)
    pipeline.feed(*things(3))
    pipeline.start(stores=stores, recorder=recorder, reader=Unreadable()).run_messages()
    pipeline.clock.advance(VISIBILITY_S + 1)
    left = pipeline.queue.receive(1)
    pipeline.queue.delete([message.receipt for message in left])
    pipeline.start(stores=stores, recorder=recorder).run_messages()
    failed = [row[0] for row in backend.sql("SELECT wal_id FROM wal_records WHERE status='failed'")]
    assert len(failed) == 1
    replays.run(replays.select(failed), recorder=recorder)
    stores.close()
    return recorder


def dispatched(backend: Backend) -> None:
    """Send three events: the target is down for the first, and has had the second before."""
    write(backend, 1, 2, 3)
    clock = ManualClock()
    clock.advance(1.25)
    stores = backend.open(clock=clock)
    dispatcher = open_dispatcher(stores, MemorySink(answers=[down(), Delivered(duplicate=True)]))
    while stores.outbox.is_due("t"):
        dispatcher.run()
    stores.close()


def flaky(state: dict[str, Any]) -> dict[str, Any]:
    """A node that fails at its first try."""
    if current_node().attempt == 1:
        raise ConnectionError("later")
    return {"x": state["x"] + 1}


def worked(folder: Path) -> None:
    """Run a node that needs two attempts, and again from its cache."""
    hooks = NodeHooks(energy=CpuEnergyMeter())
    retry = RetryPolicy(max_attempts=2, base_delay_s=0, max_delay_s=0)
    with NodeRunner(folder, pipeline="hydrology", hooks=hooks) as runner:
        for run_id in ("one", "two"):
            runner.run(
                run_id=run_id, node_id="flaky", code_version="1", inputs={"x": 1}, exec_fn=flaky,
                retry=retry, dataset="gauges", care_label="public",
            )  # fmt: skip


def export(at: Backend | str, folder: Path, *more: str) -> Done:
    """Export as a real process does."""
    args = ("telemetry", "export", "--dir", str(folder / "out"), "--release", "v9.9.9", *more)
    return tallgrass(*args, at=at)


def read(folder: Path, name: str) -> Any:
    """Return a file: one document, or its lines."""
    text = (folder / "out" / "releases" / "v9.9.9" / name).read_text(encoding="utf-8")
    return json.loads(text) if name == NODD else [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize("name", ALL)
def test_a_shipped_schema_is_one(name: str) -> None:
    """It is a schema, and refuses a document with a field too many or too few."""
    schema = shipped(name)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["additionalProperties"] is False
    assert faults(name, {})
    assert faults(name, {**dict.fromkeys(schema["required"]), "more": 1})


@pytest.mark.conformance("OB-7.1", "OB-7.2", "C-37", "WAL-9.1")
def test_the_files_tell_what_happened(backend: Backend, tmp_path: Path) -> None:
    """Counters are those of the recorder that was told everything, and each file is valid."""
    recorder = ingested(backend, tmp_path)
    dispatched(backend)
    worked(tmp_path / "nodes")
    done = export(backend, tmp_path, "--nodes-dir", str(tmp_path / "nodes"), "--output", "json")
    assert done.code == 0, done.err
    assert [(one["schema"], one["documents"]) for one in done.json["files"]] == [
        (SCHEMAS[NODD], 1),
        (SCHEMAS[FOCUS], 3),
        (SCHEMAS[RELIABILITY], 3),
    ]
    assert done.json["problems"] == {}
    document = read(tmp_path, NODD)
    assert faults(SCHEMAS[NODD], document) == []
    for name in (FOCUS, RELIABILITY):
        assert [faults(SCHEMAS[name], one) for one in read(tmp_path, name)] == [
            [] for _ in read(tmp_path, name)
        ]
    counted: dict[str, dict[tuple[str, ...], float]] = {}
    for one in document["metrics"]:
        labels = tuple(one["labels"][label] for label in METRICS[one["name"]].all_labels)
        if one["type"] == "counter" and one["value"]:
            counted.setdefault(one["name"], {})[labels] = one["value"]
    for name in ("wal_records_total", "wal_replays_total", "replays_total"):
        told = recorder.by_labels(f"nodd_sns.{name}")
        # The label env is that of the process: the export's is the default's.
        assert {key[:2] for key in told} == {key[:2] for key in counted[f"nodd_sns.{name}"]}
        assert sorted(told.values()) == sorted(counted[f"nodd_sns.{name}"].values())
    assert "nodd_sns.replay_mismatch_total" not in counted
    (attempts,) = [
        one for one in document["metrics"]
        if one["type"] == "histogram" and one["labels"] == {"dataset": "hrrr"}
    ]  # fmt: skip
    assert (attempts["count"], attempts["sum"], attempts["values"]) == (2, 3, {"1": 1, "2": 1})


def test_an_attempt_of_a_node_and_a_hit_are_lines(tmp_path: Path, backend: Backend) -> None:
    """The first attempt failed, the second is a retry, the second run came from the cache."""
    worked(tmp_path / "nodes")
    assert export(backend, tmp_path, "--nodes-dir", str(tmp_path / "nodes")).code == 0
    lines = {(one["run_id"], one["attempt"]): one for one in read(tmp_path, RELIABILITY)}
    assert sorted(lines) == [("one", 1), ("one", 2), ("two", 0)]
    first, second, hit = (lines[key] for key in sorted(lines))
    assert (first["status"], first["retry"], first["cache_hit"]) == ("failed", False, False)
    assert (second["status"], second["retry"], second["pipeline"]) == (
        "succeeded",
        True,
        "hydrology",
    )
    assert (hit["status"], hit["cache_hit"], hit["energy_wh"]) == ("succeeded", True, None)
    assert (hit["pipeline"], hit["dataset_id"]) == ("hydrology", "gauges")
    assert second["dataset_id"] == "gauges"
    assert second["estimated"] is True
    assert second["energy_wh"] > 0


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)  # it is the files that matter
def test_a_damaged_run_is_left_out_and_named(tmp_path: Path, backend: Backend) -> None:
    """All three files are written, with the other run's lines; JSON and stderr say what is not."""
    worked(tmp_path / "nodes")
    journal = tmp_path / "nodes" / "wal" / "one" / ".journal"
    journal.write_bytes(b"x" + journal.read_bytes()[1:])
    given = ("--nodes-dir", str(tmp_path / "nodes"))
    done = export(backend, tmp_path, *given, "--output", "json")
    assert done.code == 0, done.err
    assert [one["documents"] for one in done.json["files"]] == [1, 0, 1]
    assert {run: each["code"] for run, each in done.json["problems"].items()} == {
        "one": "node_wal_damaged"
    }
    assert [one["run_id"] for one in read(tmp_path, RELIABILITY)] == ["two"]
    told = export(backend, tmp_path, *given)
    assert told.code == 0
    first, second = told.err.splitlines()
    assert first == "Runs of nodes that were left out: 1"
    assert second.startswith("  one: entries from byte 0 on were synced")


@pytest.mark.conformance("OB-7.1")
def test_a_line_of_the_outbox_has_every_field(backend: Backend, tmp_path: Path) -> None:
    """A failure and a duplicate are told as such; the file of the ledger's export is the same."""
    dispatched(backend)
    assert export(backend, tmp_path).code == 0
    lines = read(tmp_path, FOCUS)
    assert [one["dispatch_status"] for one in lines] == ["failure", "success", "success"]
    assert [one["duplicate_detected"] for one in lines] == [False, True, False]
    assert {one["attempt"] for one in lines} == {1}
    other = ("outbox", "ledger", "export", "--dir", str(tmp_path / "other"), "--release", "v9.9.9")
    assert tallgrass(*other, at=backend).code == 0
    place = f"releases/v9.9.9/{FOCUS}"
    assert (tmp_path / "out" / place).read_bytes() == (tmp_path / "other" / place).read_bytes()


def test_energy_is_told_with_its_method_where_it_was_measured(
    backend: Backend, tmp_path: Path
) -> None:
    """Without a file both are null; with one, an attempt's and a gigabyte's share stand there."""
    assert export(backend, tmp_path).code == 0
    document = read(tmp_path, NODD)
    assert (document["energy"], document["carbon"]) == (None, None)
    coefficients = {
        "watts_per_core": 12.0, "watts_per_gb": 0.3725, "pue": 1.67, "grams_per_kwh": 475.0,
        "memory_gb": 0.5, "source": "by hand",
    }  # fmt: skip
    line = {
        "at": "2026-06-01T00:00:00.000000Z", "cpu_s": 1.0, "wall_s": 2.0, "attempts": 4,
        "bytes_ingested": 2_000_000_000, "energy_wh": 8.0, "carbon_gco2e": 3.8,
        "coefficients": coefficients,
    }  # fmt: skip
    (tmp_path / "energy.jsonl").write_text(json.dumps(line) + "\n", encoding="utf-8")
    config = tmp_path / "tallgrass.toml"
    config.write_text(
        f'[telemetry]\nenergy_file = "{tmp_path / "energy.jsonl"}"\n', encoding="utf-8"
    )
    args = ("telemetry", "export", "--dir", str(tmp_path / "out"), "--release", "v9.9.9")
    done = tallgrass("--config", str(config), "--database", backend.url, *args)
    assert done.code == 0, done.err
    document = read(tmp_path, NODD)
    energy, carbon = document["energy"], document["carbon"]
    assert faults("energy-v2", energy) == faults("carbon-v2", carbon) == []
    assert (energy["wh_per_attempt"], energy["kwh_per_gb"]) == (2.0, 0.004)
    assert (carbon["gco2e_per_attempt"], carbon["gco2e_per_gb"]) == (0.95, 1.9)
    assert energy["coefficients"] == [coefficients]
    assert (energy["method"], energy["estimated"]) == ("cpu-time", True)


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)  # it is the files that matter
def test_what_is_not_as_its_schema_says_leaves_the_old_file(
    backend: Backend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The export fails, names the place, and the file of before stands whole."""
    assert export(backend, tmp_path).code == 0
    path = tmp_path / "out" / "releases" / "v9.9.9" / NODD
    before = path.read_bytes()
    monkeypatch.setattr(
        telemetry_files, "nodd_document", lambda *given: {**nodd_document(*given), "env": ""}
    )
    args = ("telemetry", "export", "--dir", str(tmp_path / "out"), "--release", "v9.9.9")
    done = here("--database", backend.url, *args)
    assert done.code == 1
    assert "nodd-sns-sqs-v1" in done.err
    assert "/env" in done.err
    assert path.read_bytes() == before
    assert [each.name for each in path.parent.iterdir() if each.name.startswith(".")] == []


def test_a_checker_names_the_place() -> None:
    """The first thing that is wrong is told with its path."""
    with pytest.raises(PermanentError, match="energy-v2 says, at /"):
        telemetry_files.checker("energy-v2")({"schema": "energy-v1"})


@pytest.mark.parametrize("release", ["", ".", "..", "a/b"])
def test_a_release_is_the_name_of_one_folder(tmp_path: Path, release: str) -> None:
    """Nothing is written elsewhere."""
    args = ("telemetry", "export", "--dir", str(tmp_path / "out"), "--release", release)
    done = here("--database", f"sqlite:///{tmp_path / 'x.db'}", *args)
    assert done.code == 2
    assert not (tmp_path / "out").exists()
