"""Entity tags: a reader who has a document already gets 304, and a stale writer is refused.

The tag of a unit is the version of its record. An action names the version that its page showed; if
the record has changed since, nothing is done, and the answer tells the present state.
"""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Annotated

from fastapi import Header

from tallgrass.api.problems import RequestRefused
from tallgrass.canonical_json import sha256_hex
from tallgrass.errors import InvalidInput

_TAG_CHARS = 32

#: The If-Match header of a write: what its sender saw.
Seen = Annotated[str | None, Header()]


def tag_of_bytes(body: bytes) -> str:
    """Return the tag of a document that has no version of its own."""
    return f'"{sha256_hex(body)[:_TAG_CHARS]}"'


def tag_of_version(version: int) -> str:
    """Return the tag of a record."""
    return f'"{version}"'


def matches(header: str | None, tag: str) -> bool:
    """Tell whether an If-None-Match or If-Match header names a tag."""
    if header is None:
        return False
    names = [name.strip().removeprefix("W/") for name in header.split(",")]
    return tag in names or "*" in names


def version_in(header: str | None) -> int:
    """Return the version that an If-Match header asks for; a write without one is refused."""
    if header is None:
        raise _unnamed()
    number = header.strip().strip('"')
    if not number.isascii() or not number.isdigit() or len(number) > len(str(2**63)):
        raise InvalidInput(f"If-Match takes the ETag of a record, not {header[:80]!r}")
    return int(number)


def require_version(wanted: int, now: int, changed: Mapping[str, object]) -> None:
    """Refuse an action on a record that has changed; `changed` tells its present state."""
    if wanted != now:
        message = f"it has moved on: version {now}, not {wanted}"
        raise _moved_on(message, tag_of_version(now), changed)


def require_tag(header: str | None, now: str, changed: Mapping[str, object]) -> None:
    """Refuse an action on a document without a version that has changed, by its tag."""
    if header is None:
        raise _unnamed()
    if not matches(header, now):
        raise _moved_on("it has moved on since it was read", now, changed)


def _unnamed() -> RequestRefused:
    return RequestRefused(
        "which version is meant? If-Match with the ETag of what was read",
        status=HTTPStatus.PRECONDITION_REQUIRED,
        code="precondition_required",
    )


def _moved_on(message: str, now: str, changed: Mapping[str, object]) -> RequestRefused:
    return RequestRefused(
        message,
        status=HTTPStatus.PRECONDITION_FAILED,
        code="version_conflict",
        headers={"ETag": now},
        more={"changed": dict(changed)},
    )
