from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallgrass.errors import ConfigError, InvalidInput
from tallgrass.ledger.replay_reasons import CustomReason, require_reason
from tallgrass.ledger.rules import DatasetException, LedgerRules, require_extension_names

#: The canonical fields of the record, written out from the specification.
CANONICAL = [
    "wal_id",
    "dataset",
    "object_uri",
    "provider",
    "queue",
    "event_time",
    "time_range_start",
    "time_range_end",
    "status",
    "attempts",
    "last_attempt_at",
    "last_error_code",
    "last_error_message",
    "integrity_status",
    "metadata_status",
    "stac_status",
    "provenance_status",
    "stac_item_id",
    "stac_collection_id",
    "stac_item_href",
    "ingest_run_id",
    "worker_id",
    "replay_reason",
    "created_at",
    "updated_at",
    "version",
]
#: Further columns of the record, which an extension may not shadow either.
LEDGERS_OWN = [
    "extensions",
    "due_at",
    "retry_after",
    "rerun_intent",
    "next_object",
    "budget_from",
    "lease_expiries",
    "applied_attempt",
]

DROUGHT = CustomReason(
    code="drought-2026", description="Reprocessing for the drought study", approval_ref="CR-7"
)


@pytest.mark.conformance("WAL-3.14", "C-14")
@pytest.mark.parametrize("reason", ["none", "dlq-drain", "incident", "backfill", "test"])
def test_the_listed_reasons_need_no_registration(reason: str) -> None:
    """The specification's reasons are always known."""
    assert require_reason(reason, {}) == reason


@pytest.mark.conformance("WAL-3.14", "C-14")
def test_no_reason_is_the_reason_none() -> None:
    """Null and `none` mean the same, and `none` is what is kept."""
    assert require_reason(None, {}) == "none"


@pytest.mark.conformance("WAL-3.14")
def test_a_registered_custom_reason_is_accepted() -> None:
    """A custom code counts once it is registered, and only then."""
    custom = {DROUGHT.code: DROUGHT}
    assert require_reason("drought-2026", custom) == "drought-2026"
    with pytest.raises(InvalidInput) as refusal:
        require_reason("drought-2026", {})
    assert refusal.value.code == "unknown_replay_reason"


@pytest.mark.conformance("WAL-3.14")
@pytest.mark.parametrize("reason", ["", "because", "Backfill", "dlq_drain", "drought-2027"])
def test_an_unregistered_reason_is_refused_with_the_known_ones(reason: str) -> None:
    """Free text is no reason; the refusal lists what is known, custom codes among them."""
    with pytest.raises(InvalidInput, match=r"backfill.*drought-2026") as refusal:
        require_reason(reason, {DROUGHT.code: DROUGHT})
    assert refusal.value.code == "unknown_replay_reason"


@pytest.mark.conformance("WAL-3.14")
@pytest.mark.parametrize("code", ["", "a", "Upper", "with space", "under_score", "none", "test"])
def test_a_custom_code_is_well_formed_and_new(code: str) -> None:
    """A custom reason is lower-case words joined by hyphens and none of the listed ones."""
    with pytest.raises(ConfigError):
        CustomReason(code=code, description="x", approval_ref="CR-7")


@pytest.mark.conformance("WAL-3.14", "SM-1.2")
@pytest.mark.parametrize("approval", ["", " ", "\t\n"])
def test_nothing_is_granted_without_an_approval(approval: str) -> None:
    """Neither a custom reason nor a dataset's exception exists without what approved it."""
    for make in (
        lambda: CustomReason(code="drought-2026", description="x", approval_ref=approval),
        lambda: DatasetException(dataset="d", approval_ref=approval, max_attempts=3),
    ):
        with pytest.raises(ConfigError) as refusal:
            make()
        assert refusal.value.code == "exception_without_approval"


@pytest.mark.conformance("WAL-3.17")
@pytest.mark.parametrize("name", CANONICAL + LEDGERS_OWN)
def test_an_extension_cannot_take_a_canonical_name(name: str) -> None:
    """A dataset's own field with the name of any field of the record is refused."""
    with pytest.raises(ConfigError, match=name) as refusal:
        LedgerRules(extensions={"d": frozenset({name})})
    assert refusal.value.code == "extension_collides"


def test_the_record_has_26_canonical_fields() -> None:
    """The list above is complete."""
    assert len(CANONICAL) == len(set(CANONICAL)) == 26


@pytest.mark.conformance("WAL-3.17")
@pytest.mark.parametrize(
    "name", ["", "scan_mode", "ext_", "ext_1", "EXT_mode", "ext_Mode", "ext_a-b", "ext_" + "x" * 61]
)
def test_an_extension_has_the_prefix_and_a_plain_name(name: str) -> None:
    """Names without `ext_`, or that need quoting in a database, are refused."""
    with pytest.raises(ConfigError) as refusal:
        require_extension_names("d", [name])
    assert refusal.value.code == "extension_collides"


@given(st.from_regex(r"ext_[a-z][a-z0-9_]{0,59}", fullmatch=True))
def test_a_declared_extension_is_accepted_for_its_dataset_only(name: str) -> None:
    """A dataset may carry what it declared; another dataset may not."""
    rules = LedgerRules(extensions={"d": frozenset({name})})
    rules.require_extensions("d", {name: 1})
    with pytest.raises(InvalidInput, match=r"ledger\.extensions\.e"):
        rules.require_extensions("e", {name: 1})


@pytest.mark.conformance("WAL-3.17")
@pytest.mark.parametrize("name", CANONICAL)
def test_a_unit_cannot_bring_a_canonical_name_as_extension(name: str) -> None:
    """What configuration refuses, a unit cannot smuggle in."""
    with pytest.raises(InvalidInput) as refusal:
        LedgerRules().require_extensions("d", {name: 1})
    assert refusal.value.code == "extension_collides"


@pytest.mark.parametrize(
    ("limit", "accepted"),
    [(-1, False), (0, False), (1, False), (2, True), (100, True), (101, False)],
)
@pytest.mark.parametrize("by_exception", [False, True])
def test_the_limit_of_attempts_has_bounds(
    *, limit: int, accepted: bool, by_exception: bool
) -> None:
    """Two to a hundred attempts are accepted, as a rule and as an exception."""
    changes: dict[str, Any] = {"max_attempts": limit}
    if by_exception:
        exception = DatasetException(dataset="d", approval_ref="CR-1", max_attempts=limit)
        changes = {"exceptions": {"d": exception}}
    if accepted:
        LedgerRules(**changes)
    else:
        with pytest.raises(ConfigError, match="between 2 and 100"):
            LedgerRules(**changes)


@pytest.mark.conformance("SM-1.2")
def test_an_exception_changes_what_it_names_and_nothing_else() -> None:
    """What an exception leaves open follows the rule, for its own dataset too."""
    exception = DatasetException(dataset="d", approval_ref="CR-1", reingest=False)
    rules = LedgerRules(max_attempts=5, exceptions={"d": exception})
    assert not rules.reingests("d")
    assert rules.reingests("e")
    assert rules.max_attempts_of("d") == 5
    assert rules.allows_partial("d")
    assert rules.allows_suspect("d")
