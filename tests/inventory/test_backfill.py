"""Backfill: what a listing tells and the ledger lacks becomes due, once, in the order of time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.bootstrap.backfilling import (
    BackfillRequest,
    Surroundings,
    open_inventory,
    run_backfill,
)
from tallgrass.bootstrap.datasets import open_catalogue
from tallgrass.datasets.catalogue import default_catalogue
from tallgrass.errors import GuardRefused, InvalidInput, ListingBroken, Refused, UnknownRecord
from tallgrass.governance.policy import Overwrite
from tallgrass.governance.references import ReferenceKind
from tallgrass.inventory.backfill import Backfill, Wanted, unit_of
from tallgrass.inventory.listed import ListedObject, listed_line
from tallgrass.ledger.rules import LedgerRules
from tallgrass.ledger.unit import IngestUnit
from tallgrass.ledger.vocabulary import Intent
from tests.pipeline.scene import Pipeline, thing
from tests.support.backends import NO_BACKOFF
from tests.support.builders import failure

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.pipeline.scene import Thing
    from tests.support.backends import Backend

SINCE = datetime(2026, 6, 1, 12, tzinfo=UTC)
WANTED = Wanted(dataset="goes-glm", since=SINCE, until=SINCE + timedelta(hours=1))
NOW = datetime(2026, 7, 1, tzinfo=UTC)
KEY = (
    "GLM-L2-LCFA/2026/152/12/OR_GLM-L2-LCFA_G19_s20261521200000_e20261521200200_c20261521200211.nc"
)


def listed(given: Thing, **changes: Any) -> ListedObject:
    """Return an object as its bucket lists it."""
    event = given.event()
    values = {"size": event.size, "etag": event.etag, "modified": given.place.ready, **changes}
    return ListedObject(uri=given.uri, **values)


def read(uri: str, wanted: Wanted = WANTED) -> IngestUnit | str:
    """Return what a listed URI is."""
    return unit_of(ListedObject(uri, 7, "e", SINCE), wanted, default_catalogue(), now=NOW)


class Listed:
    """A pipeline whose objects are listed and never announced."""

    def __init__(self, backend: Backend, folder: Path, **options: Any) -> None:
        self.pipeline = Pipeline(backend, folder, **options)
        self.pipeline.lease = self.pipeline.register("later")
        self.intent = Intent.BACKFILL

    def take(self, *objects: ListedObject, **options: Any) -> Backfill:
        """Take one page."""
        dry_run = options.pop("dry_run", False)
        store = open_inventory(
            self.pipeline.config,
            self.pipeline.stores,
            default_catalogue(),
            "11111111-1111-4111-8111-111111111111",
            self.intent,
            dry_run=dry_run,
        )
        backfill = Backfill(store, default_catalogue(), WANTED, clock=lambda: NOW, **options)
        backfill.take(objects)
        return backfill

    def sql(self, statement: str, *params: object) -> list[tuple[Any, ...]]:
        """Ask the database."""
        return self.pipeline.backend.sql(statement, *params)

    def intents(self) -> list[tuple[Any, ...]]:
        """Return intent and status of every attempt."""
        return self.sql("SELECT intent, status FROM wal_attempts ORDER BY wal_id, attempt_no")


@pytest.fixture
def scene(backend: Backend, tmp_path: Path) -> Listed:
    """On either database."""
    return Listed(backend, tmp_path)


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


def test_a_list_that_may_be_old_does_not_say_which_version_is_there(run: Run) -> None:
    """An inventory of yesterday: whichever version is read is taken, and none is missed."""
    run()
    told = run.scene.sql("SELECT DISTINCT next_object FROM wal_records")
    assert all('"etag":null' in text and '"size":null' in text for (text,) in told)
    newer = [thing(number, version=2) for number in range(7)]
    run.scene.pipeline.put(*newer)
    run.scene.pipeline.drain()
    assert run.scene.pipeline.statuses() == {"succeeded": 7}
    # The list still tells the older version: they are looked at once more, and nothing changes.
    assert (run()["changed"], run.scene.take(*map(listed, newer)).report.known) == (7, 7)
    before = run.scene.pipeline.stored()
    run.scene.pipeline.drain()
    assert run.scene.pipeline.stored()["items"] == before["items"]
    assert run.scene.intents().count(("reingest", "applied")) == 7


def test_an_old_list_still_brings_a_newer_object_to_a_failed_unit(run: Run) -> None:
    """An empty object that was written again: its code is not retried, but this is new data."""
    run()
    stores, lease = run.scene.pipeline.stores, run.scene.pipeline.lease
    claims = stores.ledger.claim_due(lease, 10)
    stores.ledger.commit(
        lease, [failure(claim, "size_zero", read_etag="of-nothing") for claim in claims]
    )
    assert run()["changed"] == 7
    run.scene.pipeline.put(*(thing(number) for number in range(7)))
    run.scene.pipeline.drain()
    assert run.scene.pipeline.statuses() == {"succeeded": 7}


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
        "listed": 5, "known": 2, "recorded": 3, "changed": 0,
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


# --- the whole of it ------------------------------------------------------------------------------


class Run:
    """Backfills of a file over the pipeline's ledger."""

    def __init__(self, scene: Listed, file: Path, objects: Sequence[ListedObject]) -> None:
        self.scene = scene
        self.file = file
        file.write_text("".join(f"{listed_line(each)}\n" for each in objects))

    def __call__(self, around: Surroundings | None = None, **changes: Any) -> dict[str, Any]:
        """Run one; return its report."""
        pipeline = self.scene.pipeline
        values: dict[str, Any] = {"dataset": "goes-glm", "listing": self.file, **changes}
        by, config = values.pop("by", "ann"), values.pop("config", pipeline.config)
        return run_backfill(
            config,
            pipeline.stores,
            open_catalogue(config),
            BackfillRequest(**values),
            around or Surroundings(),
            by=by,
        ).document()

    def log(self) -> list[tuple[Any, ...]]:
        """Return action and reason of the log."""
        return self.scene.sql("SELECT action, reason FROM audit_log ORDER BY entry_id")


@pytest.fixture
def run(scene: Listed, tmp_path: Path) -> Run:
    """Of seven objects."""
    return Run(scene, tmp_path / "list.jsonl", [listed(thing(n)) for n in range(7)])


def test_a_backfill_is_in_the_log_with_its_reference_and_its_end(run: Run) -> None:
    """Who, why, what was asked and what came of it."""
    run.scene.pipeline.stores.changes.open(
        ReferenceKind.CHANGE, "CHG-1", title="gap of June", by="ann"
    )
    run(change_ref="CHG-1", reason="backfill", max_events=5)
    assert run.log()[1:] == [("backfill", "backfill"), ("backfill_done", "backfill")]
    (begun,), (done,) = run.scene.sql(
        "SELECT detail FROM audit_log WHERE action <> 'change_open' ORDER BY entry_id"
    )
    assert '"change_ref":"CHG-1"' in begun
    assert '"max_events":5' in begun
    assert '"recorded":5' in done


@pytest.mark.parametrize(
    ("changes", "error", "code"),
    [
        ({"change_ref": "CHG-9"}, UnknownRecord, "reference_unknown"),
        ({"incident_ref": "INC-9"}, UnknownRecord, "reference_unknown"),
        ({"reason": "incident"}, Refused, "reference_missing"),
        ({"reason": "none"}, InvalidInput, "unknown_replay_reason"),
        ({"reason": "mood"}, InvalidInput, "unknown_replay_reason"),
        ({"dataset": "goes-gml"}, InvalidInput, "dataset_unknown"),
        ({"buckets": ("elsewhere",)}, InvalidInput, "invalid_input"),
        ({"since": SINCE, "until": SINCE}, InvalidInput, "invalid_time"),
        ({"listing": None}, InvalidInput, "invalid_input"),
        ({"listing": None, "since": SINCE}, InvalidInput, "invalid_input"),
        ({"by": " "}, InvalidInput, "invalid_input"),
    ],
)
def test_what_may_not_be_is_refused_before_anything_is_recorded(
    run: Run, changes: dict[str, Any], error: type[Exception], code: str
) -> None:
    """No unit, whatever the reason."""
    with pytest.raises(error) as raised:
        run(**changes)
    assert raised.value.code == code  # type: ignore[attr-defined]
    assert run.scene.sql("SELECT count(*) FROM wal_records") == [(0,)]


@pytest.mark.parametrize(
    ("policy", "guard"),
    [('reject = "not ours"', "dataset_rejected"), ("approvals_needed = 1", "approval_missing")],
)
def test_a_policy_that_forbids_it_is_obeyed(
    run: Run, tmp_path: Path, policy: str, guard: str
) -> None:
    """The gate is asked first, and the refusal is in the log."""
    from tallgrass.config import load_config  # noqa: PLC0415 - for this test alone

    file = tmp_path / "tallgrass.toml"
    file.write_text(f"[governance.policies.goes-glm]\n{policy}\n")
    config = load_config(environment={}, file=file, flags=run.scene.pipeline.config.values)
    with pytest.raises(GuardRefused) as raised:
        run(config=config)
    assert raised.value.guard == guard
    assert run.log() == [("backfill_refused", "guard_refused")]
    assert run.scene.sql("SELECT count(*) FROM wal_records") == [(0,)]


def test_a_rate_is_kept_by_waiting(run: Run) -> None:
    """Two a second: after each part of two it rests until its second is over."""
    rests: list[float] = []
    clock = [100.0]

    def sleep(seconds: float) -> None:
        rests.append(seconds)
        clock[0] += seconds

    around = Surroundings(sleep=sleep, monotonic=lambda: clock[0])
    assert run(around, rate=2.0)["recorded"] == 7
    assert rests == [1.0, 1.0, 1.0, 0.5]


def test_a_stop_ends_it_between_two_parts_and_the_next_run_goes_on(run: Run) -> None:
    """What was recorded stands."""
    asked = iter([False, False, True])
    around = Surroundings(stop=lambda: next(asked), sleep=lambda _s: None)
    assert run(around, rate=2.0)["recorded"] == 4
    rest = run()
    assert (rest["recorded"], rest["known"]) == (3, 4)


def test_a_listing_that_breaks_off_keeps_what_was_recorded(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log has the begin and no end; the same command again brings the rest."""
    whole = [listed(thing(number)) for number in range(7)]

    def breaking(*_: object, **__: object) -> Any:
        yield whole[:4]
        raise ListingBroken("no answer")

    with monkeypatch.context() as patched:
        patched.setattr("tallgrass.bootstrap.backfilling.pages_of_file", breaking)
        with pytest.raises(ListingBroken):
            run()
    assert run.log() == [("backfill", "backfill")]
    rest = run()
    assert (rest["recorded"], rest["known"]) == (3, 4)


def test_two_backfills_at_once_record_each_object_once(run: Run) -> None:
    """The second finds what the first has written, in whatever order they go."""
    other = Listed(run.scene.pipeline.backend, run.file.parent)
    first = [listed(thing(number)) for number in range(4)]
    assert run.scene.take(*first).report.recorded == 4
    assert other.take(*[listed(thing(number)) for number in range(7)]).report.recorded == 3
    assert run()["known"] == 7


def test_nobody_cannot_run_one(run: Run) -> None:
    """Only a dry run needs no name."""
    with pytest.raises(InvalidInput, match="needs somebody"):
        run(by=None)
    assert run(by=None, dry_run=True)["recorded"] == 7
    with pytest.raises(InvalidInput, match="mood"):
        run(by=None, dry_run=True, reason="mood")


def test_one_that_was_stopped_is_not_in_the_log_as_done(run: Run) -> None:
    """Its entry tells what it came to."""
    run(Surroundings(stop=lambda: True))
    assert run.log() == [("backfill", "backfill"), ("backfill_stopped", "backfill")]
