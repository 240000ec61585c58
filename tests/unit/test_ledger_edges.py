"""Edges of the ledger's pure rules: limits, defaults and what a field is, by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from tallgrass.errors import ConfigError, InvalidInput
from tallgrass.governance.policy import Overwrite
from tallgrass.ledger.claim import NOT_REPLAYED, SUCCEEDED, Claim, CommitResult
from tallgrass.ledger.identity import first_wal_id_of, start_of_wal_id
from tallgrass.ledger.object_order import ObjectOrder
from tallgrass.ledger.object_uri import (
    azure_bucket,
    bucket_and_key,
    canonical_object_uri,
    key_of_event,
    object_uri,
)
from tallgrass.ledger.outcome import Verdict
from tallgrass.ledger.receipt import Action, Known, decide_receipt
from tallgrass.ledger.record import CANONICAL_NAMES, WalAttempt, WalRecord, field_models
from tallgrass.ledger.redaction import CREDENTIALS_BY_FORM, redact
from tallgrass.ledger.replay_reasons import CustomReason
from tallgrass.ledger.rules import DatasetException, LedgerRules
from tallgrass.ledger.vocabulary import Intent, Status
from tallgrass.retry import Backoff
from tests.support.builders import unit

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)


def test_an_id_tells_when_its_data_start() -> None:
    """Milliseconds from the year one, in its first twelve digits."""
    noon = datetime(2026, 6, 1, 12, 0, 0, 123_000, tzinfo=UTC)
    # (2026-06-01T12:00:00.123Z - 0001-01-01T00:00:00Z) in milliseconds is 63,915,912,000,123.
    assert first_wal_id_of(noon) == "3a21953a-f27b-8000-8000-000000000000"
    assert start_of_wal_id("3a21953a-f27b-8fff-bfff-ffffffffffff") == noon
    assert start_of_wal_id("00000000-0000-8000-8000-000000000000") == datetime(1, 1, 1, tzinfo=UTC)


def test_a_key_has_at_most_1024_bytes() -> None:
    """Whether it is written plainly or encoded, and whatever its characters take."""
    longest = "k" * 1024
    assert object_uri("aws", "bucket", longest) == f"s3://bucket/{longest}"
    assert canonical_object_uri(f"s3://bucket/{'é' * 512}").endswith("é" * 512)
    assert object_uri("aws", "bucket", f"a/{'k' * 1022}").endswith("k" * 1022)
    for key in (f"{longest}k", "é" * 513, f"a/{'k' * 1023}"):
        with pytest.raises(InvalidInput, match="a key of more than 1024 bytes") as refused:
            object_uri("aws", "bucket", key)
        assert refused.value.code == "invalid_object_uri"
    assert key_of_event("%41" * 1024) == "A" * 1024
    with pytest.raises(InvalidInput, match="a key of more than 1024 bytes") as refused:
        key_of_event("%41" * 1024 + "A")
    assert refused.value.code == "invalid_object_uri"


def test_a_bucket_has_no_slash() -> None:
    """Else two pairs of bucket and key would have one address."""
    with pytest.raises(InvalidInput, match="the bucket 'a/b'") as refused:
        object_uri("aws", "a/b", "key")
    assert refused.value.code == "invalid_object_uri"
    assert bucket_and_key("s3://a/b/c") == ("a", "b/c")
    assert object_uri("gcp", "a", "b/c") == "gs://a/b/c"
    assert object_uri("mirror", "a", "b") == "mirror://a/b"


def test_a_container_of_azure_is_a_bucket() -> None:
    """Both names must be such as Azure allows."""
    assert azure_bucket("noaa123", "goes-glm") == "noaa123.goes-glm"
    for account, container in (("noaa.x", "goes"), ("noaa", "-goes"), ("NOAA", "goes"), ("n", "g")):
        with pytest.raises(InvalidInput, match="no storage account and container") as refused:
            azure_bucket(account, container)
        assert refused.value.code == "invalid_object_uri"


@pytest.mark.parametrize(
    ("overwrite", "reingest", "again", "kept"),
    [
        (None, True, True, False),
        (None, False, False, False),
        (Overwrite.REINGEST, False, True, False),
        (Overwrite.REINGEST, True, True, False),
        (Overwrite.APPROVE, True, False, True),
        (Overwrite.APPROVE, False, False, True),
    ],
)
def test_a_dataset_says_what_becomes_of_an_overwritten_object(
    overwrite: Overwrite | None, *, reingest: bool, again: bool, kept: bool
) -> None:
    """Its own word goes before the setting; what waits for an approval is not ingested again."""
    overwrites = {} if overwrite is None else {"radar": overwrite}
    rules = LedgerRules(reingest=reingest, overwrites=overwrites)
    assert (rules.reingests("radar"), rules.keeps_for_approval("radar")) == (again, kept)
    assert (rules.reingests("other"), rules.keeps_for_approval("other")) == (reingest, False)


def test_an_exception_that_was_approved_goes_before_the_dataset_s_word() -> None:
    """What may be ingested again does not wait for an approval of each."""
    exception = DatasetException(dataset="radar", approval_ref="CR-1", reingest=True)
    rules = LedgerRules(overwrites={"radar": Overwrite.APPROVE}, exceptions={"radar": exception})
    assert (rules.reingests("radar"), rules.keeps_for_approval("radar")) == (True, False)


def test_what_holds_where_nobody_says_otherwise() -> None:
    """The limits and leniencies of a configuration without a word on them."""
    rules = LedgerRules()
    assert (rules.max_attempts, rules.backoff) == (8, Backoff(base_s=5.0, cap_s=900.0))
    assert rules.allows_partial("radar")
    assert rules.allows_suspect("radar")
    assert rules.reingests("radar")


def test_a_refused_rule_is_named() -> None:
    """With the setting that has to be mended, and with why a field's name cannot be."""
    with pytest.raises(ConfigError, match=r"^ledger\.max_attempts: 1 is not between 2 and 100"):
        LedgerRules(max_attempts=1)
    with pytest.raises(ConfigError, match=r"^ledger\.extensions\.radar: 'due_at' is a canonical"):
        LedgerRules().require_extensions("radar", {"due_at": 1})
    with pytest.raises(ConfigError, match=r"'mode' is not of the form ext_name$"):
        LedgerRules().require_extensions("radar", {"mode": 1})
    with pytest.raises(InvalidInput, match="radar: ext_mode is not declared"):
        LedgerRules().require_extensions("radar", {"ext_mode": 1})


def test_a_reason_with_an_approval_is_one() -> None:
    """Its words are kept."""
    reason = CustomReason(code="flood-2026", description="the flood", approval_ref="CR-8")
    assert (reason.code, reason.description, reason.approval_ref) == (
        "flood-2026", "the flood", "CR-8",
    )  # fmt: skip


def test_a_unit_that_is_due_this_instant_may_be_claimed() -> None:
    """Only one that is due later waits for the ledger's schedule."""
    known = Known(
        wal_id="w", dataset="d", status=Status.PENDING, version=1, attempts=0, budget_from=0,
        lease_expiries=0, last_error_code=None, due_at=NOON, retry_after=None, rerun_intent=None,
        replay_run_id=None, held_until=None,
    )  # fmt: skip
    for late_s, action in ((0, Action.CLAIM), (1, Action.DUE)):
        due = replace(known, due_at=NOON + timedelta(microseconds=late_s))
        decision = decide_receipt(
            due, ObjectOrder.SAME, now=NOON, switched_off=False, rules=LedgerRules()
        )
        assert decision.action is action


def test_a_claim_that_nobody_asked_for_says_so() -> None:
    """And a success waits for nothing, has no code, and loses no claim."""
    claim = Claim(
        unit=unit(0), attempt_no=1, version=2, intent=Intent.INGEST, claimed_from=Status.PENDING,
        budget_from=0, replay_run_id=None, has_message=True,
    )  # fmt: skip
    assert (claim.replay_reason, claim.replayed) == ("none", NOT_REPLAYED)
    assert (SUCCEEDED.verdict, SUCCEEDED.error_code) == (Verdict.SUCCEEDED, None)
    assert SUCCEEDED.retry_s == 0.0
    assert CommitResult(closed={"a": SUCCEEDED}).lost == ()


def test_extensions_that_are_none_are_none() -> None:
    """An empty table of them is not kept."""
    assert unit(0, extensions={}).extensions is None
    assert unit(0, extensions={"ext_mode": 1}).extensions == {"ext_mode": 1}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("id AKIAIOSFODNN7EXAMPLE", True),
        ("https://ann:secret@host/x", True),
        ("Basic dXNlcjpwYXNz", True),
        ("token = abc", False),
        ("https://host/x?y=1", False),
        ("s3://bucket/x@2x.png", False),
    ],
)
def test_some_credentials_show_by_their_form(text: str, *, found: bool) -> None:
    """No word before them is needed; what only its name tells is no such."""
    assert any(pattern.search(text) for pattern in CREDENTIALS_BY_FORM) is found


@pytest.mark.parametrize(
    ("status", "code", "stale"),
    [
        (Status.SUCCEEDED, "io_error", True),
        (Status.SUCCEEDED, None, False),
        (Status.FAILED, "io_error", False),
        (Status.PENDING, None, False),
    ],
)
def test_a_success_whose_last_run_failed_is_stale(
    status: Status, code: str | None, *, stale: bool
) -> None:
    """And nothing else is."""
    record: Any = SimpleNamespace(status=status, last_error_code=code)
    assert WalRecord.stale.fget(record) is stale  # type: ignore[attr-defined]


def test_each_field_tells_what_it_is() -> None:
    """Its type without None, whether it may be None, its words, and whether it is canonical."""
    found = {each.name: each for each in field_models(WalRecord)}
    assert (found["wal_id"].kind, found["wal_id"].nullable) == (str, False)
    assert found["wal_id"].vocabulary == ()
    assert (found["last_error_code"].kind, found["last_error_code"].nullable) == (str, True)
    assert found["status"].vocabulary == (
        "pending", "in_progress", "succeeded", "failed", "quarantined",
    )  # fmt: skip
    assert found["extensions"].kind is Mapping
    assert found["wal_id"].canonical is True
    assert found["applied_attempt"].canonical is False
    assert found["applied_attempt"].doc == "number of the attempt whose item is in the catalog"
    assert {each.name for each in found.values() if not each.canonical} == {
        "recorded_by", "replay_run_id", "extensions", "due_at", "retry_after", "rerun_intent",
        "next_object", "budget_from", "lease_expiries", "applied_attempt",
    }  # fmt: skip
    assert set(found) == CANONICAL_NAMES
    attempt = {each.name: each for each in field_models(WalAttempt)}
    assert (attempt["issues"].kind, attempt["issues"].nullable) == (tuple, True)


def test_a_message_is_kept_up_to_its_length() -> None:
    """Five hundred characters as they are; a longer one loses its end, and shows it."""
    assert redact("x" * 500) == "x" * 500
    assert redact("x" * 501) == "x" * 499 + "…"
    words = "word " * 100
    assert redact(words.strip()) == words.strip()


def test_what_is_too_long_to_be_searched_is_cut_at_a_blank() -> None:
    """No half of a secret may be left that no rule would know."""
    assert redact("short " + "y" * 1995) == "short"
    assert redact("two words " + "y" * 1995) == "two words"
    assert redact("short " + "y" * 1994) == "short " + "y" * 493 + "…"
