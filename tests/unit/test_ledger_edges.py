"""Edges of the ledger's pure rules: limits, defaults and what a field is, by hand."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from tallgrass.errors import InvalidInput
from tallgrass.governance.policy import Overwrite
from tallgrass.ledger.identity import first_wal_id_of, start_of_wal_id
from tallgrass.ledger.object_uri import (
    azure_bucket,
    bucket_and_key,
    canonical_object_uri,
    key_of_event,
    object_uri,
)
from tallgrass.ledger.record import CANONICAL_NAMES, WalAttempt, WalRecord, field_models
from tallgrass.ledger.redaction import redact
from tallgrass.ledger.rules import LedgerRules
from tallgrass.ledger.vocabulary import Status


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
    for key in (f"{longest}k", "é" * 513):
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
    assert redact("short " + "y" * 1994) == "short " + "y" * 493 + "…"
