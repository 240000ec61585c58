"""What a payload may be: plain JSON of bounded size, without persons, secrets or exact places.

Pure: a document goes in, the bytes that consumers get come out, or a refusal that names the field
and the kind of what is wrong, never the value.
"""

import json
import marshal
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from tallgrass.canonical_json import canonical_bytes
from tallgrass.errors import PayloadRefused
from tallgrass.governance.masking import Masked, MaskingPolicy, Tier, mask
from tallgrass.governance.policy import CARE_LABELS, RESTRICTED, Policies, Policy
from tallgrass.outbox.sensitive_content import sensitive_kinds
from tallgrass.outbox.sensitive_hints import hints_in

PAYLOAD_BYTES_MAX = 262_144
#: Deeper ones are refused by careful readers, ours among them.
DEPTH_MAX = 64

#: Fields that `payload_bytes` itself writes.
CARE_LABEL = "care_label"
GOVERNANCE_REF = "governance_ref"
SOVEREIGNTY = "sovereignty"
MASKING = "masking"
#: The policy under which an item was made, where it has a name.
POLICY_REF = "policy_ref"
#: Which item went when the event's item came, where that had another id until then.
REPLACES = "replaces"

#: Numbers beyond are read differently by different readers.
_INTEGERS = range(-(2**63), 2**63)
_STRICT = json.JSONEncoder(allow_nan=False)
_NOTHING: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class PayloadRules:
    """Limits of payloads, and which places must not be told exactly."""

    bytes_max: int = PAYLOAD_BYTES_MAX
    masking: MaskingPolicy = field(default_factory=MaskingPolicy)
    #: Of the datasets that are published; one without a policy is judged by the event's label.
    policies: Policies = field(default_factory=Policies)

    def under(self, policy: Policy | None) -> Self:
        """Return the rules for a dataset whose policy says how exact its places may be told."""
        if policy is None:
            return self
        tiers = [tier for tier in Tier if tier.degrees == policy.degrees]
        labels = tuple((label, tier) for label in CARE_LABELS for tier in tiers)
        return replace(self, masking=replace(self.masking, labels=labels))


def payload_bytes(
    payload: Mapping[str, Any],
    *,
    care_label: str,
    governance_ref: str | None,
    sovereignty: Mapping[str, Any] | None,
    rules: PayloadRules,
    beside: Mapping[str, str] = _NOTHING,
) -> bytes:
    """Return the bytes that consumers get: the payload with its label and what governs it.

    Restricted data need a reference; sovereignty travels where it is declared. Places are made as
    coarse as the rules ask for, and the payload says so. `beside` are texts by name that consumers
    get with the payload: they must be as harmless, and tell no place more exactly than it.
    """
    if care_label == RESTRICTED and not governance_ref:
        raise PayloadRefused(
            "restricted data are told of only with a governance_ref", code="governance_ref_missing"
        )
    document = dict(payload)
    _embed(document, CARE_LABEL, care_label)
    if governance_ref is not None:
        _embed(document, GOVERNANCE_REF, governance_ref)
    if sovereignty:
        _embed(document, SOVEREIGNTY, dict(sovereignty))
    body = _plain_json(document)
    masked = _masked(document, care_label, rules.masking, beside)
    if masked is not document:
        body = canonical_bytes(masked)
    if len(body) > rules.bytes_max:
        raise PayloadRefused(
            f"the payload has {len(body)} bytes; at most {rules.bytes_max} are published",
            code="payload_too_large",
        )
    if any(hints_in("\n".join((*beside.values(), "")).encode() + body)):
        _require_harmless(masked, beside)
    return body


def _embed(document: dict[str, Any], key: str, value: object) -> None:
    """Put a field in; one that is there already must say the same."""
    if document.setdefault(key, value) != value:
        raise PayloadRefused(f"the payload's {key} is not that of the event")


def _masked(
    document: dict[str, Any], care_label: str, policy: MaskingPolicy, beside: Mapping[str, str]
) -> Mapping[str, Any]:
    """Return the document with coarser places; texts beside it are names, and so are refused."""
    told = {"payload": document, "beside": beside}
    if policy.tier_of(told, care_label) is None:
        return document
    masked: Masked = mask(told, care_label, policy)
    if masked.tier is None:
        return document
    coarse = masked.document["beside"]
    if exact := [name for name, text in beside.items() if coarse[name] != text]:
        raise PayloadRefused(
            f"{', '.join(exact)}: a place must not be told more exactly than to "
            f"{masked.tier.degrees:g}°; write it as coarse, or leave it out",
            code="payload_sensitive",
        )
    if MASKING in document:
        raise PayloadRefused(f"the payload's {MASKING} is written by the outbox; leave it out")
    return {**masked.document["payload"], MASKING: masking_note(masked.tier.degrees)}


def masking_note(degrees: float) -> dict[str, object]:
    """Return what a payload says of how coarse its places are."""
    return {"method": "degree-grid", "degrees": degrees}


def _plain_json(document: dict[str, Any]) -> bytes:
    """Return the bytes of a document; refuse what is no JSON, or what readers disagree about."""
    try:
        body = canonical_bytes(document)
        # It writes NaN as null, and takes UUIDs and the like. Of all that it takes, marshal takes
        # plain JSON and NaN alone; what may be another is left to a slower, stricter writer.
        if b"null" in body or not _can_be_marshalled(document):
            _STRICT.encode(document)
    except (TypeError, ValueError, RecursionError) as exc:
        where = next(_faults(document), "it cannot be written")
        raise PayloadRefused(f"the payload is not plain JSON: {where}") from exc
    # Fewer brackets than levels cannot be too deep.
    if body.count(b"[") + body.count(b"{") > DEPTH_MAX:
        for fault in _faults(document):
            raise PayloadRefused(f"the payload is not plain JSON: {fault}")
    return body


def _can_be_marshalled(document: dict[str, Any]) -> bool:
    try:
        marshal.dumps(document)
    except ValueError:
        return False
    return True


def _faults(value: object, path: str = "$", depth: int = 1) -> Iterator[str]:
    """Yield what is wrong with a value, each with its place."""
    if depth > DEPTH_MAX:
        yield f"{path[:80]}… is more than {DEPTH_MAX} levels deep"
    elif isinstance(value, Mapping):
        for key, each in value.items():
            if isinstance(key, str):
                yield from _faults(each, f"{path}.{key}", depth + 1)
            else:
                yield f"a key of {path} is a {type(key).__name__}, not a text"
    elif isinstance(value, list | tuple):
        for index, each in enumerate(value):
            yield from _faults(each, f"{path}[{index}]", depth + 1)
    elif problem := _scalar_fault(value):
        yield f"{path} {problem}"


def _scalar_fault(value: object) -> str | None:
    if isinstance(value, str):
        halved = any("\ud800" <= char <= "\udfff" for char in value)
        return "holds half a character" if halved else None
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, float):
        return None if math.isfinite(value) else f"is {value}; a number must be finite"
    if isinstance(value, int):
        return None if value in _INTEGERS else "has more than 64 bits; write it as text"
    return f"is a {type(value).__name__}"


def _require_harmless(document: Mapping[str, Any], beside: Mapping[str, str]) -> None:
    """Refuse what holds data of persons or what opens doors."""
    # Together: looking twice takes nearly twice as long.
    kinds = list(sensitive_kinds((document, beside)))
    if kinds:
        outside = [name for name, text in beside.items() if any(sensitive_kinds(text))]
        places = ", ".join([*_places_of(document), *outside]) or "the payload"
        raise PayloadRefused(
            f"{places}: {' and '.join(kinds)} must not be published", code="payload_sensitive"
        )


def _places_of(value: object, path: str = "$") -> Iterator[str]:
    """Yield the fields that hold what must not be published; a name that does is not repeated."""
    if isinstance(value, Mapping):
        for key, each in value.items():
            if any(sensitive_kinds(key)):
                yield f"a name in {path}"
                yield from _places_of(each, f"{path}.…")
            elif inside := list(_places_of(each, f"{path}.{key}")):
                yield from inside
            elif any(sensitive_kinds({key: each})):
                yield f"{path}.{key}"
    elif isinstance(value, list | tuple):
        for index, each in enumerate(value):
            yield from _places_of(each, f"{path}[{index}]")
    elif any(sensitive_kinds(value)):
        yield path
