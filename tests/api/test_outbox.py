"""The outbox by the API and by its pages: where events stand, and sending them again."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.support.console import Console, console_at
from tests.support.events import event_id, write
from tests.support.governance import People, set_up
from tests.support.outbox import Outbox, exhaust

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.backends import Backend

API = "/api/v1/outbox"


@pytest.fixture
def people(backend: Backend) -> People:
    """Who acts; events 1 and 2 of the target `t` are exhausted, 3 and 4 wait."""
    exhaust(Outbox(backend), 1, 2)
    write(backend, 3)
    write(backend, 4, dataset="other")
    return set_up(backend)


@pytest.fixture
def console(people: People, backend: Backend) -> Iterator[Console]:
    """The console over that outbox."""
    with console_at(backend) as made:
        yield made


def states(backend: Backend) -> dict[str, int]:
    """Count deliveries by status, by plain SQL."""
    rows = backend.sql("SELECT status, count(*) FROM outbox_delivery GROUP BY status")
    return {str(name): int(number) for name, number in rows}


def test_targets_and_events_are_told(console: Console) -> None:
    """Counts by target; a list by filters, page by page; one event with all attempts."""
    vera = console.program("vera")
    [target] = [t for t in vera.get(f"{API}/status").json()["targets"] if t["target"] == "t"]
    assert (target["pending"], target["exhausted"], target["declared"]) == (2, 2, False)
    first = vera.get(f"{API}/events?limit=3").json()
    assert [each["outbox_id"] for each in first["events"]] == [event_id(n) for n in (1, 2, 3)]
    rest = vera.get(f"{API}/events?limit=3&cursor={first['next_cursor']}").json()
    assert [each["outbox_id"] for each in rest["events"]] == [event_id(4)]
    for query, number in (("state=exhausted", 2), ("dataset=other", 1), ("target=none", 0)):
        assert len(vera.get(f"{API}/events?{query}").json()["events"]) == number, query
    whole = vera.get(f"{API}/events/{event_id(1)}").json()
    assert json.loads(whole["event"]["payload"]) == {"number": 1}
    assert [each["outcome"] for each in whole["attempts"]] == ["failed"]
    assert vera.get(f"{API}/events/{event_id(9)}").json()["code"] == "outbox_unknown"
    assert vera.get(f"{API}/events/seven").status_code == 400
    lines = vera.get(f"{API}/ledger").text.splitlines()
    assert {json.loads(line)["outbox_id"] for line in lines} == {event_id(1), event_id(2)}


def test_exhausted_events_are_sent_again(console: Console, backend: Backend) -> None:
    """By id, then by target; what is not exhausted is refused, and the log has who asked."""
    otto = console.program("otto")
    wish = {"outbox_ids": [event_id(1)], "reason": "mended"}
    assert otto.post(f"{API}/requeue", json=wish).json() == {"requeued": 1}
    again = otto.post(f"{API}/requeue", json=wish)
    assert (again.status_code, again.json()["code"]) == (409, "outbox_not_requeued")
    by_target = otto.post(f"{API}/requeue", json={"target": "t", "reason": "mended"})
    assert by_target.json() == {"requeued": 1}
    assert states(backend) == {"pending": 4}
    for wrong in ({}, {"outbox_ids": [event_id(1)], "everything": True}):
        assert otto.post(f"{API}/requeue", json={**wrong, "reason": "x"}).status_code == 400
    logged = backend.sql("SELECT actor, subject FROM audit_log WHERE action = 'outbox_requeue'")
    assert sorted(logged) == [("otto", f"outbox:{event_id(n)}") for n in (1, 2)]
    assert console.program("vera").post(f"{API}/requeue", json=wish).status_code == 403


def test_an_event_is_sent_again_by_its_page(
    console: Console, people: People, backend: Backend
) -> None:
    """The list leads to the event; a form with a reason sends it again, once."""
    browser = console.browser_of(people.otto)
    assert event_id(1)[-12:] in browser.get("/outbox?state=exhausted").text
    path = f"/outbox/{event_id(1)}"
    assert "Send it again" in browser.get(path).text
    sent = browser.send_form("/outbox/requeue", outbox_id=event_id(1), reason="mended")
    assert sent.status_code == 303, sent.text
    assert "1 event is due again." in browser.get(sent.headers["location"]).text
    stale = browser.send_form("/outbox/requeue", outbox_id=event_id(1), reason="mended")
    assert stale.status_code == 409
    rest = browser.send_form("/outbox/requeue", target="t", reason="mended")
    assert rest.status_code == 303
    assert backend.sql("SELECT count(*) FROM audit_log WHERE action = 'outbox_requeue'") == [(2,)]
    assert "Send it again" not in console.browser_of(people.vera).get(path).text
    assert "No event is like that" in browser.get("/outbox?target=none").text
