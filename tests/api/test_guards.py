from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

from tallgrass.api.guards import POLICY
from tests.support.console import console_at

if TYPE_CHECKING:
    from tests.support.backends import Backend
    from tests.support.console import Console


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    "path", ["/", "/records", "/sign-in", "/static/console.js", "/api/v1/status", "/stac/", "/nope"]
)
def test_every_answer_has_the_headers(console: Console, path: str) -> None:
    """No frame, no sniffing, no referrer, no inline script: pages, API, STAC, files and errors."""
    headers = console.browser_of().get(path).headers
    assert headers["content-security-policy"] == POLICY
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "same-origin"
    assert headers["cross-origin-opener-policy"] == "same-origin"
    assert "unsafe" not in POLICY


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
@pytest.mark.parametrize("path", ["/", "/records", "/sign-in", "/nope"])
def test_pages_are_kept_by_nobody(console: Console, path: str) -> None:
    """A page of somebody who was signed in is in no cache."""
    assert console.browser_of().get(path).headers["cache-control"] == "no-store"


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_what_nobody_expected_is_answered_without_details(
    console: Console, caplog: pytest.LogCaptureFixture
) -> None:
    """A bug is a 500 problem with a remedy; the log has the traceback, the answer has nothing."""

    def broken() -> None:
        message = "the secret is 42"
        raise RuntimeError(message)

    console.app.add_api_route("/api/v1/broken", broken)
    with caplog.at_level(logging.ERROR, "tallgrass.api"):
        answer = console.client().get("/api/v1/broken")
    assert (answer.status_code, answer.json()["code"]) == (500, "internal_error")
    assert "42" not in answer.text
    assert "the secret is 42" in caplog.text


def test_an_address_that_asks_too_often_waits(backend: Backend) -> None:
    """After as many requests as a minute allows the next is 429, and later it is answered again."""
    now = [0.0]
    with console_at(backend, monotonic=lambda: now[0]) as console:
        client = console.client()
        allowed = int(console.service.config.number("console.requests_per_minute"))
        answers = [client.get("/static/icon.svg").status_code for _ in range(3)]
        for _ in range(allowed - 3):
            console.service.requests.wait_s("address:testclient")
        refused = client.get("/static/icon.svg")
        assert answers == [200, 200, 200]
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
        now[0] += 60 / allowed
        assert client.get("/static/icon.svg").status_code == 200
        assert client.get("/static/icon.svg").status_code == 429


def test_failed_sign_ins_are_soon_not_even_looked_at(console: Console, backend: Backend) -> None:
    """Ten tokens that are nobody's are in the log; the eleventh does not reach the database."""
    client = console.client()
    codes = [
        client.get("/api/v1/status", headers={"Authorization": f"Bearer tg_{n:043}"}).json()["code"]
        for n in range(12)
    ]
    assert codes == ["unknown_actor"] * 10 + ["rate_limited"] * 2
    logged = backend.sql("SELECT count(*) FROM audit_log WHERE action = 'api_refused'")
    assert logged == [(10,)]


def test_a_body_of_no_announced_length_is_cut_off(console: Console, people: object) -> None:
    """A body in chunks is refused as soon as it is too large."""
    answer = console.program("otto").put(
        "/api/v1/switches/ingest/goes-glm",
        content=(b"x" * 100_000 for _ in range(11)),
        headers={"Content-Type": "application/json", "If-Match": "*"},
    )
    assert (answer.status_code, answer.json()["code"]) == (413, "request_too_large")
