"""Whether what is stored is what its evidence gives, unit by unit (pure).

The stored bytes themselves are compared, of the item and of the provenance's body, and that every
hash beside them is theirs. A source that changed or went is no mismatch: only `differs` is.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import orjson

from tallgrass.canonical_json import canonical_text, sha256_hex
from tallgrass.evidence.reading import Evidence, ReadFailure
from tallgrass.replay.recompute import AppliedAttempt, Recomputed
from tallgrass.stac.comparison import Difference, differences
from tallgrass.stac.source_object import is_md5, plain_etag

#: Told of one unit, and of one value; what is beyond is counted.
FIELDS_MAX = 20
_VALUE_CHARACTERS_MAX = 200
#: Units that a report names; the counts are of all.
LISTED_MAX = 100

#: The one failure of a read by which an object is known to be gone.
_GONE = "missing_object"
_NOT_JSON = "not JSON"
_OTHER_BYTES = "the same values in other bytes"


class Verdict(StrEnum):
    """What verification says of a unit."""

    IDENTICAL = "identical"  # made again, byte for byte
    DIFFERS = "differs"  # what is stored is not what its evidence gives
    SOURCE_CHANGED = "source_changed"  # read again, the object is another
    SOURCE_GONE = "source_gone"  # read again, the object is not there
    UNREAD = "unread"  # it could not be read again, for now: nothing is known of the source


class Part(StrEnum):
    """Where a difference was found."""

    ITEM = "item"
    PROVENANCE = "provenance"
    EVIDENCE = "evidence"
    LEDGER = "ledger"  # columns that should follow from the rest
    SOURCE = "source"  # the object, read again


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldDifference:
    """One field that is not the same; None where it is absent."""

    part: Part
    #: JSON Pointer inside a document, or the name of a column.
    field: str
    stored: str | None
    found: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredUnit:
    """A unit with all that is stored of its success; what is not there is None."""

    wal_id: str
    dataset: str
    object_uri: str
    applied: AppliedAttempt | None
    #: As the record names the item.
    named_item: tuple[str | None, str | None]
    #: As the catalog holds it.
    item: tuple[str, str] | None
    item_body: bytes | None
    item_sha256: str | None
    provenance_body: bytes | None
    provenance_sha256: str | None
    #: As the applied attempt recorded them.
    made_item_sha256: str | None
    made_provenance_sha256: str | None

    @property
    def has_nothing(self) -> bool:
        """Whether it never succeeded and nothing says that it did."""
        return self.applied is None and self.item is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What came of one unit."""

    unit: StoredUnit
    verdict: Verdict
    #: At most `FIELDS_MAX`.
    fields: tuple[FieldDifference, ...] = ()
    fields_left_out: int = 0
    #: Why nothing could be compared, if so: a code and words.
    failure: tuple[str, str] | None = None


def judge(unit: StoredUnit, made: Recomputed | None) -> Judgement:
    """Compare what is stored with what was made again; None for a unit that was never applied."""
    if made is None:
        failure = ("never_applied", "there is an item, and no attempt that made it")
        return Judgement(unit=unit, verdict=Verdict.DIFFERS, failure=failure)
    found = list(_columns(unit))
    if made.item is None or made.provenance is None:
        return _judgement(unit, found, failure=made.failure or ("operator_error", "no item"))
    if (
        not found
        and unit.item_body == made.item.body
        and unit.provenance_body == made.provenance.body
    ):
        return Judgement(unit=unit, verdict=Verdict.IDENTICAL)
    found += _documents(Part.ITEM, unit.item_body, made.item.body)
    found += _documents(Part.PROVENANCE, unit.provenance_body, made.provenance.body)
    return _judgement(unit, found)


def judge_source(unit: StoredUnit, read: Evidence | ReadFailure) -> Judgement:
    """Compare the object, read again, with the evidence of a unit that is identical so far."""
    if isinstance(read, ReadFailure):
        verdict = Verdict.SOURCE_GONE if read.code == _GONE else Verdict.UNREAD
        return Judgement(unit=unit, verdict=verdict, failure=(read.code, read.message))
    if unit.applied is None or unit.applied.evidence is None:
        raise ValueError(f"{unit.wal_id} was not found identical")
    kept = Evidence.from_bytes(unit.applied.evidence)
    changed = list(_source_changes(kept, read))
    if changed:
        return _judgement(unit, changed, verdict=Verdict.SOURCE_CHANGED)
    if kept.source != read.source:
        # Nothing was read then: there is nothing more to compare.
        return Judgement(unit=unit, verdict=Verdict.IDENTICAL)
    told = _documents(Part.EVIDENCE, _content(kept), _content(read))
    # The same bytes that are read differently: the reader is another, not the source.
    same_bytes = _comparable(kept, read) is not None
    verdict = Verdict.DIFFERS if same_bytes else Verdict.SOURCE_CHANGED
    return _judgement(unit, told, verdict=verdict if told else Verdict.IDENTICAL)


def _judgement(
    unit: StoredUnit,
    found: list[FieldDifference],
    *,
    verdict: Verdict = Verdict.DIFFERS,
    failure: tuple[str, str] | None = None,
) -> Judgement:
    return Judgement(
        unit=unit,
        verdict=verdict,
        fields=tuple(found[:FIELDS_MAX]),
        fields_left_out=max(0, len(found) - FIELDS_MAX),
        failure=failure,
    )


def _columns(unit: StoredUnit) -> Iterator[FieldDifference]:
    """Find hashes that are not those of the bytes, and an item of another name."""
    item, provenance = _hash_of(unit.item_body), _hash_of(unit.provenance_body)
    for name, stored, found in (
        ("stac_items.sha256", unit.item_sha256, item),
        ("wal_attempts.item_sha256", unit.made_item_sha256, item),
        ("provenance.sha256", unit.provenance_sha256, provenance),
        ("wal_attempts.provenance_sha256", unit.made_provenance_sha256, provenance),
    ):
        if stored != found:
            yield FieldDifference(part=Part.LEDGER, field=name, stored=stored, found=found)
    if unit.item is not None and unit.named_item != unit.item:
        yield FieldDifference(
            part=Part.LEDGER,
            field="wal_records.stac_item_id",
            stored="/".join(str(name) for name in unit.named_item),
            found="/".join(unit.item),
        )


def _documents(part: Part, stored: bytes | None, found: bytes) -> list[FieldDifference]:
    """Return the fields in which two documents differ; equal bytes differ in none."""
    if stored == found:
        return []
    if stored is None:
        return [FieldDifference(part=part, field="", stored=None, found=f"{len(found):,} bytes")]
    try:
        unlike = differences(stored, found)
    except orjson.JSONDecodeError:
        unlike = (Difference(pointer="", left=_NOT_JSON, right=None),)
    told = unlike or (Difference(pointer="", left=_OTHER_BYTES, right=None),)
    return [
        FieldDifference(
            part=part, field=each.pointer, stored=_cut(each.left), found=_cut(each.right)
        )
        for each in told
    ]


def _source_changes(kept: Evidence, read: Evidence) -> Iterator[FieldDifference]:
    etags = _comparable(kept, read)
    if etags is not None and etags[0] != etags[1]:
        yield FieldDifference(part=Part.SOURCE, field="/etag", stored=etags[0], found=etags[1])
    if kept.size is not None and kept.size != read.size:
        yield FieldDifference(
            part=Part.SOURCE, field="/size", stored=str(kept.size), found=str(read.size)
        )


def _comparable(kept: Evidence, read: Evidence) -> tuple[str, str] | None:
    """Return both etags where they are of one kind: a copy's MD5 says nothing of parts' hashes."""
    one, other = plain_etag(kept.etag), plain_etag(read.etag)
    if one is None or other is None or is_md5(one) != is_md5(other):
        return None
    return one, other


def _content(evidence: Evidence) -> bytes:
    """Return what a reader found, without the etag, which may be of another kind."""
    values = {"header": dict(evidence.header), "issues": list(evidence.issues)}
    return canonical_text(values).encode()


def _hash_of(body: bytes | None) -> str | None:
    return None if body is None else sha256_hex(body)


def _cut(text: str | None) -> str | None:
    if text is None or len(text) <= _VALUE_CHARACTERS_MAX:
        return text
    return text[:_VALUE_CHARACTERS_MAX] + "…"


@dataclass(slots=True)
class VerifyReport:
    """What verification comes to, counted while it passes."""

    counts: Counter[Verdict] = field(default_factory=Counter)
    #: Selected units that never succeeded: there is nothing to verify.
    without_item: int = 0
    #: Made by another code or configuration than the present one.
    other_versions: int = 0
    by_dataset: dict[str, Counter[Verdict]] = field(default_factory=dict)
    #: The first that are not identical.
    listed: list[Judgement] = field(default_factory=list)

    def count(self, judgement: Judgement, program: tuple[str, str]) -> None:
        """Count one unit; `program` is the present version of code and configuration."""
        verdict, unit = judgement.verdict, judgement.unit
        self.counts[verdict] += 1
        self.by_dataset.setdefault(unit.dataset, Counter())[verdict] += 1
        made_by = unit.applied and (unit.applied.code_version, unit.applied.config_version)
        self.other_versions += made_by != program
        if verdict is not Verdict.IDENTICAL and len(self.listed) < LISTED_MAX:
            self.listed.append(judgement)

    @property
    def verified(self) -> int:
        """How many units were judged."""
        return self.counts.total()

    @property
    def holds(self) -> bool:
        """Whether nothing differs, and nothing was left unread."""
        return not self.counts[Verdict.DIFFERS] and not self.counts[Verdict.UNREAD]

    def document(self) -> dict[str, Any]:
        """Return the report as a JSON value; every verdict is there."""
        unlike = self.verified - self.counts[Verdict.IDENTICAL]
        return {
            "verified": self.verified,
            **_by_verdict(self.counts),
            "without_item": self.without_item,
            "other_versions": self.other_versions,
            "by_dataset": {name: _by_verdict(c) for name, c in sorted(self.by_dataset.items())},
            "units": [_told(judgement) for judgement in self.listed],
            "units_left_out": unlike - len(self.listed),
        }


def _by_verdict(counts: Counter[Verdict]) -> dict[str, int]:
    return {verdict.value: counts[verdict] for verdict in Verdict}


def _told(judgement: Judgement) -> dict[str, Any]:
    unit, failure = judgement.unit, judgement.failure
    return {
        "wal_id": unit.wal_id,
        "dataset": unit.dataset,
        "object_uri": unit.object_uri,
        "verdict": judgement.verdict.value,
        "code_version": unit.applied and unit.applied.code_version,
        "config_version": unit.applied and unit.applied.config_version,
        "failure": None if failure is None else {"code": failure[0], "message": failure[1]},
        "fields": [
            {
                "part": each.part.value,
                "field": each.field,
                "stored": each.stored,
                "found": each.found,
            }
            for each in judgement.fields
        ],
        "fields_left_out": judgement.fields_left_out,
    }
