"""What keeps events of a target is known from the database alone: older transactions, failures."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tallgrass.outbox.dispatch_rules import DispatchRules
from tallgrass.retry import Backoff
from tests.support.backends import Backend, prepare
from tests.support.events import MemorySink, down, insert, row, write
from tests.support.outbox_roles import open_dispatcher

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.plugins.postgres import Databases

#: Longer than any busy machine needs; only a test that fails waits for it.
SOON_S = 30


@pytest.fixture
def heavy(postgres_databases: Databases) -> Iterator[Backend]:
    """A database on PostgreSQL: only there can somebody commit late."""
    name = postgres_databases.template("ledger", lambda url: prepare("postgres", url).close())
    backend = Backend("postgres", postgres_databases.create(name))
    yield backend
    backend.close()
    postgres_databases.drop(backend.url)


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait until something holds."""
    ends_at = time.monotonic() + SOON_S
    while not condition():
        assert time.monotonic() < ends_at, "it never came to pass"
        time.sleep(0.01)


def test_events_that_wait_for_an_older_transaction_are_told(heavy: Backend) -> None:
    """How many, for how long it is open, and which process of the server has it."""
    reader = heavy.open().deliveries
    early = heavy.connect()
    early.execute("BEGIN")
    insert(early, heavy, [row(5)])
    ((age, pid),) = early.execute("SELECT now(), pg_backend_pid()").fetchall()
    write(heavy, 1, 2)
    write(heavy, 3, dataset="e")
    write(heavy, 4, target="other")
    found = reader.waits_for_transaction("t")
    assert found is not None
    assert (found.events, found.pid) == (3, pid)
    assert found.open_s is not None
    ((later,),) = early.execute("SELECT clock_timestamp()").fetchall()
    assert 0 <= found.open_s <= (later - age).total_seconds()
    early.execute("COMMIT")
    # A transaction of another database that ends during the look counts for a moment.
    wait_for(lambda: reader.waits_for_transaction("t") is None)


def test_a_prepared_transaction_has_no_process(heavy: Backend) -> None:
    """It is waited for like any other, until somebody ends it."""
    reader = heavy.open().deliveries
    early = heavy.connect()
    early.execute("BEGIN")
    early.execute("SELECT pg_current_xact_id()")
    early.execute("PREPARE TRANSACTION 'forgotten'")
    write(heavy, 1)
    found = reader.waits_for_transaction("t")
    early.execute("ROLLBACK PREPARED 'forgotten'")
    assert found is not None
    assert (found.events, found.pid) == (1, None)
    assert found.open_s is not None


def test_nobody_waits_for_who_began_later_or_elsewhere(backend: Backend) -> None:
    """Neither for a writer that came after the event, nor for readers."""
    reader = backend.open().deliveries
    write(backend, 1)
    late = backend.connect()
    late.execute("BEGIN")
    if backend.name == "postgres":
        insert(late, backend, [row(2)])
        # PostgreSQL tells of who is at work only below the last that has ended.
        write(backend, 3, target="other")
    wait_for(lambda: reader.waits_for_transaction("t") is None)
    late.execute("ROLLBACK")


def test_the_last_failure_of_a_target_is_told_while_it_is_to_be_tried_again(
    backend: Backend,
) -> None:
    """With its error, the time of the next try, and how many events are due beside it."""
    stores = backend.open()
    write(backend, 1, 2, 3)
    write(backend, 4, target="other")
    hour = DispatchRules(backoff=Backoff(base_s=3600, cap_s=3600))
    sink = MemorySink(answers=[down(message="password=hunter2 refused")])
    dispatcher = open_dispatcher(stores, sink, rules=hour, batch_size=1, random=lambda: 0.5)
    assert stores.deliveries.last_failures() == {}
    dispatcher.run()
    (name,) = found = stores.deliveries.last_failures()
    assert name == "t"
    assert (found["t"].error_code, found["t"].due) == ("sink_unreachable", 2)
    assert found["t"].last_error == "password=[redacted] refused"
    due = backend.sql("SELECT due_at FROM outbox_delivery WHERE status = 'failed'")
    assert [(f"{found['t'].next_try_at:%Y-%m-%dT%H:%M:%S.%fZ}",)] == due
