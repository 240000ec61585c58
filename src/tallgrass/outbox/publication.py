"""An event as its publisher writes it, and what becomes of it: pure, no database.

`prepare` checks an event and gives it key, payload and targets. `decide` compares what is to be
published with what was published before under the same keys.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

from tallgrass.canonical_json import canonical_bytes, sha256_hex
from tallgrass.errors import GuardRefused, IdempotencyConflict, PayloadRefused
from tallgrass.governance.gate import Action, Admission, GateRequest, Rule, gate
from tallgrass.governance.policy import CARE_LABELS, Policy
from tallgrass.outbox.keys import INDEXED_BYTES_MAX, idempotency_key, indexed_bytes_beyond
from tallgrass.outbox.payload_rules import PayloadRules, payload_bytes
from tallgrass.outbox.routing import Routing
from tallgrass.provenance.ids import netstrings

#: Names, references and keys are short; what is longer is a mistake.
TEXT_CHARS_MAX = 512

#: Semantic Versioning 2.0.0, with the leading v that releases are often written with.
_VERSION = re.compile(
    r"v?(?:0|[1-9]\d*)\.(?:0|[1-9]\d*)\.(?:0|[1-9]\d*)"
    r"(?:-(?:0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*)(?:\.(?:0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*))*)?"
    r"(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?",
    re.ASCII,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """What was made, in one version: where it lies, and the checksum of its content."""

    uri: str
    checksum: str
    #: Semantic; that of the event if it is not given.
    version: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened to a dataset and that others are to hear of."""

    #: The pipeline and its release; not one run of it, or a re-run would be another event.
    pipeline_id: str
    event_name: str
    dataset_id: str
    #: Semantic, with or without a leading v.
    version: str
    payload: Mapping[str, Any]
    #: `public`, `sensitive` or `restricted`.
    care_label: str
    #: What allows the publication; restricted data need one.
    governance_ref: str | None = None
    #: Whose data these are and what follows from it; travels in the payload.
    sovereignty: Mapping[str, Any] | None = None
    #: What the event is about; the dataset if it is not given.
    subject: str | None = None
    #: The caller's own key; made by docs/idempotency/key_spec.md if it is not given.
    idempotency_key: str | None = None
    artifact: Artifact | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """What became of an event."""

    idempotency_key: str
    #: One for each target; of a duplicate, those of the first publication, none if archived.
    outbox_ids: tuple[str, ...]
    #: Whether the same event had been published before.
    duplicate: bool


class Prepared(NamedTuple):
    """A checked event, as it would be written. A tuple: three times as quick to make."""

    event: Event
    key: str
    subject: str
    body: bytes
    #: What a second publication under the key must repeat: `Facts` of the first.
    facts: "Facts"
    targets: tuple[str, ...]


class Facts(NamedTuple):
    """What a key stands for."""

    subject: str
    pipeline_id: str
    event_name: str
    dataset_id: str
    version: str
    payload_sha256: str
    artifact_uri: str | None
    artifact_checksum: str | None
    care_label: str
    governance_ref: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a publication writes."""

    new: tuple[Prepared, ...]
    #: Events whose key was there before, in the order given.
    duplicates: tuple[Prepared, ...]
    #: Versions of artifacts that are not registered yet: each with the event that tells of it.
    artifacts: tuple[Prepared, ...]


#: Admissions by what the gate sees of an event: those of one batch are mostly alike.
Admissions = dict[tuple[str, str, str | None], Admission]


def prepare(
    event: Event, rules: PayloadRules, routing: Routing, admissions: Admissions | None = None
) -> Prepared:
    """Check an event and give it its key, its payload and its targets.

    `admissions` is kept from event to event of a batch: asking the gate took a seventh of the time.
    """
    _check(event)
    policy = rules.policies.of(event.dataset_id)
    event = _governed(event, policy, {} if admissions is None else admissions)
    artifact = event.artifact
    subject = event.subject or event.dataset_id
    body = payload_bytes(
        event.payload,
        care_label=event.care_label,
        governance_ref=event.governance_ref,
        sovereignty=event.sovereignty,
        rules=rules.under(policy),
        beside=_texts_beside(event),
    )
    targets = routing.targets_for(event.event_name, event.dataset_id, event.care_label)
    if not targets:
        raise PayloadRefused(
            f"no route wants {event.event_name}, and it has no default target",
            code="unknown_target",
        )
    # By position: names take three times as long.
    facts = Facts(
        subject,
        event.pipeline_id,
        event.event_name,
        event.dataset_id,
        event.version,
        sha256_hex(body),
        artifact.uri if artifact else None,
        artifact.checksum if artifact else None,
        event.care_label,
        event.governance_ref,
    )
    key = event.idempotency_key or _key(event, subject)
    if size := indexed_bytes_beyond(subject, key):
        raise PayloadRefused(
            f"subject and idempotency_key have {size:,} bytes together; "
            f"at most {INDEXED_BYTES_MAX:,} are kept"
        )
    return Prepared(event, key, subject, body, facts, targets)


def _texts_beside(event: Event) -> dict[str, str]:
    """Return what consumers get beside the payload and the caller words freely."""
    texts = {}
    if event.subject is not None:
        texts["subject"] = event.subject
    if event.idempotency_key is not None:
        texts["idempotency_key"] = event.idempotency_key
    if event.artifact is not None:
        texts["artifact.uri"] = event.artifact.uri
    return texts


def artifact_version(event: Event) -> tuple[str, str]:
    """Return the address and version that an event's artifact is registered under."""
    if event.artifact is None:
        raise AssertionError  # asked only of events with one
    return event.artifact.uri, event.artifact.version or event.version


def decide(
    wanted: Sequence[Prepared],
    keys: Mapping[str, Facts],
    checksums: Mapping[tuple[str, str], str],
) -> Plan:
    """Tell new events from repeated ones; what contradicts an earlier publication is refused.

    `keys` and `checksums` are what stands under the keys and artifact versions of the events.
    """
    known, registered = dict(keys), dict(checksums)
    new: list[Prepared] = []
    duplicates: list[Prepared] = []
    artifacts: list[Prepared] = []
    for each in wanted:
        _require_same_artifact(each, registered)
        if each.key not in known:
            known[each.key] = each.facts
            new.append(each)
        else:
            _require_same_facts(each, known[each.key])
            duplicates.append(each)
        if each.event.artifact is not None and artifact_version(each.event) not in registered:
            registered[artifact_version(each.event)] = each.event.artifact.checksum
            artifacts.append(each)
    return Plan(new=tuple(new), duplicates=tuple(duplicates), artifacts=tuple(artifacts))


def _key(event: Event, subject: str) -> str:
    """Return the key of what is published: an artifact in its version, or the payload itself."""
    if event.artifact is not None:
        object_ref = netstrings(*artifact_version(event))
        content_hash = event.artifact.checksum
    else:
        object_ref = netstrings(subject, event.version)
        content_hash = f"sha256:{sha256_hex(canonical_bytes(dict(event.payload)))}"
    return idempotency_key(
        pipeline_id=event.pipeline_id,
        event_name=event.event_name,
        dataset_id=event.dataset_id,
        object_ref=object_ref,
        content_hash=content_hash,
    )


def _require_same_facts(wanted: Prepared, first: Facts) -> None:
    if wanted.facts != first:
        names = [
            name for name in Facts._fields if getattr(wanted.facts, name) != getattr(first, name)
        ]
        raise IdempotencyConflict(
            f"{wanted.key} was published before with another {', '.join(names)}"
        )


def _require_same_artifact(wanted: Prepared, checksums: Mapping[tuple[str, str], str]) -> None:
    artifact = wanted.event.artifact
    if artifact is None:
        return
    uri, version = artifact_version(wanted.event)
    if checksums.get((uri, version), artifact.checksum) != artifact.checksum:
        raise IdempotencyConflict(f"{uri} was published before in {version} with another checksum")


def _governed(event: Event, policy: Policy | None, admissions: Admissions) -> Event:
    """Return the event with what its policy adds; one that the gate refuses is not published."""
    seen = (event.dataset_id, event.care_label, event.governance_ref)
    admission = admissions.get(seen)
    if admission is None:
        admission = admissions[seen] = _admission(event, policy)
    sovereignty = event.sovereignty or admission.sovereignty or None
    if (admission.governance_ref, sovereignty) == (event.governance_ref, event.sovereignty):
        return event
    return replace(event, governance_ref=admission.governance_ref, sovereignty=sovereignty)


def _admission(event: Event, policy: Policy | None) -> Admission:
    admission = gate(
        GateRequest(
            action=Action.PUBLISH,
            dataset=event.dataset_id,
            policy=policy,
            care_label=event.care_label,
            governance_ref=event.governance_ref,
        )
    )
    if admission.rule is Rule.GOVERNANCE_REF_MISSING:
        raise PayloadRefused(admission.refusal or "", code="governance_ref_missing")
    if admission.rule is not None:
        raise GuardRefused(admission.refusal or "", guard=admission.rule.value)
    return admission


def _check(event: Event) -> None:
    fixed = (event.pipeline_id, event.event_name, event.dataset_id, event.version)
    # What is no text may have no hash to be remembered by.
    check = _check_fixed if all(isinstance(each, str) for each in fixed) else _check_names
    check(*fixed)
    if event.artifact is not None:
        _check_text("artifact.uri", event.artifact.uri)
        _check_text("artifact.checksum", event.artifact.checksum)
        if event.artifact.version is not None:
            _check_version("artifact.version", event.artifact.version)
    if event.subject is not None:
        _check_text("subject", event.subject)
    if event.governance_ref is not None:
        _check_text("governance_ref", event.governance_ref)
    if event.idempotency_key is not None:
        _check_text("idempotency_key", event.idempotency_key)
    if event.care_label not in CARE_LABELS:
        raise PayloadRefused(
            f"care_label must be {', '.join(CARE_LABELS[:-1])} or {CARE_LABELS[-1]}, "
            f"not {event.care_label!r}"
        )
    for name, value in (("payload", event.payload), ("sovereignty", event.sovereignty or {})):
        if not isinstance(value, Mapping):
            raise PayloadRefused(f"{name} must be an object, not {type(value).__name__}")


def _check_names(pipeline_id: str, event_name: str, dataset_id: str, version: str) -> None:
    _check_text("pipeline_id", pipeline_id)
    _check_text("event_name", event_name)
    _check_text("dataset_id", dataset_id)
    _check_version("version", version)


#: What is the same from event to event: remembered, as it took a fifth of the time.
_check_fixed = lru_cache(1024)(_check_names)


def _check_text(name: str, text: object) -> None:
    if not isinstance(text, str) or not text.strip() or not text.isprintable():
        raise PayloadRefused(f"{name} must be a printable text that is not blank, not {text!r}")
    _check_length(name, text)


def _check_length(name: str, text: str) -> None:
    if len(text) > TEXT_CHARS_MAX:
        raise PayloadRefused(
            f"{name} has {len(text)} characters; at most {TEXT_CHARS_MAX} are kept"
        )


def _check_version(name: str, version: object) -> None:
    if not isinstance(version, str) or not _VERSION.fullmatch(version):
        raise PayloadRefused(f"{name} must be a semantic version such as v1.2.3, not {version!r}")
    _check_length(name, version)
