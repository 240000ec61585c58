"""Change records and incidents: what a replay or a drain refers to (pure)."""

import re
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from tallgrass.errors import InvalidInput

_REF = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/#-]{0,99}", re.ASCII)


class ReferenceKind(StrEnum):
    """Which of the two."""

    CHANGE = "change"
    INCIDENT = "incident"

    @property
    def noun(self) -> str:
        """Its name in a sentence."""
        return "change record" if self is ReferenceKind.CHANGE else "incident"

    @property
    def words(self) -> str:
        """Its name with an article."""
        return f"{'a' if self is ReferenceKind.CHANGE else 'an'} {self.noun}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """A change record or an incident."""

    kind: ReferenceKind
    ref: str
    title: str
    description: str
    opened_by: str
    opened_at: datetime
    closed_by: str | None = None
    closed_at: datetime | None = None
    resolution: str | None = None


def require_ref(ref: str) -> str:
    """Return a reference that can be typed and quoted, such as CHG-2041."""
    if not _REF.fullmatch(ref):
        message = (
            f"{ref!r} cannot be a reference: letters, digits and . _ : / # - only, at most 100"
        )
        raise InvalidInput(message)
    return ref
