"""Thirty requests that somebody hostile would send; none of them changes or learns anything."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from tests.corpora.reading import cases
from tests.support.console import ORIGIN
from tests.support.governance import state_of_tables, token_of

if TYPE_CHECKING:
    from tests.support.backends import Backend
    from tests.support.console import Client, Console
    from tests.support.governance import People

SWITCH = "/api/v1/switches/ingest/goes-glm"
TURN = '{"is_on": true, "reason": "because"}'
#: What an honest write of a browser tells; `{csrf}` is the token of its session.
HONEST = {
    "Origin": ORIGIN,
    "Content-Type": "application/json",
    "X-CSRF-Token": "{csrf}",
    "If-Match": "*",
}


@dataclass(frozen=True)
class Hostile:
    """A request, and how it must be refused."""

    what: str
    status: int
    code: str
    by: str
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


def hostile_of(case: dict[str, Any]) -> Hostile:
    """Return the request of a case."""
    by = case.get("by", "browser")
    usual = ("GET", "", "") if by == "nobody" else ("PUT", SWITCH, TURN)
    path, body = case.get("path", usual[1]), case.get("body", usual[2])
    headers = (HONEST if case.get("honest") else {}) | case.get("headers", {})
    if (much := case.get("much")) is not None:
        more, place = much["of"] * much["times"], much["in"]
        path += more if place == "path" else ""
        body += more if place == "body" else ""
        headers |= {place: more} if place in headers else {}
    return Hostile(
        case["what"], case["status"], case["code"], by=by, method=case.get("method", usual[0]),
        path=path, headers=headers, body=body.encode(),
    )  # fmt: skip


HOSTILE = [hostile_of(case) for case in cases("console_requests.toml", "request")]


def client_of(hostile: Hostile, console: Console, people: People) -> Client:
    """Return who sends it."""
    if hostile.by == "nobody":
        return console.client()
    return console.program("otto") if hostile.by == "program" else console.browser_of(people.otto)


def test_there_are_thirty() -> None:
    """As many as were promised, no two alike by name."""
    assert len({each.what for each in HOSTILE}) == len(HOSTILE) >= 30


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
@pytest.mark.parametrize("hostile", HOSTILE, ids=lambda each: each.what)
def test_it_is_refused(
    hostile: Hostile, console: Console, people: People, backend: Backend
) -> None:
    """Each is answered by its problem, and no table but the log is other than before."""
    client = client_of(hostile, console, people)
    before = state_of_tables(backend)
    headers = {
        name: value.replace("{csrf}", client.csrf)
        for name, value in hostile.headers.items()
        if value
    }
    answer = client.request(
        hostile.method, hostile.path, content=hostile.body or None, headers=headers
    )
    assert state_of_tables(backend) == before
    assert answer.status_code == hostile.status, answer.text
    if answer.headers["content-type"].startswith("text/html"):
        assert f"<code>{hostile.code}</code>" in answer.text
    else:
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["code"] == hostile.code
    assert "Traceback" not in answer.text
    assert token_of("otto") not in answer.text


def test_the_same_write_with_nothing_wrong_is_done(console: Console, people: People) -> None:
    """So that none of the above is refused for another reason than its own."""
    browser = console.browser_of(people.otto)
    headers = HONEST | {"X-CSRF-Token": browser.csrf}
    answer = browser.request("PUT", SWITCH, content=TURN.encode(), headers=headers)
    assert answer.status_code == 200, answer.text


def test_two_hosts_are_refused(console: Console) -> None:
    """A request that names two hosts is nobody's."""
    client = console.client()
    headers = [("Host", "localhost:8090"), ("Host", "evil.example")]
    request = client.build_request("GET", "/api/v1/status")
    request.headers = type(request.headers)(headers)
    assert client.send(request).status_code == 421
