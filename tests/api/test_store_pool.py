"""Connections that many threads share."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.bootstrap.store_pool import StorePool
from tallgrass.errors import DatabaseUnreachable, InvalidInput, TransientError

if TYPE_CHECKING:
    from tests.support.backends import Backend


class Opened:
    """Stores that only know whether they were closed."""

    def __init__(self) -> None:
        self.closed = False

    def close(self) -> None:
        """Close them."""
        assert not self.closed
        self.closed = True


class Opening:
    """Counts what it opens."""

    def __init__(self) -> None:
        self.all: list[Opened] = []

    def __call__(self) -> Any:
        """Open one more."""
        self.all.append(Opened())
        return self.all[-1]


def test_connections_are_opened_when_needed_and_used_again() -> None:
    """One after the other needs one; two at once need two; the end closes both."""
    opening = Opening()
    pool = StorePool(opening, size=2)
    for _ in range(3):
        with pool.lent():
            pass
    assert len(opening.all) == 1
    with pool.lent() as one, pool.lent() as other:
        assert one is not other
    pool.close()
    assert [each.closed for each in opening.all] == [True, True]


def test_one_too_many_waits_and_then_is_told_to_come_again() -> None:
    """A bounded wait, then 503 `server_busy`; a place that is free again is lent."""
    pool = StorePool(Opening(), size=1, wait_s=0.01)
    with pool.lent():
        with pytest.raises(TransientError) as raised:
            pool.lent().__enter__()
        assert raised.value.code == "server_busy"
    with pool.lent():
        pass
    pool.close()


def test_what_broke_is_never_lent_again() -> None:
    """After a lost connection all that rest are closed too, since they are as old."""
    opening = Opening()
    pool = StorePool(opening, size=3)
    with pool.lent(), pool.lent():
        pass

    def lose() -> None:
        with pool.lent():
            raise DatabaseUnreachable("gone")

    with pytest.raises(DatabaseUnreachable):
        lose()
    assert [each.closed for each in opening.all] == [True, True]
    with pool.lent():
        assert len(opening.all) == 3
    pool.close()


def test_a_refusal_breaks_nothing() -> None:
    """A call that was wrong says nothing against its connection."""
    opening = Opening()
    pool = StorePool(opening)

    def refuse() -> None:
        with pool.lent():
            raise InvalidInput("no")

    with pytest.raises(InvalidInput):
        refuse()
    with pool.lent():
        assert len(opening.all) == 1
    pool.close()
    assert opening.all[0].closed


def test_what_is_lent_as_the_server_ends_is_closed_as_it_comes_back() -> None:
    """No connection outlives the pool."""
    opening = Opening()
    pool = StorePool(opening)
    with pool.lent():
        pool.close()
        assert not opening.all[0].closed
    assert opening.all[0].closed


def test_many_threads_read_one_ledger(backend: Backend) -> None:
    """Real connections, more threads than places: every read is answered."""
    pool = StorePool(backend.open, size=2, wait_s=60)
    found: list[int] = []

    def read() -> None:
        with pool.lent() as stores:
            found.append(len(stores.reader.stats().by_dataset))

    threads = [threading.Thread(target=read) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    pool.close()
    assert found == [0] * 8
