"""A pipeline in which each thing that a reconciliation can find is wrong once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.pipeline.scene import Pipeline, Thing, thing
from tests.replay.tampering import tamper
from tests.support.builders import failure, unit

if TYPE_CHECKING:
    from pathlib import Path

    from tallgrass.ledger.claim import Claim
    from tests.support.backends import Backend

#: Ten objects of one satellite, one every 20 seconds: exactly the window.
WINDOW = ("--since", "2026-06-01T12:00:00Z", "--until", "2026-06-01T12:03:20Z")
GIVEN: list[Thing] = [thing(2 * number) for number in range(10)]
FINE, UNSAID, FAILED, HELD, STALE, STUCK, ITEMLESS, GONE, CHANGED, LEDGERLESS = GIVEN

#: What each command is to find, by hand: the objects, and the two places where nothing lies.
EXPECTED = {
    "never_notified": [UNSAID.uri],
    "stuck": [STUCK.uri],
    "stale": [STALE.uri],
    "failed": [FAILED.uri],
    "quarantined": [HELD.uri],
    "ledger_without_item": [ITEMLESS.uri],
    "object_gone": [GONE.uri],
    "object_changed": [CHANGED.uri],
}


@dataclass(frozen=True)
class Mess:
    """The pipeline, and the id of the item whose record is gone."""

    pipeline: Pipeline
    orphan: str

    @property
    def objects(self) -> str:
        """Where the objects lie, as a flag says it."""
        return f"file:{self.pipeline.objects}"


def make_mess(backend: Backend, folder: Path) -> Mess:
    """Ingest all but one object, then break what can be broken."""
    pipeline = Pipeline(backend, folder)
    pipeline.put(*GIVEN)
    pipeline.announce(FINE, STALE, ITEMLESS, GONE, CHANGED, LEDGERLESS)
    pipeline.drain()
    assert pipeline.statuses() == {"succeeded": 6}
    _fail(pipeline, FAILED, "size_zero")
    _fail(pipeline, HELD, "governance_hard_fail")
    _fail(pipeline, STALE, "io_error", sequencer="F" * 16)
    _claim(pipeline, STUCK)
    backend.expire(pipeline.lease)
    pipeline.path(GONE).unlink()
    pipeline.path(CHANGED).write_bytes(CHANGED.content + b"more")
    pipeline.path(LEDGERLESS).unlink()
    orphan = pipeline.row(LEDGERLESS)["wal_id"]
    lost = pipeline.row(ITEMLESS)["wal_id"]
    tamper(backend, "DELETE FROM stac_items WHERE wal_id = ?", lost)
    tamper(backend, "DELETE FROM wal_records WHERE wal_id = ?", orphan)
    return Mess(pipeline, orphan)


def _claim(pipeline: Pipeline, given: Thing, sequencer: str = "1" * 16) -> Claim:
    base = unit()
    announced = unit(
        object_uri=given.uri,
        time_range_start=given.place.start,
        time_range_end=given.place.end,
        object_ref=type(base.object_ref)(
            size=len(given.content), sequencer=sequencer, etag=given.event().etag
        ),
    )
    claim = pipeline.stores.ledger.record_and_claim(pipeline.lease, [announced])[0].claim
    assert claim is not None
    return claim


def _fail(pipeline: Pipeline, given: Thing, code: str, sequencer: str = "1" * 16) -> None:
    claim = _claim(pipeline, given, sequencer)
    pipeline.stores.ledger.commit(pipeline.lease, [failure(claim, code)])
