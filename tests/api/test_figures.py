"""One reader for all who look, and live events of it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import aclosing
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.api import figures as figures_module
from tallgrass.api import live
from tallgrass.api.figures import Figures, Moment, rates
from tallgrass.api.live import _stream, event_of
from tallgrass.api.sign_in import Signed
from tallgrass.console import overview as overview_page
from tallgrass.errors import DatabaseUnreachable, TransientError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.console import Console
    from tests.support.governance import People


def overview(succeeded: int) -> Any:
    """Return as much of an overview as the reader looks at."""
    return SimpleNamespace(by_status={"succeeded": succeeded})


class Time:
    """A clock that goes forward when told."""

    now = 0.0

    def __call__(self) -> float:
        """Tell the time."""
        return self.now


def figures_of(look: Callable[[], Any], clock: Time, **options: Any) -> Figures:
    """Return a reader that nothing starts by itself."""
    return Figures(look, monotonic=clock, **options)


def test_who_asks_within_a_looks_age_gets_the_same() -> None:
    """The database is asked once a second at most, whoever looks."""
    clock = Time()
    looks: list[int] = []

    def look() -> Any:
        looks.append(1)
        return overview(len(looks))

    figures = figures_of(look, clock, age_s=1.0)
    first = figures.overview()
    clock.now = 0.9
    assert figures.overview() is first
    clock.now = 1.0
    assert figures.overview().by_status == {"succeeded": 2}
    assert len(looks) == 2


def test_many_who_ask_at_once_share_one_look() -> None:
    """Those who come while somebody looks wait for it and look no second time."""
    began, go, looks = threading.Event(), threading.Event(), []

    def look() -> Any:
        looks.append(1)
        began.set()
        assert go.wait(30)
        return overview(1)

    figures = figures_of(look, Time())
    threads = [threading.Thread(target=figures.snapshot) for _ in range(5)]
    for thread in threads:
        thread.start()
    assert began.wait(30)
    go.set()
    for thread in threads:
        thread.join(30)
    assert len(looks) == 1


def test_a_database_that_is_away_is_told_and_comes_back() -> None:
    """Who asks gets the error, who listens a snapshot of it; the next look tries anew."""
    clock, away = Time(), [True]

    def look() -> Any:
        if away[0]:
            raise DatabaseUnreachable("no server")
        return overview(3)

    figures = figures_of(look, clock)
    with pytest.raises(DatabaseUnreachable, match="no server"):
        figures.overview()
    snapshot = figures.latest
    assert snapshot is not None
    assert b"event: trouble\n" in event_of(snapshot)
    assert b'"code":"database_unreachable"' in event_of(snapshot)
    away[0], clock.now = False, 5.0
    assert figures.overview().by_status == {"succeeded": 3}


def test_a_page_does_not_wait_for_a_look_of_the_last_half_minute() -> None:
    """It shows what is there; what somebody changed, or what is older, is looked at anew."""
    clock = Time()
    looks: list[int] = []

    def look() -> Any:
        looks.append(1)
        return overview(len(looks))

    figures = figures_of(look, clock, age_s=1.0, every_s=3600, seldom_s=3600)
    figures._thread = threading.Thread()  # nobody looks but this test
    assert figures.recent().by_status == {"succeeded": 1}
    clock.now = 29.0
    assert figures.recent().by_status == {"succeeded": 1}
    figures.expire()
    assert figures.recent().by_status == {"succeeded": 2}
    clock.now = 58.9
    assert figures.recent().by_status == {"succeeded": 2}
    clock.now = 60.0
    assert figures.recent().by_status == {"succeeded": 3}


def test_throughput_is_units_a_minute_over_the_minute_before() -> None:
    """By hand: 10 in 5 s are 120 a minute, in 15 s 40; fewer units than before are none."""
    past = [Moment(0.0, 100), Moment(5.0, 110), Moment(15.0, 110), Moment(20.0, 7)]
    assert rates(past) == [120.0, 40.0, 30.0]
    assert rates(past[:1]) == []
    assert rates([*past[:2], Moment(5.0, 110)]) == [120.0, 120.0]


def test_what_is_older_than_a_minute_counts_no_more() -> None:
    """Looks further apart than a minute are compared with the one before."""
    past = [Moment(0.0, 0), Moment(2.0, 60), Moment(61.0, 60), Moment(63.0, 60), Moment(183.0, 70)]
    # 60 in 61 s is too long ago: from 2 s on nothing came.
    assert rates(past) == [1800.0, 0.0, 0.0, 5.0]
    assert rates([Moment(1.0, 5), Moment(1.0, 5)]) == []


def test_listeners_are_woken_by_each_look_and_end_with_the_server() -> None:
    """One thread looks for all; each gets every newer look, and `close` lets them all go."""
    looks = iter(range(1, 1000))
    figures = Figures(
        lambda: overview(next(looks)), monotonic=time.monotonic, age_s=0, every_s=0.01
    )

    async def listen(count: int) -> list[int]:
        numbers = [0]
        with figures.listening() as listener:
            while len(numbers) <= count:
                snapshot = await listener.next(numbers[-1], 30)
                assert snapshot is not None
                numbers.append(snapshot.number)
        return numbers

    async def both() -> list[list[int]]:
        return list(await asyncio.gather(listen(3), listen(5)))

    try:
        for numbers in asyncio.run(both()):
            assert numbers == sorted(set(numbers))
    finally:
        figures.close()
    with pytest.raises(TransientError):
        figures.require_room()


def test_one_listener_too_many_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """More than the server can serve are told to come again."""
    monkeypatch.setattr(figures_module, "LISTENERS_MAX", 1)
    figures = figures_of(lambda: overview(1), Time(), age_s=1.0)

    async def crowd() -> None:
        with figures.listening():
            with pytest.raises(TransientError) as refused:
                figures.require_room()
            assert refused.value.code == "server_busy"
        figures.require_room()

    try:
        asyncio.run(crowd())
    finally:
        figures.close()


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_events_are_the_documents_of_status_until_one_signs_out(console: Console) -> None:
    """Each event has an id and the figures; what the client has is not sent; sign-out ends it."""
    service = console.service
    browser = console.browser_of()
    session = service.sessions.find(next(iter(browser.cookies.values())))
    assert session is not None
    signed = Signed(actor=None, session=session)
    first = service.figures.snapshot().number

    async def listen() -> list[bytes]:
        got = []
        async for part in _stream(service, signed, first):
            got.append(part)
            if b"event: figures" in part:
                service.sessions.end(session)
        return got

    got = asyncio.run(listen())
    assert got[0].startswith(b"retry: ")
    events = [part for part in got if part.startswith(b"id: ")]
    assert len(events) == 1
    number, name, data, *_ = events[0].split(b"\n")
    assert int(number.removeprefix(b"id: ")) > first
    assert name == b"event: figures"
    assert b'"by_status":{"pending":1,"in_progress":1,"succeeded":5' in data


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_who_was_revoked_hears_nothing_more(console: Console, people: People) -> None:
    """A stream that is open when its token is revoked ends, that of a program too."""
    signed = Signed(actor=people.otto, session=None)

    async def listen() -> int:
        count = 0
        async for part in _stream(console.service, signed, 0):
            if b"event: figures" in part:
                count += 1
                people.stores.actors.revoke("otto", by=people.ann)
        return count

    assert asyncio.run(listen()) == 1


def test_a_look_that_takes_long_is_taken_less_often() -> None:
    """It is shared for longer, and the thread rests four times as long, to a limit."""
    clock, took, looks = Time(), [2.0], []

    def look() -> Any:
        looks.append(1)
        clock.now += took[0]
        if took[0] > 50:
            raise DatabaseUnreachable("away")
        return overview(len(looks))

    figures = figures_of(look, clock, age_s=1.0, every_s=2.0, seldom_s=15.0, recent_s=30.0)
    first = figures.overview()
    clock.now += 9.9
    assert figures.overview() is first
    clock.now += 0.2
    assert figures.overview() is not first
    assert figures.rest_s() == 15.0
    with asyncio.Runner() as runner:
        runner.run(_rest_of_a_listener(figures, 8.0))
        took[0] = 10.0
        clock.now += 100
        figures.snapshot()
        runner.run(_rest_of_a_listener(figures, 15.0))
        took[0] = 60.0
        clock.now += 100
        figures.snapshot()
        # One that found nothing is taken up soon: the database may be back.
        runner.run(_rest_of_a_listener(figures, 2.0))
    figures.close()


async def _rest_of_a_listener(figures: Figures, expected: float) -> None:
    figures._closed = True  # nothing starts
    with figures.listening():
        assert figures.rest_s() == expected


def test_who_changed_something_sees_it_however_young_the_look_is() -> None:
    """A look from before the change is not shared with anybody who asks for figures."""
    looks: list[int] = []

    def look() -> Any:
        looks.append(1)
        return overview(len(looks))

    figures = figures_of(look, Time(), age_s=60.0)
    figures.overview()
    figures.expire()
    assert figures.overview().by_status == {"succeeded": 2}
    assert figures.overview().by_status == {"succeeded": 2}


def test_a_look_that_began_before_a_change_is_not_shown_after_it() -> None:
    """It may have seen the database as it was, though it ends later; the first look of all too."""
    began, go, looks = threading.Event(), threading.Event(), list[int]()

    def look() -> Any:
        looks.append(1)
        seen = len(looks)
        began.set()
        assert go.wait(30)
        return overview(seen)

    figures = figures_of(look, Time(), age_s=60.0)
    figures._thread = threading.Thread()  # nobody looks but this test
    for before in (1, 3):
        began.clear()
        go.clear()
        looking = threading.Thread(target=figures.snapshot)
        looking.start()
        assert began.wait(30)
        figures.expire()
        go.set()
        looking.join(30)
        assert figures.recent().by_status == {"succeeded": before + 1}
        assert figures.recent().by_status == {"succeeded": before + 1}
        figures.expire()


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_fifty_open_pages_cost_what_one_does(
    console: Console, people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a look, one event is made, one actor is asked for and one fragment is rendered."""
    service = console.service
    made: Counter[str] = Counter()
    for module, name in ((live, "event_of"), (live, "is_current"), (overview_page, "page")):
        monkeypatch.setattr(module, name, _counted(made, name, getattr(module, name)))
    signed = Signed(actor=people.otto, session=None)
    service.figures.close()  # its thread looks no more: each look is this test's
    monkeypatch.setattr(service.figures, "_closed", False)

    async def first_event() -> bytes:
        stream = _stream(service, signed, 0)
        assert isinstance(stream, AsyncGenerator)
        async with aclosing(stream):
            async for part in stream:
                if part.startswith(b"id: "):
                    return bytes(part)
        raise AssertionError

    async def listen() -> set[bytes]:
        service.figures.snapshot()
        return set(await asyncio.gather(*(first_event() for _ in range(50))))

    assert len(asyncio.run(listen())) == 1
    assert made == {"event_of": 1, "is_current": 1}
    program = console.program("otto")
    monkeypatch.setattr(service.figures, "_recent_s", 60.0)
    parts = {program.get("/fragments/overview").text for _ in range(5)}
    assert len(parts) == 1
    assert made["page"] == 1


def _counted(made: Counter[str], name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def counting(*given: Any, **named: Any) -> Any:
        made[name] += 1
        return function(*given, **named)

    return counting
