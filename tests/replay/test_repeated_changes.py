"""An item that changes to a content which it had before: each change has its event."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any

import pytest

import tallgrass
from tallgrass.canonical_json import canonical_bytes
from tallgrass.operators import stac_register
from tallgrass.stac.item import build_item
from tests.oracle.promises import effects_are_complete, effects_have_a_cause
from tests.oracle.tables import read_tables
from tests.pipeline.scene import thing
from tests.replay.scene import Replays

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.backends import Backend


def events(backend: Backend) -> list[tuple[str, str]]:
    """Return name and item hash of each event, in the order in which they were written."""
    rows = backend.sql("SELECT event_name, payload FROM outbox ORDER BY outbox_id")
    return [(name, json.loads(bytes(payload))["item_sha256"]) for name, payload in rows]


@pytest.mark.conformance("C-34", "RP-7.1")
def test_a_change_back_and_forth_is_told_each_time(
    backend: Backend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A release changes an item, is rolled back, and returns: four contents, four events."""
    replays = Replays(backend, tmp_path, replay__allow_downgrade=True)
    (wal_id,) = replays.succeeded(thing())
    as_it_was = build_item

    def of_the_new_release(**given: Any) -> bytes:
        item = json.loads(as_it_was(**given))
        item["properties"]["title"] = "new"
        return canonical_bytes(item)

    def item_hash() -> str:
        return str(backend.sql("SELECT sha256 FROM stac_items")[0][0])

    old, told = item_hash(), [("nodd.item.created", item_hash())]
    releases = [("9.0.0", of_the_new_release), (tallgrass.__version__, as_it_was)]
    for number, (version, build) in enumerate([*releases, releases[0]]):
        monkeypatch.setattr(tallgrass, "__version__", version)
        monkeypatch.setattr(stac_register, "build_item", build)
        expected = ("/properties",)
        replays.again([wal_id], name=f"plan-{number}.jsonl", forced=True, expected=expected)
        told.append(("nodd.item.updated", item_hash()))
        # Run once more, it changes nothing and tells nothing.
        replays.again([wal_id], name=f"again-{number}.jsonl", forced=True, expected=expected)
    assert [digest == old for _, digest in told] == [True, False, True, False]
    assert events(backend) == told
    keys = backend.sql("SELECT count(DISTINCT idempotency_key), count(*) FROM outbox")
    assert keys == [(4, 4)]
    with contextlib.closing(backend.connect()) as connection:
        tables = read_tables(connection)
    assert [*effects_are_complete(tables), *effects_have_a_cause(tables)] == []
