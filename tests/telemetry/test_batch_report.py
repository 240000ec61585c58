"""What is reported of a run is what the tables hold, and it was committed when it was told."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.bootstrap.ingesting import ingest
from tallgrass.datasets.catalogue import default_catalogue
from tallgrass.error_codes import is_unit_code, registry
from tallgrass.errors import DatabaseUnreachable
from tallgrass.ingest_loop import Until
from tallgrass.ledger.receipt import Action
from tallgrass.ledger.vocabulary import CheckStatus, ProvenanceStatus, Status
from tallgrass.storage.migrations import migrate
from tallgrass.telemetry.names import EVENTS, METRICS, SPANS
from tallgrass.telemetry.recorder import NoopRecorder
from tests.pipeline.scene import Pipeline, things
from tests.pipeline.watched import WatchedDatabase
from tests.support.backends import Backend, prepare
from tests.support.recording import MemoryRecorder
from tests.telemetry.faulty_run import FaultyRun
from tests.telemetry.watching import COUNTERPARTS, OBSERVED, P

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.plugins.postgres import Databases

#: Names of parts that have tests of their own: processes, the outbox, replay runs, health.
ELSEWHERE = {
    P + "energy_kwh_total",
    P + "carbon_gco2e_total",
    P + "telemetry_dropped_total",
    P + "telemetry_failed_sends_total",
    "metrics_served",
    "telemetry_undelivered",
    "ingest_switched_off",
    "worker_died",
    "worker_failed",
    "event_undelivered",
    "event_exhausted",
    "deliveries_lost",
    "target_paused",
    "target_resumed",
    "dispatch_started",
    "dispatch_stopped",
    "dispatch_failed",
    "outbox_dispatch",
    "nodd_sns.cli",
    "nodd_sns.replay_batch",
    P + "provenance_failures_total",
    P + "dlq_letters_total",
    P + "dlq_reprocessed_total",
    *(name for name in EVENTS if name.startswith("node_")),
    *(name for name in METRICS if name.startswith("kfm.node_")),
    *(metric.name for metric in METRICS.values() if metric.kind == "gauge"),
    *(name for name in METRICS if name.startswith((P + "outbox_", P + "replay"))),
} - {P + "replays_total", P + "replay_batches_total", P + "replay_batch_size"}
PHASES = (
    "receive", "parse", "record_and_claim", "read_evidence", "operate", "commit", "acknowledge",
)  # fmt: skip


@contextmanager
def made(name: str, folder: Path, request: pytest.FixtureRequest) -> Iterator[Backend]:
    """A migrated database that lives as long as the module's tests."""
    if name == "sqlite":
        backend = prepare("sqlite", f"sqlite:///{folder / 'ledger.db'}")
        yield backend
        backend.close()
        return
    databases: Databases = request.getfixturevalue("postgres_databases")
    backend = prepare("postgres", databases.create())
    yield backend
    backend.close()
    databases.drop(backend.url)


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def run(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[FaultyRun]:
    """The run with all faults, once for each database."""
    folder = tmp_path_factory.mktemp("faulty")
    with made(request.param, folder, request) as backend:
        faulty = FaultyRun(backend, folder)
        faulty.live()
        yield faulty


@pytest.mark.parametrize("name", COUNTERPARTS)
def test_a_counter_is_what_the_tables_hold(run: FaultyRun, name: str) -> None:
    """After lost workers, retries, refusals and interventions each counter equals raw SQL."""
    expected = COUNTERPARTS[name](run.connection)
    assert expected
    told = {labels: number for labels, number in run.recorder.by_labels(name).items() if number}
    assert told == expected


def test_every_status_is_entered_again_and_again(run: FaultyRun) -> None:
    """The run meets each status; what failed and came again entered pending a second time."""
    entered = Counter[str]()
    for (_, status), number in run.recorder.by_labels(P + "wal_records_total").items():
        entered[status] += int(number)
    assert set(entered) == {status.value for status in Status}
    (records,) = run.backend.sql("SELECT count(*) FROM wal_records")[0]
    assert entered["pending"] > records
    assert entered["in_progress"] > records


@pytest.mark.parametrize("name", OBSERVED)
def test_a_histogram_has_a_value_for_each_attempt(run: FaultyRun, name: str) -> None:
    """Attempt numbers are those of the table; a success has its latency, and nothing else has."""
    for (dataset,), number in OBSERVED[name](run.connection).items():
        assert len(run.recorder.observed(name, dataset=dataset)) == number
    if name.endswith("_histogram"):
        numbers = run.backend.sql("SELECT attempt_no FROM wal_attempts ORDER BY attempt_no")
        assert sorted(run.recorder.observed(name)) == [number for (number,) in numbers]


def test_nothing_was_told_before_it_was_committed(run: FaultyRun) -> None:
    """Whenever the recorder was called, a second connection saw what it was told."""
    assert run.recorder.early == []
    assert run.recorder.looks > 100


def test_messages_add_up(run: FaultyRun) -> None:
    """Each delivery was deleted, kept or stale, unless its worker was lost; none counts twice."""
    total, queue = run.recorder.total, run.queue
    sent, left = run.messages()
    assert total(P + "messages_received_total") == queue.handed_out
    assert total(P + "messages_deleted_total") == sent - left
    assert total(P + "messages_stale_total") == 2
    acknowledged = sum(
        total(P + name)
        for name in ("messages_deleted_total", "messages_kept_total", "messages_stale_total")
    )
    # Two batches of one message were held by workers that were lost.
    assert queue.handed_out - acknowledged == 1 + 1
    # One batch of two was cut off when it was recorded, and stayed in hand: it was recorded again.
    assert total(P + "receipts_total") - total(P + "messages_parsed_total") == 2
    assert run.recorder.by_labels(P + "records_ignored_total") == {("deletion",): 1}
    assert run.recorder.by_labels(P + "messages_deferred_total") == {
        ("certificate_unreachable",): 1
    }
    assert total(P + "claims_lost_total") == 3


def test_events_tell_each_fault_once(run: FaultyRun) -> None:
    """Recoveries, splits, lost claims and stale receipts are told with their numbers."""
    told: dict[str, list[dict[str, object]]] = {}
    for name, fields in run.recorder.events:
        told.setdefault(name, []).append(dict(fields))
    assert told["claims_lost"] == [{"worker_id": "w", "count": 3}]
    assert told["receipts_stale"] == [{"queue": "nodd-primary", "count": 2}]
    (split,) = told["batch_split"]
    assert split["count"] == 7
    assert "north" in str(split["message"])
    # Six losses of a worker that held one unit, and one that held nothing.
    assert [event["count"] for event in told["units_recovered"]] == [1] * 6 + [0]
    assert {event["workers"] for event in told["units_recovered"]} == {1}
    held = run.backend.sql("SELECT wal_id FROM wal_records WHERE status = 'quarantined'")
    by_hand = run.backend.sql("SELECT subject FROM audit_log WHERE reason = 'look'")
    assert sorted(str(event["wal_id"]) for event in told["unit_quarantined"]) == sorted(
        wal_id for (wal_id,) in held if (wal_id,) not in by_hand
    )
    assert len(told["message_poisoned"]) == 3
    assert [event["error_code"] for event in told["store_waited_for"]] == ["database_unreachable"]
    assert len(told["worker_fenced"]) == len(told["worker_stopped"]) == 1


def test_labels_have_few_values(run: FaultyRun) -> None:
    """Every label that was given is a word of a closed list."""
    reasons = {"none", "dlq-drain", "incident", "backfill", "test"}
    words = {
        "queue": {"nodd-primary"},
        "env": {"test"},
        "source": {"queue", "due"},
        "dataset": {dataset.id for dataset in default_catalogue().datasets},
        "action": {action.value for action in Action},
        "outcome": {"created", "updated", "no_op", "failed"},
        "status": {*CheckStatus, *ProvenanceStatus, *Status},
        "error_type": {code for code in registry() if is_unit_code(code)},
        "issue": {code for code in registry() if is_unit_code(code)},
        "reason": {*registry(), *reasons, "deletion", "test_event", "sidecar"},
        "replay_reason": reasons,
    }
    seen = [*run.recorder._counts, *run.recorder._observed]
    assert len(seen) > 50
    for name, series in seen:
        for label, value in series:
            assert value in words[label], (name, label, value)


def test_a_batch_is_a_trace_of_its_phases(run: FaultyRun) -> None:
    """The spans of a batch follow each other inside its own, and tell how much it held."""
    spans = [span for span in run.recorder.spans if span.name in {"nodd_sns.batch", *PHASES}]
    starts = [at for at, span in enumerate(spans) if span.name == "nodd_sns.batch"]
    traces = [spans[a:b] for a, b in zip(starts, [*starts[1:], len(spans)], strict=True)]
    assert spans[0].name == "nodd_sns.batch"
    assert {tuple(span.name for span in trace[1:]) for trace in traces} == {PHASES, PHASES[2:6]}
    for root, *phases in traces:
        times = [time for span in phases for time in (span.started_at, span.ended_at)]
        assert times == sorted(times)
        assert root.started_at == times[0]
        assert root.ended_at >= times[-1]
        for span in phases:
            assert all(root.attributes[name] == n for name, n in span.attributes.items())
            assert root.place is not None
            assert span.place is not None
            assert span.place.parent == root.place.context
            assert span.place.context.trace_id == root.place.context.trace_id
    roots = [trace[0].place.context.trace_id for trace in traces if trace[0].place is not None]
    assert len(set(roots)) == len(traces)
    sizes = [trace[0].attributes["nodd.units"] for trace in traces]
    assert Counter(sizes) == Counter(run.recorder.observed(P + "batch_units"))
    assert len(run.recorder.observed(P + "batch_seconds")) == len(traces)


def test_every_name_is_met(run: FaultyRun, tmp_path: Path) -> None:
    """No name of the table is a promise that nobody keeps."""
    recorder = MemoryRecorder()
    config = run.pipeline.config
    ingest(config, until=Until.ONCE, stop=lambda: False, recorder=recorder)
    started = {name for name, _ in recorder.events}
    assert started == {"worker_started", "worker_stopped"}
    assert run.recorder.met | started == {*METRICS, *SPANS, *EVENTS} - ELSEWHERE


@pytest.mark.parametrize(
    ("phase", "down_at"),
    [
        ("claim", "insert_attempts"),
        ("claim", "commit"),
        ("commit", "close_records"),
        ("commit", "insert_events"),
        ("commit", "commit"),
    ],
)
def test_a_transaction_that_fails_reports_nothing(
    backend: Backend, tmp_path: Path, phase: str, down_at: str
) -> None:
    """What was rolled back is neither counted nor told; what was committed before it was."""
    recorder = MemoryRecorder()
    stores = backend.open(catalogue=default_catalogue(), recorder=recorder)
    pipeline = Pipeline(backend, tmp_path, stores=stores)
    worker = pipeline.start(pipeline.lease, recorder=recorder)
    pipeline.feed(*things(3))
    batch = worker.receive()
    worker.parse(batch)
    if phase == "commit":
        for step in (worker.record_and_claim, worker.read_evidence, worker.operate):
            step(batch)
    before = dict(recorder._counts), dict(recorder._observed), list(recorder.events)
    entered = recorder.total(P + "wal_records_total")
    assert entered == (6 if phase == "commit" else 0)

    def down(name: str) -> None:
        if name == down_at:
            raise DatabaseUnreachable("told to be down")

    stores.runner.database = WatchedDatabase(stores.database, down)
    with pytest.raises(DatabaseUnreachable):
        (worker.commit if phase == "commit" else worker.record_and_claim)(batch)
    assert (dict(recorder._counts), dict(recorder._observed), recorder.events) == before


class Deaf(NoopRecorder):
    """Nobody listens, and whoever reports of units all the same is found out."""

    def __getattribute__(self, name: str) -> Any:
        """Refuse to be asked for anything but whether somebody listens."""
        if name in ("count", "observe", "span"):
            raise AssertionError(f"{name} was called for nobody")
        return object.__getattribute__(self, name)

    def event(self, name: str, **fields: object) -> None:
        """Refuse lines about single units."""
        assert "wal_id" not in fields, name


def test_nothing_is_gathered_for_nobody(tmp_path: Path) -> None:
    """With the default recorder a whole run of failures and successes reports of no unit."""
    backend = prepare("sqlite", f"sqlite:///{tmp_path / 'ledger.db'}")
    migrate(backend.open().database)
    stores = backend.open(catalogue=default_catalogue(), recorder=Deaf())
    pipeline = Pipeline(backend, tmp_path, stores=stores, max_attempts=2)
    worker = pipeline.start(pipeline.lease, recorder=Deaf())
    pipeline.feed(*things(3))
    pipeline.announce(*things(2, first=3))
    batch = worker.run_messages()
    assert (len(batch.closed), batch.spans) == (5, [])
    pipeline.drain(worker)
    assert pipeline.statuses() == {"succeeded": 3, "quarantined": 2}
    backend.close()
