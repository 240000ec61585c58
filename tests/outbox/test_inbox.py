"""A consumer that remembers what it handled: at least once becomes effectively once."""

from __future__ import annotations

import contextlib
import random
import sqlite3
import threading
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from tallgrass.errors import DatabaseUnusable, InvalidInput, NoTransaction
from tallgrass.outbox.inbox import create_inbox, handled, handling
from tests.outbox.callers import CALLERS, Caller, DriverCaller
from tests.support.backends import Backend

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(params=["sqlite", "postgres"])
def own_database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Backend]:
    """A consumer's own database: an account of its own, and no table of ours."""
    databases = None if request.param == "sqlite" else request.getfixturevalue("postgres_databases")
    if databases is None:
        backend = Backend("sqlite", f"sqlite:///{tmp_path / 'consumer.db'}")
    else:
        backend = Backend("postgres", databases.create())
    backend.sql("CREATE TABLE account (total integer NOT NULL)")
    backend.sql("INSERT INTO account VALUES (0)")
    yield backend
    backend.close()
    if databases is not None:
        databases.drop(backend.url)


@pytest.fixture(params=sorted(set(CALLERS) - {"ours"}))
def consumer(request: pytest.FixtureRequest, own_database: Backend) -> Iterator[Caller]:
    """A consumer with a connection of each kind, and its inbox."""
    made = CALLERS[request.param](own_database)
    with made.transaction() as handle:
        create_inbox(handle)
        create_inbox(handle)  # is there already
    yield made
    made.close()


class Crash(Exception):
    """The consumer dies in the middle of its transaction."""


def add(consumer: Caller, handle: Any, amount: int) -> None:
    """Do what the event asks for; doing it twice would show."""
    consumer.run(handle, f"UPDATE account SET total = total + {amount}")


def deliver(consumer: Caller, key: str, amount: int, *, crash: str = "") -> bool:
    """Deliver an event once; return whether it was new."""
    with consumer.transaction() as handle:
        if crash == "before":
            raise Crash
        if handled(handle, "accounts", key):
            return False
        if crash == "noted":
            raise Crash
        add(consumer, handle, amount)
        if crash == "done":
            raise Crash
        return True


def total(backend: Backend) -> int:
    """Return what the account says."""
    return int(backend.sql("SELECT total FROM account")[0][0])


@pytest.mark.conformance("OB-4.11", "OB-1.3", "C-51")
def test_one_to_five_deliveries_end_in_one_state(consumer: Caller) -> None:
    """Each event counts once, however often it comes and wherever the consumer dies."""
    chance = random.Random(7)
    expected = 0
    for number in range(12):
        amount = 1 << number
        expected += amount
        crashes = [chance.choice(["before", "noted", "done"]) for _ in range(chance.randrange(3))]
        for crash in crashes:
            with pytest.raises(Crash):
                deliver(consumer, f"sha256:{number}", amount, crash=crash)
        times = chance.randint(1, 5)
        news = [deliver(consumer, f"sha256:{number}", amount) for _ in range(times)]
        assert news == [True] + [False] * (times - 1)
        assert total(consumer.backend) == expected


def test_each_consumer_has_its_own_memory(consumer: Caller) -> None:
    """Two consumers of one database both handle an event."""
    with consumer.transaction() as handle:
        assert not handled(handle, "catalog", "k")
        assert not handled(handle, "alerts", "k")
        assert handled(handle, "catalog", "k")


def test_one_bad_event_does_not_undo_its_neighbours(consumer: Caller) -> None:
    """`handling` undoes the change and the note of the event that failed, and the rest stays."""
    with consumer.transaction() as handle:
        for key, amount in (("a", 1), ("bad", 2), ("c", 4)):
            with contextlib.suppress(Crash), handling(handle, "accounts", key) as is_new:
                assert is_new
                add(consumer, handle, amount)
                if key == "bad":
                    raise Crash
    assert total(consumer.backend) == 5
    with consumer.transaction() as handle:
        for key, expected in (("a", False), ("bad", True), ("c", False)):
            with handling(handle, "accounts", key) as is_new:
                assert is_new is expected


def test_an_event_inside_of_another_is_undone_alone_or_with_it(consumer: Caller) -> None:
    """An inner event that failed does not keep the outer one, if that fails too."""
    with consumer.transaction() as handle:
        with contextlib.suppress(Crash), handling(handle, "accounts", "outer"):
            add(consumer, handle, 1)
            with contextlib.suppress(Crash), handling(handle, "accounts", "inner"):
                add(consumer, handle, 2)
                raise Crash
            raise Crash
        assert not handled(handle, "accounts", "inner")
        assert not handled(handle, "accounts", "outer")
    assert total(consumer.backend) == 0


def test_two_processes_that_handle_one_event(own_database: Backend) -> None:
    """The second waits for the first, and then knows the event."""
    consumer = DriverCaller(own_database)
    with consumer.transaction() as handle:
        create_inbox(handle)
    meeting = threading.Barrier(2)
    news: list[bool] = []

    def run() -> None:
        meeting.wait(60)
        news.append(deliver(consumer, "k", 1))

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(news) == [False, True]
    assert total(own_database) == 1


def test_a_note_needs_a_transaction(own_database: Backend) -> None:
    """Without one the note would be kept whatever becomes of the change."""
    if own_database.name == "sqlite":
        opened: Any = sqlite3.connect(own_database.path, isolation_level=None)
    else:
        opened = psycopg.connect(own_database.url, autocommit=True)
    with contextlib.closing(opened) as connection:
        with pytest.raises(NoTransaction):
            create_inbox(connection)
        with pytest.raises(NoTransaction):
            handled(connection, "accounts", "k")


def test_a_pipeline_is_refused(postgres_url: str) -> None:
    """Its answers come later: a new event would be noted, and be taken for one handled before."""
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        with connection.transaction():
            create_inbox(connection)
        with connection.transaction(), connection.pipeline() as pipeline:
            connection.execute("SELECT 1")
            pipeline.sync()
            with pytest.raises(NoTransaction, match="pipeline mode"):
                handled(connection, "accounts", "k")
        with connection.transaction():
            assert not handled(connection, "accounts", "k")


def test_blank_names_and_a_missing_table_are_refused(own_database: Backend) -> None:
    """The message says which; a key that is missing must not count as handled."""
    consumer = DriverCaller(own_database)
    with pytest.raises(DatabaseUnusable), consumer.transaction() as handle:
        handled(handle, "accounts", "k")
    with consumer.transaction() as handle:
        create_inbox(handle)
        wrong: list[Any] = ["", " ", "\t", None, 7]
        for names in [(each, "k") for each in wrong] + [("accounts", each) for each in wrong]:
            with pytest.raises(InvalidInput, match="not blank"):
                handled(handle, *names)


def test_a_name_that_not_every_database_keeps_is_refused(own_database: Backend) -> None:
    """On both alike: a consumer that moves to PostgreSQL meets no event that it cannot note."""
    consumer = DriverCaller(own_database)
    with consumer.transaction() as handle:
        create_inbox(handle)
        for names in [("a\0", "k"), ("accounts", "k\0"), ("\udcff", "k"), ("accounts", "k\ud800")]:
            with pytest.raises(InvalidInput, match="a NUL or half a character"):
                handled(handle, *names)
        assert not handled(handle, "accounts", "k")


def test_names_that_no_index_takes_are_refused(own_database: Backend) -> None:
    """By their bytes together, on both alike; the longest that are taken are noted."""
    consumer, chance = DriverCaller(own_database), random.Random(1)
    text = "".join(chr(chance.randint(0x20000, 0x2A6DF)) for _ in range(640))
    with consumer.transaction() as handle:
        create_inbox(handle)
        told = "^consumer and event_key have 2,561 bytes together; at most 2,560"
        with pytest.raises(InvalidInput, match=told):
            handled(handle, text[:320], text[320:] + "k")
        assert not handled(handle, text[:320], text[320:])
        assert handled(handle, text[:320], text[320:])


def test_our_own_database_has_an_inbox(backend: Backend) -> None:
    """A consumer beside the outbox needs no table of its own."""
    with backend.open().database.transaction() as transaction:
        assert not handled(transaction, "catalog", "k")
        assert handled(transaction, "catalog", "k")
    assert backend.sql("SELECT consumer, event_key FROM inbox") == [("catalog", "k")]
