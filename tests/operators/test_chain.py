from __future__ import annotations

import ast
import hashlib
import json
from dataclasses import FrozenInstanceError, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import tallgrass.operators
from tallgrass.error_codes import is_unit_code
from tallgrass.evidence.reading import ReadFailure
from tallgrass.governance.policy import GovernanceDefaults
from tallgrass.ledger.outcome import Outcome, acceptable, require_valid
from tallgrass.ledger.rules import DatasetException, LedgerRules
from tallgrass.ledger.unit import ObjectReference
from tallgrass.ledger.vocabulary import CheckStatus, Intent, ProvenanceStatus, StacStatus, Status
from tallgrass.operators import (
    chain,
    governance_gate,
    integrity_check,
    metadata_extract,
    provenance_emit,
    stac_register,
)
from tallgrass.operators.chain import DONE, OPERATORS, chain_of, run_together
from tallgrass.operators.effects import ChainResult, Effects, OwnedItem
from tests.operators import scene
from tests.operators.scene import run_chain

FUNCTIONS = {
    "integrity-check": (integrity_check, "integrity_check", "integrity_status"),
    "metadata-extract": (metadata_extract, "metadata_extract", "metadata_status"),
    "governance-gate": (governance_gate, "governance_gate", None),
    "stac-register": (stac_register, "stac_register", "stac_status"),
    "provenance-emit": (provenance_emit, "provenance_emit", "provenance_status"),
}


def run(owned: OwnedItem | None = None, **changes: Any) -> ChainResult:
    """Run the chain on the lightning unit."""
    match = changes.pop("match", None) or scene.glm()
    reading = changes.pop("reading", None) or scene.evidence()
    context = changes.pop("context", None) or scene.context()
    return run_chain(scene.claim(match, **changes), match, reading, owned, context)


def owned_by(result: ChainResult, **changes: str) -> OwnedItem:
    """Return the item of a result as the one that the unit owns."""
    assert result.effects.item is not None
    item = result.effects.item
    values = {
        "collection_id": item.collection_id,
        "item_id": item.item_id,
        "sha256": item.sha256,
        **changes,
    }
    return OwnedItem(**values)


def test_a_new_unit_stages_item_provenance_and_event() -> None:
    """A success fills every field that the ledger keeps, and stages what it will write."""
    result = run()
    outcome, effects = result.outcome, result.effects
    assert acceptable(outcome, "goes-glm", LedgerRules())
    require_valid(outcome)
    assert outcome.stac_status is StacStatus.CREATED
    assert effects.item is not None
    assert effects.provenance is not None
    assert outcome.item_sha256 == hashlib.sha256(effects.item.body).hexdigest()
    assert outcome.provenance_sha256 == hashlib.sha256(effects.provenance.body).hexdigest()
    assert (outcome.stac_collection_id, outcome.stac_item_id) == (
        effects.item.collection_id,
        effects.item.item_id,
    )
    assert outcome.stac_item_href == f"collections/goes-glm/items/{outcome.stac_item_id}.json"
    assert outcome.prov_activity_id == effects.provenance.activity_id
    assert [event.event_name for event in effects.events] == ["nodd.item.created"]


def test_the_same_item_is_a_no_op() -> None:
    """An unchanged item is neither written nor announced; its provenance is."""
    first = run()
    again = run(owned_by(first), attempt_no=2)
    assert again.outcome.stac_status is StacStatus.NO_OP
    assert again.outcome.item_sha256 == first.outcome.item_sha256
    assert (again.effects.item, again.effects.events) == (None, ())
    assert again.effects.provenance is not None


def test_a_changed_item_is_an_update() -> None:
    """Other bytes than the stored ones replace them, under another event."""
    result = run(owned_by(run(), sha256="0" * 64))
    assert result.outcome.stac_status is StacStatus.UPDATED
    assert result.effects.item is not None
    assert [event.event_name for event in result.effects.events] == ["nodd.item.updated"]


@pytest.mark.parametrize("change", [{"item_id": "another"}, {"collection_id": "another"}])
def test_a_unit_whose_item_gets_another_id_replaces_the_former(change: dict[str, str]) -> None:
    """A unit never owns two items: what it stages names the one that goes, as does its event."""
    former = owned_by(run(), **change)
    result = run(former, attempt_no=2)
    assert result.outcome.error_code is None
    assert result.outcome.stac_status is StacStatus.UPDATED
    assert result.effects.replaces == former
    [event] = result.effects.events
    assert event.event_name == "nodd.item.updated"
    assert json.loads(event.payload)["replaces"] == {
        "collection_id": former.collection_id,
        "item_id": former.item_id,
        "item_sha256": former.sha256,
    }


def test_the_gate_rejects_for_good() -> None:
    """A rejected dataset's units fail with the code that quarantines them; nothing is staged."""
    rules = GovernanceDefaults(care_label="restricted", sensitivity="high", reject="under review")
    result = run(match=scene.glm(dataset=scene.dataset(governance=rules)))
    assert result.outcome.error_code == "governance_hard_fail"
    assert result.outcome.error_message is not None
    assert result.outcome.error_message.startswith("governance-gate: under review. ")
    assert result.outcome.stac_status is StacStatus.UNKNOWN
    assert result.effects == Effects()


def test_a_doubt_that_the_dataset_does_not_allow_is_a_failure() -> None:
    """Where suspect makes no success, the chain says so itself, with the doubt's own code."""
    reading = scene.evidence(issues=("unexpected_content_type",))
    strict = scene.context(rules=LedgerRules(allow_suspect=False))
    result = run(reading=reading, context=strict)
    assert result.outcome.error_code == "unexpected_content_type"
    assert result.outcome.integrity_status is CheckStatus.SUSPECT
    assert run(reading=reading).outcome.error_code is None


@pytest.mark.parametrize(
    ("recorded", "code"), [("goes-glm", "unexpected_content_type"), ("glm", None)]
)
def test_exceptions_go_by_the_dataset_of_the_record(recorded: str, code: str | None) -> None:
    """A unit that was recorded under another dataset is judged as the ledger will judge it."""
    allowed = DatasetException(dataset="glm", approval_ref="CHG-1", allow_suspect=True)
    context = scene.context(
        rules=LedgerRules(allow_suspect=False, exceptions={allowed.dataset: allowed})
    )
    held = scene.claim()
    held = replace(held, unit=replace(held.unit, dataset=recorded))
    reading = scene.evidence(issues=("unexpected_content_type",))
    assert run_chain(held, scene.glm(), reading, None, context).outcome.error_code == code


def test_what_operators_found_is_kept_with_a_success() -> None:
    """Each finding stands once, in order, with its operator; an ordinary unit has none."""
    reading = scene.evidence(
        issues=("unexpected_content_type", "size_too_large", "unexpected_content_type"),
        header={"start": "2020-01-01T00:00:00Z"},
    )
    result = run(reading=reading)
    assert result.outcome.error_code is None
    assert result.outcome.issues == (
        "integrity-check:unexpected_content_type",
        "integrity-check:size_too_large",
        "metadata-extract:invalid_time_range",
    )
    assert run().outcome.issues == ()


def test_what_operators_found_before_a_failure_is_kept() -> None:
    """A doubt is told beside the failure that came after it; a code that is unknown is not kept."""
    reading = scene.evidence(
        issues=("unexpected_content_type",),
        header={"start": "2025-04-07T13:00:20Z", "end": "2025-04-07T12:00:00Z"},
    )
    outcome = run(reading=reading).outcome
    assert outcome.error_code == "invalid_time_range"
    assert outcome.issues == (
        "integrity-check:unexpected_content_type",
        "metadata-extract:invalid_time_range",
    )
    odd = run(reading=scene.evidence(issues=("odd finding",))).outcome
    assert odd.issues == ("integrity-check:operator_error",)


def test_an_object_of_unknown_version_has_partial_provenance() -> None:
    """Without etag and version id, provenance cannot say what was used: partial, or a failure."""
    reading = scene.evidence(etag=None)
    result = run(reading=reading, object_ref=ObjectReference())
    assert result.outcome.provenance_status is ProvenanceStatus.PARTIAL
    assert result.outcome.error_code is None
    strict = scene.context(rules=LedgerRules(allow_partial=False))
    refused = run(reading=reading, object_ref=ObjectReference(), context=strict)
    assert refused.outcome.error_code == "missing_required_field"


def test_the_operators_run_in_the_order_of_the_contract(monkeypatch: pytest.MonkeyPatch) -> None:
    """Integrity, metadata, governance, STAC, provenance; each once."""
    seen: list[str] = []
    for name, (module, function, _) in FUNCTIONS.items():
        original = getattr(module, function)

        def spy(*args: Any, _name: str = name, _original: Any = original, **named: Any) -> Any:
            seen.append(_name)
            return _original(*args, **named)

        monkeypatch.setattr(module, function, spy)
    assert run().outcome.error_code is None
    assert tuple(seen) == OPERATORS == tuple(FUNCTIONS)


def test_a_batch_goes_through_an_operator_before_the_next_begins() -> None:
    """One that fails leaves the others to go on; what came of each stands in its place.

    Whoever watches is told begin and end of each operator on a unit, without its neighbours' time.
    """
    seen: list[tuple[int, str]] = []
    doubtful = scene.evidence(header={"complete": True, "start": "not a time"})
    readings = (scene.evidence(), doubtful, scene.evidence())
    results = run_together(
        chain_of(
            scene.claim(attempt_no=number),
            scene.glm(),
            reading,
            None,
            scene.context(),
            partial(_note, seen, number),
        )
        for number, reading in enumerate(readings, start=1)
    )
    assert [result.outcome.attempt_no for result in results] == [1, 2, 3]
    codes = [result.outcome.error_code for result in results]
    assert codes == [None, "invalid_time_range", None]
    ran = [(number, name) for name in OPERATORS[:2] for number in (1, 2, 3)]
    ran += [(number, name) for name in OPERATORS[2:] for number in (1, 3)]
    assert seen == [told for number, name in ran for told in ((number, name), (number, DONE))]


@pytest.mark.conformance("SM-2.4")
@pytest.mark.parametrize("name", list(FUNCTIONS))
def test_an_exception_in_any_operator_fails_that_unit_alone(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """operator_error names the operator; earlier statuses stay, later ones are unknown."""
    module, function, field = FUNCTIONS[name]

    def broken(*_: object, **__: object) -> None:
        raise ValueError("boom")

    monkeypatch.setattr(module, function, broken)
    result = run()
    assert result.outcome.error_code == "operator_error"
    assert result.outcome.error_message is not None
    assert result.outcome.error_message.startswith(f"{name}: ValueError: boom. ")
    assert result.effects == Effects()
    if field is not None:
        assert getattr(result.outcome, field) == "failed"
    order = [each for _, _, each in FUNCTIONS.values() if each is not None]
    before = [each for each in order if list(FUNCTIONS).index(_operator(each)) < _place(name)]
    after = [each for each in order if list(FUNCTIONS).index(_operator(each)) > _place(name)]
    assert all(getattr(result.outcome, each) in ("ok", "created") for each in before)
    assert all(getattr(result.outcome, each) == "unknown" for each in after)


def _note(seen: list[tuple[int, str]], number: int, operator: str) -> None:
    seen.append((number, operator))


def _operator(field: str) -> str:
    return next(name for name, (_, _, each) in FUNCTIONS.items() if each == field)


def _place(name: str) -> int:
    return list(FUNCTIONS).index(name)


def test_a_code_that_nobody_registered_does_not_reach_the_ledger() -> None:
    """The ledger would refuse the whole batch for it, so it becomes operator_error."""
    for reading in (
        ReadFailure(code="made_up", message="x"),
        scene.evidence(issues=("made_up",)),
    ):
        outcome = run(reading=reading).outcome
        assert outcome.error_code == "operator_error"
        assert "made_up" in (outcome.error_message or "")
        require_valid(outcome)


def test_evidence_that_is_too_large_fails_its_unit_alone() -> None:
    """The ledger would refuse the whole batch for it, so the chain refuses the unit."""
    outcome = run(reading=scene.evidence(header={"text": "x" * 9000})).outcome
    assert outcome.error_code == "operator_error"
    assert outcome.evidence is None
    require_valid(outcome)


def test_a_header_that_is_no_json_fails_its_unit_alone() -> None:
    """A reader's mistake is an error of the unit, never of the batch."""
    outcome = run(reading=scene.evidence(header={"x": object()})).outcome
    assert outcome.error_code == "operator_error"


@pytest.mark.conformance("WAL-6.4")
def test_an_operator_has_no_way_to_name_a_status_of_the_unit() -> None:
    """No operator imports the unit's statuses, transitions or storage; outcomes have no status."""
    folder = Path(tallgrass.operators.__file__).parent
    sources = sorted(folder.glob("*.py"))
    assert len(sources) > len(OPERATORS)
    for path in sources:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                module, names = node.module or "", {each.name for each in node.names}
                assert not module.startswith(("tallgrass.storage", "tallgrass.queues")), path
                assert module != "tallgrass.ledger.transitions", path
                assert "Status" not in names, path
            if isinstance(node, ast.Import):
                assert not any(each.name.startswith("tallgrass.storage") for each in node.names)
    assert "status" not in {each.name for each in fields(Outcome)}
    assert {each.name for each in fields(ChainResult)} == {"outcome", "effects", "rule_id"}


@pytest.mark.conformance("WAL-6.4")
def test_an_operator_that_tries_to_set_the_status_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Neither the claim nor the outcome takes a status; the try itself fails the unit."""

    def pushy(unit: Any, *_: object) -> None:
        unit.status = Status.SUCCEEDED

    monkeypatch.setattr(integrity_check, "integrity_check", pushy)
    assert run().outcome.error_code == "operator_error"
    with pytest.raises(TypeError):
        Outcome(wal_id="w", attempt_no=1, status=Status.SUCCEEDED)  # type: ignore[call-arg]
    with pytest.raises((AttributeError, FrozenInstanceError, TypeError)):
        scene.claim().claimed_from = Status.SUCCEEDED  # type: ignore[misc]


def test_every_code_of_the_chain_is_registered() -> None:
    """Literal codes in the operators are ones that a unit may carry."""
    folder = Path(chain.__file__).parent
    found = set()
    for path in folder.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            place = {"issue": 1, "_never_suspect": 1, "_Stop": 0}.get(ast.unparse(node.func))
            code = None if place is None else node.args[place]
            if isinstance(code, ast.Constant):
                found.add(str(code.value))
    assert {"etag_mismatch", "missing_required_field", "missing_geolocation"} <= found
    assert [code for code in found if not is_unit_code(code)] == []


def test_a_re_run_is_linked_to_what_it_replaces_in_the_run_part_alone() -> None:
    """The body of provenance does not depend on history; the run part names the old item."""
    first = run()
    again = run(owned_by(first, sha256="0" * 64), attempt_no=2, intent=Intent.REPAIR)
    assert first.effects.provenance is not None
    assert again.effects.provenance is not None
    assert again.effects.provenance.body == first.effects.provenance.body
    assert b"urn:prov:entity:stac-item:" + b"0" * 64 in again.effects.provenance.run
