from __future__ import annotations

import ssl
from datetime import UTC, datetime

import pytest

from tallgrass.error_codes import lookup
from tallgrass.sinks.address_guard import AddressRefused
from tallgrass.sinks.http import delivery_of, retry_after_s, undelivered_by
from tallgrass.sinks.http_client import Answer
from tallgrass.sinks.protocol import RETRY_AFTER_S_MAX, Delivered, Undelivered

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
PLACE = "https://example.org"


def said(status: int, retry_after: str | None = None) -> Delivered | Undelivered:
    """Return what an answer means."""
    answer = Answer(status=status, retry_after=retry_after, body=None)
    return delivery_of(answer, PLACE, lambda: NOW)


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
def test_an_answer_of_2xx_delivers(status: int) -> None:
    """Whatever else it says."""
    assert said(status) == Delivered()


@pytest.mark.parametrize(
    ("status", "code", "permanent"),
    [
        (408, "sink_timeout", False),
        (409, "sink_refused", False),
        (425, "sink_refused", False),
        (429, "sink_throttled", False),
        (500, "sink_unreachable", False),
        (502, "sink_unreachable", False),
        (503, "sink_unreachable", False),
        (504, "sink_unreachable", False),
        (599, "sink_unreachable", False),
        (301, "sink_misconfigured", False),
        (307, "sink_misconfigured", False),
        (400, "sink_refused", True),
        (401, "sink_misconfigured", True),
        (403, "sink_misconfigured", True),
        (404, "sink_refused", True),
        (410, "sink_refused", True),
        (413, "sink_refused", True),
        (422, "sink_refused", True),
        (451, "sink_refused", True),
        (799, "sink_refused", True),
    ],
)
def test_each_other_answer_has_its_meaning(status: int, code: str, permanent: bool) -> None:  # noqa: FBT001 - a table
    """What may pass is tried again; any other 4xx is final."""
    result = said(status)
    assert isinstance(result, Undelivered)
    assert (result.code, result.permanent) == (code, permanent)
    assert f"{PLACE} answered {status}" in result.message
    assert lookup(result.code).remedy


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0.0),
        ("120", 120.0),
        ("Mon, 01 Jun 2026 12:00:30 GMT", 30.0),
        ("Mon, 01 Jun 2026 12:00:30 -0000", 30.0),
        ("Monday, 01-Jun-26 12:00:30 GMT", 30.0),
        ("Mon, 01 Jun 2026 11:00:00 GMT", 0.0),
        ("Fri, 01 Jan 2027 00:00:00 GMT", RETRY_AFTER_S_MAX),
        ("9" * 5000, RETRY_AFTER_S_MAX),
        ("-5", None),
        ("1.5", None),
        ("٣", None),
        ("soon", None),
        (f"Mon, 01 Jun {'9' * 20} 12:00:30 GMT", None),
        (f"Mon, 01 Jun 2026 12:00:30 +{'9' * 20}", None),
        ("", None),
        (None, None),
    ],
)
def test_a_target_may_say_when_to_come_again(text: str | None, seconds: float | None) -> None:
    """By seconds or by a date, never longer than an hour; what is neither is not heard."""
    assert retry_after_s(text, NOW) == seconds


@pytest.mark.parametrize("status", [408, 429, 503])
def test_the_wait_is_told_with_the_answer(status: int) -> None:
    """Both throttling and failing targets may ask for it."""
    result = said(status, "7")
    assert isinstance(result, Undelivered)
    assert result.retry_after_s == 7.0


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (TimeoutError("x"), "sink_timeout", f"{PLACE} did not answer in time"),
        (ConnectionRefusedError(111, "Connection refused"), "sink_unreachable", "refused"),
        (OSError("the answer is too long"), "sink_unreachable", "the answer is too long"),
        (ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER] x"), "sink_misconfigured", "speaks no TLS"),
        (ssl.SSLEOFError(8, "EOF occurred"), "sink_unreachable", "EOF"),
        (AddressRefused("not allowed"), "sink_misconfigured", "not allowed"),
    ],
)
def test_the_lack_of_an_answer_may_pass(error: OSError, code: str, text: str) -> None:
    """Whatever the cause, the next attempt may find it mended."""
    result = undelivered_by(error, PLACE)
    assert (result.code, result.permanent) == (code, False)
    assert text in result.message
