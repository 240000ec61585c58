"""The guards of a selection, each under its name."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from tallgrass.errors import GuardRefused
from tallgrass.ledger.vocabulary import Status
from tallgrass.replay.guards import (
    Caps,
    environment_guard,
    record_guards,
    require_admitted,
    scope_guard,
    volume_guard,
)
from tallgrass.replay.selection import IdRange, Selection, Span

JUNE = datetime(2026, 6, 1, tzinfo=UTC)
ID = "3a1e8907-8000-8500-9e97-000000000001"
CAPS = Caps(max_events=5000, batch=500, max_candidates=10, max_records_per_second=1.0)


@pytest.mark.parametrize(
    ("conditions", "lacking"),
    [
        ({"datasets": ("a",)}, "a time"),
        ({"datasets": ("a",), "data_time": Span(None, JUNE)}, "a time"),
        ({"data_time": Span(JUNE, None)}, "a dataset"),
        ({"statuses": (Status.FAILED,)}, "a dataset or a bucket prefix and a time"),
        ({"datasets": ("a",), "data_time": Span(JUNE, None)}, None),
        ({"datasets": ("a",), "event_time": Span(JUNE, None)}, None),
        ({"datasets": ("a",), "created_at": Span(JUNE, None)}, None),
        ({"bucket_prefix": "s3://b/", "wal_id_range": IdRange(ID, None)}, None),
        ({"wal_ids": (ID,)}, None),
        ({"message_ids": ("m",)}, None),
    ],
)
def test_a_selection_names_what_and_since_when(
    conditions: dict[str, Any], lacking: str | None
) -> None:
    """A dataset or prefix and a start in time, unless units are named; else it is too broad."""
    found = scope_guard(Selection(**conditions), allow_global_scope=False)
    assert [finding.guard.value for finding in found] == (["scope_too_broad"] if lacking else [])
    assert not lacking or lacking in found[0].detail
    assert scope_guard(Selection(**conditions), allow_global_scope=True) == []


def test_a_selection_has_a_largest_size() -> None:
    """At the bound it passes, one above it is refused."""
    assert volume_guard(10, CAPS) == []
    assert [each.guard.value for each in volume_guard(11, CAPS)] == ["selection_too_large"]


@pytest.mark.parametrize(
    ("env", "meant", "reason", "fires"),
    [
        ("prod", (None, None), "incident", False),
        ("prod", ("prod", "prod"), "incident", False),
        ("prod", ("dev", None), "incident", True),
        ("prod", (None, "stage"), None, True),
        ("prod", (), "test", True),
        ("dev", (), "test", False),
    ],
)
def test_a_selection_is_for_its_environment(
    env: str, meant: tuple[str | None, ...], reason: str | None, *, fires: bool
) -> None:
    """What flag or file meant must be where it runs; a test is not for production."""
    found = environment_guard(env, meant=meant, reason=reason)
    assert {finding.guard.value for finding in found} == ({"env_mismatch"} if fires else set())


def test_the_first_guard_that_refuses_is_raised_by_name() -> None:
    """Guards of single records refuse no run."""
    single = record_guards(3, 0)
    require_admitted(single)
    with pytest.raises(GuardRefused) as refused:
        require_admitted([*single, *volume_guard(11, CAPS)])
    assert (refused.value.guard, refused.value.exit_code) == ("selection_too_large", 3)
    assert str(refused.value).startswith("selection_too_large: 11 candidates")
