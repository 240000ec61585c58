from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from tallgrass.clock import system_clock
from tallgrass.console.sign_in import local
from tests.support.console import ORIGIN, console_at
from tests.support.governance import token_of

if TYPE_CHECKING:
    from tests.support.backends import Backend
    from tests.support.console import Console
    from tests.support.governance import People


def test_a_link_signs_in_once(console: Console) -> None:
    """The second use of a link is 401 and gives no cookie."""
    link = console.service.sessions.make_link(None)
    first, second = console.client(), console.client()
    assert first.get("/sign-in", params={"link": link}).headers["location"] == "/"
    assert first.get("/").status_code == 200
    again = second.get("/sign-in", params={"link": link})
    assert (again.status_code, again.headers.get("set-cookie")) == (401, None)
    assert second.get("/").headers["location"] == "/sign-in?next=%2F"


def test_a_browser_that_looks_ahead_does_not_use_the_link_up(console: Console) -> None:
    """A prefetch of the link signs nobody in."""
    link = console.service.sessions.make_link(None)
    ahead = console.client().get(
        "/sign-in", params={"link": link}, headers={"Sec-Purpose": "prefetch"}
    )
    assert ahead.headers.get("set-cookie") is None
    assert console.client().get("/sign-in", params={"link": link}).status_code == 303


def test_the_cookie_is_for_this_site_and_no_script(console: Console) -> None:
    """HttpOnly, SameSite=Strict, for a time, and named after the port."""
    link = console.service.sessions.make_link(None)
    cookie = console.client().get("/sign-in", params={"link": link}).headers["set-cookie"]
    assert cookie.startswith("tallgrass_session_8090=")
    for word in ("HttpOnly", "SameSite=strict", "Max-Age=43200", "Path=/"):
        assert word in cookie


def test_links_and_sessions_end(backend: Backend) -> None:
    """A link is void after an hour, a session after twelve."""
    late = [timedelta(0)]
    with console_at(backend, clock=lambda: system_clock() + late[0]) as console:
        link = console.service.sessions.make_link(None)
        browser = console.browser_of()
        late[0] = timedelta(minutes=61)
        assert console.client().get("/sign-in", params={"link": link}).status_code == 401
        assert browser.get("/records").status_code == 200
        late[0] = timedelta(hours=12, minutes=1)
        assert browser.get("/records").status_code == 303


def test_an_actor_signs_in_by_their_token(console: Console, people: People) -> None:
    """The form takes the token, leads to where one wanted to go, and the page names the actor."""
    client = console.client()
    answer = client.post(
        "/sign-in",
        data={"token": token_of("otto"), "next": "/records"},
        headers={"Origin": ORIGIN},
    )
    assert (answer.status_code, answer.headers["location"]) == (303, "/records")
    assert ">otto</span>" in client.get("/records").text
    assert token_of("otto") not in client.get("/records").text


def test_a_wrong_token_signs_nobody_in_and_is_logged(console: Console, backend: Backend) -> None:
    """401, a page to try again, an entry in the log, no cookie."""
    answer = console.client().post("/sign-in", data={"token": "tg_wrong"})
    assert answer.status_code == 401
    assert answer.headers.get("set-cookie") is None
    assert "nobody is known by this token" in answer.text
    assert backend.sql("SELECT actor FROM audit_log WHERE action = 'sign_in_refused'") == [
        ("unknown",)
    ]


def test_signing_out_ends_the_session(console: Console, people: People) -> None:
    """The cookie of a session that was left opens nothing, whoever kept it."""
    browser = console.browser_of(people.otto)
    kept = dict(browser.cookies)
    assert browser.send_form("/sign-out").headers["location"] == "/sign-in"
    thief = console.client()
    thief.cookies.update(kept)
    assert thief.get("/records").status_code == 303


def test_a_form_without_the_sessions_token_signs_nobody_out(console: Console) -> None:
    """Each form shows the token of its session."""
    browser = console.browser_of()
    browser.csrf = "another"
    assert browser.send_form("/sign-out").status_code == 403
    assert browser.get("/records").status_code == 200


def test_a_revoked_actor_is_out_at_once(console: Console, people: People) -> None:
    """Once the token is revoked or rotated, neither session nor token opens anything."""
    browser, program = console.browser_of(people.otto), console.program("otto")
    assert (browser.get("/").status_code, program.get("/api/v1/status").status_code) == (200, 200)
    people.stores.actors.revoke("otto", by=people.ann)
    assert (browser.get("/").status_code, program.get("/api/v1/status").status_code) == (303, 401)


@pytest.mark.parametrize(
    ("path", "led_to"),
    [
        ("/records?status=failed", "/records?status=failed"),
        ("https://evil.example/", "/"),
        ("//evil.example/", "/"),
        ("/\\evil.example", "/"),
        ("/a\\b", "/"),
        ("javascript:alert(1)", "/"),
        ("/a\r\nSet-Cookie: x=1", "/"),
        ("", "/"),
    ],
)
def test_nobody_is_led_elsewhere(path: str, led_to: str) -> None:
    """After signing in one is led to a page of this server, never to another's."""
    assert local(path) == led_to
