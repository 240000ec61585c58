"""The retry policy: the printed formula, its bounds, and what is retried."""

from __future__ import annotations

import random
import urllib.error
from datetime import UTC, datetime
from email.message import Message
from typing import Any, ClassVar

import botocore.exceptions
import httpx
import pytest
import requests
from hypothesis import given
from hypothesis import strategies as st

from tallgrass.errors import (
    DatabaseLocked,
    GovernanceError,
    InvalidInput,
    NetworkError,
    NodeParked,
    TransientError,
    ValidationError,
)
from tallgrass.nodes.retry_policy import RetryPolicy, retry_after_s

NOW = datetime(2026, 11, 16, 8, 0, tzinfo=UTC)


def decide(policy: RetryPolicy, error: BaseException, attempts: int = 1, spent_s: float = 0) -> Any:
    """What the policy says, at a fixed time, with jitter at its middle."""
    return policy.decide(
        error, attempts=attempts, spent_s=spent_s, uniform=lambda _a, _b: 0.0, clock=lambda: NOW
    )


@pytest.mark.conformance("NR-6.1")
def test_the_printed_example_is_a_policy() -> None:
    """The specification's own example, and it is the default."""
    policy = RetryPolicy(
        max_attempts=5,
        base_delay_s=2.0,
        max_delay_s=60.0,
        jitter_factor=0.3,
        retry_on=(TransientError, NetworkError),
        no_retry_on=(ValidationError, GovernanceError),
    )
    assert policy == RetryPolicy()


@pytest.mark.conformance("NR-6.2")
def test_delays_without_jitter_are_the_formula() -> None:
    """2, 4, 8 … up to the cap."""
    policy = RetryPolicy(jitter_factor=0)
    delays = [policy.delay_s(attempt, random.Random(1).uniform) for attempt in range(1, 8)]
    assert delays == [2, 4, 8, 16, 32, 60, 60]


@pytest.mark.conformance("NR-6.2", "NR-1.3", "C-18")
@given(
    base=st.floats(0, 100),
    more=st.floats(0, 1000),
    jitter=st.floats(0, 1),
    attempt=st.integers(1, 5000),
    seed=st.integers(),
)
def test_a_delay_is_within_its_documented_bounds(
    base: float, more: float, jitter: float, attempt: int, seed: int
) -> None:
    """The jitter comes after the cap; no attempt is too late for the arithmetic."""
    policy = RetryPolicy(base_delay_s=base, max_delay_s=base + more, jitter_factor=jitter)
    middle = min(base * 2.0 ** min(attempt - 1, 1023), base + more)
    delay = policy.delay_s(attempt, random.Random(seed).uniform)
    assert middle * (1 - jitter) - 1e-6 <= delay <= middle * (1 + jitter) + 1e-6
    assert delay <= (base + more) * (1 + jitter) + 1e-6


def test_the_jitter_spreads_over_its_whole_width() -> None:
    """With the default policy the first wait lies between 1.4 and 2.6 seconds."""
    draws = random.Random(7)
    delays = [RetryPolicy().delay_s(1, draws.uniform) for _ in range(1000)]
    assert 1.4 <= min(delays) < 1.45
    assert 2.55 < max(delays) <= 2.6


@pytest.mark.conformance("NR-6.1", "NR-12.4")
@pytest.mark.parametrize(
    "wrong",
    [
        {"max_attempts": 0},
        {"max_attempts": 10**9},
        {"max_attempts": 2.5},
        {"max_attempts": True},
        {"base_delay_s": -1},
        {"base_delay_s": float("nan")},
        {"max_delay_s": 1.0},
        {"max_delay_s": float("inf")},
        {"jitter_factor": 1.1},
        {"jitter_factor": -0.1},
        {"total_s_max": float("inf")},
        {"total_s_max": "3600"},
        {"retry_on": (ValueError, "OSError")},
        {"no_retry_on": (42,)},
    ],
    ids=str,
)
def test_a_policy_that_makes_no_sense_is_refused(wrong: dict[str, Any]) -> None:
    """Nothing that retries for ever, never, or by an error that is none."""
    with pytest.raises(InvalidInput, match=next(iter(wrong))):
        RetryPolicy(**wrong)


class Both(TransientError, ValidationError):
    """An error that stands in both lists."""


@pytest.mark.conformance("NR-6.3", "C-19")
@pytest.mark.parametrize(
    ("error", "retried"),
    [
        (TransientError("x"), True),
        (NetworkError("x"), True),
        (DatabaseLocked("x"), True),
        (ValidationError("x"), False),
        (GovernanceError("x"), False),
        (NodeParked("x"), False),
        (Both("x"), False),
        (KeyError("x"), False),
        (TimeoutError(), True),
        (ConnectionResetError(), True),
        (BrokenPipeError(), True),
        (FileNotFoundError(), False),
        (OSError(28, "full"), False),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_what_is_retried(error: BaseException, retried: bool) -> None:  # noqa: FBT001
    """Listed and commonly known ones are; the list of refusals wins; unknown ones are not."""
    assert decide(RetryPolicy(), error).retry is retried
    assert decide(RetryPolicy(), error).is_final is not retried


def answers(status: int, headers: dict[str, str] | None = None) -> list[Exception]:
    """The errors by which four libraries tell of an answer."""
    from_requests = requests.Response()
    from_requests.status_code = status
    from_requests.headers.update(headers or {})
    request = httpx.Request("GET", "http://127.0.0.1")
    mail = Message()
    for name, value in (headers or {}).items():
        mail[name] = value
    url_error = urllib.error.HTTPError("http://127.0.0.1", status, "x", mail, None)
    url_error.close()
    metadata = {"HTTPStatusCode": status, "HTTPHeaders": headers or {}}
    return [
        requests.HTTPError(response=from_requests),
        httpx.HTTPStatusError(
            "x", request=request, response=httpx.Response(status, headers=headers, request=request)
        ),
        url_error,
        botocore.exceptions.ClientError({"ResponseMetadata": metadata}, "GetObject"),
    ]


@pytest.mark.conformance("NR-6.3")
@pytest.mark.parametrize("number", range(4))
def test_answers_are_retried_by_their_status(number: int) -> None:
    """408, 425, 429 and 5xx are; no other 4xx is, whichever library tells of it."""
    for status in (408, 425, 429, 500, 502, 503, 504):
        assert decide(RetryPolicy(), answers(status)[number]).retry, status
    for status in (400, 401, 403, 404, 409, 410, 422):
        assert not decide(RetryPolicy(), answers(status)[number]).retry, status


@pytest.mark.parametrize(
    ("error", "retried"),
    [
        (requests.ConnectionError(), True),
        (requests.ReadTimeout(), True),
        (requests.exceptions.SSLError(), False),
        (requests.exceptions.InvalidURL(), False),
        (httpx.ConnectTimeout("x"), True),
        (httpx.ReadError("x"), True),
        (httpx.UnsupportedProtocol("x"), False),
        (botocore.exceptions.ConnectTimeoutError(endpoint_url="x"), True),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_broken_connections_of_libraries_are_retried(error: Exception, *, retried: bool) -> None:
    """Timeouts and resets are; a bad certificate or address is not."""
    assert decide(RetryPolicy(), error).retry is retried
    assert not decide(RetryPolicy(retry_common=False), error).retry


@pytest.mark.parametrize("number", range(4))
def test_a_server_may_ask_for_a_longer_wait(number: int) -> None:
    """`Retry-After` in seconds or as a date; it lengthens a wait and never shortens it."""
    assert decide(RetryPolicy(), answers(429, {"Retry-After": "120"})[number]).delay_s == 120
    assert decide(RetryPolicy(), answers(429, {"retry-after": "1"})[number]).delay_s == 2
    date = "Mon, 16 Nov 2026 08:00:30 GMT"
    assert decide(RetryPolicy(), answers(503, {"Retry-After": date})[number]).delay_s == 30
    no_date = f"Mon, 16 Nov {'9' * 20} 08:00:30 GMT"
    for nothing in ("soon", "-5", "nan", "Mon, 16 Nov 2020 08:00:30 GMT", no_date):
        assert retry_after_s(answers(503, {"Retry-After": nothing})[number], lambda: NOW) is None


class OddError(Exception):
    """An error whose parts are not what their names say."""

    response: ClassVar = {"ResponseMetadata": None}
    retry_after = 10**400

    @property
    def status_code(self) -> int:
        """Fail, as a property does that needs what is closed by now."""
        raise RuntimeError("closed")


def test_an_error_with_odd_parts_says_nothing_of_a_status_or_a_wait() -> None:
    """What cannot be read of an error of somebody's own is as if it were not there."""
    assert not decide(RetryPolicy(), OddError()).retry
    assert decide(RetryPolicy(retry_unlisted=True), OddError()).delay_s == 2


@pytest.mark.conformance("NR-12.4", "C-17")
def test_attempts_and_time_are_bounded() -> None:
    """The last attempt, and a wait that would not fit, end the retries."""
    policy = RetryPolicy(max_attempts=3, total_s_max=100)
    assert decide(policy, TimeoutError(), attempts=2).retry
    assert not decide(policy, TimeoutError(), attempts=3).retry
    assert not decide(policy, TimeoutError(), attempts=4).retry
    assert decide(policy, TimeoutError(), spent_s=98).retry
    assert not decide(policy, TimeoutError(), spent_s=98.5).retry
    long = answers(429, {"Retry-After": "101"})[0]
    assert not decide(policy, long).retry
    assert not decide(policy, TimeoutError(), attempts=3).is_final


@pytest.mark.conformance("C-39")
def test_every_rule_counts_in_the_fingerprint() -> None:
    """A changed policy is another policy, wherever it is computed."""
    others = [
        {"max_attempts": 4},
        {"base_delay_s": 1.0},
        {"max_delay_s": 61.0},
        {"jitter_factor": 0.2},
        {"retry_on": (TransientError,)},
        {"no_retry_on": ()},
        {"retry_common": False},
        {"retry_unlisted": True},
        {"total_s_max": 10.0},
    ]
    prints = {RetryPolicy(**other).fingerprint for other in others}  # type: ignore[arg-type]
    assert len(prints | {RetryPolicy().fingerprint}) == len(others) + 1
    assert RetryPolicy(base_delay_s=2, jitter_factor=0.3).fingerprint == RetryPolicy().fingerprint
