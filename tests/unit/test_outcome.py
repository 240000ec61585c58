from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallgrass.error_codes import CodeScope, registry
from tallgrass.errors import InvalidInput
from tallgrass.ledger.outcome import Outcome, Verdict, acceptable, judge, require_valid
from tallgrass.ledger.rules import DatasetException, LedgerRules
from tallgrass.ledger.vocabulary import CheckStatus, ProvenanceStatus, StacStatus

CHECKS = ["unknown", "ok", "suspect", "failed"]
STAC = ["unknown", "created", "updated", "no-op", "failed"]
PROVENANCE = ["unknown", "ok", "partial", "failed"]
UNIT_CODES = sorted(c.code for c in registry().values() if c.scope is CodeScope.UNIT)

#: With everything allowed, written out: integrity, metadata, stac, provenance.
SUCCESSES = {
    ("ok", "ok", "created", "ok"),
    ("ok", "ok", "updated", "ok"),
    ("ok", "ok", "no-op", "ok"),
    ("ok", "ok", "created", "partial"),
    ("ok", "ok", "updated", "partial"),
    ("ok", "ok", "no-op", "partial"),
    ("ok", "suspect", "created", "ok"),
    ("ok", "suspect", "updated", "ok"),
    ("ok", "suspect", "no-op", "ok"),
    ("ok", "suspect", "created", "partial"),
    ("ok", "suspect", "updated", "partial"),
    ("ok", "suspect", "no-op", "partial"),
    ("suspect", "ok", "created", "ok"),
    ("suspect", "ok", "updated", "ok"),
    ("suspect", "ok", "no-op", "ok"),
    ("suspect", "ok", "created", "partial"),
    ("suspect", "ok", "updated", "partial"),
    ("suspect", "ok", "no-op", "partial"),
    ("suspect", "suspect", "created", "ok"),
    ("suspect", "suspect", "updated", "ok"),
    ("suspect", "suspect", "no-op", "ok"),
    ("suspect", "suspect", "created", "partial"),
    ("suspect", "suspect", "updated", "partial"),
    ("suspect", "suspect", "no-op", "partial"),
}


def rules(*, partial: bool, suspect: bool, by_exception: bool) -> LedgerRules:
    """Return rules that say it for all datasets, or for the dataset `d` against the rule."""
    if not by_exception:
        return LedgerRules(allow_partial=partial, allow_suspect=suspect)
    exception = DatasetException(
        dataset="d", approval_ref="CR-1", allow_partial=partial, allow_suspect=suspect
    )
    return LedgerRules(
        allow_partial=not partial, allow_suspect=not suspect, exceptions={"d": exception}
    )


def report(integrity: str, metadata: str, stac: str, provenance: str) -> Outcome:
    """Return a report of success with these statuses."""
    return Outcome(
        wal_id="w",
        attempt_no=1,
        integrity_status=CheckStatus(integrity),
        metadata_status=CheckStatus(metadata),
        stac_status=StacStatus(stac),
        provenance_status=ProvenanceStatus(provenance),
    )


def failure(code: str) -> Outcome:
    """Return a report of failure."""
    return Outcome(wal_id="w", attempt_no=1, error_code=code)


@pytest.mark.conformance("WAL-4.3", "WAL-5.3", "SM-2.3a", "SM-4.3a", "C-15")
@pytest.mark.parametrize("by_exception", [False, True], ids=["rule", "exception"])
@pytest.mark.parametrize(
    ("partial", "suspect", "count"),
    [(True, True, 24), (False, True, 12), (True, False, 6), (False, False, 3)],
)
def test_only_the_allowed_tuples_make_a_success(
    *, partial: bool, suspect: bool, count: int, by_exception: bool
) -> None:
    """Of all 320 reports exactly the listed ones succeed; policy takes partial and suspect out."""
    expected = {
        made
        for made in SUCCESSES
        if (partial or "partial" not in made) and (suspect or "suspect" not in made)
    }
    given_rules = rules(partial=partial, suspect=suspect, by_exception=by_exception)
    accepted = set()
    for statuses in product(CHECKS, CHECKS, STAC, PROVENANCE):
        try:
            verdict = judge(report(*statuses), "d", 1, given_rules)
        except InvalidInput:
            continue
        assert verdict is Verdict.SUCCEEDED
        accepted.add(statuses)
    assert accepted == expected
    assert len(accepted) == count


@pytest.mark.conformance("C-15", "WAL-4.3")
def test_an_exception_reaches_its_own_dataset_only() -> None:
    """What one dataset is not allowed, the others still are."""
    given_rules = LedgerRules(
        exceptions={
            "d": DatasetException(
                dataset="d", approval_ref="CR-1", allow_partial=False, allow_suspect=False
            )
        }
    )
    made = report("suspect", "ok", "created", "partial")
    assert not acceptable(made, "d", given_rules)
    assert acceptable(made, "e", given_rules)


@pytest.mark.conformance("WAL-5.3", "SM-4.3a")
@given(
    statuses=st.tuples(*map(st.sampled_from, (CHECKS, CHECKS, STAC, PROVENANCE))),
    partial=st.booleans(),
    suspect=st.booleans(),
)
def test_one_bad_operator_blocks_success(
    statuses: tuple[str, str, str, str], *, partial: bool, suspect: bool
) -> None:
    """With any operator unknown or failed there is no success under any policy."""
    given_rules = LedgerRules(allow_partial=partial, allow_suspect=suspect)
    if {"unknown", "failed"} & set(statuses):
        assert not acceptable(report(*statuses), "d", given_rules)


@pytest.mark.conformance("WAL-5.3")
def test_a_false_report_of_success_names_the_statuses() -> None:
    """The refusal tells the unit and the four statuses, so that the fault can be found."""
    with pytest.raises(
        InvalidInput, match=r"w: .*integrity ok, metadata failed, stac no-op, provenance ok"
    ):
        judge(report("ok", "failed", "no-op", "ok"), "d", 1, LedgerRules())


@pytest.mark.conformance("C-09")
@pytest.mark.parametrize("code", UNIT_CODES)
@pytest.mark.parametrize("maximum", [2, 8, 100])
def test_at_the_limit_every_failure_is_quarantined(code: str, maximum: int) -> None:
    """Below the limit a failure stays open; at the limit and above it, any code is held."""
    given_rules = LedgerRules(max_attempts=maximum)
    open_verdict = {
        "governance_hard_fail": Verdict.QUARANTINED,
        "handed_back": Verdict.RETRY,
        "not_ready": Verdict.RETRY,
    }.get(code, Verdict.FAILED)
    assert judge(failure(code), "d", maximum - 1, given_rules) is open_verdict
    assert judge(failure(code), "d", maximum, given_rules) is Verdict.QUARANTINED
    assert judge(failure(code), "d", maximum + 1, given_rules) is Verdict.QUARANTINED


@pytest.mark.conformance("C-09")
def test_a_success_at_the_limit_is_a_success() -> None:
    """The last attempt may still succeed."""
    made = report("ok", "ok", "created", "ok")
    assert judge(made, "d", 8, LedgerRules(max_attempts=8)) is Verdict.SUCCEEDED


@pytest.mark.conformance("C-09")
def test_a_datasets_own_limit_goes_before_the_common_one() -> None:
    """An approved exception sets another limit for its dataset alone."""
    exception = DatasetException(dataset="d", approval_ref="CR-1", max_attempts=3)
    given_rules = LedgerRules(max_attempts=8, exceptions={"d": exception})
    assert judge(failure("io_error"), "d", 2, given_rules) is Verdict.FAILED
    assert judge(failure("io_error"), "d", 3, given_rules) is Verdict.QUARANTINED
    assert judge(failure("io_error"), "e", 7, given_rules) is Verdict.FAILED


@pytest.mark.conformance("WAL-3.7")
@pytest.mark.parametrize(
    "code", ["", "it broke", "IO_ERROR", "io-error", "timeout", "config_invalid", "internal_error"]
)
def test_a_unit_carries_no_unregistered_code(code: str) -> None:
    """Free text, an unknown code and a code of commands are refused on a unit."""
    with pytest.raises(InvalidInput) as refusal:
        judge(failure(code), "d", 1, LedgerRules())
    assert refusal.value.code == "unknown_code"


@pytest.mark.parametrize(("size", "fits"), [(0, True), (8192, True), (8193, False)])
def test_evidence_has_at_most_8192_bytes(*, size: int, fits: bool) -> None:
    """Evidence of the allowed size is kept, a byte more is refused."""
    made = Outcome(wal_id="w", attempt_no=1, evidence=b"x" * size)
    if fits:
        require_valid(made)
    else:
        with pytest.raises(InvalidInput, match="8193 bytes"):
            require_valid(made)
