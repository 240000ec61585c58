"""Why a record was put back: the listed reasons and the governed custom codes."""

import re
from dataclasses import dataclass

from tallgrass.errors import ConfigError, InvalidInput

#: `none` = never replayed; null means the same on import.
LISTED = ("none", "dlq-drain", "incident", "backfill", "test")
DLQ_DRAIN = "dlq-drain"

_FORM = re.compile(r"[a-z][a-z0-9-]{1,63}")


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomReason:
    """A reason of the house's own, allowed by the approval that it names."""

    code: str
    description: str
    approval_ref: str

    def __post_init__(self) -> None:
        """Refuse a malformed code, a listed one, and one that nobody approved."""
        if not _FORM.fullmatch(self.code) or self.code in LISTED:
            raise ConfigError(
                f"ledger.replay_reasons: {self.code!r} must be lower-case words joined by '-' "
                f"and none of {', '.join(LISTED)}"
            )
        if not self.approval_ref.strip():
            raise ConfigError(
                f"ledger.replay_reasons.{self.code}: a custom reason needs an approval_ref",
                code="exception_without_approval",
            )


def require_reason(code: str | None, custom: dict[str, CustomReason]) -> str:
    """Return a known reason (null is `none`); an unregistered one is refused."""
    if code is None:
        return "none"
    if code in LISTED or code in custom:
        return code
    known = ", ".join((*LISTED, *sorted(custom)))
    raise InvalidInput(
        f"unknown replay reason {code!r}: known are {known}", code="unknown_replay_reason"
    )
