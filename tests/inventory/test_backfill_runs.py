"""Whole backfills: logged, guarded, slowed, stopped and taken up again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.bootstrap.backfilling import Surroundings
from tallgrass.errors import GuardRefused, InvalidInput, ListingBroken, Refused, UnknownRecord
from tallgrass.governance.references import ReferenceKind
from tests.inventory.listing import SINCE, Listed, Run, listed
from tests.pipeline.scene import thing
from tests.support.builders import failure

if TYPE_CHECKING:
    from pathlib import Path


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
