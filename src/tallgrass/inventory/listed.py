"""An object as a listing tells of it, and the line in which lists of objects are exchanged."""

from datetime import datetime
from typing import NamedTuple

from tallgrass.canonical_json import canonical_text
from tallgrass.clock import format_instant, parse_instant
from tallgrass.errors import InvalidInput

#: What a database keeps as a number of bytes.
SIZE_MAX = 2**63 - 1

_FIELDS = frozenset({"uri", "size", "etag", "modified"})


class ListedObject(NamedTuple):
    """One object of a listing. A tuple: a million of them are made in half a second.

    What the listing does not tell is None: a list of keys tells nothing else.
    """

    #: ``scheme://bucket/key`` with the bucket that was listed and the key as the store knows it;
    #: neither checked nor mapped to the bucket's present name.
    uri: str
    size: int | None
    #: As notifications give it: without quotes. None where the store has no such etag.
    etag: str | None
    modified: datetime | None


def listed_line(listed: ListedObject) -> str:
    """Return the object as one line of JSON, which `listed_of_line` reads back."""
    modified = None if listed.modified is None else format_instant(listed.modified)
    told = {"uri": listed.uri, "size": listed.size, "etag": listed.etag, "modified": modified}
    return canonical_text({name: value for name, value in told.items() if value is not None})


def listed_of_line(value: object) -> ListedObject:
    """Return the object of a line of JSON that was parsed; anything else is refused."""
    if not isinstance(value, dict) or not isinstance(value.get("uri"), str):
        raise InvalidInput("a listed object needs a uri", code="listing_invalid")
    unknown = value.keys() - _FIELDS
    if unknown:
        raise InvalidInput(
            f"a listed object has no field {min(unknown)!r}: known are {sorted(_FIELDS)}",
            code="listing_invalid",
        )
    size, etag, modified = value.get("size"), value.get("etag"), value.get("modified")
    if not (size is None or type(size) is int):
        raise InvalidInput(f"a size is a number of bytes, not {size!r}", code="listing_invalid")
    require_size(size)
    if not (etag is None or isinstance(etag, str)):
        raise InvalidInput(f"an etag is text, not {etag!r}", code="listing_invalid")
    if not (modified is None or isinstance(modified, str)):
        raise InvalidInput(f"a time is text, not {modified!r}", code="listing_invalid")
    return ListedObject(
        uri=value["uri"],
        size=size,
        etag=etag or None,
        modified=None if modified is None else parse_instant(modified),
    )


def require_size(size: int | None) -> None:
    """Refuse a number of bytes that no object can have."""
    if size is not None and not 0 <= size <= SIZE_MAX:
        raise InvalidInput(f"a size is a number of bytes, not {size}", code="listing_invalid")
