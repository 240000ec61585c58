"""What is told of deliveries on both databases, and exhausted ones that are asked for again."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.bootstrap import retaining
from tallgrass.clock import parse_instant
from tallgrass.errors import ArchiveDamaged, InvalidInput
from tallgrass.inventory.retention import ArchiveKind
from tallgrass.outbox.deliveries import DeliveryFilter
from tallgrass.outbox.dispatch_rules import AttemptOutcome, DeliveryState
from tests.contract.retention_scene import apply, open_retention
from tests.contract.scene import Scene
from tests.support.events import CREATED_AT, event_id, payload_of, write
from tests.support.outbox import ONE, TWO, Outbox, exhaust

if TYPE_CHECKING:
    from pathlib import Path

    from tallgrass.storage.unit_of_work import Row
    from tests.support.backends import Backend


@pytest.mark.conformance("OB-4.8")
def test_an_exhausted_event_can_be_asked_for_again(outbox: Outbox) -> None:
    """It is due at once with all attempts anew; who asked for it why stands in the audit log."""
    exhaust(outbox, 1, 2)
    done = outbox.store.requeue([event_id(1)], actor="ann", reason="mended")
    assert (done.requeued, done.left_out) == ((event_id(1),), {})
    (claimed,) = outbox.claim()
    assert (claimed.event.outbox_id, claimed.event.attempt, claimed.tries) == (event_id(1), 2, 1)
    assert outbox.deliveries()[1][0] == "failed"
    assert outbox.backend.sql("SELECT actor, action, subject, reason, detail FROM audit_log") == [
        (
            "ann",
            "outbox_requeue",
            f"outbox:{event_id(1)}",
            "mended",
            '{"attempt":1,"error_code":"sink_refused","proved":false,"target":"t"}',
        )
    ]


def test_only_what_is_exhausted_is_asked_for_again(outbox: Outbox) -> None:
    """What is pending, in flight, retrying, done or unknown is left out and told."""
    exhaust(outbox, 1)
    write(outbox.backend, 2, 3, 4, 5)
    claims = outbox.claim(limit=3)
    outbox.settle(claims[:1])
    outbox.fail(claims[1:2], 60.0)
    done = outbox.store.requeue(
        [event_id(number) for number in (1, 2, 3, 4, 5, 6)], actor="ann", reason="mended"
    )
    assert done.requeued == (event_id(1),)
    assert done.left_out == {
        event_id(2): DeliveryState.DISPATCHED,
        event_id(3): DeliveryState.RETRYING,
        event_id(4): DeliveryState.IN_FLIGHT,
        event_id(5): DeliveryState.PENDING,
        event_id(6): None,
    }
    assert outbox.backend.sql("SELECT count(*) FROM audit_log") == [(1,)]


def test_exhausted_events_are_asked_for_by_target_and_code(outbox: Outbox) -> None:
    """Only those that match, each once, each audited; nobody may do it without a name."""
    exhaust(outbox, 1, 2)
    exhaust(outbox, 3, code="sink_timeout")
    exhaust(outbox, 4, target="u")

    def requeue(**wanted: str) -> list[str]:
        options: dict[str, Any] = {"target": None, "error_code": None, **wanted}
        pages = outbox.store.requeue_all(actor="ann", reason="mended", **options)
        return [one for page in pages for one in page]

    assert requeue(target="t", error_code="sink_timeout") == [event_id(3)]
    assert requeue(target="u") == [event_id(4)]
    assert requeue() == [event_id(1), event_id(2)]
    assert requeue() == []
    assert outbox.backend.sql("SELECT count(*) FROM audit_log") == [(4,)]
    with pytest.raises(InvalidInput):
        outbox.store.requeue([event_id(1)], actor=" ", reason="mended")


def test_deliveries_are_counted_by_target(outbox: Outbox) -> None:
    """Each event is counted once, where it stands; the oldest undelivered one tells the age."""
    exhaust(outbox, 1)
    write(outbox.backend, 2, created_at="2026-06-01T11:00:00.000000Z")
    write(outbox.backend, 3, 4, 5, 6)
    write(outbox.backend, 7, target="u")
    claims = outbox.claim(limit=4)
    outbox.settle(claims[:2])
    outbox.fail(claims[2:3], 60.0)
    counts = outbox.stores.deliveries.counts(with_dispatched=True)
    assert set(counts) == {"t", "u"}
    here = counts["t"]
    assert (here.pending, here.in_flight, here.retrying, here.exhausted, here.dispatched) == (
        (1, 1, 1, 1, 2)
    )
    assert here.undelivered == 4
    assert here.oldest_at == parse_instant(CREATED_AT)
    assert (counts["u"].pending, counts["u"].dispatched) == (1, 0)
    assert outbox.stores.deliveries.counts()["t"].dispatched is None


def test_deliveries_are_listed_by_page_and_filter(outbox: Outbox) -> None:
    """Each delivery is on exactly one page; every filter holds alone and together."""
    exhaust(outbox, 1)
    write(outbox.backend, 2, dataset="e", event_name="gone")
    write(outbox.backend, 3, target="u")
    outbox.claim()
    reader = outbox.stores.deliveries
    pages = [reader.page(size=2), reader.page(size=2, after=event_id(2))]
    assert [[one.outbox_id for one in page.deliveries] for page in pages] == [
        [event_id(1), event_id(2)],
        [event_id(3)],
    ]
    assert [page.next_cursor for page in pages] == [event_id(2), None]

    def found(**wanted: Any) -> list[str]:
        return [one.outbox_id for one in reader.page(DeliveryFilter(**wanted)).deliveries]

    assert found(target="u") == [event_id(3)]
    assert found(dataset="e") == [event_id(2)]
    assert found(event_name="gone") == [event_id(2)]
    assert found(error_code="sink_refused") == [event_id(1)]
    assert found(state=DeliveryState.EXHAUSTED) == [event_id(1)]
    assert found(state=DeliveryState.IN_FLIGHT) == [event_id(2)]
    assert found(state=DeliveryState.PENDING) == [event_id(3)]
    assert found(state=DeliveryState.RETRYING) == []
    assert found(state=DeliveryState.DISPATCHED) == []
    assert found(target="t", dataset="e", state=DeliveryState.IN_FLIGHT) == [event_id(2)]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (DeliveryFilter(target="u"), [9]),
        (DeliveryFilter(dataset="e"), [9]),
        (DeliveryFilter(state=DeliveryState.EXHAUSTED), [1, 2, 3]),
        (DeliveryFilter(state=DeliveryState.DISPATCHED), [4]),
        (DeliveryFilter(error_code="sink_refused"), [1, 2, 3]),
        (DeliveryFilter(error_code="sink_refused", dataset="e"), []),
    ],
)
def test_pages_of_deliveries_end_where_they_may_look_no_further(
    outbox: Outbox, wanted: DeliveryFilter, expected: list[int]
) -> None:
    """Of nine deliveries two are looked at for a page; each that is wanted is met once."""
    exhaust(outbox, 1, 2, 3)
    write(outbox.backend, 4)
    outbox.settle(outbox.claim())
    write(outbox.backend, 5, 6, 7, 8)
    write(outbox.backend, 9, target="u", dataset="e")
    met: list[str] = []
    after, pages = None, 0
    while pages == 0 or after is not None:
        page = outbox.stores.deliveries.page(wanted, after=after, size=3, look_at_most=2)
        assert len(page.deliveries) <= 2
        met += [each.outbox_id for each in page.deliveries]
        after, pages = page.next_cursor, pages + 1
        assert pages < 9
    assert met == [event_id(number) for number in expected]
    assert pages > 1


def test_open_deliveries_are_all_looked_at(outbox: Outbox) -> None:
    """They are few, and read through an index of their own: in the order of ids, page by page."""
    write(outbox.backend, 1)
    outbox.settle(outbox.claim())
    write(outbox.backend, 5, target="u", dataset="e")
    write(outbox.backend, 3, 4)
    write(outbox.backend, 2, target="u")
    page = outbox.stores.deliveries.page
    pending = DeliveryFilter(state=DeliveryState.PENDING)
    first = page(pending, size=3, look_at_most=1)
    assert [each.outbox_id for each in first.deliveries] == [event_id(2), event_id(3), event_id(4)]
    rest = page(pending, after=first.next_cursor, size=3, look_at_most=1)
    assert [each.outbox_id for each in rest.deliveries] == [event_id(5)]
    assert rest.next_cursor is None
    of_u = page(replace(pending, target="u"), size=3, look_at_most=1)
    assert [each.outbox_id for each in of_u.deliveries] == [event_id(2), event_id(5)]
    assert of_u.next_cursor is None


def test_one_delivery_is_shown_with_its_event_and_attempts(outbox: Outbox) -> None:
    """Everything that was tried, in order, with the payload as it was written."""
    write(outbox.backend, 1)
    outbox.fail(outbox.claim(), 0.0)
    outbox.expire()
    outbox.settle(outbox.claim(TWO), TWO, duplicate=True)
    whole = outbox.stores.deliveries.find(event_id(1))
    assert whole is not None
    assert whole.delivery.state is DeliveryState.DISPATCHED
    assert whole.event.payload == payload_of(1)
    assert [
        (one.attempt, one.dispatcher, one.outcome, one.duplicate, one.error_code)
        for one in whole.attempts
    ] == [
        (1, ONE, AttemptOutcome.FAILED, False, "sink_timeout"),
        (2, TWO, AttemptOutcome.DISPATCHED, True, None),
    ]
    assert outbox.stores.deliveries.find(event_id(2)) is None


def no_archive(row: Row) -> list[Row]:
    """Fail where an archive is read."""
    raise AssertionError(row)


@pytest.mark.conformance("OB-6.5", "C-38")
def test_the_ledger_tells_every_attempt(outbox: Outbox) -> None:
    """One entry each attempt that ended, in the order of event and attempt; none can be edited."""
    write(outbox.backend, 1, 2)
    outbox.fail(outbox.claim(limit=1), 0.0)
    outbox.expire()
    outbox.settle(outbox.claim())
    entries = [
        (one.outbox_id, one.attempt, one.outcome.value, one.care_label, one.pipeline_id)
        for one in outbox.stores.deliveries.ledger(no_archive)
    ]
    assert entries == [
        (event_id(1), 1, "failed", "public", "pipeline"),
        (event_id(1), 2, "dispatched", "public", "pipeline"),
        (event_id(2), 1, "dispatched", "public", "pipeline"),
    ]
    for statement in (
        "UPDATE outbox_attempts SET outcome = 'lost'",
        "DELETE FROM outbox_attempts",
        "DELETE FROM outbox_delivery",
        "UPDATE outbox_delivery SET status = 'pending', due_at = '2026-06-01T12:00:00.000000Z'",
    ):
        with pytest.raises(Exception, match="append_only"):
            outbox.backend.sql(statement)


@pytest.mark.conformance("OB-6.5", "C-37")
def test_the_ledger_tells_what_left_for_archives(
    backend: Backend, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two archives that overlap, one of them half removed, and what is here: each attempt once."""
    outbox = Outbox(backend)
    retention = open_retention(Scene(backend), archive)
    ledger = outbox.stores.deliveries.ledger

    def told() -> list[tuple[str, int, str]]:
        found = ledger(retention.rows_of)
        return [(one.outbox_id, one.attempt, one.outcome.value) for one in found]

    write(backend, 1, 2, 3, 5)
    claims = outbox.claim()
    outbox.fail([one for one in claims if one.event.outbox_id == event_id(2)], 0.0)
    outbox.settle([one for one in claims if one.event.outbox_id != event_id(2)])
    whole = list(ledger(no_archive))
    apply(retention, ArchiveKind.EVENTS)
    assert backend.sql("SELECT count(*) FROM outbox_attempts") == [(1,)]
    assert list(ledger(retention.rows_of)) == whole
    write(backend, 4)
    outbox.expire()
    outbox.settle(outbox.claim())
    monkeypatch.setattr(retaining, "REMOVE_ROWS", 1)
    for step in retention.steps([ArchiveKind.EVENTS], actor="ann"):
        if step.what == "removed":
            break
    assert backend.sql("SELECT outbox_id FROM outbox_attempts") == [(event_id(4),)]
    write(backend, 6)
    outbox.settle(outbox.claim())
    assert told() == [
        (event_id(1), 1, "dispatched"),
        (event_id(2), 1, "failed"),
        (event_id(2), 2, "dispatched"),
        (event_id(3), 1, "dispatched"),
        (event_id(4), 1, "dispatched"),
        (event_id(5), 1, "dispatched"),
        (event_id(6), 1, "dispatched"),
    ]
    next(archive.glob("*.gz")).unlink()
    with pytest.raises(ArchiveDamaged):
        told()
