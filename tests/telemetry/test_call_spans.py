"""One span a call of a command: the root of what the call does, at a real collector."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import click
import pytest

from tallgrass.bootstrap.telemetry import open_recorder
from tallgrass.config import load_config
from tallgrass.errors import GuardRefused
from tallgrass.sinks.file import DEFAULT_PATH as FILE
from tallgrass.telemetry.trace_context import SpanContext, SpanPlace
from tests.cli.command import tallgrass
from tests.cli.pipeline import make_feed, shares
from tests.cli.test_replay_run import REASON, Shell, names
from tests.pipeline.scene import things
from tests.support.backends import prepare
from tests.telemetry.collector import Collector, attributes

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tallgrass.telemetry.recorder import Recorder
    from tests.support.backends import Backend

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
ALL = {"OTEL_TRACES_SAMPLER": "always_on"}
CALL, REPLAY_BATCH, BATCH = "nodd_sns.cli", "nodd_sns.replay_batch", "nodd_sns.batch"


def named(collector: Collector, name: str) -> list[Any]:
    """Return the spans of a name."""
    return [span for span in collector.spans if span.name == name]


def id_of(span: Any) -> tuple[bytes, bytes]:
    """Return trace and span."""
    return span.trace_id, span.span_id


def links_of(span: Any) -> list[tuple[bytes, bytes]]:
    """Return what a span is linked to."""
    return [id_of(link) for link in span.links]


def call(
    collector: Collector,
    monkeypatch: pytest.MonkeyPatch,
    work: Callable[[Recorder], None],
    command: str | None = "replay",
) -> None:
    """Do some work in a call; the clock moves by two seconds."""
    variables = collector.variables(**ALL, OTEL_METRICS_EXPORTER="none")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    times = iter([NOON, NOON + timedelta(seconds=2)])
    with open_recorder(
        load_config(environment={}),
        None,
        command=command,
        clock=lambda: next(times),
        environment=variables,
    ) as recorder:
        work(recorder)


def test_what_has_no_place_stands_below_the_call_and_other_roots_are_linked_to_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A root that something else led to, and whatever has a parent, stay as they are."""
    root, parent, other = (SpanContext(f"{n:032x}", f"{n:016x}") for n in (1, 2, 3))

    def work(recorder: Recorder) -> None:
        for place in (
            None, SpanPlace(root), SpanPlace(root, parent), SpanPlace(root, None, (other,)),
        ):  # fmt: skip
            recorder.span("commit", NOON, NOON, {"nodd.units": 1}, place)

    with Collector() as collector:
        call(collector, monkeypatch, work)
        (whole,) = named(collector, CALL)
        below, alone, child, linked = named(collector, "commit")
    assert (whole.parent_span_id, links_of(whole)) == (b"", [])
    assert whole.end_time_unix_nano - whole.start_time_unix_nano == 2 * 10**9
    assert attributes(whole) == {"nodd.command": "replay"}
    assert (below.trace_id, below.parent_span_id) == id_of(whole)
    assert (alone.parent_span_id, links_of(alone)) == (b"", [id_of(whole)])
    assert links_of(child) == []
    assert links_of(linked) == [(bytes.fromhex(f"{3:032x}"), bytes.fromhex(f"{3:016x}"))]


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (GuardRefused("no", guard="scope_too_broad"), "guard_refused"),
        (click.exceptions.Exit(3), "exit_3"),
        (click.exceptions.Exit(0), None),
        (ZeroDivisionError(), "ZeroDivisionError"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
    ],
)
def test_a_call_that_fails_says_how(
    error: BaseException, told: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the code of the error, or by how the command ended; the message is not told."""

    def work(_recorder: Recorder) -> None:
        raise error

    with Collector() as collector:
        with pytest.raises(type(error)):
            call(collector, monkeypatch, work)
        (whole,) = named(collector, CALL)
    assert attributes(whole).get("error.type") == told
    assert whole.status.code == (0 if told is None else 2)


def test_a_process_that_no_command_began_has_no_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """A span without a place is a trace of its own then."""
    with Collector() as collector:
        call(collector, monkeypatch, lambda it: it.span("commit", NOON, NOON, {}), None)
        (alone,) = collector.spans
    assert (alone.name, alone.parent_span_id, links_of(alone)) == ("commit", b"", [])


@pytest.mark.conformance("RP-8.4")
def test_a_replay_is_one_trace_from_the_command_to_its_batches(
    backend: Backend, tmp_path: Path
) -> None:
    """The call, a batch of the run below it, and the worker's batch and attempts by links."""
    shell = Shell(backend, tmp_path)
    failed = shell.replays.failed(*things(2))
    with Collector() as collector:
        done = shell(*names(failed), *REASON, **collector.variables(**ALL))
        assert done.code == 0, done.err
    (whole,), (batch,) = named(collector, CALL), named(collector, REPLAY_BATCH)
    assert attributes(whole) == {"nodd.command": "replay"}
    ((run_id, plan),) = backend.sql("SELECT replay_run_id, plan_sha256 FROM replay_runs")
    assert attributes(batch) == {
        "nodd.replay_run_id": str(run_id),
        "nodd.replay_mode": "range",
        "nodd.replay_reason": "backfill",
        "nodd.plan_sha256": plan,
        "nodd.units": 2,
    }
    assert (batch.trace_id, batch.parent_span_id) == id_of(whole)
    assert whole.start_time_unix_nano <= batch.start_time_unix_nano
    assert batch.end_time_unix_nano <= whole.end_time_unix_nano
    (worked,) = named(collector, BATCH)
    assert links_of(worked) == [id_of(whole)]
    attempts = named(collector, "nodd_sns.ingest")
    assert sorted(attributes(each)["nodd.wal_id"] for each in attempts) == failed
    assert {links_of(each)[0] for each in attempts} == {id_of(worked)}


def test_the_batches_of_an_ingest_are_linked_to_its_call(tmp_path: Path) -> None:
    """Each is a trace of its own, so that a share of them can be kept."""
    feed = make_feed(tmp_path, 4, *shares())
    backend = prepare("sqlite", f"sqlite:///{tmp_path / 'ledger.db'}")
    with Collector() as collector:
        done = feed.ingest(backend, "--drain", **collector.variables(**ALL))
        assert done.code == 0, done.err
    backend.close()
    (whole,) = named(collector, CALL)
    assert attributes(whole) == {"nodd.command": "ingest"}
    batches = named(collector, BATCH)
    assert batches
    assert all(links_of(each) == [id_of(whole)] for each in batches)


def test_a_dispatch_is_a_call_with_its_sends_in_the_traces_of_their_units(tmp_path: Path) -> None:
    """Another process than the one that wrote the events: their spans have the same trace."""
    feed = make_feed(tmp_path, 3, *shares())
    backend = prepare("sqlite", f"sqlite:///{tmp_path / 'ledger.db'}")
    with Collector() as collector:
        variables = collector.variables(**ALL)
        done = feed.ingest(backend, "--drain", **variables)
        assert done.code == 0, done.err
        done = tallgrass("outbox", "dispatch", "--drain", at=backend, env=variables)
        assert done.code == 0, done.err
    backend.close()
    commands = [attributes(whole)["nodd.command"] for whole in named(collector, CALL)]
    assert commands == ["ingest", "outbox dispatch"]
    written = {id_of(span) for span in named(collector, "outbox_write")}
    sends = named(collector, "outbox_dispatch")
    assert len(sends) == 3
    assert {(send.trace_id, send.parent_span_id) for send in sends} == written
    lines = [json.loads(line) for line in (tmp_path / FILE).read_text().splitlines()]
    told = {tuple(map(bytes.fromhex, line["traceparent"].split("-")[1:3])) for line in lines}
    assert told == written
