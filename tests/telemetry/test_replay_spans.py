"""Spans of replays: whose they are, what they repeat, and that they tell what an ingest tells."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tallgrass.bootstrap.replaying import RunOptions
from tests.pipeline.scene import VISIBILITY_S, Pipeline, message_of, thing, things
from tests.replay.letters import Letters
from tests.replay.scene import Replays, Unreadable
from tests.support.recording import MemoryRecorder
from tests.telemetry.spans import OF_A_UNIT, REPLAY, below, digits, fresh, roots, told

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.backends import Backend
    from tests.support.recording import RecordedSpan


@pytest.fixture
def pipeline(tmp_path: Path) -> Iterator[Pipeline]:
    """A pipeline on the embedded database: what no statement has a part in."""
    with fresh(tmp_path / "pipeline") as (backend, folder):
        yield Pipeline(backend, folder)


@pytest.mark.conformance("WAL-9.3", "RP-8.4")
@pytest.mark.parametrize(("number", "mode"), [(1, "single"), (2, "range")])
def test_a_replayed_attempt_tells_its_run_and_the_one_before(
    backend: Backend, tmp_path: Path, number: int, mode: str
) -> None:
    """Run, mode, reason and the original run are on the span, with the unit's own id."""
    replays, recorder = Replays(backend, tmp_path), MemoryRecorder()
    failed = replays.failed(*things(number))
    before = dict(backend.sql("SELECT wal_id, ingest_run_id FROM wal_attempts"))
    report = replays.run(replays.select(failed), recorder=recorder)
    assert report.done == number
    for root in roots(recorder):
        (wal_id,) = told(root, "wal_id")
        original = {str(key): run for key, run in before.items()}[wal_id]
        assert told(root, *REPLAY) == (report.replay_run_id, mode, "backfill", original)
        assert root.place is not None
        assert root.place.links[-1] == (
            digits(32, "trace", wal_id), digits(16, "attempt", wal_id, 1),
        )  # fmt: skip
        assert root.attributes["messaging.message.id"] is None
        assert [part.name for part in below(recorder, root)] == [*OF_A_UNIT, "outbox_write"]
    assert sorted(told(root, "wal_id")[0] for root in roots(recorder)) == failed


@pytest.mark.conformance("RP-8.4")
def test_the_original_run_of_a_retried_replay_is_not_the_replay(
    backend: Backend, tmp_path: Path
) -> None:
    """A replay that fails once and is tried again still names the run before the replay."""
    replays, recorder = Replays(backend, tmp_path), MemoryRecorder()
    failed = replays.failed(thing())
    ((original,),) = backend.sql("SELECT ingest_run_id FROM wal_attempts")
    run = replays.run(replays.select(failed), options=RunOptions(work=False))
    for reader in (Unreadable(), None):
        lease = replays.pipeline.register("second")  # with a run of its own
        replays.pipeline.start(lease, reader=reader, recorder=recorder).run_due()
    first, second = roots(recorder)
    expected = (run.replay_run_id, "single", "backfill", original)
    assert told(first, *REPLAY) == told(second, *REPLAY) == expected
    assert [told(root, "attempt") for root in (first, second)] == [(2,), (3,)]
    assert told(second, "ingest_run_id") == ("run-second",) != (original,)
    for root in (first, second):
        assert root.place is not None
        assert root.place.links[-1] == (
            digits(32, "trace", failed[0]), digits(16, "attempt", failed[0], 1),
        )  # fmt: skip


@pytest.mark.conformance("WAL-9.3", "RP-8.4")
def test_a_drained_letter_tells_its_run(backend: Backend, tmp_path: Path) -> None:
    """Units that had failed name their first run; one that is new to the ledger has none."""
    letters, recorder = Letters(backend, tmp_path), MemoryRecorder()
    known, new = thing(1), thing(3)
    letters.fail(known)
    ((original,),) = backend.sql("SELECT ingest_run_id FROM wal_attempts")
    letters.pipeline.put(new)
    letters.send(message_of(new.event()))
    plan = letters.plan()
    letters.recorder = recorder
    report = letters.drain(plan, approval_id=letters.approved(plan))
    run_id = plan.header.replay_run_id
    assert (report.sent, letters.work(replay_run_id=run_id)) == (2, 2)
    spans = {told(root, "object_uri")[0]: told(root, *REPLAY) for root in roots(recorder)}
    assert spans == {
        known.uri: (run_id, "dlq", "dlq-drain", original),
        new.uri: (run_id, "dlq", "dlq-drain", None),
    }


def test_what_was_never_replayed_has_no_replay_attributes(pipeline: Pipeline) -> None:
    """All four are absent; the link to an earlier attempt is, too."""
    recorder = MemoryRecorder()
    pipeline.feed(thing())
    pipeline.start(recorder=recorder, reader=Unreadable()).run_messages()
    pipeline.clock.advance(VISIBILITY_S + 1)
    pipeline.start(recorder=recorder).run_messages()
    assert [told(root, *REPLAY) for root in roots(recorder)] == [(None,) * 4] * 2
    assert [len(root.place.links) for root in roots(recorder) if root.place] == [1, 1]


@pytest.mark.conformance("RP-4.1c")
def test_a_replay_tells_the_same_as_the_ingest_would_have(tmp_path: Path) -> None:
    """Names, labels and counts of the operators, and their spans, are those of a first ingest."""
    first, again = MemoryRecorder(), MemoryRecorder()
    with fresh(tmp_path / "first") as (backend, folder):
        pipeline = Pipeline(backend, folder)
        pipeline.feed(*things(6))
        pipeline.start(recorder=first).run_messages()
        assert pipeline.statuses() == {"succeeded": 6}
    with fresh(tmp_path / "again") as (backend, folder):
        replays = Replays(backend, folder)
        failed = replays.failed(*things(6))
        assert replays.run(replays.select(failed), recorder=again).done == 6
    operators = {
        f"nodd_sns.{name}"
        for name in (
            "integrity_checks_total", "metadata_extract_total", "stac_writes_total",
            "provenance_emits_total", "bytes_ingested_total",
        )
    }  # fmt: skip
    assert all(first.by_labels(name) for name in operators)
    others = {name for name, _ in (*first._counts, *again._counts)} - {
        # Of the way to the claim, where a replay has no message and a unit that had failed.
        *(f"nodd_sns.{name}" for name in (
            "messages_received_total", "messages_parsed_total", "messages_deleted_total",
            "messages_kept_total", "receipts_total", "wal_records_total", "wal_replays_total",
            "replays_total", "replay_batches_total",
        ))
    }  # fmt: skip
    assert others >= operators
    assert {n: again.by_labels(n) for n in others} == {n: first.by_labels(n) for n in others}
    assert Counter(map(_sameness, _operator_spans(again))) == Counter(
        map(_sameness, _operator_spans(first))
    )


def _operator_spans(recorder: MemoryRecorder) -> list[RecordedSpan]:
    spans = [span for span in recorder.spans if span.name in OF_A_UNIT]
    assert len(spans) == 6 * len(OF_A_UNIT)
    return spans


def _sameness(span: RecordedSpan) -> tuple[str, tuple[tuple[str, object], ...]]:
    """Return all of a span but its time and the run that is named by the attempt."""
    kept = {k: v for k, v in span.attributes.items() if k != "nodd.openlineage_run_id"}
    return span.name, tuple(sorted(kept.items()))


# --- batches of replays ---------------------------------------------------------------------------

BATCH = ("replay_run_id", "replay_mode", "replay_reason", "plan_sha256", "units")


def batches(recorder: MemoryRecorder) -> list[tuple[object, ...]]:
    """Return what the spans of batches tell."""
    return [told(span, *BATCH) for span in recorder.spans if span.name == "nodd_sns.replay_batch"]


@pytest.mark.conformance("RP-8.4")
def test_every_batch_of_a_run_has_a_span_with_the_run_and_its_plan(
    backend: Backend, tmp_path: Path
) -> None:
    """Five records in batches of two; the plan is named by the hash that was registered."""
    replays, recorder = Replays(backend, tmp_path), MemoryRecorder()
    failed = replays.failed(*things(5))
    report = replays.run(replays.request(replays.select(failed), batch_size=2), recorder=recorder)
    ((plan,),) = backend.sql("SELECT plan_sha256 FROM replay_runs")
    run = (report.replay_run_id, "range", "backfill", plan)
    assert batches(recorder) == [(*run, size) for size in (2, 2, 1)]
    spans = [span for span in recorder.spans if span.name == "nodd_sns.replay_batch"]
    assert all(span.started_at <= span.ended_at for span in spans)


@pytest.mark.conformance("RP-8.4")
def test_every_batch_of_a_drain_has_a_span(backend: Backend, tmp_path: Path) -> None:
    """Letters are counted as they are taken up."""
    letters, recorder = Letters(backend, tmp_path), MemoryRecorder()
    letters.fail(*things(3))
    plan = letters.plan()
    letters.recorder = recorder
    letters.drain(plan, approval_id=letters.approved(plan))
    ((run_id, digest),) = backend.sql("SELECT replay_run_id, plan_sha256 FROM replay_runs")
    run = (str(run_id), "dlq", "dlq-drain", digest)
    found = batches(recorder)
    assert {each[:-1] for each in found} == {run}
    assert sum(int(str(each[-1])) for each in found) == 3
