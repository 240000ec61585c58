"""What was read of an object, and how it could fail."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, Self

import orjson

from tallgrass.canonical_json import canonical_bytes
from tallgrass.errors import InvalidInput
from tallgrass.ledger.unit import IngestUnit

_ODD = "the kept evidence is not what a reading gives"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What one read yielded. Outputs are functions of it, so it is kept with the attempt.

    Its canonical bytes are at most 8,192; they hold no time of reading and no address.
    """

    #: As read: the store's etag, for a local object the MD5 of its content.
    etag: str | None
    size: int | None
    #: Where it came from: `object` (head and tail were read) or `event` (nothing was read).
    source: str
    #: What the format reader found: `format`, `complete`, times, place, product …; JSON values.
    header: Mapping[str, object]
    #: Issue codes that the reader met, such as `content_type_invalid` or `size_too_small`.
    issues: tuple[str, ...] = ()

    def to_bytes(self) -> bytes:
        """Return the canonical bytes that the ledger keeps."""
        return canonical_bytes(
            {
                "etag": self.etag,
                "header": dict(self.header),
                "issues": list(self.issues),
                "size": self.size,
                "source": self.source,
            }
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read what `to_bytes` wrote; anything else is refused."""
        try:
            values = orjson.loads(data)
            values["issues"] = tuple(values["issues"])
            evidence = cls(**values)
            exact = evidence.to_bytes() == data
        except (ValueError, KeyError, TypeError) as exc:
            raise InvalidInput(_ODD) from exc
        if not exact:
            raise InvalidInput(_ODD)
        return evidence


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadFailure:
    """Why an object could not be read, such as `missing_object` or `access_denied`."""

    code: str
    message: str
    #: Whether the object may just not be there yet.
    may_come: bool = False


class EvidenceReader(Protocol):
    """Reads what there is to know of objects; never raises for an object's own faults."""

    def read(self, units: Sequence[IngestUnit]) -> Sequence[Evidence | ReadFailure]:
        """Return one answer for each unit, in the order given."""
