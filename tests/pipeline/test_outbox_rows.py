"""What a unit leaves in the outbox: one row for each event and target."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tallgrass.outbox.routing import parse_routing
from tests.pipeline.scene import Pipeline, thing, things

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.backends import Backend


def rows(backend: Backend) -> list[tuple[str, str, int]]:
    """Count the outbox by event and target."""
    return backend.sql(
        "SELECT event_name, target, count(*) FROM outbox"
        " GROUP BY event_name, target ORDER BY event_name, target"
    )


def test_each_event_is_one_row_for_the_default_target(backend: Backend, tmp_path: Path) -> None:
    """Created and updated items are told once, to `file`; lineage is nobody's by default."""
    pipeline = Pipeline(backend, tmp_path)
    pipeline.feed(*things(6))
    pipeline.drain()
    assert rows(backend) == [("nodd.item.created", "file", 6)]
    pipeline.feed(thing(0, version=2))
    # The same bytes once more, and an object that is not there: neither changes an item.
    pipeline.announce(thing(3), sequencer="F" * 16)
    pipeline.announce(thing(9))
    pipeline.worker.run_messages()
    assert rows(backend) == [("nodd.item.created", "file", 6), ("nodd.item.updated", "file", 1)]
    by_unit = "SELECT subject, event_name, count(*) FROM outbox GROUP BY subject, event_name"
    assert {number for *_, number in backend.sql(by_unit)} == {1}
    lineage = "SELECT count(*) FROM outbox WHERE event_name LIKE ?"
    assert backend.sql(lineage, "openlineage.%") == [(0,)]
    assert backend.sql(lineage, "nodd.item.%") == [(7,)]


@pytest.mark.conformance("OB-2.3")
def test_each_target_of_an_event_has_its_row(backend: Backend, tmp_path: Path) -> None:
    """Routes choose the targets; all rows of an event share key, payload and unit."""
    routing = parse_routing(
        {"lake": {"kind": "sqs"}},
        [
            {"events": ["nodd.item.*"], "targets": ["lake", "file"]},
            {"events": ["openlineage.complete"], "datasets": ["hrrr"], "targets": ["lake"]},
        ],
    )
    pipeline = Pipeline(backend, tmp_path, routing=routing)
    pipeline.feed(*things(6))
    pipeline.drain()
    assert rows(backend) == [
        ("nodd.item.created", "file", 6),
        ("nodd.item.created", "lake", 6),
        ("openlineage.complete", "lake", 2),
    ]
    shared = backend.sql(
        "SELECT count(*), count(DISTINCT outbox_id), count(DISTINCT target),"
        " count(DISTINCT payload), count(DISTINCT subject)"
        " FROM outbox WHERE event_name = 'nodd.item.created' GROUP BY idempotency_key"
    )
    assert shared == [(2, 2, 2, 1, 1)] * 6
