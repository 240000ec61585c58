"""The order of code versions and of schemas."""

from __future__ import annotations

import json

import pytest

from tallgrass.replay.versions import Order, lowered_schemas, lowers, order_of
from tallgrass.stac.extensions import STAC_VERSION


@pytest.mark.conformance("C-28", "RP-7.5")
@pytest.mark.parametrize(
    ("applied", "wanted", "order"),
    [
        ("1.2.3", "1.2.3", Order.SAME),
        ("1.2.3", "1.2.4", Order.NEWER),
        ("1.9.0", "1.10.0", Order.NEWER),
        ("1.10.0", "1.9.9", Order.OLDER),
        ("2.0.0-rc.1", "2.0.0", Order.NEWER),
        ("2.0.0", "2.0.0-rc.1", Order.OLDER),
        ("2.0.0-rc.2", "2.0.0-rc.10", Order.NEWER),
        ("2.0.0-alpha", "2.0.0-alpha.1", Order.NEWER),
        ("2.0.0-alpha.1", "2.0.0-alpha.beta", Order.NEWER),
        ("57+g1a2b3c4", "58+g9f8e7d6", Order.NEWER),
        ("58", "57", Order.OLDER),
        ("1.2.3+gaaaaaaa", "1.2.3+gaaaaaaa", Order.SAME),
        # Two builds of one release, hashes, and what is no release have no order.
        ("1.2.3+gaaaaaaa", "1.2.3+gbbbbbbb", Order.UNKNOWN),
        ("1.2.3", "1.2.3+gbbbbbbb", Order.UNKNOWN),
        ("1a2b3c4d", "9f8e7d6c", Order.UNKNOWN),
        ("1.2.3", "main", Order.UNKNOWN),
        ("57", "1.2.3", Order.UNKNOWN),
    ],
)
def test_releases_have_an_order_and_hashes_have_none(
    applied: str, wanted: str, order: Order
) -> None:
    """As semantic versioning says; an unknown order counts as a downgrade."""
    assert order_of(applied, wanted) is order
    assert lowers(applied, wanted) == (order in {Order.OLDER, Order.UNKNOWN})


def test_what_was_never_applied_cannot_be_lowered() -> None:
    """A unit without an item has no version to fall behind."""
    assert not lowers(None, "1.0.0")


@pytest.mark.conformance("RP-7.5")
@pytest.mark.parametrize(
    ("stac", "extensions", "lowered"),
    [
        (STAC_VERSION, ["https://stac-extensions.github.io/file/v2.1.0/schema.json"], []),
        (STAC_VERSION, ["https://stac-extensions.github.io/file/v2.0.0/schema.json"], []),
        (STAC_VERSION, ["https://stac-extensions.github.io/file/v3.0.0/schema.json"], ["file"]),
        (STAC_VERSION, ["https://schemas.example/own/v9.0.0/schema.json"], []),
        ("1.0.0", [], []),
        ("99.0.0", [], ["stac"]),
    ],
)
def test_a_schema_that_would_fall_back_is_named(
    stac: str, extensions: list[str], lowered: list[str]
) -> None:
    """STAC itself, and extensions that this release writes in an older version."""
    item = json.dumps({"stac_version": stac, "stac_extensions": extensions}).encode()
    assert lowered_schemas(item) == lowered
