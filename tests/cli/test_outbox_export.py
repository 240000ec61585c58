"""`tallgrass outbox ledger export`: duplicates, exports that are cut off, and the way to PROV."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.clock import parse_instant
from tallgrass.inventory.retention import ArchiveKind
from tallgrass.sinks.protocol import Delivered
from tests.cli.command import Done, environment, tallgrass
from tests.cli.pipeline import make_feed
from tests.contract.retention_scene import apply, open_retention
from tests.contract.scene import Scene
from tests.support.backends import ManualClock
from tests.support.events import MemorySink, down, event_id, write
from tests.support.outbox_roles import open_dispatcher

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.backends import Backend

SOON_S = 60
LEDGER = "docs/reports/audit/pipeline_outbox_ledger.json"
TELEMETRY = "releases/v9.9.9/focus-telemetry.json"
#: So many that each file is several times as long as what is kept back before it is written.
MANY = 500

#: Runs the command line, and ends itself by SIGKILL at the n-th call of a function.
KILLED = """
import os, signal, sys
from tallgrass.cli.main import run
from tallgrass.storage import outbox_reader

where, name = {"entry": (outbox_reader, "_entry"), "fsync": (os, "fsync")}[sys.argv[1]]
true, left = getattr(where, name), int(sys.argv[2])

def counted(*given):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return true(*given)

setattr(where, name, counted)
sys.exit(run(sys.argv[3:]))
"""


def dispatch(backend: Backend, *answers: Any) -> None:
    """Send what is due; a target in memory gives these answers first, then takes all."""
    clock = ManualClock()
    clock.advance(1.25)
    stores = backend.open(clock=clock)
    dispatcher = open_dispatcher(stores, MemorySink(answers=list(answers)))
    while stores.outbox.is_due("t"):
        dispatcher.run()
    stores.close()


def arguments(backend: Backend, out: Path) -> list[str]:
    """Return the command line of an export."""
    return [
        "--database", backend.url, "outbox", "ledger", "export", "--dir", str(out),
        "--release", "v9.9.9", "--output", "json",
    ]  # fmt: skip


def export(backend: Backend, out: Path) -> Done:
    """Export, and return how it ended."""
    return tallgrass(*arguments(backend, out))


def kill_export(backend: Backend, out: Path, at: str, number: int) -> None:
    """Export in a process that is killed at the n-th time that it does something."""
    done = subprocess.run(
        [sys.executable, "-c", KILLED, at, str(number), *arguments(backend, out)],
        check=False, capture_output=True, env=environment(), timeout=SOON_S,
    )  # fmt: skip
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()


def contents(out: Path) -> tuple[bytes, bytes]:
    """Return both files as they are."""
    return (out / LEDGER).read_bytes(), (out / TELEMETRY).read_bytes()


def ids_in(ledger: bytes, telemetry: bytes) -> list[list[str]]:
    """Return the events of each file; half a file cannot be read."""
    told = (json.loads(ledger), [json.loads(line) for line in telemetry.splitlines()])
    return [[one["outbox_id"] for one in entries] for entries in told]


def halves(out: Path) -> list[int]:
    """Return the sizes of files that were never put in their place."""
    return sorted(file.stat().st_size for file in out.rglob(".*.json.*"))


@pytest.fixture
def exported(backend: Backend, tmp_path: Path) -> Path:
    """A folder with an export of one attempt, while the log has many more by now."""
    out = tmp_path / "out"
    write(backend, MANY)
    dispatch(backend)
    assert export(backend, out).code == 0
    assert ids_in(*contents(out)) == [[event_id(MANY)]] * 2
    write(backend, *range(1, MANY))
    dispatch(backend)
    assert backend.sql("SELECT count(*) FROM outbox_attempts") == [(MANY,)]
    return out


@pytest.mark.conformance("OB-7.1")
def test_telemetry_tells_what_the_target_had_already(backend: Backend, tmp_path: Path) -> None:
    """Of three attempts one was a duplicate; every field has its own value, latency in ms."""
    created_at = "2026-06-01T12:00:00.000000Z"
    write(backend, 1, 2, event_name="nodd.item.created", created_at=created_at)
    write(backend, 3, event_name="nodd.item.updated", created_at="2026-06-01T12:00:01.000000Z")
    dispatch(backend, Delivered(), Delivered(duplicate=True), down())
    assert export(backend, tmp_path).code == 0
    text = (tmp_path / TELEMETRY).read_text(encoding="utf-8")
    telemetry = [json.loads(line) for line in text.splitlines()]
    # SQLite tells time by the injected clock; PostgreSQL by its own, as its rows say.
    latencies = [1250.0, 1250.0, 250.0]
    if backend.name == "postgres":
        rows = backend.sql(
            "SELECT e.created_at, a.ended_at FROM outbox AS e"
            " JOIN outbox_attempts AS a ON a.outbox_id = e.outbox_id ORDER BY e.outbox_id"
        )
        took = [parse_instant(ended) - parse_instant(created) for created, ended in rows]
        latencies = [
            (one.days * 86_400_000_000 + one.seconds * 1_000_000 + one.microseconds) / 1000
            for one in took
        ]
    assert telemetry == [
        {
            "outbox_id": event_id(number),
            "pipeline_id": "pipeline",
            "event_name": name,
            "dispatch_status": status,
            "attempt": 1,
            "latency_ms": latency,
            "duplicate_detected": duplicate,
        }
        for number, name, status, latency, duplicate in zip(
            (1, 2, 3),
            ("nodd.item.created", "nodd.item.created", "nodd.item.updated"),
            ("success", "success", "failure"),
            latencies,
            (False, True, False),
            strict=True,
        )
    ]


@pytest.mark.conformance("OB-7.2", "C-37")
def test_a_killed_export_leaves_the_old_files_whole(backend: Backend, exported: Path) -> None:
    """Killed at its first entry or far on its way: both files are as before; the next has all."""
    before = contents(exported)
    for number in (1, MANY * 4 // 5):
        kill_export(backend, exported, "entry", number)
        assert contents(exported) == before
    # It was in the middle of writing: two files were begun, and are longer than the old ones.
    assert halves(exported)[-2] > len(before[0])
    assert export(backend, exported).code == 0
    assert ids_in(*contents(exported)) == [[event_id(n) for n in range(1, MANY + 1)]] * 2


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)  # it is the files that matter
@pytest.mark.conformance("OB-7.2", "C-37")
def test_each_file_of_a_killed_export_is_the_old_or_the_new(
    backend: Backend, exported: Path, tmp_path: Path
) -> None:
    """Killed before each of its four syncs, from the telemetry's to that of the ledger's folder."""
    old, whole = contents(exported), tmp_path / "whole"
    assert export(backend, whole).code == 0
    new = contents(whole)
    seen = []
    for number in (1, 2, 3, 4):
        for path, content in zip((LEDGER, TELEMETRY), old, strict=True):
            (exported / path).write_bytes(content)
        kill_export(backend, exported, "fsync", number)
        seen.append(contents(exported))
    assert seen == [old, (old[0], new[1]), (old[0], new[1]), new]


@pytest.mark.conformance("OB-6.5", "OB-7.2", "C-37")
def test_what_left_for_an_archive_stays_in_the_files(backend: Backend, tmp_path: Path) -> None:
    """Both files are the same bytes before and after; without the archive nothing is written."""
    out, archive = tmp_path / "out", tmp_path / "archive"
    write(backend, 1, 2, 3)
    dispatch(backend, Delivered(), down())
    assert export(backend, out).code == 0
    before = contents(out)
    assert ids_in(*before) == [[event_id(1), event_id(2), event_id(3)]] * 2
    apply(open_retention(Scene(backend), archive), ArchiveKind.EVENTS)
    assert backend.sql("SELECT outbox_id FROM outbox_attempts") == [(event_id(2),)]
    assert export(backend, out).code == 0
    assert contents(out) == before
    telemetry = ("telemetry", "export", "--dir", str(out), "--release", "v9.9.9")
    assert tallgrass(*telemetry, at=backend).code == 0
    assert contents(out) == before
    for file in archive.iterdir():
        file.unlink()
    done = export(backend, out)
    assert (done.code, done.error["code"]) == (1, "archive_damaged")
    assert (contents(out), halves(out)) == (before, [])


@pytest.mark.conformance("OB-7.2", "C-37")
def test_an_export_without_room_leaves_the_old_files_whole(
    backend: Backend, exported: Path
) -> None:
    """The write fails in the middle: it is told, the files are as before, no half is left."""
    before = contents(exported)
    limited = ["sh", "-c", 'ulimit -f 100 && exec "$@"', "sh"]  # blocks of 512 bytes
    done = subprocess.run(
        [*limited, sys.executable, "-m", "tallgrass", *arguments(backend, exported)],
        check=False, capture_output=True, env=environment(), timeout=SOON_S,
    )  # fmt: skip
    told, _ = json.JSONDecoder().raw_decode(done.stderr.decode())
    assert (told["error"]["code"], told["error"]["message"]) == ("output_failed", "File too large")
    assert (done.returncode, done.stdout) == (1, b"")
    assert contents(exported) == before
    assert halves(exported) == []
    assert export(backend, exported).code == 0
    assert len(ids_in(*contents(exported))[0]) == MANY


@pytest.mark.conformance("OB-1.4")
def test_every_delivery_leads_to_the_ledger_and_to_provenance(
    backend: Backend, tmp_path: Path
) -> None:
    """What came to the target names the activity that made it, and the ledger has its id."""
    feed, target = make_feed(tmp_path, 30), tmp_path / "file.jsonl"
    config = tmp_path / "tallgrass.toml"
    config.write_text(f'[outbox.targets.file]\nkind = "file"\npath = "{target}"\n')
    done = feed.ingest(backend, "--drain", "--dispatch", TALLGRASS_CONFIG=str(config))
    assert done.code == 0, done.err
    events = [json.loads(line) for line in target.read_text(encoding="utf-8").splitlines()]
    assert len(events) == done.json["dispatch"]["dispatched"] > 20
    assert export(backend, tmp_path).code == 0
    ledger = json.loads((tmp_path / LEDGER).read_text(encoding="utf-8"))
    assert sorted(
        (one["outbox_id"], one["event_name"], one["dataset_id"], one["target"])
        for one in ledger
        if one["status"] == "dispatched"  # not what a dispatcher gave back unsent at its end
    ) == sorted((one["id"], one["type"], one["datasetid"], "file") for one in events)
    documents = {
        activity: (wal_id, json.loads(body))
        for activity, wal_id, body in backend.sql(
            "SELECT activity_id, wal_id, body FROM provenance"
        )
    }
    for event in events:
        data = event["data"]
        wal_id, document = documents[data["prov_activity_id"]]
        assert wal_id == data["wal_id"] == event["subject"]
        nodes = {node["@id"]: node for node in document["@graph"]}
        activity = nodes[data["prov_activity_id"]]
        assert "prov:Activity" in activity["@type"]
        assert activity["kfm:walId"] == wal_id
        item = nodes[activity["generated"]]
        assert (item["kfm:stacItemId"], item["kfm:sha256"]) == (
            data["item_id"],
            data["item_sha256"],
        )
        assert item["wasGeneratedBy"] == data["prov_activity_id"]
        assert nodes[activity["used"]]["kfm:objectUri"] == data["object"]["uri"]
