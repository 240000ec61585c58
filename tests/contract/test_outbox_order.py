"""Ordered targets on both databases: one event of a dataset at a time, in the order of commits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.backends import Backend, prepare
from tests.support.events import event_id, insert, row, write
from tests.support.outbox import TWO, Outbox, ids

if TYPE_CHECKING:
    from tests.plugins.postgres import Databases


@pytest.mark.conformance("C-32")
def test_an_ordered_target_gets_one_event_of_a_dataset_at_a_time(outbox: Outbox) -> None:
    """Events of a dataset go out in the order in which they were written, whatever their ids."""
    for number in (3, 1, 2):
        write(outbox.backend, number)
    write(outbox.backend, 9, 4, dataset="e")
    seen: dict[str, list[str]] = {"d": [], "e": []}
    for datasets in (["d", "e"], ["d", "e"], ["d"]):
        claims = outbox.ordered(len(datasets))
        assert outbox.claim(TWO, ordered=True) == []
        assert sorted(one.event.dataset_id for one in claims) == datasets
        for one in claims:
            seen[one.event.dataset_id].append(one.event.outbox_id)
        outbox.settle(claims)
    assert outbox.claim(ordered=True) == []
    assert seen["d"] == [event_id(3), event_id(1), event_id(2)]
    # Of one transaction; PostgreSQL knows no order within it but that of the ids.
    written = [9, 4] if outbox.backend.name == "sqlite" else [4, 9]
    assert seen["e"] == [event_id(number) for number in written]


@pytest.mark.conformance("C-32")
def test_an_ordered_event_waits_for_the_one_before(outbox: Outbox) -> None:
    """Neither a failure nor an exhausted event lets the next one pass; other datasets go on."""
    write(outbox.backend, 1)
    write(outbox.backend, 2)
    write(outbox.backend, 3, dataset="e")
    first, other = outbox.ordered(2)
    outbox.settle([other])
    outbox.fail([first], 60.0)
    assert outbox.claim(ordered=True) == []
    outbox.expire()
    claims = outbox.ordered()
    assert ids(claims) == [event_id(1)]
    outbox.fail(claims, None)
    outbox.expire()
    assert outbox.claim(ordered=True) == []
    assert outbox.stores.deliveries.held_back("t") == {"d": 1}
    outbox.store.requeue([event_id(1)], actor="ann", reason="mended")
    outbox.settle(outbox.ordered())
    assert ids(outbox.ordered()) == [event_id(2)]
    assert outbox.stores.deliveries.held_back("t") == {}


@pytest.mark.conformance("C-32")
def test_an_ordered_event_waits_for_a_transaction_that_began_before(
    postgres_databases: Databases,
) -> None:
    """What was written first goes first, even if its transaction commits last.

    SQLite has one writer at a time: nothing can commit late there.
    """
    outbox = Outbox(Backend("postgres", postgres_databases.create(template(postgres_databases))))
    early = outbox.backend.connect()
    early.execute("BEGIN")
    insert(early, outbox.backend, [row(5)])
    write(outbox.backend, 1)
    assert outbox.claim(ordered=True) == []
    early.execute("COMMIT")
    claims = outbox.ordered()
    assert ids(claims) == [event_id(5)]
    assert outbox.claim(TWO, ordered=True) == []
    outbox.settle(claims)
    assert ids(outbox.ordered()) == [event_id(1)]
    outbox.backend.close()
    postgres_databases.drop(outbox.backend.url)


@pytest.mark.conformance("C-32")
def test_an_ordered_event_does_not_wait_for_another_database(
    postgres_databases: Databases,
) -> None:
    """Who writes in another database of the server writes no event here, however long it takes."""
    outbox = Outbox(Backend("postgres", postgres_databases.create(template(postgres_databases))))
    elsewhere = Backend("postgres", postgres_databases.create())
    unfinished = elsewhere.connect()
    unfinished.execute("BEGIN")
    unfinished.execute("SELECT pg_current_xact_id()")
    write(outbox.backend, 1)
    outbox.settle(claims := outbox.ordered())
    assert ids(claims) == [event_id(1)]
    unfinished.execute("PREPARE TRANSACTION 'elsewhere'")
    write(outbox.backend, 2)
    assert ids(outbox.ordered()) == [event_id(2)]
    unfinished.execute("ROLLBACK PREPARED 'elsewhere'")
    for backend in (outbox.backend, elsewhere):
        backend.close()
        postgres_databases.drop(backend.url)


def template(databases: Databases) -> str:
    """Return the name of a migrated database."""
    return databases.template("ledger", lambda url: prepare("postgres", url).close())
