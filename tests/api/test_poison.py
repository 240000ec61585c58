"""Poison by the API and by its pages: listed, shown, fed again."""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tallgrass.intake.message import PoisonMessage
from tests.cli.test_poison import BODIES, HOSTILE, waiting
from tests.support.governance import People, set_up
from tests.support.replay_console import console_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.backends import Backend
    from tests.support.console import Console

API = "/api/v1/poison"


@pytest.fixture
def people(backend: Backend) -> People:
    """Who acts; five messages wait: claimed by now, hostile, binary, cut, of another queue."""
    stores = backend.open()
    for number, (queue, body, code) in BODIES.items():
        message = PoisonMessage(
            queue=queue,
            body=body,
            message_id=f"m-{number}",
            error_code=code,
            error_message=f"why <script>{number}</script>",
        )
        stores.poison.put([message])
    return set_up(backend)


@pytest.fixture
def queue(tmp_path: Path) -> Path:
    """Where the configured queue will be."""
    return tmp_path / "queue.db"


@pytest.fixture
def console(people: People, backend: Backend, queue: Path) -> Iterator[Console]:
    """The console with a queue of its own."""
    config = backend.config()
    values = {**config.values, "queue.url": f"sqlite:///{queue}"}
    with console_of(replace(config, values=values)) as made:
        yield made


def test_messages_are_listed_page_by_page(console: Console) -> None:
    """Filters hold together; a cursor of another list is refused."""
    vera = console.program("vera")
    first = vera.get(f"{API}?limit=3").json()
    assert [each["poison_id"] for each in first["messages"]] == [1, 2, 3]
    rest = vera.get(f"{API}?limit=3&cursor={first['next_cursor']}").json()
    assert ([each["poison_id"] for each in rest["messages"]], rest["next_cursor"]) == ([4, 5], None)
    for query, found in (
        ("code=unroutable", [1, 5]),
        ("queue=second", [5]),
        ("state=fed", []),
        ("code=unroutable&queue=second&state=open", [5]),
    ):
        messages = vera.get(f"{API}?{query}").json()["messages"]
        assert [each["poison_id"] for each in messages] == found, query
    assert vera.get(f"{API}?cursor=b3V0Ym94OjE").json()["code"] == "invalid_input"


def test_a_body_is_shown_as_what_it_is(console: Console) -> None:
    """Only when asked for; text as text, anything else in base64."""
    vera = console.program("vera")
    assert "body" not in vera.get(f"{API}/2").json()
    assert vera.get(f"{API}/2?body=true").json()["body"]["content"] == HOSTILE.decode()
    binary = vera.get(f"{API}/3?body=true").json()["body"]
    assert binary["encoding"] == "base64"
    assert base64.b64decode(binary["content"]) == BODIES[3][1]
    assert vera.get(f"{API}/99").json()["code"] == "poison_unknown"


def test_what_is_understood_now_is_fed_once(
    console: Console, queue: Path, backend: Backend
) -> None:
    """A dry run tells and changes nothing; the feeding is the actor's, in the log."""
    otto = console.program("otto")
    dry = otto.post(f"{API}/feed", json={"poison_ids": [1, 2], "dry_run": True}).json()
    assert (dry["would_feed"], dry["left_out"]) == (1, {"not_understood": 1})
    assert not queue.exists()
    wish = {"poison_ids": [1], "reason": "CHG-2041"}
    assert otto.post(f"{API}/feed", json={"poison_ids": [1]}).status_code == 400
    fed = otto.post(f"{API}/feed", json=wish)
    assert (fed.status_code, fed.json()["fed"]) == (200, 1)
    assert list(waiting(queue).values()) == [BODIES[1][1]]
    again = otto.post(f"{API}/feed", json=wish)
    assert (again.status_code, again.json()["code"]) == (409, "poison_not_fed")
    assert "already_fed" in again.json()["detail"]
    logged = backend.sql("SELECT actor, reason FROM audit_log WHERE subject = ?", "poison:1")
    assert ("otto", "CHG-2041") in logged
    assert console.program("vera").post(f"{API}/feed", json=wish).status_code == 403


def test_a_message_is_fed_by_its_page(console: Console, people: People, queue: Path) -> None:
    """The page tells what it would give now; untrusted text never becomes markup."""
    browser = console.browser_of(people.otto)
    assert "why &lt;script&gt;2" in browser.get("/poison").text
    page = browser.get("/poison/2").text
    assert "still not be understood" in page
    assert "<script>2" not in page
    page = browser.get("/poison/1").text
    assert "It would be understood" in page
    fed = browser.send_form("/poison/1/feed", reason="the dataset is there now")
    assert fed.status_code == 303, fed.text
    assert len(waiting(queue)) == 1
    assert "in the queue again" in browser.get(fed.headers["location"]).text
    assert browser.send_form("/poison/2/feed", reason="all the same").status_code == 409
    forced = browser.send_form("/poison/2/feed", reason="all the same", force="yes")
    assert forced.status_code == 303
    assert len(waiting(queue)) == 2
    assert "Feed it again" not in console.browser_of(people.vera).get("/poison/1").text
