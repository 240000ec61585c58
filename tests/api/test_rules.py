"""The small rules of the API, each by itself: hosts, origins, buckets, tags, cursors, statuses."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallgrass.api.etags import matches, require_tag, require_version, version_in
from tallgrass.api.hosts import host_name, require_origin
from tallgrass.api.limits import Buckets
from tallgrass.api.paging import decode_cursor, encode_cursor
from tallgrass.api.problems import RequestRefused, headers_of, problem_of, status_of
from tallgrass.errors import (
    ApprovalInvalid,
    ConfigError,
    DatabaseLocked,
    DatabaseUnreachable,
    GuardRefused,
    InvalidInput,
    NotAuthorized,
    UnknownRecord,
    VersionConflict,
)

if TYPE_CHECKING:
    from tallgrass.errors import TallgrassError

SELF = {"host": "localhost:8090", "cookie": "s=1"}


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ("localhost:8090", "localhost"),
        ("LOCALHOST", "localhost"),
        ("localhost.", "localhost"),
        ("127.0.0.1:1", "127.0.0.1"),
        ("[::1]:8090", "::1"),
        ("evil.example:80", "evil.example"),
        ("localhost:port", None),
        ("user@localhost", None),
        ("localhost/x", None),
        ("localhost,evil", None),
        ("", None),
        ("[::1", None),
        ("lo\u0441alhost", None),
    ],
)
def test_a_host_is_a_name_and_perhaps_a_port(header: str, name: str | None) -> None:
    """Anything else in the header is no host at all."""
    assert host_name(header) == name


@pytest.mark.parametrize(
    ("method", "path", "headers", "refused"),
    [
        ("POST", "/sign-out", {"origin": "http://localhost:8090"}, False),
        ("POST", "/sign-out", {"sec-fetch-site": "same-origin"}, False),
        ("POST", "/sign-out", {}, True),
        ("POST", "/sign-out", {"sec-fetch-site": "none"}, True),
        ("POST", "/sign-out", {"origin": "http://localhost:8091"}, True),
        ("POST", "/sign-out", {"origin": "null"}, True),
        ("POST", "/sign-out", {"origin": "http://127.0.0.1:8090"}, True),
        ("DELETE", "/x", {"origin": "http://localhost:8090", "sec-fetch-site": "same-site"}, True),
        ("GET", "/records", {"sec-fetch-site": "cross-site"}, False),
        ("GET", "/api/v1/status", {"sec-fetch-site": "cross-site"}, True),
        ("GET", "/stac/search", {"origin": "https://map.example"}, True),
        (
            "GET",
            "/api/v1/status",
            {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"},
            False,
        ),
        ("GET", "/api/v1/status", {}, False),
    ],
)
def test_writes_and_the_api_are_for_pages_of_this_origin(
    method: str, path: str, headers: dict[str, str], *, refused: bool
) -> None:
    """A link from elsewhere may open a page; nothing else of elsewhere may ask."""
    told = SELF | headers
    if not refused:
        require_origin(method, "http", path, told)
        return
    with pytest.raises(RequestRefused) as raised:
        require_origin(method, "http", path, told)
    assert raised.value.code == "origin_refused"


def test_a_program_with_a_token_needs_no_origin() -> None:
    """What is no browser sends a token on its own will, so nobody can make it write."""
    headers = {"host": "localhost:8090", "authorization": "Bearer x", "cookie": "s=1"}
    require_origin("POST", "http", "/api/v1/x", headers)


def test_a_bucket_refills_evenly() -> None:
    """By hand: of 60 a minute the 61st at once waits a second; after two there are two more."""
    now = [100.0]
    buckets = Buckets(60, monotonic=lambda: now[0])
    assert [buckets.wait_s("a") for _ in range(61)] == [0.0] * 60 + [1.0]
    assert buckets.wait_s("b") == 0.0
    now[0] += 2.0
    assert [buckets.wait_s("a") for _ in range(3)] == [0.0, 0.0, 1.0]


def test_a_bucket_that_is_only_looked_at_loses_nothing() -> None:
    """Sign-ins that succeed cost no token of those that fail."""
    buckets = Buckets(1, monotonic=lambda: 0.0)
    assert [buckets.wait_s("a", take=False) for _ in range(3)] == [0.0] * 3
    assert buckets.wait_s("a") == 0.0
    with pytest.raises(RequestRefused) as raised:
        buckets.require("a", "requests")
    assert raised.value.headers == {"Retry-After": "60"}


def test_addresses_that_come_and_go_cost_no_memory() -> None:
    """The bucket that was not used for longest is forgotten, at ten thousand of them."""
    buckets = Buckets(1, monotonic=lambda: 0.0)
    for number in range(10_001):
        buckets.wait_s(str(number))
    assert len(buckets._buckets) == 10_000
    assert buckets.wait_s("10000") > 0
    assert buckets.wait_s("0") == 0.0


@pytest.mark.parametrize(
    ("header", "same"),
    [
        ('"7"', True),
        ('W/"7"', True),
        ('"6", "7"', True),
        ("*", True),
        ('"70"', False),
        (None, False),
    ],
)
def test_a_tag_is_met_by_its_name_or_any(header: str | None, *, same: bool) -> None:
    """Weak or strong, alone or in a list; the star means whatever is there."""
    assert matches(header, '"7"') is same


def test_an_action_names_a_version() -> None:
    """A number in quotes or without; none at all is 428, nonsense is 400."""
    assert (version_in('"7"'), version_in("7")) == (7, 7)
    with pytest.raises(RequestRefused) as raised:
        version_in(None)
    assert raised.value.status == 428
    for nonsense in ('""', '"seven"', '"-1"', "\u0667", "*", '"' + "9" * 40 + '"'):
        with pytest.raises(InvalidInput):
            version_in(nonsense)


def test_a_version_that_moved_on_is_refused_with_what_it_is_now() -> None:
    """412, the new tag, and what changed."""
    require_version(7, 7, {})
    require_tag('"a"', '"a"', {})
    with pytest.raises(RequestRefused) as raised:
        require_version(6, 7, {"status": "succeeded"})
    assert raised.value.status == 412
    assert raised.value.headers == {"ETag": '"7"'}
    assert problem_of(raised.value)["changed"] == {"status": "succeeded"}
    with pytest.raises(RequestRefused, match="moved on"):
        require_tag('"a"', '"b"', {})


@given(st.text(max_size=100), st.text(max_size=100))
def test_a_cursor_leads_back_to_its_place(kind: str, place: str) -> None:
    """What was encoded is decoded, for the same list alone."""
    if ":" in kind or any("\ud800" <= c <= "\udfff" for c in kind + place):
        return
    cursor = encode_cursor(kind, place)
    assert decode_cursor(kind, cursor) == place
    with pytest.raises(InvalidInput):
        decode_cursor(f"{kind}x", cursor)


@given(st.text(max_size=50))
def test_any_other_text_is_no_cursor(text: str) -> None:
    """It is refused, never an error of its own."""
    with pytest.raises(InvalidInput):
        decode_cursor("records", text)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (InvalidInput("x"), 400),
        (ConfigError("x"), 500),
        (NotAuthorized("x", code="unknown_actor"), 401),
        (NotAuthorized("x"), 403),
        (UnknownRecord("x"), 404),
        (VersionConflict("x"), 409),
        (ApprovalInvalid("x"), 409),
        (GuardRefused("x", guard="scope_too_broad"), 409),
        (DatabaseUnreachable("x"), 503),
        (DatabaseLocked("x"), 503),
    ],
)
def test_each_kind_of_error_has_its_status(error: TallgrassError, status: int) -> None:
    """Who is wrong, and whether to come again, is told by the number."""
    assert status_of(error) == status
    assert ("Retry-After" in headers_of(error)) is (status == 503)
    assert ("WWW-Authenticate" in headers_of(error)) is (status == 401)


def test_a_problem_hides_credentials_and_control_characters() -> None:
    """What a driver says of its address goes out without user and password."""
    error = DatabaseUnreachable("cannot reach postgresql://me:secret@db/x\x1b[2J\npassword=abc")
    detail = problem_of(error)["detail"]
    assert "secret" not in detail
    assert "abc" not in detail
    assert "\x1b" not in detail
    assert problem_of(GuardRefused("x", guard="g"))["guard"] == "g"
