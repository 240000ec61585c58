"""The log: one line an event whatever its values hold, under the keys of the spans, no secrets."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallgrass.bootstrap.replaying import RunOptions
from tallgrass.evidence.reading import ReadFailure
from tallgrass.outbox.routing import DEFAULT_TARGET
from tallgrass.sinks.protocol import Undelivered
from tallgrass.telemetry.log_recorder import LogForm, LogRecorder
from tallgrass.telemetry.names import EVENTS, SPANS, attribute_of
from tests.cli.pipeline import make_feed, shares
from tests.corpora.reading import cases, written
from tests.pipeline.scene import Pipeline, thing, things
from tests.replay.scene import Replays, Unreadable
from tests.support.backends import Backend, prepare
from tests.support.events import MemorySink
from tests.support.outbox_roles import open_dispatcher
from tests.support.recording import MemoryRecorder

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tallgrass.ledger.unit import IngestUnit

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
FORGED = "2026-06-01T12:00:00.000000Z info worker_stopped handed_back=0"
#: What begins another line or steers a terminal, and how the log shows it.
STEERING = [
    (written(case["given"], case.get("times", 1)), case["shown"] * case.get("times", 1))
    for case in cases("log_lines.toml", "steering")
]


def line_of(form: LogForm, name: str, **fields: object) -> str:
    """Return what is written of an event."""
    written: list[str] = []
    LogRecorder(written.append, lambda: NOON, form).event(name, **fields)
    (line,) = written
    return line


@pytest.mark.parametrize("form", LogForm)
@pytest.mark.parametrize("key", ["message", "error_code", "queue"])
@pytest.mark.parametrize(("steering", "shown"), STEERING, ids=range(len(STEERING)))
def test_no_value_begins_another_line(form: LogForm, key: str, steering: str, shown: str) -> None:
    """Of the whole corpus not one extra record comes, by any rule of what ends a line."""
    line = line_of(form, "message_poisoned", **{key: f"x{steering}{FORGED}"})
    assert len(line.splitlines()) == 1
    assert line.endswith("\n")
    assert line[:-1].isprintable()
    assert line[:-1].isascii()
    if form is LogForm.JSON:
        document = json.loads(line)
        assert document["event"] == "message_poisoned"
        told = document[attribute_of("message_poisoned", key)]
    else:
        told = json.loads(line.partition(f" {key}=")[2])
    assert told == f"x{shown}{FORGED}"


@given(st.text(max_size=80), st.sampled_from(LogForm))
def test_any_text_stays_in_its_line(text: str, form: LogForm) -> None:
    """Whatever the text, the line is one, printable, and begins as it must."""
    line = line_of(form, "message_poisoned", queue=text, message=text)
    assert len(line.splitlines()) == 1
    assert line[:-1].isprintable()


@pytest.mark.parametrize("form", LogForm)
@pytest.mark.parametrize("field", ["message", "queue", "error_code"])
def test_no_secret_of_the_corpus_passes_the_boundary(form: LogForm, field: str) -> None:
    """Whoever reports, whatever it forgot to redact: the log holds none of it."""
    for case in cases("secrets.toml", "message"):
        message, secrets = case["text"], case["gone"]
        line = line_of(form, "message_poisoned", **{field: f"failed: {message}"})
        key = attribute_of("message_poisoned", field)
        told = json.loads(line)[key] if form is LogForm.JSON else line.partition(f" {field}=")[2]
        assert "failed: " in told
        assert not [secret for secret in secrets if secret in told], message


def test_ids_and_words_of_ours_are_told_as_they_are() -> None:
    """A hash that looks like the number of a card is no secret."""
    line = line_of(
        LogForm.JSON, "unit_failed", object_uri_hash="4111111111111111", wal_id="0-1", attempt=3
    )
    told = json.loads(line)
    assert told["nodd.object_uri_hash"] == "4111111111111111"
    assert told["nodd.attempt"] == 3


def test_a_json_line_is_as_documented() -> None:
    """Time, level, name and a message are always there; what is not known is left out."""
    assert json.loads(
        line_of(LogForm.JSON, "worker_fenced", worker_id="w", ingest_run_id=None)
    ) == {
        "timestamp": "2026-06-01T12:00:00.000000Z",
        "level": "error",
        "event": "worker_fenced",
        "message": EVENTS["worker_fenced"].meaning,
        "nodd.worker_id": "w",
    }


def test_a_readable_line_is_as_documented() -> None:
    """Time, level, name, then name=value; quotes where a value needs them."""
    line = line_of(LogForm.TEXT, "receipts_stale", queue="two words", count=2)
    assert line == (
        '2026-06-01T12:00:00.000000Z warning receipts_stale queue="two words" count=2\n'
    )


@pytest.mark.conformance("RP-8.5")
def test_keys_of_lines_about_units_are_keys_of_their_spans() -> None:
    """Whoever filters spans by an attribute filters the log by the same key."""
    attempt = set(SPANS["nodd_sns.ingest"].attributes)
    of_the_log_alone = {"message", "trace_id", "span_id", "nodd.issues"}
    for name in ("unit_failed", "unit_quarantined"):
        keys = {attribute_of(name, field) for field in EVENTS[name].fields}
        assert keys - of_the_log_alone <= attempt
        assert keys >= {
            "nodd.wal_id", "nodd.replay_run_id", "nodd.replay_mode", "nodd.replay_reason",
            "nodd.replay_original_run",
        }  # fmt: skip
    sends = set(SPANS["outbox_dispatch"].attributes)
    for name in ("event_undelivered", "event_exhausted"):
        keys = {attribute_of(name, field) for field in EVENTS[name].fields}
        assert keys - {"message"} <= sends


@dataclass(slots=True, kw_only=True)
class Everything(MemoryRecorder):
    """Keeps all that is reported, and writes both kinds of log."""

    lines: list[str] = field(default_factory=list)
    documents: list[str] = field(default_factory=list)

    def event(self, name: str, **fields: object) -> None:
        """Keep an event and write it."""
        MemoryRecorder.event(self, name, **fields)
        LogRecorder(self.lines.append, lambda: NOON).event(name, **fields)
        LogRecorder(self.documents.append, lambda: NOON, LogForm.JSON).event(name, **fields)

    @property
    def parsed(self) -> list[dict[str, Any]]:
        """The JSON lines, read."""
        return [json.loads(line) for line in self.documents]


@pytest.mark.conformance("RP-8.5", "SM-8.3")
def test_the_log_and_the_spans_of_one_replay_are_found_by_its_id(
    backend: Backend, tmp_path: Path
) -> None:
    """Of five failures two are a replay's: one query finds their lines, and their spans."""
    replays, recorder = Replays(backend, tmp_path), Everything()
    replays.pipeline.announce(*things(3, first=5), etag="0" * 32)
    replays.pipeline.put(*things(3, first=5))
    replays.pipeline.start(recorder=recorder).run_messages()
    failed = replays.failed(*things(2))
    run = replays.run(replays.select(failed), options=RunOptions(work=False))
    replays.pipeline.start(reader=Unreadable(), recorder=recorder).run_due()
    lines = [line for line in recorder.parsed if line["event"] == "unit_failed"]
    assert len(lines) == 5
    wanted = {"nodd.replay_run_id": run.replay_run_id, "nodd.replay_mode": "range"}

    def found(told: Any) -> bool:
        return all(told.get(key) == value for key, value in wanted.items())

    assert sorted(line["nodd.wal_id"] for line in lines if found(line)) == failed
    roots = [span for span in recorder.spans if span.name == "nodd_sns.ingest"]
    spans = [span for span in roots if found(span.attributes)]
    assert sorted(str(span.attributes["nodd.wal_id"]) for span in spans) == failed
    contexts = {tuple(span.place.context) for span in spans if span.place is not None}
    assert {(line["trace_id"], line["span_id"]) for line in lines if found(line)} == contexts


@pytest.mark.conformance("SM-8.3")
def test_a_failure_is_counted_and_is_one_structured_line(backend: Backend, tmp_path: Path) -> None:
    """The line has the unit, its dataset and the code that the ledger holds."""
    recorder = Everything()
    pipeline = Pipeline(backend, tmp_path, stores=backend.open(recorder=recorder))
    pipeline.put(thing())
    pipeline.announce(thing(), etag="0" * 32)
    pipeline.start(recorder=recorder).run_messages()
    row = pipeline.row(thing())
    (line,) = [line for line in recorder.parsed if line["event"] == "unit_failed"]
    assert (line["nodd.wal_id"], line["nodd.dataset"], line["error.type"]) == (
        str(row["wal_id"]), "goes-glm", row["last_error_code"],
    )  # fmt: skip
    assert (line["level"], line["nodd.status"], line["nodd.attempt"]) == ("warning", "failed", 1)
    assert row["status"] == "failed"
    assert line["nodd.issues"] == f"integrity-check:{row['last_error_code']}"
    failed = recorder.total("nodd_sns.wal_records_total", status="failed", dataset="goes-glm")
    assert failed == 1


# --- canaries -------------------------------------------------------------------------------------


def canary(number: int) -> tuple[str, str]:
    """Return an error as a library would say it, and what of it must never be seen."""
    forms = cases("secrets.toml", "canary")
    said: str = forms[number % len(forms)]["text"]
    token, place = f"cAnArY{number:03d}zQ", f"38.{97170000 + number}"
    return said.replace("TOKEN", token).replace("PLACE", place), (
        token if "TOKEN" in said else place
    )


CANARIES = [canary(number) for number in range(50)]


class Singing:
    """A store of objects whose errors hold canaries."""

    def read(self, units: Sequence[IngestUnit]) -> Sequence[ReadFailure]:
        """Fail for each unit in its own words."""
        return [
            ReadFailure(code="transient_network_error", message=CANARIES[number % 50][0])
            for number, _ in enumerate(units)
        ]


def test_no_canary_is_seen_in_logs_spans_or_labels(tmp_path: Path) -> None:
    """Fifty errors of objects, messages and targets: not one of their secrets is anywhere."""
    backend = prepare("sqlite", f"sqlite:///{tmp_path / 'ledger.db'}")
    recorder = Everything()
    pipeline = Pipeline(backend, tmp_path, stores=backend.open(recorder=recorder))
    pipeline.feed(*things(50))
    pipeline.start(recorder=recorder, reader=Singing()).run_messages()
    pipeline.queue.send([json.dumps({"Records": said}).encode() for said, _ in CANARIES])
    pipeline.queue.send([f"{{{said}".encode() for said, _ in CANARIES])
    pipeline.start(recorder=recorder).run_messages()
    pipeline.clock.advance(301)
    pipeline.start(recorder=recorder).run_messages()
    sink = MemorySink(answers=[Undelivered(code="sink_refused", message=s) for s, _ in CANARIES])
    open_dispatcher(backend.open(), sink, target=DEFAULT_TARGET, recorder=recorder).run()
    met = {name for name, _ in recorder.events}
    assert met >= {"unit_failed", "message_poisoned", "event_undelivered"}
    assert len(recorder.lines) >= 150
    series = [*recorder._counts, *recorder._observed]
    spans = [(span.name, dict(span.attributes)) for span in recorder.spans]
    seen = "".join([*recorder.lines, *recorder.documents, repr(recorder.events)])
    seen += repr(series) + repr(spans)
    assert [secret for _, secret in CANARIES if secret in seen] == []
    assert all(line.count("\n") == 1 for line in (*recorder.lines, *recorder.documents))
    backend.close()


def test_the_log_of_a_worker_is_json_where_the_settings_say_so(tmp_path: Path) -> None:
    """`telemetry.logs` as a real process: each line of stderr is a document with its keys."""
    backend = prepare("sqlite", f"sqlite:///{tmp_path / 'ledger.db'}")
    feed = make_feed(tmp_path, 20, *shares(zero_bytes="0.1", poison="0.1"))
    done = feed.ingest(backend, "--drain", TALLGRASS_TELEMETRY_LOGS="json")
    assert done.code == 0, done.err
    lines = [json.loads(line) for line in done.err.splitlines()]
    told = [line["event"] for line in lines]
    assert (told[0], told[-1]) == ("worker_started", "worker_stopped")
    assert told.count("message_poisoned") == 2
    failed = [line for line in lines if line["event"] == "unit_failed"]
    assert {line["error.type"] for line in failed} == {"size_zero"}
    ids = backend.sql("SELECT wal_id FROM wal_records WHERE status = 'failed'")
    assert {line["nodd.wal_id"] for line in failed} == {wal_id for (wal_id,) in ids}
    assert all(set(line) >= {"timestamp", "level", "event", "message"} for line in lines)
    backend.close()
