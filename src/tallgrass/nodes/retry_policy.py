"""When a node is tried again, and after how long.

    delay = min(base_delay_s * 2 ** (attempt - 1), max_delay_s) * (1 ± jitter_factor)

The jitter comes after the cap, so a delay may reach ``max_delay_s * (1 + jitter_factor)``. Attempts
are counted over all processes that tried the task, and so is the time that they took: a crash gives
no new budget.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Any, Final

from tallgrass.clock import Clock
from tallgrass.errors import (
    GovernanceError,
    InvalidInput,
    NetworkError,
    TransientError,
    ValidationError,
)
from tallgrass.nodes.common_errors import commonly_retried, part, table_in
from tallgrass.nodes.values import hash_of_identity, type_name

#: No policy allows more, whatever somebody configured.
ATTEMPTS_CEILING: Final = 1_000
TOTAL_S_CEILING: Final = 7 * 86_400.0

#: The largest power of two that a float holds.
_EXPONENT_MAX: Final = 1023

Errors = tuple[type[BaseException], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryDecision:
    """What a policy says of an error."""

    retry: bool
    delay_s: float
    #: In words, for the log.
    why: str
    #: Whether the error is one that is never retried, whatever is left of the budget.
    is_final: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """Bounds and kinds of errors. `no_retry_on` wins; what neither knows is not retried."""

    max_attempts: int = 5
    base_delay_s: float = 2.0
    max_delay_s: float = 60.0
    jitter_factor: float = 0.3
    retry_on: Errors = (TransientError, NetworkError)
    no_retry_on: Errors = (ValidationError, GovernanceError)
    #: Timeouts, broken connections, throttling and answers 408, 425, 429 and 5xx count as listed,
    #: by whichever well-known library they are told.
    retry_common: bool = True
    #: Whether an error that nothing knows is retried.
    retry_unlisted: bool = False
    #: All attempts of a task and the waits between them, over all processes.
    total_s_max: float = 3_600.0

    def __post_init__(self) -> None:
        """Refuse what would retry for ever, never, or at once."""
        bounds: tuple[tuple[str, Any, float, float], ...] = (
            ("max_attempts", self.max_attempts, 1, ATTEMPTS_CEILING),
            ("base_delay_s", self.base_delay_s, 0, TOTAL_S_CEILING),
            ("max_delay_s", self.max_delay_s, self.base_delay_s, TOTAL_S_CEILING),
            ("jitter_factor", self.jitter_factor, 0, 1),
            ("total_s_max", self.total_s_max, 0, TOTAL_S_CEILING),
        )
        for name, value, low, high in bounds:
            if not isinstance(value, int | float) or isinstance(value, bool):
                raise _invalid(f"{name} is a number, not {value!r}")
            if math.isnan(value) or not low <= value <= high:
                raise _invalid(f"{name} is {value!r}; {low:g} to {high:g} is allowed")
        if not isinstance(self.max_attempts, int):
            raise _invalid(f"max_attempts is a whole number, not {self.max_attempts!r}")
        for name in ("retry_on", "no_retry_on"):
            for kind in getattr(self, name):
                if not (isinstance(kind, type) and issubclass(kind, BaseException)):
                    raise _invalid(f"{name} holds {kind!r}, which is no kind of error")

    @property
    def fingerprint(self) -> str:
        """What changes when the policy does."""
        return _fingerprint(self)

    def delay_s(self, attempt: int, uniform: Callable[[float, float], float]) -> float:
        """Return the wait after that attempt; `uniform` draws evenly between two numbers."""
        exponent = min(max(attempt, 1) - 1, _EXPONENT_MAX)
        delay: float = min(self.base_delay_s * 2.0**exponent, self.max_delay_s)
        return delay * (1.0 + uniform(-self.jitter_factor, self.jitter_factor))

    def decide(
        self,
        error: BaseException,
        *,
        attempts: int,
        spent_s: float,
        uniform: Callable[[float, float], float],
        clock: Clock,
    ) -> RetryDecision:
        """Say what follows an error, after so many attempts that took so long together."""
        retried, why = self.classify(error)
        if not retried:
            return RetryDecision(retry=False, delay_s=0.0, why=why, is_final=True)
        if attempts >= self.max_attempts:
            why = f"{attempts} of {self.max_attempts} attempts are spent"
            return RetryDecision(retry=False, delay_s=0.0, why=why, is_final=False)
        delay_s = max(self.delay_s(attempts, uniform), retry_after_s(error, clock) or 0.0)
        if spent_s + delay_s > self.total_s_max:
            why = f"{spent_s:.0f} s and a wait of {delay_s:.0f} s exceed {self.total_s_max:.0f} s"
            return RetryDecision(retry=False, delay_s=0.0, why=why, is_final=False)
        return RetryDecision(retry=True, delay_s=delay_s, why=why, is_final=False)

    def classify(self, error: BaseException) -> tuple[bool, str]:
        """Tell whether the kind of error is retried, and why."""
        if isinstance(error, self.no_retry_on):
            return False, "it is listed as never retried"
        if isinstance(error, self.retry_on):
            return True, "it is listed as retried"
        known = commonly_retried(error) if self.retry_common else None
        if known is not None:
            return known
        return self.retry_unlisted, "it is not listed"


@lru_cache(maxsize=256)
def _fingerprint(policy: RetryPolicy) -> str:
    values = {each.name: getattr(policy, each.name) for each in fields(policy)}
    for name in ("retry_on", "no_retry_on"):
        values[name] = sorted(type_name(kind) for kind in values[name])
    # Policies that are equal have one fingerprint, also where one says 2 and the other 2.0.
    return hash_of_identity(
        {name: float(each) if type(each) is int else each for name, each in values.items()}
    )


def retry_after_s(error: BaseException, clock: Clock) -> float | None:
    """Return how long the server asks to wait, if it does; a date in the past asks for nothing."""
    said = part(error, "retry_after")
    if said is None:
        said = _header(error, "retry-after")
    if said is None:
        return None
    try:
        seconds = float(said)
    except (TypeError, ValueError, OverflowError):
        seconds = _until(str(said), clock())
    return seconds if math.isfinite(seconds) and seconds > 0 else None


def _header(error: BaseException, name: str) -> Any:
    response = part(error, "response")
    if isinstance(response, dict):
        headers: Any = table_in(response, "ResponseMetadata").get("HTTPHeaders")
    else:
        headers = part(response, "headers") or part(error, "headers")
    if headers is None or not hasattr(headers, "items"):
        return None
    return next((value for key, value in headers.items() if str(key).lower() == name), None)


def _until(said: str, now: datetime) -> float:
    try:
        then = parsedate_to_datetime(said)
    except (TypeError, ValueError, OverflowError):
        return 0.0
    return ((then if then.tzinfo else then.replace(tzinfo=UTC)) - now).total_seconds()


def _invalid(message: str) -> InvalidInput:
    return InvalidInput(f"retry policy: {message}", code="node_declaration_invalid")
