from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from tallgrass.errors import InvalidInput
from tallgrass.ledger.unit import EventMetadata
from tests.support.builders import unit

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
NAIVE = datetime(2026, 6, 1, 12)  # noqa: DTZ001 - naive on purpose
KATHMANDU = timezone(timedelta(hours=5, minutes=45))


@pytest.mark.conformance("WAL-3.3")
@pytest.mark.parametrize("provider", ["aws", "azure", "gcp"])
def test_the_three_providers_are_known(provider: str) -> None:
    """The providers of the contract need no configuration."""
    assert unit(provider=provider).provider == provider


@pytest.mark.conformance("WAL-3.3")
@pytest.mark.parametrize("provider", ["", "AWS", "s3", "ibm"])
def test_an_unknown_provider_is_refused(provider: str) -> None:
    """Any other provider is refused, with the known ones named."""
    with pytest.raises(InvalidInput, match="aws, azure, gcp") as refusal:
        unit(provider=provider)
    assert refusal.value.code == "unknown_provider"


@pytest.mark.conformance("WAL-3.3")
def test_a_configured_provider_is_accepted() -> None:
    """A provider that the configuration adds is as good as a known one."""
    assert unit(provider="ibm", providers={"aws", "ibm"}).provider == "ibm"


@pytest.mark.conformance("WAL-3.4")
@pytest.mark.parametrize(
    "changes",
    [
        {"time_range_start": NAIVE},
        {"time_range_end": NAIVE},
        {"event": EventMetadata(event_time=NAIVE)},
    ],
    ids=["start", "end", "event"],
)
def test_a_time_without_a_zone_is_refused(changes: dict[str, Any]) -> None:
    """None of a unit's times may be naive."""
    with pytest.raises(InvalidInput) as refusal:
        unit(**changes)
    assert refusal.value.code == "invalid_time"


def test_a_range_that_ends_before_it_starts_is_refused() -> None:
    """The end of the data is not before its start."""
    with pytest.raises(InvalidInput) as refusal:
        unit(time_range_start=NOON, time_range_end=NOON - timedelta(microseconds=1))
    assert refusal.value.code == "invalid_time"


def test_a_range_without_an_end_ends_where_it_starts() -> None:
    """Where the key gives no end, end and start are one instant."""
    made = unit(time_range_start=NOON, time_range_end=None)
    assert made.time_range_end == made.time_range_start == NOON


@pytest.mark.conformance("WAL-3.4")
def test_times_of_any_zone_become_utc() -> None:
    """Zones are accepted and written as UTC; the id does not depend on them."""
    local = NOON.astimezone(KATHMANDU)
    made = unit(time_range_start=local, time_range_end=local)
    assert made.time_range_start.tzinfo is UTC
    assert made.time_range_end.tzinfo is UTC
    assert made.wal_id == unit(time_range_start=NOON, time_range_end=NOON).wal_id


def test_a_unit_needs_a_dataset() -> None:
    """A unit of no dataset is refused."""
    with pytest.raises(InvalidInput):
        unit(dataset="", object_uri="s3://b/k")


def test_a_unit_needs_an_object() -> None:
    """An address that names no object is refused."""
    with pytest.raises(InvalidInput) as refusal:
        unit(object_uri="s3://bucket-only")
    assert refusal.value.code == "invalid_object_uri"
