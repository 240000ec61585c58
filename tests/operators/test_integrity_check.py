from __future__ import annotations

from typing import Any

import pytest

from tallgrass.datasets.definition import IntegrityRules, Severity
from tallgrass.evidence.reading import ReadFailure
from tallgrass.ledger.unit import ObjectReference
from tallgrass.ledger.vocabulary import CheckStatus
from tallgrass.operators.integrity_check import CHECKS, integrity_check
from tests.operators import scene
from tests.operators.scene import run_chain

OTHER_MD5 = "e4d909c290d0fb1ca068ffaddf22cbd0"
IN_PARTS = "9e107d9d372bb6826bd81d3542a419d6-3"


def codes(
    announced: ObjectReference | None = None,
    rules: dict[str, Any] | None = None,
    severities: dict[str, Severity] | None = None,
    **read: Any,
) -> tuple[CheckStatus, list[str]]:
    """Return status and issue codes of one check."""
    changes: dict[str, Any] = {} if announced is None else {"object_ref": announced}
    dataset = scene.dataset(
        integrity=IntegrityRules(
            **{"min_size_bytes": 512, "max_size_bytes": 10**6, **(rules or {})}
        ),
        severities=severities or {},
    )
    report = integrity_check(scene.claim(**changes).unit, dataset, scene.evidence(**read))
    return report.status, [each.code for each in report.issues]


def test_a_whole_object_as_announced_is_ok() -> None:
    """All checks run, in the contract's order, and find nothing."""
    report = integrity_check(scene.claim().unit, scene.dataset(), scene.evidence())
    assert (report.status, report.issues) == (CheckStatus.OK, ())
    assert report.checks_run == ("exists", "size", "etag_match", "headers_minimal") == CHECKS


@pytest.mark.parametrize(
    ("read", "code", "checks"),
    [
        ({"size": 0}, "size_zero", 2),
        ({"size": 511}, "size_too_small", 2),
        ({"etag": OTHER_MD5}, "etag_mismatch", 3),
        ({"issues": ("content_type_invalid",)}, "content_type_invalid", 4),
        ({"header": {"complete": False}}, "size_too_small", 4),
    ],
)
def test_the_first_failed_check_ends_them(read: dict[str, Any], code: str, checks: int) -> None:
    """A failed check names its code, and no later check runs."""
    dataset = scene.dataset()
    report = integrity_check(scene.claim().unit, dataset, scene.evidence(**read))
    assert report.status is CheckStatus.FAILED
    assert [each.code for each in report.issues] == [code]
    assert len(report.checks_run) == checks


def test_a_large_object_is_suspect_and_goes_on() -> None:
    """An upper bound is a doubt by default, and the checks after it still run."""
    announced = ObjectReference(etag=scene.MD5, size=2_000_000)
    assert codes(announced, size=2_000_000) == (CheckStatus.SUSPECT, ["size_too_large"])


@pytest.mark.parametrize(("severity", "status"), [("suspect", "suspect"), ("failed", "failed")])
def test_the_dataset_decides_how_grave_an_issue_is(severity: str, status: str) -> None:
    """The same issue is suspect for one dataset and fails another."""
    found = codes(severities={"size_too_small": Severity(severity)}, size=100)
    assert found[0] is CheckStatus(status)
    assert found[1][0] == "size_too_small"


@pytest.mark.parametrize(
    ("announced", "read", "expected"),
    [
        (scene.MD5, scene.MD5, []),
        (f'"{scene.MD5}"', scene.MD5.upper(), []),
        (scene.MD5, OTHER_MD5, ["etag_mismatch"]),
        (IN_PARTS, IN_PARTS, []),
        (IN_PARTS, "9e107d9d372bb6826bd81d3542a419d6-4", ["etag_mismatch"]),
        (IN_PARTS, OTHER_MD5, []),  # a copy's content says nothing of a hash of hashes
        (None, OTHER_MD5, []),
        (scene.MD5, None, []),
    ],
)
def test_etags_of_one_kind_are_compared(
    announced: str | None, read: str | None, expected: list[str]
) -> None:
    """Another etag of the same kind is another object; one of another kind says nothing."""
    reference = ObjectReference(etag=announced, size=343_897)
    assert codes(reference, etag=read)[1] == expected


def test_another_size_is_another_object_where_etags_cannot_tell() -> None:
    """Without comparable etags, the announced size must be the one that was read."""
    reference = ObjectReference(etag=IN_PARTS, size=343_898)
    assert codes(reference) == (CheckStatus.FAILED, ["etag_mismatch"])


@pytest.mark.parametrize(
    ("announced", "read", "code"),
    [
        (None, scene.MD5, "missing_required_field"),
        (scene.MD5, None, "missing_required_field"),
        (IN_PARTS, scene.MD5, "etag_mismatch"),
    ],
)
def test_a_required_etag_must_be_there_and_match(
    announced: str | None, read: str | None, code: str
) -> None:
    """A dataset that requires the etag takes no object whose etag cannot be compared."""
    reference = ObjectReference(etag=announced, size=343_897)
    assert codes(reference, {"etag_required": True}, etag=read) == (CheckStatus.FAILED, [code])


def test_an_unread_object_is_judged_by_its_announcement() -> None:
    """Evidence from the event alone has nothing to differ from."""
    assert codes(source="event", header={}) == (CheckStatus.OK, [])
    zero = ObjectReference(etag=scene.MD5, size=0)
    assert codes(zero, source="event", etag=None, size=None)[1] == ["size_zero"]


@pytest.mark.conformance("WAL-6.3", "SM-2.4")
@pytest.mark.parametrize(
    "code", ["missing_object", "access_denied", "transient_network_error", "content_type_invalid"]
)
def test_a_failed_read_fails_the_operator_with_its_code(code: str) -> None:
    """The outcome holds integrity failed, the reader's code, and a message that says what to do."""
    reading = ReadFailure(code=code, message="the store said no")
    outcome = run_chain(scene.claim(), scene.glm(), reading, None, scene.context()).outcome
    assert outcome.integrity_status is CheckStatus.FAILED
    assert outcome.error_code == code
    assert outcome.error_message is not None
    assert outcome.error_message.startswith("integrity-check: the store said no. ")
    assert outcome.evidence is None


@pytest.mark.conformance("WAL-6.3")
@pytest.mark.parametrize(
    ("read", "status", "code"),
    [
        ({}, CheckStatus.OK, None),
        ({"issues": ("unexpected_content_type",)}, CheckStatus.SUSPECT, None),
        ({"etag": OTHER_MD5}, CheckStatus.FAILED, "etag_mismatch"),
    ],
)
def test_the_outcome_tells_the_integrity_of_each_result(
    read: dict[str, Any], status: CheckStatus, code: str | None
) -> None:
    """Statuses ok and suspect carry no error; failed carries its code; what was read is kept."""
    evidence = scene.evidence(**read)
    outcome = run_chain(scene.claim(), scene.glm(), evidence, None, scene.context()).outcome
    assert (outcome.integrity_status, outcome.error_code) == (status, code)
    assert (outcome.error_message is None) == (code is None)
    assert (outcome.read_etag, outcome.evidence) == (evidence.etag, evidence.to_bytes())
