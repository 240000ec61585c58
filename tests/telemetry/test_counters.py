"""The specified counters after scripted histories: names, labels and values, worked out by hand."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.bootstrap.replaying import RunOptions
from tallgrass.errors import DatabaseUnreachable, GuardRefused, Refused, TransactionConflict
from tallgrass.governance.switches import SwitchScope
from tallgrass.storage.closing import Closing
from tallgrass.storage.replay_store import ReplayStore
from tallgrass.telemetry.replay_report import reported_command
from tests.pipeline.scene import VISIBILITY_S, message_of, things
from tests.replay.letters import Letters
from tests.replay.scene import DOWN, Replays, Unreadable
from tests.support.recording import MemoryRecorder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tallgrass.worker import Worker
    from tests.support.backends import Backend

P = "nodd_sns."
#: The datasets of three things in a row.
THREE = ("goes-glm", "nexrad-l2", "hrrr")


class Told:
    """A pipeline whose stores and workers all report to one recorder in memory."""

    def __init__(self, backend: Backend, folder: Path) -> None:
        self.replays = Replays(backend, folder)
        self.pipeline = self.replays.pipeline
        self.recorder = MemoryRecorder()
        self.stores = self.replays.opened(self.recorder)

    def worker(self, **changes: Any) -> Worker:
        """Start a worker."""
        return self.pipeline.start(stores=self.stores, recorder=self.recorder, **changes)

    def redeliver(self) -> None:
        """Let the queue show again what was left in it."""
        self.pipeline.clock.advance(VISIBILITY_S + 1)

    def counts(self, name: str) -> dict[tuple[str, ...], float]:
        """Return a counter's series that are not 0."""
        return {key: n for key, n in self.recorder.by_labels(P + name).items() if n}

    def entered(self) -> dict[str, float]:
        """Return how often each status was entered, whatever the dataset."""
        entered = Counter[str]()
        for (_, status), number in self.counts("wal_records_total").items():
            entered[status] += int(number)
        return dict(entered)


@pytest.fixture
def told(backend: Backend, tmp_path: Path) -> Iterator[Told]:
    """A pipeline of the test's own."""
    made = Told(backend, tmp_path)
    yield made
    made.stores.close()


def each(number: float, *more: str) -> dict[tuple[str, ...], float]:
    """Return so many for each of the three datasets."""
    return {(dataset, *more): number for dataset in THREE}


@pytest.mark.conformance("WAL-9.1", "SM-8.2", "SM-8.4", "C-25", "RP-8.1")
def test_three_units_fail_come_again_and_succeed(told: Told) -> None:
    """A worker's retry is a `wal_replays_total` with the reason `none`, and no `replays_total`."""
    told.pipeline.feed(*things(3))
    told.worker(reader=Unreadable()).run_messages()
    assert told.counts("wal_records_total") == {
        (dataset, status): 1.0
        for dataset in THREE
        for status in ("pending", "in_progress", "failed")
    }
    assert told.counts("wal_replays_total") == {}
    told.redeliver()
    told.worker().run_messages()
    assert told.counts("wal_records_total") == {
        **each(2.0, "pending"), **each(2.0, "in_progress"), **each(1.0, "failed"),
        **each(1.0, "succeeded"),
    }  # fmt: skip
    assert told.counts("wal_replays_total") == each(1.0, "none")
    for dataset in THREE:
        attempts = told.recorder.observed(P + "wal_attempts_histogram", dataset=dataset)
        assert attempts == [1.0, 2.0]
    assert told.counts("replays_total") == {}
    assert told.counts("replay_mismatch_total") == {}
    told.pipeline.announce(*things(3))
    told.worker().run_messages()
    assert told.entered() == {"pending": 6, "in_progress": 6, "failed": 3, "succeeded": 3}


@pytest.mark.conformance("WAL-9.1", "SM-8.4", "C-25", "RP-8.1", "RP-4.2f")
def test_a_replay_counts_each_record_once_and_its_retries_with_its_reason(told: Told) -> None:
    """Two of three fail in the run, too: `replays_total` has three, the retries are no replays."""
    replays = told.replays
    failed = replays.failed(*things(3))
    idle = RunOptions(work=False)
    run = replays.run(replays.select(failed), recorder=told.recorder, options=idle)
    assert (run.planned, run.due) == (3, 3)
    assert told.counts("wal_replays_total") == each(1.0, "backfill")
    assert told.counts("replays_total") == {}  # nothing has been executed
    assert told.counts("replay_batches_total") == {("backfill", "test"): 1.0}
    assert told.recorder.observed(P + "replay_batch_size") == [3.0]
    told.worker(reader=Unreadable()).run_due()
    assert told.counts("replays_total") == each(1.0, "backfill", "test")
    told.worker().run_due()
    assert told.counts("replays_total") == each(1.0, "backfill", "test")
    assert told.counts("wal_replays_total") == each(2.0, "backfill")
    assert told.entered()["succeeded"] == 3
    report = replays.run(replay_run_id=run.replay_run_id, recorder=told.recorder)
    assert (report.planned, report.done, report.skipped, report.failed) == (3, 3, 0, 0)
    assert report.mismatches == 0
    assert told.counts("replay_mismatch_total") == {}


@pytest.mark.conformance("RP-8.1", "C-25")
def test_a_run_again_is_a_replay_and_no_edge(told: Told) -> None:
    """Succeeded units that are forced to run count as replays; none of them left its status."""
    done = told.replays.succeeded(*things(3))
    told.replays.again(done, forced=True, recorder=told.recorder)
    assert told.counts("replays_total") == each(1.0, "backfill", "test")
    assert told.counts("wal_replays_total") == {}
    assert told.counts("wal_records_total") == {}


def test_records_that_a_run_leaves_out_are_counted_by_why(told: Told) -> None:
    """Of a plan of three one record moved meanwhile: it is skipped as moved."""
    replays = told.replays
    failed = replays.failed(*things(3))
    path = replays.plan_file(replays.select(failed))
    row = replays.record(failed[1])
    told.stores.interventions.quarantine(
        [(failed[1], row["version"])], reason="look", actor=replays.people.otto
    )
    report = replays.run(plan_file=path, approval_id=replays.approved(path), recorder=told.recorder)
    assert (report.planned, report.done, report.skipped) == (3, 2, 1)
    assert told.counts("replay_skipped_records_total") == {("moved", "test"): 1.0}
    assert sum(told.counts("replays_total").values()) == 2


def once_refused(real: Any, error: Exception) -> Any:
    """Return the function with its first transaction undone after all was written."""
    refused: list[Exception] = []

    def call(*args: Any) -> Any:
        done = real(*args)
        if not refused:
            refused.append(error)
            raise error
        return done

    return call


@pytest.mark.conformance("SM-8.2", "SM-8.4")
def test_a_write_that_is_tried_again_counts_once(
    told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database has the first try of a commit and of a put-back give way: +1, not +2."""
    failed = told.replays.failed(*things(3))
    conflict = TransactionConflict("give way")
    to_work = once_refused(ReplayStore._put_to_work, conflict)
    monkeypatch.setattr(ReplayStore, "_put_to_work", to_work)
    monkeypatch.setattr(Closing, "write", once_refused(Closing.write, conflict))
    told.replays.run(told.replays.select(failed), recorder=told.recorder)
    assert told.counts("wal_replays_total") == each(1.0, "backfill")
    assert told.counts("wal_records_total") == {
        **each(1.0, "pending"), **each(1.0, "in_progress"), **each(1.0, "succeeded"),
    }  # fmt: skip


@pytest.mark.conformance("SM-8.4", "SM-8.2")
def test_an_edge_that_is_rolled_back_counts_nothing(
    told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database is lost before the commit of the put-back: no edge, no count."""
    failed = told.replays.failed(*things(3))
    lost = once_refused(ReplayStore._put_to_work, DatabaseUnreachable("gone"))
    monkeypatch.setattr(ReplayStore, "_put_to_work", lost)
    with pytest.raises(DatabaseUnreachable):
        told.replays.run(told.replays.select(failed), recorder=told.recorder)
    assert told.counts("wal_replays_total") == {}
    assert told.counts("wal_records_total") == {}
    assert told.counts("replay_batches_total") == {}


@pytest.mark.conformance("SM-8.5")
def test_what_is_quarantined_is_counted_and_audited(told: Told, backend: Backend) -> None:
    """From pending by a person, from failed by a person, from failed by the limit: three, told."""
    pipeline, verbs = told.pipeline, told.stores.interventions
    parked, failed, spent = things(3)
    otto = told.replays.people.otto
    told.stores.switches.set(SwitchScope.INGEST, "goes-glm", is_on=True, actor=otto, reason="test")
    pipeline.feed(parked, failed)
    told.worker(reader=Unreadable()).run_messages()
    by_hand = [(row["wal_id"], row["version"]) for row in map(pipeline.row, (parked, failed))]
    verbs.quarantine(by_hand, reason="look", actor=otto)
    pipeline.feed(spent)
    for _ in range(pipeline.config.rules.max_attempts):
        told.redeliver()
        told.worker(reader=Unreadable()).run_messages()
    assert pipeline.row(spent)["status"] == "quarantined"
    held = {
        key[0]: n for key, n in told.counts("wal_records_total").items() if key[1] == "quarantined"
    }
    assert held == dict.fromkeys(THREE, 1.0)
    entries = backend.rows("SELECT * FROM audit_log WHERE action = 'quarantine'")
    audited = {entry["subject"]: entry for entry in entries}
    assert len(entries) == len(audited) == 3
    for given, source in ((parked, "pending"), (failed, "failed")):
        entry = audited[pipeline.row(given)["wal_id"]]
        assert (entry["actor"], entry["reason"]) == ("otto", "look")
        assert json.loads(entry["detail"])["from_status"] == source
    entry = audited[pipeline.row(spent)["wal_id"]]
    assert (entry["actor"], entry["reason"]) == ("w", "attempts_exhausted")
    assert json.loads(entry["detail"])["last_error_code"] == DOWN


@pytest.mark.conformance("RP-8.3")
def test_a_dead_letter_counts_when_its_unit_has_succeeded(backend: Backend, tmp_path: Path) -> None:
    """Of four letters two name the same unit, and one finds no object: two are reprocessed."""
    letters = Letters(backend, tmp_path)
    mended, doubled, broken = things(3)
    letters.fail(mended, doubled, broken)
    letters.send(message_of(doubled.event()))
    letters.pipeline.path(broken).unlink()
    letters.recorder = recorder = MemoryRecorder()
    plan = letters.plan()
    assert letters.drain(plan).sent == 4
    assert recorder.by_labels(P + "dlq_letters_total") == {
        ("goes-glm", "replay"): 1.0, ("nexrad-l2", "replay"): 2.0, ("hrrr", "replay"): 1.0,
    }  # fmt: skip
    assert recorder.by_labels(P + "wal_replays_total") == each(1.0, "dlq-drain")
    assert recorder.by_labels(P + "replay_batches_total") == {("dlq-drain", "test"): 1.0}
    assert recorder.total(P + "dlq_reprocessed_total") == 0  # sent is not reprocessed
    letters.work()
    assert letters.statuses(mended, doubled, broken) == ["succeeded", "succeeded", "pending"]
    assert recorder.by_labels(P + "dlq_reprocessed_total") == {
        ("goes-glm",): 1.0, ("nexrad-l2",): 1.0,
    }  # fmt: skip
    # Its object is not there yet: the ledger itself tries it again, for the same reason.
    assert recorder.total(P + "wal_replays_total", dataset="hrrr", replay_reason="dlq-drain") == 2
    letters.pipeline.announce(mended, sequencer="F" * 16)
    letters.work()
    assert recorder.total(P + "dlq_reprocessed_total") == 2  # a newer object is no dead letter


@pytest.mark.conformance("RP-8.3")
def test_a_dead_letter_counts_when_all_its_units_have_succeeded(
    backend: Backend, tmp_path: Path
) -> None:
    """One letter of two units: it counts with the second success, and only once."""
    letters = Letters(backend, tmp_path)
    first, second = things(2)
    letters.pipeline.put(first, second)
    letters.pipeline.queue.send([message_of(first.event(), second.event())])
    letters.pipeline.start(reader=Unreadable()).run_messages()
    letters.die()
    letters.pipeline.path(second).unlink()
    letters.recorder = recorder = MemoryRecorder()
    assert letters.drain(letters.plan()).sent == 1
    letters.work()
    assert letters.statuses(first, second) == ["succeeded", "pending"]
    assert recorder.total(P + "dlq_reprocessed_total") == 0
    letters.pipeline.put(second)
    letters.pipeline.announce(second)
    letters.work()
    assert letters.statuses(first, second) == ["succeeded", "succeeded"]
    assert recorder.total(P + "dlq_reprocessed_total") == 1


@pytest.mark.conformance("RP-8.3")
def test_a_dead_letter_counts_though_its_unit_failed_once_more(
    backend: Backend, tmp_path: Path
) -> None:
    """The first by its message, the second by another drain: each success counts one letter."""
    letters = Letters(backend, tmp_path)
    first, second = things(2)
    letters.fail(first, second)
    letters.recorder = recorder = MemoryRecorder()
    letters.drain(letters.plan())
    assert letters.work(reader=Unreadable()) == 2
    assert letters.statuses(first, second) == ["failed", "failed"]
    assert recorder.total(P + "dlq_reprocessed_total") == 0
    letters.pipeline.announce(first)
    letters.work()
    assert recorder.by_labels(P + "dlq_reprocessed_total") == {("goes-glm",): 1.0}
    assert letters.drain(letters.plan()).sent == 1
    letters.work()
    assert letters.statuses(first, second) == ["succeeded", "succeeded"]
    assert recorder.by_labels(P + "dlq_reprocessed_total") == {
        ("goes-glm",): 1.0, ("nexrad-l2",): 1.0,
    }  # fmt: skip


def test_a_command_that_a_guard_refuses_is_counted() -> None:
    """Called three times: fine, refused by a guard, refused by something else."""
    recorder = MemoryRecorder()
    with reported_command(recorder, "replay"):
        pass
    with pytest.raises(GuardRefused), reported_command(recorder, "replay"):
        raise GuardRefused("too broad", guard="scope_too_broad")
    with pytest.raises(Refused), reported_command(recorder, "dlq drain"):
        raise Refused("no", code="reference_missing")
    assert recorder.by_labels(P + "replay_cli_invocations_total") == {
        ("replay", "test"): 2.0, ("dlq drain", "test"): 1.0,
    }  # fmt: skip
    assert recorder.by_labels(P + "replay_cli_failures_total") == {
        ("replay", "guard_refused", "test"): 1.0, ("dlq drain", "reference_missing", "test"): 1.0,
    }  # fmt: skip
    assert recorder.by_labels(P + "replay_guardrail_violations_total") == {
        ("scope_too_broad", "test"): 1.0
    }


def test_a_dry_run_counts_as_called_and_as_nothing_else() -> None:
    """It may fail by a guard, too: that is no violation, as nothing would have been done."""
    recorder = MemoryRecorder()
    with pytest.raises(GuardRefused), reported_command(recorder, "replay", dry_run=True):
        raise GuardRefused("too broad", guard="scope_too_broad")
    assert recorder.reports == 1
    assert recorder.total(P + "replay_cli_invocations_total") == 1


def test_a_batch_that_waits_is_counted_by_why(told: Told) -> None:
    """Ingest lags once, and at this rate each unit is a batch: one waits for it, both rest."""
    failed = told.replays.failed(*things(2))
    lags = iter([1e9])
    options = RunOptions(
        records_per_s=0.5, sleep=lambda _s: None, ingest_lag_s=lambda: next(lags, 0.0)
    )
    told.replays.run(told.replays.select(failed), recorder=told.recorder, options=options)
    assert told.counts("replay_throttled_batches_total") == {
        ("ingest_lag", "test"): 1.0, ("rate", "test"): 2.0,
    }  # fmt: skip
