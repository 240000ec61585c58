"""What the feed sends is what the intake understands."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime

from tallgrass.datasets.catalogue import default_catalogue
from tallgrass.intake.parse import parse_message
from tallgrass.simulate.feed import Feed


def test_the_intake_finds_what_the_feed_made() -> None:
    """Units, ignored records and poison of the messages are those of the manifest."""
    feed = Feed(9, 600)
    manifest = feed.manifest()
    units: Counter[tuple[str, str, datetime]] = Counter()
    ignored: Counter[str] = Counter()
    poison: Counter[str] = Counter()
    catalogue = default_catalogue()
    for number, body in enumerate(feed.bodies()):
        parsed = parse_message(
            body,
            message_id=f"sqs-{number}",
            sent_at=datetime(2026, 6, 1, tzinfo=UTC),
            queue="nodd-primary",
            catalogue=catalogue,
        )
        units.update(
            (each.dataset, each.object_uri, each.time_range_start) for each in parsed.units
        )
        ignored.update(each.reason for each in parsed.ignored)
        poison.update([parsed.poison.code] if parsed.poison else [])
    assert units == {
        (each.dataset, each.object_uri, datetime.fromisoformat(each.time_range_start)): (
            each.announced
        )
        for each in manifest.units
    }
    assert ignored == manifest.ignored
    assert poison == manifest.poison
