"""`tallgrass outbox`: deliver, look, ask again, export; as real processes on both databases."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from tallgrass.cli.main import cli
from tallgrass.clock import parse_instant
from tests.cli.command import PROGRAM, environment, tallgrass
from tests.cli.pipeline import make_feed
from tests.support.backends import prepare
from tests.support.events import event_id, payload_of, write

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.backends import Backend

SOON_S = 60
LEDGER = "docs/reports/audit/pipeline_outbox_ledger.json"

CONFIGURATION = """
[outbox]
attempts = 1

[outbox.targets.t]
kind = "file"
path = "{folder}/t.jsonl"

[outbox.targets.broken]
kind = "file"
path = "{folder}/no-such-folder/broken.jsonl"

[outbox.targets.line]
kind = "file"
path = "{folder}/no-such-folder/line.jsonl"
ordered = true
"""


@pytest.fixture
def config(tmp_path: Path) -> str:
    """A configuration: `t` can be written, `broken` and the ordered `line` cannot."""
    file = tmp_path / "tallgrass.toml"
    file.write_text(CONFIGURATION.format(folder=tmp_path), encoding="utf-8")
    return str(file)


@pytest.fixture
def light(tmp_path: Path) -> Iterator[Backend]:
    """A database on SQLite, where which one it is plays no part."""
    made = prepare("sqlite", f"sqlite:///{tmp_path / 'ledger.db'}")
    yield made
    made.close()


def inside(*arguments: str, at: Backend) -> Any:
    """Run a command that shows something in this process, and return its JSON: starts are slow."""
    done = CliRunner().invoke(cli, ["--database", at.url, *arguments, "--output", "json"])
    assert done.exception is None, done.exception
    return json.loads(done.stdout)


def lines(tmp_path: Path, name: str = "t") -> list[dict[str, Any]]:
    """Return what a target got."""
    file = tmp_path / f"{name}.jsonl"
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def test_drain_delivers_everything_and_tells_what_is_left(
    backend: Backend, config: str, tmp_path: Path
) -> None:
    """Each event once to its own target; what cannot be delivered is told, and the exit is 0."""
    write(backend, 1, 2, 3)
    write(backend, 4, target="broken")
    done = tallgrass(
        "--config", config, "outbox", "dispatch", "--drain", "--output", "json", at=backend
    )
    assert done.code == 0
    assert (done.json["dispatched"], done.json["exhausted"]) == (3, 1)
    assert done.json["left"]["t"] == {
        "pending": 0, "in_flight": 0, "retrying": 0, "exhausted": 0,
    }  # fmt: skip
    assert done.json["left"]["broken"]["exhausted"] == 1
    assert "event_exhausted" in done.err
    assert sorted(line["data"]["number"] for line in lines(tmp_path)) == [1, 2, 3]


def test_only_the_named_targets_get_events(light: Backend, config: str, tmp_path: Path) -> None:
    """The others keep theirs; an unknown name is answered with the nearest."""
    write(light, 1)
    write(light, 2, target="broken")
    done = tallgrass("--config", config, "outbox", "dispatch", "--drain", "--target", "t", at=light)
    assert done.code == 0
    assert "undelivered        0" in done.out
    assert light.sql("SELECT target, status FROM outbox_delivery ORDER BY target") == [
        ("broken", "pending"),
        ("t", "dispatched"),
    ]
    wrong = tallgrass(
        "--config", config, "outbox", "dispatch", "--target", "brokn", "--output", "json",
        at=light,
    )  # fmt: skip
    assert wrong.code == 2
    assert wrong.error["code"] == "unknown_target"
    assert "'broken'" in wrong.error["message"]


def test_once_takes_one_batch(light: Backend, config: str) -> None:
    """So many events as a batch has."""
    write(light, *range(1, 8))
    env = {"TALLGRASS_OUTBOX_BATCH": "3"}
    done = tallgrass(
        "--config", config, "outbox", "dispatch", "--once", "--output", "json", at=light, env=env
    )
    assert done.json["dispatched"] == 3
    assert done.json["left"]["t"]["pending"] == 4
    both = tallgrass("outbox", "dispatch", "--once", "--drain", at=light)
    assert both.code == 2


def test_without_configuration_events_go_to_a_file(backend: Backend, tmp_path: Path) -> None:
    """The default target is a file beside the database, or here if that is a server."""
    write(backend, 1, target="file")
    tallgrass("outbox", "dispatch", "--drain", at=backend, cwd=tmp_path)
    assert [line["data"] for line in lines(tmp_path, "tallgrass-events")] == [{"number": 1}]


def test_a_signal_ends_it_in_good_order(backend: Backend, config: str, tmp_path: Path) -> None:
    """SIGTERM while it waits: it reports and ends with 0; events that came meanwhile are there."""
    with subprocess.Popen(
        [*PROGRAM, "--config", config, "--database", backend.url, "outbox", "dispatch",
         "--output", "json"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(),
    ) as running:  # fmt: skip
        write(backend, 1)
        wait_for(
            lambda: backend.sql("SELECT status FROM outbox_delivery") == [("dispatched",)], running
        )
        write(backend, 2)
        wait_for(lambda: len(lines(tmp_path)) == 2, running)
        running.send_signal(signal.SIGTERM)
        out, err = running.communicate(timeout=SOON_S)
    assert running.returncode == 0
    assert json.loads(out)["dispatched"] == 2
    assert b"dispatch_stopped dispatched=2 undelivered=0" in err


def wait_for(condition: Any, running: subprocess.Popen[bytes]) -> None:
    """Wait until something holds, while a process runs."""
    ends_at = time.monotonic() + SOON_S
    while not condition():
        assert running.poll() is None
        assert time.monotonic() < ends_at, "it never came to pass"
        time.sleep(0.05)


def test_status_counts_by_target_and_says_what_is_held_back(backend: Backend, config: str) -> None:
    """An exhausted event of an ordered target holds those behind it, and the page says so."""
    write(backend, 1)
    write(backend, 2, target="line")
    tallgrass("--config", config, "outbox", "dispatch", "--drain", at=backend)
    write(backend, 3, 4, target="line")
    write(backend, 5, target="nowhere")
    done = tallgrass("--config", config, "outbox", "status", "--output", "json", at=backend)
    found = {one["target"]: one for one in done.json["targets"]}
    assert set(found) == {"t", "broken", "line", "file", "nowhere"}
    assert (found["t"]["dispatched"], found["t"]["oldest_s"]) == (1, None)
    assert (found["line"]["exhausted"], found["line"]["pending"]) == (1, 2)
    assert found["line"]["held_back"] == {"d": 2}
    assert found["line"]["oldest_s"] > 0
    assert [name for name, one in found.items() if not one["declared"]] == ["nowhere"]
    page = tallgrass("--config", config, "outbox", "status", at=backend).out
    assert "line: 2 events of d wait behind an exhausted one." in page
    assert "nowhere: no such target is declared; its events wait." in page


def test_a_switch_that_holds_events_is_told(light: Backend, config: str) -> None:
    """By status and by dispatch, which delivers nothing and would not say why."""
    write(light, 1)
    who = ("--actor", "j.doe", "--reason", "INC-7")
    asked = ("--config", config, "outbox")
    assert inside(*asked, "status", at=light)["stopped"] == []
    for dataset, told in (("d", "for d:"), ("*", "for all datasets:")):
        which = ("--all",) if dataset == "*" else ("--dataset", dataset)
        turn = ("switches", "on", "--scope", "dispatch", *which, *who)
        assert tallgrass(*turn, at=light).code == 0
        done = tallgrass(*asked, "dispatch", "--drain", at=light)
        assert "undelivered        1" in done.out
        for page in (done.out, tallgrass(*asked, "status", at=light).out):
            assert f"Dispatch is switched off {told}" in page
    for command in (("status",), ("dispatch", "--drain")):
        assert inside(*asked, *command, at=light)["stopped"] == ["*", "d"]


def test_a_target_that_nobody_knows_is_refused(light: Backend, config: str) -> None:
    """A mistyped one is no empty list; one that is declared no more may have events still."""
    write(light, 1, target="former")
    who = ("--actor", "j.doe", "--reason", "mended")
    for command in (("list",), ("requeue", *who)):
        asked = ("--config", config, "outbox", *command, "--target")
        wrong = tallgrass(*asked, "brokn", "--output", "json", at=light)
        assert (wrong.code, wrong.error["code"]) == (2, "unknown_target")
        assert "'broken'" in wrong.error["message"]
        for known in ("broken", "former"):
            assert tallgrass(*asked, known, at=light).code == 0


def test_list_and_show_tell_what_happened(backend: Backend, config: str) -> None:
    """Pages go on after their cursor; one event is shown with its payload and attempts."""
    write(backend, 1, 2, dataset="goes-glm")
    write(backend, 3, target="broken", event_name="gone")
    tallgrass("--config", config, "outbox", "dispatch", "--drain", at=backend)

    def listed(*options: str) -> list[str]:
        page = inside("outbox", "list", *options, at=backend)
        return [one["outbox_id"] for one in page["events"]]

    assert listed() == [event_id(1), event_id(2), event_id(3)]
    assert listed("--target", "broken") == [event_id(3)]
    assert listed("--state", "exhausted") == [event_id(3)]
    assert listed("--dataset", "goes-glm") == [event_id(1), event_id(2)]
    assert listed("--event", "gone") == [event_id(3)]
    code = backend.sql("SELECT error_code FROM outbox_delivery WHERE target = 'broken'")[0][0]
    assert listed("--code", code) == [event_id(3)]
    page = tallgrass("outbox", "list", "--limit", "2", "--output", "json", at=backend).json
    assert page["next_cursor"] == event_id(2)
    assert listed("--after", event_id(2)) == [event_id(3)]
    whole = inside("outbox", "show", event_id(3), at=backend)
    assert whole["state"] == "exhausted"
    assert json.loads(whole["event"]["payload"]) == {"number": 3}
    outcomes = [one["outcome"] for one in whole["attempts"]]
    assert outcomes == ["failed"] * len(outcomes)
    assert len(outcomes) >= 1
    page_out = tallgrass("outbox", "show", event_id(1), at=backend).out
    assert payload_of(1).decode() in page_out


def test_what_is_not_there_is_told(light: Backend) -> None:
    """An unknown id, one that is none, an unknown code: each with its own exit code."""
    unknown = tallgrass("outbox", "show", event_id(9), "--output", "json", at=light)
    assert (unknown.code, unknown.error["code"]) == (1, "outbox_unknown")
    odd = tallgrass("outbox", "show", "seven", "--output", "json", at=light)
    assert (odd.code, odd.error["code"]) == (2, "invalid_input")
    code = tallgrass("outbox", "list", "--code", "sink_refusd", "--output", "json", at=light)
    assert (code.code, code.error["code"]) == (2, "unknown_code")
    assert "sink_refused" in code.error["message"]


@pytest.mark.conformance("OB-4.8")
def test_requeue_asks_for_exhausted_events_again(
    backend: Backend, config: str, tmp_path: Path
) -> None:
    """By id, target, code or all; with a name and a reason, which the audit log keeps."""
    write(backend, 1, 2, target="broken")
    write(backend, 3)
    tallgrass("--config", config, "outbox", "dispatch", "--drain", at=backend)
    who = ("--actor", "j.doe", "--reason", "mended")
    done = tallgrass(
        "outbox", "requeue", event_id(1), event_id(3), *who, "--output", "json", at=backend
    )
    assert (done.code, done.error["code"]) == (3, "outbox_not_requeued")
    assert done.json == {"requeued": 1, "left_out": {event_id(3): "dispatched"}}
    (tmp_path / "no-such-folder").mkdir()
    code = backend.sql("SELECT error_code FROM outbox_delivery WHERE status = 'failed'")[0][0]
    by_code = tallgrass("outbox", "requeue", "--code", code, *who, at=backend)
    assert (by_code.code, by_code.out) == (0, "1 events are due again.\n")
    named = ("--config", config, "outbox", "requeue", "--target", "t")
    assert inside(*named, *who, at=backend)["requeued"] == 0
    tallgrass("--config", config, "outbox", "dispatch", "--drain", at=backend)
    assert sorted(n["data"]["number"] for n in lines(tmp_path, "no-such-folder/broken")) == [1, 2]
    entries = inside("audit", "list", "--action", "outbox_requeue", at=backend)["entries"]
    assert [(one["actor"], one["subject"], one["reason"]) for one in entries] == [
        ("j.doe", f"outbox:{event_id(number)}", "mended") for number in (1, 2)
    ]
    assert inside("outbox", "requeue", "--all", *who, at=backend)["requeued"] == 0


def test_requeue_wants_a_choice_and_a_name(light: Backend) -> None:
    """Not everything by oversight, and nothing anonymously."""
    who = ("--actor", "j.doe", "--reason", "mended")
    blank = ("--all", "--actor", " ", "--reason", "mended")
    nameless = ("--all", "--actor", "a")
    for arguments in (
        who, ("--all", "--target", "t", *who), (event_id(1), "--all", *who), nameless, blank
    ):  # fmt: skip
        done = CliRunner().invoke(cli, ["--database", light.url, "outbox", "requeue", *arguments])
        assert done.exit_code == 2, arguments
    unknown = tallgrass("outbox", "requeue", event_id(9), *who, "--output", "json", at=light)
    assert (unknown.code, unknown.error["code"]) == (1, "outbox_unknown")


@pytest.mark.conformance("OB-6.5", "OB-7.1", "OB-7.2", "C-37")
def test_the_ledger_is_exported_with_every_field(
    backend: Backend, config: str, tmp_path: Path
) -> None:
    """The array and the lines tell each attempt, with the fields that the specification names."""
    write(backend, 1, dataset="goes-glm")
    write(backend, 2, target="broken")
    tallgrass("--config", config, "outbox", "dispatch", "--drain", at=backend)
    done = tallgrass(
        "outbox", "ledger", "export", "--dir", str(tmp_path / "out"), "--release", "v9.9.9",
        "--output", "json", at=backend,
    )  # fmt: skip
    attempts = backend.sql("SELECT count(*) FROM outbox_attempts")[0][0]
    assert done.json["attempts"] == attempts
    ledger = json.loads((tmp_path / "out" / LEDGER).read_text(encoding="utf-8"))
    assert len(ledger) == attempts
    entry = next(one for one in ledger if one["outbox_id"] == event_id(1))
    recorded_at = backend.sql(
        "SELECT ended_at FROM outbox_attempts WHERE outbox_id = ?", event_id(1)
    )
    assert entry == {
        "outbox_id": event_id(1),
        "event_name": "made",
        "dataset_id": "goes-glm",
        "care_label": "public",
        "status": "dispatched",
        "attempt": 1,
        "last_error": None,
        "target": "t",
        "recorded_at": recorded_at[0][0],
    }
    assert all(one["last_error"] for one in ledger if one["status"] == "failed")
    text = (tmp_path / "out/releases/v9.9.9/focus-telemetry.json").read_text(encoding="utf-8")
    telemetry = [json.loads(line) for line in text.splitlines()]
    assert {one["dispatch_status"] for one in telemetry} == {"success", "failure"}
    good = next(one for one in telemetry if one["dispatch_status"] == "success")
    assert set(good) == {
        "outbox_id", "pipeline_id", "event_name", "dispatch_status", "attempt", "latency_ms",
        "duplicate_detected",
    }  # fmt: skip
    assert (good["attempt"], good["duplicate_detected"]) == (1, False)
    assert (good["outbox_id"], good["pipeline_id"]) == (event_id(1), "pipeline")
    # From the event's creation to its result, both by the database's clock.
    created_at = backend.sql("SELECT created_at FROM outbox WHERE outbox_id = ?", event_id(1))
    took = parse_instant(recorded_at[0][0]) - parse_instant(created_at[0][0])
    assert good["latency_ms"] == pytest.approx(took / timedelta(milliseconds=1), abs=0.001)
    assert not [file for file in (tmp_path / "out").rglob("*") if ".json." in file.name]
    odd = tallgrass("outbox", "ledger", "export", "--dir", str(tmp_path), "--release", "../x",
                    at=backend)  # fmt: skip
    assert odd.code == 2


@pytest.mark.conformance("C-37", "OB-6.5")
def test_exports_lose_nothing_under_concurrent_writers(
    backend: Backend, config: str, tmp_path: Path
) -> None:
    """While dispatchers write, every export is whole; the last one has every attempt."""
    out = tmp_path / "out"
    stop = threading.Event()
    faults: list[str] = []

    def look() -> None:
        seen = 0
        while not stop.is_set():
            if (out / LEDGER).exists():
                found = len(json.loads((out / LEDGER).read_text(encoding="utf-8")))
                if found < seen:
                    faults.append(f"{found} entries after {seen}")
                seen = found
            time.sleep(0.01)

    watcher = threading.Thread(target=look)
    watcher.start()
    command = [*PROGRAM, "--config", config, "--database", backend.url, "outbox"]
    options: dict[str, Any] = {
        "env": environment(), "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL
    }  # fmt: skip
    try:
        write(backend, *range(1, 201))
        running = [
            subprocess.Popen([*command, "dispatch", "--drain"], **options),
            *(
                subprocess.Popen([*command, "ledger", "export", "--dir", str(out)], **options)
                for _ in range(2)
            ),
        ]
        assert [one.wait(timeout=SOON_S) for one in running] == [0] * 3
        inside("outbox", "ledger", "export", "--dir", str(out), at=backend)
    finally:
        stop.set()
        watcher.join()
    assert faults == []
    ledger = json.loads((out / LEDGER).read_text(encoding="utf-8"))
    assert sorted((one["outbox_id"], one["attempt"]) for one in ledger) == sorted(
        backend.sql("SELECT outbox_id, attempt FROM outbox_attempts")
    )
    assert len(ledger) == 200


def test_the_pipelines_page_has_a_line_for_the_outbox(light: Backend, config: str) -> None:
    """How much waits, for how long, and what waits for a person."""
    write(light, 1, target="broken")
    tallgrass("--config", config, "outbox", "dispatch", "--drain", at=light)
    write(light, 2)
    queue = ("--queue", "sqlite:////nonexistent/queue.db")
    found = tallgrass("status", *queue, "--output", "json", at=light).json["outbox"]
    assert found.pop("oldest_s") > 0
    assert found == {"pending": 1, "in_flight": 0, "retrying": 0, "exhausted": 1}
    page = tallgrass("status", *queue, at=light).out
    assert "2 events, the oldest" in page
    assert "1 exhausted" in page


def test_a_sink_that_cannot_be_opened_is_told_before_anything_starts(
    light: Backend, tmp_path: Path
) -> None:
    """The error names the target and what is wrong with it."""
    file = tmp_path / "tallgrass.toml"
    file.write_text('[outbox.targets.x]\nkind = "fil"\n', encoding="utf-8")
    for command in (("outbox", "dispatch"), ("ingest", "--dispatch", "--drain")):
        done = tallgrass(
            "--config", str(file), *command, "--output", "json", at=light, cwd=tmp_path,
            env={"TALLGRASS_OBJECTS_URL": "event"},
        )  # fmt: skip
        assert (done.code, done.error["code"]) == (2, "config_invalid")
        assert "outbox.targets.x" in done.error["message"]
        assert "'file'" in done.error["message"]


def test_an_export_makes_its_folder_for_all_to_read(light: Backend, tmp_path: Path) -> None:
    """The folder is made, an empty log is an empty array, and others can read the files."""
    folder = tmp_path / "a" / "b"
    inside("outbox", "ledger", "export", "--dir", str(folder), at=light)
    assert json.loads((folder / LEDGER).read_text(encoding="utf-8")) == []
    assert (folder / LEDGER).stat().st_mode & 0o777 == 0o644


def test_ingest_delivers_what_it_makes(backend: Backend, tmp_path: Path) -> None:
    """With `--dispatch` every event is at its target when queue and ledger are drained."""
    feed = make_feed(tmp_path, 30)
    file = tmp_path / "tallgrass.toml"
    target = tmp_path / "file.jsonl"
    file.write_text(f'[outbox.targets.file]\nkind = "file"\npath = "{target}"\n', encoding="utf-8")
    done = feed.ingest(backend, "--drain", "--dispatch", TALLGRASS_CONFIG=str(file))
    assert done.code == 0, done.err
    events = backend.sql("SELECT count(*) FROM outbox")[0][0]
    assert done.json["dispatch"]["dispatched"] == events > 20
    assert done.json["dispatch"]["left"]["file"]["pending"] == 0
    assert len(lines(tmp_path, "file")) == events
    assert " info dispatch_stopped " in done.err
