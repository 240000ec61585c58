"""A policy that masks places reaches items that are there already, ids and all."""

from __future__ import annotations

import hashlib
import json
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.bootstrap.catalog import SharedCatalog
from tallgrass.bootstrap.datasets import open_catalogue
from tallgrass.bootstrap.planning import open_plan
from tallgrass.bootstrap.previewing import preview
from tallgrass.bootstrap.verifying import VerifyRequest, verify
from tallgrass.replay.comparison import changes_from
from tallgrass.replay.selection import Selection
from tests.contract.scene import RAW_ERRORS
from tests.oracle.promises import broken_promises
from tests.oracle.tables import read_tables
from tests.pipeline.scene import Thing, assert_effects_follow_the_ledger, thing
from tests.replay.scene import Replays

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.backends import Backend

#: One degree leaves no decimal of these.
EXACT = ("38.97", "95.23")
MASKED = {"wod": {"masking_degrees": 1, "policy_ref": "POL-9"}}
EVERYTHING = ("/",)


def placed(number: int = 1) -> Thing:
    """Return an object whose key spells a place, of a dataset without a grammar."""
    base = thing()
    key = f"obs/{number}_38.9717,-95.2353.dat"
    return replace(
        base,
        place=replace(base.place, bucket="noaa-wod-pds", key=key),
        content=b"anything %d" % number,
    )


def item_of(backend: Backend, wal_id: str) -> dict[str, Any]:
    """Return a unit's one item as the table holds it."""
    (row,) = backend.rows("SELECT * FROM stac_items WHERE wal_id = ?", wal_id)
    return row


def events(backend: Backend, wal_id: str) -> list[dict[str, Any]]:
    """Return the payloads of a unit's events, in order."""
    rows = backend.sql("SELECT payload FROM outbox WHERE subject = ? ORDER BY outbox_id", wal_id)
    return [json.loads(bytes(payload)) for (payload,) in rows]


def assert_promises_hold(backend: Backend, replays: Replays) -> None:
    """Judged by the oracle, by the pipeline's own proofs, and by verification."""
    connection = backend.connect()
    assert broken_promises(read_tables(connection)) == []
    connection.close()
    assert_effects_follow_the_ledger(backend)
    with closing(replays.opened()) as stores:
        found = verify(replays.config, stores, VerifyRequest(selection=Selection()))
        assert found.holds
        assert found.verified == len(backend.rows("SELECT wal_id FROM stac_items"))


@pytest.mark.conformance("RP-9.3")
def test_a_policy_that_masks_places_reaches_items_that_are_there(
    backend: Backend, tmp_path: Path
) -> None:
    """The old id goes when the new one comes; nothing but the ledger tells the exact place."""
    replays = Replays(backend, tmp_path)
    done = replays.succeeded(placed(1), placed(2))
    before = {wal_id: item_of(backend, wal_id) for wal_id in done}
    assert all("38.9717" in item["item_id"] for item in before.values())

    replays.config = replays.configured(MASKED)
    report = replays.again(done, policy_ref="POL-9", expected=EVERYTHING)
    assert (report.done, report.failed, report.mismatches) == (2, 0, 0)

    for wal_id, former in before.items():
        item = item_of(backend, wal_id)
        assert item["item_id"] != former["item_id"]
        assert item["created_at"] == former["created_at"]
        assert replays.record(wal_id)["stac_item_id"] == item["item_id"]
        assert replays.record(wal_id)["stac_status"] == "updated"
        created, updated = events(backend, wal_id)
        assert (created["event"], updated["event"]) == ("nodd.item.created", "nodd.item.updated")
        assert created["item_id"] == former["item_id"]
        assert updated["replaces"] == {
            "collection_id": former["collection_id"],
            "item_id_sha256": hashlib.sha256(former["item_id"].encode()).hexdigest(),
            "item_sha256": former["sha256"],
        }
        for told in (item["item_id"], bytes(item["body"]).decode(), json.dumps(updated)):
            assert not any(digits in told for digits in EXACT), told
        (noted,) = backend.rows("SELECT * FROM replaced_items WHERE wal_id = ?", wal_id)
        assert (noted["item_id"], noted["attempt_no"]) == (former["item_id"], 2)
    assert_promises_hold(backend, replays)


def test_a_renamed_item_widens_its_collection_too(backend: Backend, tmp_path: Path) -> None:
    """What an item spans under its new id is noted in the commit, as for any item."""
    replays = Replays(backend, tmp_path)
    done = replays.succeeded(placed())
    backend.sql("DELETE FROM stac_spans")
    replays.config = replays.configured(MASKED)
    replays.again(done, policy_ref="POL-9", expected=EVERYTHING)
    assert backend.sql("SELECT DISTINCT collection_id FROM stac_spans") == [("wod",)]


def test_what_masked_items_once_told_is_told_in_full_when_masking_ends(
    backend: Backend, tmp_path: Path
) -> None:
    """There and back and there again: each time an event of its own, and always one item."""
    replays = Replays(backend, tmp_path)
    (wal_id,) = replays.succeeded(placed())
    exact = item_of(backend, wal_id)["item_id"]
    for number, policies in enumerate((MASKED, {}, MASKED)):
        replays.config = replays.configured(policies)
        replays.again([wal_id], name=f"{number}.jsonl", expected=EVERYTHING)
    coarse = item_of(backend, wal_id)["item_id"]
    told = events(backend, wal_id)
    assert [event["item_id"] for event in told] == [exact, coarse, exact, coarse]
    assert told[2]["replaces"]["item_id"] == coarse
    assert "item_id" not in told[3]["replaces"]
    with closing(SharedCatalog(replays.config)) as catalog:
        assert catalog.former_items(wal_id) == [("wod", exact)]
        assert catalog.former_items("no unit") == []
    assert_promises_hold(backend, replays)


def test_a_preview_counts_items_that_would_get_another_id(backend: Backend, tmp_path: Path) -> None:
    """Before anything is replayed, and without an effect."""
    replays = Replays(backend, tmp_path)
    done = replays.succeeded(placed(), thing())
    replays.config = replays.configured({**MASKED, "goes-glm": {"policy_ref": "POL-9"}})
    with closing(replays.opened()) as stores:
        request = replays.request(replays.select(done, again=True))
        plan = open_plan(replays.config, stores, request)
        found = preview(replays.config, stores, open_catalogue(replays.config), plan)
    assert (found.compared, found.changed, found.renamed) == (2, 2, 1)
    assert found.document()["renamed"] == 1
    assert found.fields["/id"] == 1
    assert backend.rows("SELECT * FROM replaced_items") == []


def test_a_change_of_id_that_nobody_announced_is_a_mismatch(
    backend: Backend, tmp_path: Path
) -> None:
    """It is shown with the other fields of the item."""
    replays = Replays(backend, tmp_path)
    (wal_id,) = replays.succeeded(placed())
    replays.config = replays.configured(MASKED)
    report = replays.again([wal_id])
    assert (report.done, report.mismatches) == (1, 1)
    (row,) = replays.rows(report.replay_run_id)
    _, changes = changes_from(row["changes"])
    assert "/id" in {change.pointer for change in changes}


def test_the_mark_of_an_expired_item_goes_with_it(backend: Backend, tmp_path: Path) -> None:
    """An item whose object is gone stays marked under its new id."""
    replays = Replays(backend, tmp_path)
    (wal_id,) = replays.succeeded(placed())
    item = item_of(backend, wal_id)
    now = item["created_at"]
    backend.sql(
        "INSERT INTO expired_items (collection_id, item_id, expires_at, reason, actor, marked_at)"
        " VALUES (?, ?, ?, 'object_gone', 'olga', ?)",
        item["collection_id"], item["item_id"], now, now,
    )  # fmt: skip
    with pytest.raises(RAW_ERRORS):
        backend.sql("UPDATE expired_items SET item_id = 'x'")
    replays.config = replays.configured(MASKED)
    assert replays.again([wal_id], expected=EVERYTHING).done == 1
    (mark,) = backend.rows("SELECT * FROM expired_items")
    assert mark["item_id"] == item_of(backend, wal_id)["item_id"] != item["item_id"]


def test_an_id_never_changes_without_a_note(backend: Backend, tmp_path: Path) -> None:
    """The database refuses it, and it refuses to change or remove a note."""
    replays = Replays(backend, tmp_path)
    (wal_id,) = replays.succeeded(placed())
    for statement in (
        "UPDATE stac_items SET item_id = 'x'",
        "UPDATE stac_items SET item_id = 'x', attempt_no = 2",
        "UPDATE stac_items SET collection_id = 'x', attempt_no = 2",
    ):
        with pytest.raises(RAW_ERRORS):
            backend.sql(statement)
    replays.config = replays.configured(MASKED)
    replays.again([wal_id], expected=EVERYTHING)
    for statement in ("UPDATE replaced_items SET item_id = 'x'", "DELETE FROM replaced_items"):
        with pytest.raises(RAW_ERRORS):
            backend.sql(statement)


def test_an_id_that_belongs_to_another_unit_is_refused(backend: Backend, tmp_path: Path) -> None:
    """A unit that would take it fails with `catalog_conflict`, and both items stay."""
    replays = Replays(backend, tmp_path)
    (one,) = replays.succeeded(placed(1))
    (other,) = replays.succeeded(placed(2))
    replays.config = replays.configured(MASKED)
    replays.again([one], expected=EVERYTHING)
    wanted = item_of(backend, one)
    # The second unit's id, as if the rule for ids gave one for both.
    ids = iter([wanted["item_id"]])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "tallgrass.operators.stac_register.item_id", lambda *_: next(ids, wanted["item_id"])
        )
        report = replays.again([other], name="other.jsonl", expected=EVERYTHING)
    assert (report.done, report.failed) == (0, 1)
    assert replays.record(other)["last_error_code"] == "catalog_conflict"
    assert item_of(backend, one) == wanted
    assert "38.9717" in item_of(backend, other)["item_id"]
    assert [row["wal_id"] for row in backend.rows("SELECT wal_id FROM replaced_items")] == [one]
