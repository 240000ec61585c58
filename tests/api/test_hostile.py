"""Thirty requests that somebody hostile would send; none of them changes or learns anything."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.console import ORIGIN
from tests.support.governance import state_of_tables, token_of

if TYPE_CHECKING:
    from tests.support.backends import Backend
    from tests.support.console import Client, Console
    from tests.support.governance import People

SWITCH = "/api/v1/switches/ingest/goes-glm"
TURN = b'{"is_on": true, "reason": "because"}'
JSON = "application/json"
FORM = "application/x-www-form-urlencoded"


@dataclass(frozen=True)
class Hostile:
    """A request, and how it must be refused."""

    what: str
    status: int
    code: str
    method: str = "PUT"
    path: str = SWITCH
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = TURN
    #: Who sends it: nobody, a browser that is signed in as an operator, or a program of theirs.
    by: str = "browser"


def writes(what: str, status: int, code: str, **headers: str) -> Hostile:
    """Return a write by the operator's browser with other headers than an honest one."""
    told = {"Origin": ORIGIN, "Content-Type": JSON, "X-CSRF-Token": "{csrf}", "If-Match": "*"}
    return Hostile(what, status, code, headers=told | headers)


def strangers(what: str, status: int, code: str, **fields: Any) -> Hostile:
    """Return a request of somebody who is not signed in."""
    return Hostile(what, status, code, **{"by": "nobody", "body": b"", "method": "GET", **fields})


HOSTILE = [
    # A page of another site, and another port of this machine.
    writes("another origin", 403, "origin_refused", Origin="https://evil.example"),
    writes("another port", 403, "origin_refused", Origin="http://localhost:3000"),
    writes("another scheme", 403, "origin_refused", Origin="https://localhost:8090"),
    writes("a sandboxed frame", 403, "origin_refused", Origin="null"),
    writes("cross-site", 403, "origin_refused", **{"Sec-Fetch-Site": "cross-site"}),
    writes("same site, other origin", 403, "origin_refused", **{"Sec-Fetch-Site": "same-site"}),
    writes("a cookie alone", 403, "origin_refused", Origin=""),
    # What a plain HTML form can send.
    writes("no token of the session", 403, "csrf_refused", **{"X-CSRF-Token": ""}),
    writes("somebody else's token", 403, "csrf_refused", **{"X-CSRF-Token": "A" * 43}),
    writes("text/plain", 415, "media_type_refused", **{"Content-Type": "text/plain"}),
    writes("a form as JSON", 415, "media_type_refused", **{"Content-Type": FORM}),
    writes("multipart", 415, "media_type_refused", **{"Content-Type": "multipart/form-data"}),
    writes("no media type", 415, "media_type_refused", **{"Content-Type": ""}),
    # DNS rebinding and confusion about hosts.
    writes("a foreign host", 421, "host_refused", Host="evil.example"),
    writes("a foreign host with our port", 421, "host_refused", Host="evil.example:8090"),
    writes("our name before another", 421, "host_refused", Host="localhost.evil.example"),
    writes("a user before the host", 421, "host_refused", Host="localhost@evil.example"),
    strangers("a read by a foreign host", 421, "host_refused", path="/", headers={"Host": "evil"}),
    # Nobody at all.
    strangers("an anonymous read", 401, "not_signed_in", path="/api/v1/status"),
    strangers("the anonymous document", 401, "not_signed_in", path="/api/v1/openapi.json"),
    strangers("anonymous STAC", 401, "not_signed_in", path="/stac/collections"),
    strangers(
        "an anonymous write", 401, "not_signed_in",
        method="PUT", path=SWITCH, body=TURN, headers={"Content-Type": JSON, "If-Match": "*"},
    ),
    strangers(
        "a made-up token", 401, "unknown_actor",
        path="/api/v1/status", headers={"Authorization": "Bearer tg_" + "A" * 43},
    ),
    strangers(
        "a basic password", 401, "not_signed_in",
        path="/api/v1/status", headers={"Authorization": "Basic YWRtaW46YWRtaW4="},
    ),
    strangers(
        "a made-up session", 401, "not_signed_in",
        path="/api/v1/status", headers={"Cookie": "tallgrass_session_8090=" + "A" * 43},
    ),
    # Excess and nonsense.
    strangers("a long address", 414, "request_too_large", path="/api/v1/status?q=" + "a" * 9000),
    strangers(
        "large headers", 431, "request_too_large",
        path="/api/v1/status", headers={"X-Much": "a" * 40_000},
    ),
    strangers(
        "a large body", 413, "request_too_large",
        method="PUT", path=SWITCH, body=b" " * 1_000_001, headers={"Content-Type": JSON},
    ),
    strangers("a NUL", 400, "invalid_input", path="/api/v1/records?dataset=a%00b"),
    Hostile(
        "a stranger's form", 403, "origin_refused", method="POST", path="/sign-out", body=b"csrf=x",
        headers={"Content-Type": FORM, "Origin": "https://evil.example"},
    ),
    Hostile(
        "a form that is text", 415, "media_type_refused", method="POST", path="/sign-out",
        body=b"csrf=x", headers={"Content-Type": "text/plain", "Origin": ORIGIN},
    ),
    Hostile(
        "another site reads the API", 403, "origin_refused",
        method="GET", path="/api/v1/status", body=b"",
        headers={"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"},
    ),
    Hostile(
        "markup as a dataset", 400, "dataset_unknown", by="program",
        path="/api/v1/switches/ingest/<script>",
        headers={"Content-Type": JSON, "If-Match": "*"},
    ),
    Hostile(
        "an unknown member", 422, "invalid_input", by="program",
        headers={"Content-Type": JSON, "If-Match": "*"},
        body=b'{"is_on": true, "reason": "x", "actor": "ann"}',
    ),
]  # fmt: skip


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
    honest = writes("honest", 200, "", **{"X-CSRF-Token": browser.csrf})
    answer = browser.request(honest.method, honest.path, content=TURN, headers=honest.headers)
    assert answer.status_code == 200, answer.text


def test_two_hosts_are_refused(console: Console) -> None:
    """A request that names two hosts is nobody's."""
    client = console.client()
    headers = [("Host", "localhost:8090"), ("Host", "evil.example")]
    request = client.build_request("GET", "/api/v1/status")
    request.headers = type(request.headers)(headers)
    assert client.send(request).status_code == 421
