"""What a listing tells and the ledger lacks becomes due, once, in the order of time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.bootstrap.backfilling import open_inventory
from tallgrass.datasets.catalogue import default_catalogue
from tallgrass.governance.policy import Overwrite
from tallgrass.inventory.backfill import Backfill, Wanted, unit_of
from tallgrass.inventory.listed import ListedObject
from tallgrass.ledger.rules import LedgerRules
from tallgrass.ledger.unit import IngestUnit
from tallgrass.ledger.vocabulary import Intent
from tests.inventory.listing import NOW, SINCE, WANTED, Listed, listed
from tests.pipeline.scene import Pipeline, thing
from tests.support.backends import NO_BACKOFF
from tests.support.builders import failure

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.backends import Backend


KEY = (
    "GLM-L2-LCFA/2026/152/12/OR_GLM-L2-LCFA_G19_s20261521200000_e20261521200200_c20261521200211.nc"
)


def read(uri: str, wanted: Wanted = WANTED) -> IngestUnit | str:
    """Return what a listed URI is."""
    return unit_of(ListedObject(uri, 7, "e", SINCE), wanted, default_catalogue(), now=NOW)


# --- what a listed object is ----------------------------------------------------------------------


def test_a_listed_object_is_the_unit_that_its_notification_would_be() -> None:
    """The same id, by hand from key and bucket; its time in the listing is that of its event."""
    unit = read(f"s3://noaa-goes19/{KEY}")
    assert isinstance(unit, IngestUnit)
    assert (unit.dataset, unit.provider, unit.queue) == ("goes-glm", "aws", "listing")
    assert (unit.time_range_start, unit.event.event_time) == (SINCE, SINCE)
    assert (unit.object_ref.etag, unit.object_ref.size) == ("e", 7)
    assert unit.event.sqs_message_id is None


def test_a_listing_without_times_has_the_time_of_the_backfill() -> None:
    """Nothing is guessed: nobody knows when the object came."""
    bare = ListedObject(f"s3://noaa-goes19/{KEY}", None, None, None)
    unit = unit_of(bare, WANTED, default_catalogue(), now=NOW)
    assert isinstance(unit, IngestUnit)
    assert (unit.event.event_time, unit.object_ref.etag, unit.object_ref.size) == (NOW, None, None)


@pytest.mark.parametrize(
    ("uri", "reason"),
    [
        (f"s3://noaa-goes19/{KEY.replace('/12/OR', '/13/OR').replace('1200', '1300')}",
         "outside_time"),
        (f"s3://noaa-goes19/{KEY.replace('2026152', '2026367')}", "invalid_time_range"),
        ("s3://noaa-goes19/GLM-L2-LCFA/2026/152/12/index.html", "not_ingestable"),
        ("s3://noaa-goes19/ABI-L2-X/2026/152/12/x.nc", "other_dataset"),
        ("s3://noaa-goes19/NOBODYS/x.nc", "other_dataset"),
        ("s3://unheard-of/x.nc", "unroutable"),
        ("s3://noaa-goes19/GLM-L2-LCFA/a\nb.nc", "invalid_object_uri"),
        (f"s3://noaa-goes19/GLM-L2-LCFA/{'x' * 1100}.nc", "invalid_object_uri"),
        ("noaa-goes19/key", "invalid_object_uri"),
    ],
)  # fmt: skip
def test_what_is_no_unit_of_the_backfill_is_passed_over_with_its_reason(
    uri: str, reason: str
) -> None:
    """One bad key harms no neighbour."""
    assert read(uri) == reason


def test_a_prefix_narrows_what_a_file_lists() -> None:
    """The bucket is asked for it; a file is not."""
    wanted = Wanted(dataset="goes-glm", prefix="GLM-L2-LCFA/2027/")
    assert read(f"s3://noaa-goes19/{KEY}", wanted) == "outside_prefix"


def test_an_object_of_a_bucket_that_moved_is_known_under_its_present_name(scene: Listed) -> None:
    """NEXRAD's old bucket: the same key in the present one, and no second record."""
    key = "2026/06/01/KTLX/KTLX20260601_120000_V06"
    store = open_inventory(
        scene.pipeline.config, scene.pipeline.stores, default_catalogue(), "r", Intent.BACKFILL
    )
    backfill = Backfill(store, default_catalogue(), Wanted(dataset="nexrad-l2"), clock=lambda: NOW)
    for bucket in ("noaa-nexrad-level2", "unidata-nexrad-level2"):
        backfill.take([ListedObject(f"s3://{bucket}/{key}", 9, "e", SINCE)])
    assert (backfill.report.recorded, backfill.report.known) == (1, 1)
    assert scene.sql("SELECT object_uri FROM wal_records") == [
        (f"s3://unidata-nexrad-level2/{key}",)
    ]


# --- what the ledger makes of it ------------------------------------------------------------------


def test_what_the_ledger_lacks_is_due_as_a_backfill_and_nothing_else(scene: Listed) -> None:
    """Of five listed objects two were announced; the other three are pending and due."""
    given = [thing(number) for number in range(5)]
    scene.pipeline.feed(*given[:2])
    scene.pipeline.drain()
    report = scene.take(*map(listed, given)).report
    assert report.document() == {
        "listed": 5, "known": 2, "recorded": 3, "changed": 0, "waited_for_message": 0,
        "left": {}, "passed_over": {}, "capped": False,
    }  # fmt: skip
    due = scene.sql(
        "SELECT object_uri, status, version, attempts, queue FROM wal_records"
        " WHERE due_at IS NOT NULL ORDER BY 1"
    )
    assert due == sorted((each.uri, "pending", 1, 0, "listing") for each in given[2:])
    assert scene.take(*map(listed, given)).report.known == 5
    assert scene.take().report.listed == 0


@pytest.mark.conformance("RP-3.5")
def test_a_unit_that_no_notification_brought_is_worked_on_with_intent_backfill(
    scene: Listed,
) -> None:
    """Until it succeeds, a retry and a lost worker included; one that was announced is ingested."""
    given = thing()
    scene.take(listed(given))
    stores, lease = scene.pipeline.stores, scene.pipeline.register("first")
    (claim,) = stores.ledger.claim_due(lease, 10)
    assert claim.intent is Intent.BACKFILL
    stores.ledger.commit(lease, [failure(claim, "io_error")])
    (claim,) = stores.ledger.claim_due(lease, 10)
    assert (claim.intent, claim.attempt_no) == (Intent.BACKFILL, 2)
    scene.pipeline.backend.expire(lease)
    stores.leases.recover()
    scene.pipeline.put(given)
    scene.pipeline.drain()
    assert scene.intents() == [
        ("backfill", "failed"), ("backfill", "rolled_back"), ("backfill", "applied"),
    ]  # fmt: skip
    scene.pipeline.feed(thing(2))
    scene.pipeline.drain()
    assert scene.intents()[-1] == ("ingest", "applied")


def test_a_notification_that_comes_after_all_takes_the_unit_over(scene: Listed) -> None:
    """The same object: one record, one attempt, and no second one."""
    given = thing()
    scene.take(listed(given))
    scene.pipeline.feed(given)
    scene.pipeline.drain()
    assert scene.intents() == [("ingest", "applied")]


def test_the_catalog_is_the_same_whoever_brought_the_objects(scene: Listed, tmp_path: Path) -> None:
    """Items and provenance of a backfill are byte for byte those of notifications."""
    given = [thing(number) for number in range(6)]
    scene.pipeline.put(*given)
    scene.take(*map(listed, given))
    scene.pipeline.drain()
    from tests.support.backends import prepare  # noqa: PLC0415 - the second ledger of this test

    (tmp_path / "other").mkdir()
    other = Pipeline(prepare("sqlite", f"sqlite:///{tmp_path / 'o.db'}"), tmp_path / "other")
    other.feed(*given)
    other.drain()
    for table in ("items", "provenance", "records"):
        assert scene.pipeline.stored()[table] == other.stored()[table], table
    other.backend.close()


def test_an_object_that_was_overwritten_is_due_again(scene: Listed) -> None:
    """Another etag is new data: a re-run with intent reingest, and the item follows the object."""
    scene.pipeline.feed(thing())
    scene.pipeline.drain()
    newer = thing(version=2)
    scene.pipeline.put(newer)
    assert scene.take(listed(newer), dry_run=True).report.changed == 1
    report = scene.take(listed(newer)).report
    assert (report.changed, report.recorded, report.known) == (1, 0, 0)
    assert scene.take(listed(newer)).report.known == 1  # it waits already
    scene.pipeline.drain()
    assert scene.intents() == [("ingest", "applied"), ("reingest", "applied")]
    assert scene.take(listed(newer)).report.known == 1


@pytest.mark.parametrize(
    ("told", "changed"),
    [
        ({"etag": None}, 0),
        ({"size": None}, 0),
        ({"etag": None, "size": None}, 0),
        ({"etag": None, "size": 1}, 1),
        ({"etag": "other", "size": None}, 1),
    ],
)
def test_only_what_both_sides_tell_is_compared(
    scene: Listed, told: dict[str, Any], changed: int
) -> None:
    """A folder tells no etag, a list of keys nothing at all: that is no change."""
    scene.pipeline.feed(thing())
    scene.pipeline.drain()
    report = scene.take(listed(thing(), **told)).report
    assert (report.changed, report.known) == (changed, 1 - changed)


def test_an_object_that_may_not_be_replaced_stays(backend: Backend, tmp_path: Path) -> None:
    """The receipt table decides, as for a message: kept, or kept for an approval."""
    for number, (rule, action) in enumerate(
        ((Overwrite.KEEP, "not_reingested"), (Overwrite.APPROVE, "record_newer"))
    ):
        rules = LedgerRules(backoff=NO_BACKOFF, overwrites={"goes-glm": rule})
        folder = tmp_path / action
        folder.mkdir()
        scene = Listed(backend, folder, rules=rules)
        scene.pipeline.feed(thing(number))
        scene.pipeline.drain()
        report = scene.take(listed(thing(number), etag="other")).report
        assert (report.changed, report.left) == (0, {action: 1})
    assert backend.sql("SELECT count(*) FROM wal_records WHERE due_at IS NOT NULL") == [(0,)]


def test_failed_and_held_units_are_not_touched(scene: Listed) -> None:
    """A backfill is no replay: the same object of a failed unit stays failed."""
    given = [thing(0), thing(1)]
    stores, lease = scene.pipeline.stores, scene.pipeline.lease
    scene.take(*map(listed, given))
    claims = stores.ledger.claim_due(lease, 10)
    codes = ("size_zero", "governance_hard_fail")
    stores.ledger.commit(lease, [failure(c, code) for c, code in zip(claims, codes, strict=True)])
    before = scene.sql("SELECT * FROM wal_records ORDER BY wal_id")
    assert scene.take(*map(listed, given)).report.known == 2
    assert scene.sql("SELECT * FROM wal_records ORDER BY wal_id") == before
    # Its newer object, however, is new data; that of a held unit waits for its release.
    report = scene.take(*(listed(each, etag="newer") for each in given)).report
    assert (report.changed, report.left) == (1, {"record_newer": 1})
    statuses = scene.sql("SELECT status FROM wal_records ORDER BY wal_id")
    assert statuses == [("pending",), ("quarantined",)]


def test_a_unit_in_progress_is_left_to_its_worker(scene: Listed) -> None:
    """Even if its object was overwritten meanwhile: the next listing tells."""
    scene.take(listed(thing()))
    assert len(scene.pipeline.stores.ledger.claim_due(scene.pipeline.lease, 10)) == 1
    assert scene.take(listed(thing(), etag="newer")).report.left == {"wait": 1}


def test_units_become_due_in_the_order_of_their_data(scene: Listed) -> None:
    """Whatever the order of the listing: random times made the ledger slow."""
    given = [thing(2 * number) for number in range(8)]
    scene.take(*map(listed, reversed(given)))
    inserted = "rowid" if scene.pipeline.backend.name == "sqlite" else "ctid"
    found = scene.sql(f"SELECT object_uri FROM wal_records ORDER BY {inserted}")
    assert [uri for (uri,) in found] == [each.uri for each in given]


def test_an_object_that_is_listed_twice_is_one_unit(scene: Listed) -> None:
    """A listing that changed while it was read may say a key again."""
    report = scene.take(listed(thing()), listed(thing())).report
    assert (report.listed, report.recorded, report.known) == (2, 1, 1)


def test_bad_keys_harm_no_neighbour(scene: Listed) -> None:
    """A control character, half a surrogate and a NUL never reach the database."""
    bad = [f"s3://noaa-goes19/GLM-L2-LCFA/{text}" for text in ("a\x00", "b\ud800", "c\x85", "d\n")]
    report = scene.take(*(ListedObject(uri, 1, "e", SINCE) for uri in bad), listed(thing())).report
    assert (report.recorded, report.passed) == (1, {"invalid_object_uri": 4})


def test_a_key_with_unusual_but_lawful_signs_is_found_again(scene: Listed) -> None:
    """A no-break space is not printable to Python, and a key all the same."""
    given = listed(thing())
    odd = given._replace(uri="s3://noaa-goes19/GLM-L2-LCFA/\u00a0.nc")
    assert scene.take(odd).report.passed == {"outside_time": 1}


def test_at_its_cap_a_backfill_stops_and_says_so(scene: Listed) -> None:
    """The oldest come first; running it again brings the rest."""
    given = [thing(2 * number) for number in range(5)]
    report = scene.take(*map(listed, given), due_max=2).report
    assert (report.recorded, report.listed, report.capped) == (2, 2, True)
    assert scene.sql("SELECT max(time_range_start) FROM wal_records") == [
        ("2026-06-01T12:00:20.000000Z",)
    ]
    report = scene.take(*map(listed, given), due_max=3).report
    assert (report.recorded, report.known, report.capped) == (3, 2, False)


def test_what_the_ledger_leaves_takes_no_room_below_the_cap(scene: Listed) -> None:
    """An older unit that stays as it is does not stop those behind it for ever."""
    given = [thing(2 * number) for number in range(3)]
    scene.take(listed(given[0]))
    assert len(scene.pipeline.stores.ledger.claim_due(scene.pipeline.lease, 10)) == 1
    page = [listed(given[0], etag="newer"), listed(given[1])]
    report = scene.take(*page, due_max=1).report
    assert (report.left, report.recorded, report.listed) == ({"wait": 1}, 1, 2)
    assert not report.capped
    report = scene.take(*page, listed(given[2]), due_max=1).report
    assert (report.left, report.recorded, report.listed) == ({"wait": 1}, 1, 3)
    assert not report.capped


def test_another_size_brings_a_repaired_object_to_a_failed_unit(scene: Listed) -> None:
    """A folder tells no etag: an object that was empty and has bytes now is new data."""
    scene.take(listed(thing(), etag=None, size=0))
    stores, lease = scene.pipeline.stores, scene.pipeline.lease
    (claim,) = stores.ledger.claim_due(lease, 10)
    stores.ledger.commit(lease, [failure(claim, "size_zero")])
    scene.pipeline.put(thing())
    assert scene.take(listed(thing(), etag=None)).report.changed == 1
    assert scene.take(listed(thing(), etag=None)).report.known == 1
    scene.pipeline.drain()
    assert scene.pipeline.statuses() == {"succeeded": 1}


def test_a_unit_that_is_due_as_it_is_is_not_made_due_again(scene: Listed) -> None:
    """The same etag with another size: nothing is written, so nothing is counted as news."""
    scene.take(listed(thing()))
    before = scene.sql("SELECT * FROM wal_records")
    report = scene.take(listed(thing(), size=1)).report
    assert (report.changed, report.due, report.left) == (0, 0, {"due": 1})
    assert scene.sql("SELECT * FROM wal_records") == before


def test_a_unit_that_waits_for_its_message_is_not_called_overwritten(scene: Listed) -> None:
    """The listing makes it due with the object that it has; the journal says why, too."""
    scene.pipeline.put(thing())
    scene.take(listed(thing()))
    # As a drain leaves it: pending, and led by its message.
    scene.sql("UPDATE wal_records SET due_at = NULL, version = version + 1")
    for dry_run in (True, False):
        report = scene.take(listed(thing()), dry_run=dry_run).report
        assert (report.changed, report.waited_for_message, report.due) == (0, 1, 1)
    assert scene.sql("SELECT kind, reason FROM wal_transitions") == [("park", "listed_object")]
    scene.sql("UPDATE wal_records SET due_at = NULL, version = version + 1")
    report = scene.take(listed(thing(), etag="newer")).report
    assert (report.changed, report.waited_for_message) == (1, 0)
    reasons = scene.sql("SELECT reason FROM wal_transitions ORDER BY 1")
    assert reasons == [("listed_object",), ("newer_object",)]


def test_a_dry_run_tells_the_same_and_writes_nothing(scene: Listed) -> None:
    """Not a row, not an entry of the log."""
    given = [listed(thing(number)) for number in range(3)]
    told = scene.take(*given, dry_run=True).report.document()
    for table in ("wal_records", "audit_log", "wal_transitions"):
        assert scene.sql(f"SELECT count(*) FROM {table}") == [(0,)]
    assert scene.take(*given).report.document() == told


def test_while_ingest_is_off_units_are_recorded_and_wait(scene: Listed) -> None:
    """Parked, as what a message announces; after the switch they run."""
    scene.pipeline.switch(is_on=True, dataset="goes-glm")
    scene.pipeline.put(thing())
    assert scene.take(listed(thing())).report.recorded == 1
    assert scene.pipeline.worker.run_due().is_empty
    scene.pipeline.switch(is_on=False, dataset="goes-glm")
    scene.pipeline.drain()
    assert scene.intents() == [("backfill", "applied")]
