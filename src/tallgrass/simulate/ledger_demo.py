"""The ledger at work: a made-up feed with everything that goes wrong, and the proof afterwards.

No operator runs here: an outcome is drawn for each claim. Everything else is the real ledger on a
real database. Time is a clock that the demo moves, chance is seeded: one seed, one story.
"""

import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random

from tallgrass.bootstrap import Stores, open_stores
from tallgrass.canonical_json import sha256_hex
from tallgrass.config import Config
from tallgrass.errors import WorkerFenced
from tallgrass.governance.switches import SwitchScope
from tallgrass.ledger.claim import Claim, Receipt, WorkerLease
from tallgrass.ledger.outcome import Outcome, Verdict
from tallgrass.ledger.receipt import Action
from tallgrass.ledger.unit import IngestUnit
from tallgrass.ledger.vocabulary import CheckStatus, Intent, ProvenanceStatus, StacStatus
from tallgrass.simulate.made_up_units import made_up_units, overwritten, redelivered

RUN = "demo"
BATCH = 500
LEASE_S = 60.0
HEARTBEAT_S = 20.0
OPERATOR = "demo-operator"
PARKED_DATASET = "hrrr"

#: Of a thousand ordinary units: rejected by governance, broken for good, failing a few times,
#: announced twice.
_HARD_FAILS, _BROKEN, _UNLUCKY, _DUPLICATED = 4, 5, 30, 60
#: An unlucky unit fails up to this often; well below the limit of attempts.
_FAILURES_MAX = 3
_BAD_LUCK = _HARD_FAILS + _BROKEN + _UNLUCKY
_PASSING_FAULTS = ("io_error", "missing_object", "access_denied", "dependency_unavailable")
_LASTING_FAULTS = ("size_zero", "missing_geolocation", "content_type_invalid")


class DemoClock:
    """Time as the demo tells it."""

    def __init__(self, start: datetime) -> None:
        self.instant = start

    def __call__(self) -> datetime:
        """Return the time."""
        return self.instant

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.instant += timedelta(seconds=seconds)


@dataclass(slots=True)
class Story:
    """What the demo did, for the summary and for the proof."""

    units: int = 0
    ordinary: int = 0
    messages: int = 0
    duplicates: int = 0
    overwritten: int = 0
    #: What the ledger answered to each message.
    receipts: Counter[str] = field(default_factory=Counter)
    failures: int = 0
    hard_fails: int = 0
    broken: int = 0
    #: Units of the worker that died, and of the one that came back as a zombie.
    orphans: int = 0
    zombie_refused: bool = False
    killer: str = ""
    neighbours: tuple[str, ...] = ()
    workers_killed: int = 0
    parked: tuple[str, ...] = ()
    parked_while_off: int = 0


@dataclass(frozen=True, slots=True)
class Chapter:
    """A part of the story: told when it is done."""

    title: str
    tell: Callable[[Story], str]


class Watcher:
    """Hears how the demo goes on; this one keeps it to itself."""

    def begin(self, title: str, units: int) -> None:
        """Hear that a chapter with so many units begins."""

    def advance(self, units: int) -> None:
        """Hear that units were finished."""

    def end(self, title: str, told: str) -> None:
        """Hear what happened in a chapter."""


CHAPTERS = (
    Chapter(
        "Ordinary work",
        lambda s: (
            f"{s.messages:,} messages for {s.ordinary:,} units, in batches of {BATCH}. "
            f"{s.duplicates:,} were duplicates, {s.overwritten:,} announced an overwritten object, "
            f"{s.failures:,} attempts failed and were tried again."
        ),
    ),
    Chapter(
        "A worker dies",
        lambda s: (
            f"It held {s.orphans:,} units. Its lease ended, recovery rolled its attempts back, "
            "and another worker finished them."
        ),
    ),
    Chapter(
        "A zombie comes back",
        lambda _: (
            "A worker slept past its lease and woke up with results in its hand. "
            "Its units were done by others: its write was refused."
        ),
    ),
    Chapter(
        "A unit that kills its worker",
        lambda s: (
            f"It killed {s.workers_killed} workers, in ever smaller company, and is now held "
            f"for a person. Its {len(s.neighbours):,} neighbours are done."
        ),
    ),
    Chapter(
        "A kill switch",
        lambda s: (
            f"While {PARKED_DATASET} was off, {s.parked_while_off:,} of its units were recorded "
            "and parked; other datasets went on. Switched on again, they ran."
        ),
    ),
)


class LedgerDemo:
    """Runs the chapters one after the other."""

    def __init__(self, config: Config, watcher: Watcher, *, units: int, seed: int) -> None:
        self._watcher = watcher
        self._random = Random(seed)  # noqa: S311 - a seeded story, no secret
        feed = made_up_units(units, self._random)
        # All of the feed has been announced when the demo begins.
        self.clock = DemoClock(max(unit.event.event_time for unit in feed))
        ids, self._draws = Random(self._random.random()), Random(self._random.random())  # noqa: S311
        self.stores: Stores = open_stores(
            config,
            clock=self.clock,
            ids=lambda: uuid.UUID(int=ids.getrandbits(128), version=4),
            draw=self._draws.random,
            sleep=lambda _seconds: None,
        )
        self.story = Story(units=units)
        #: What the operators would find: failures that pass, in order, and one that stays.
        self._passing: dict[str, list[str]] = {}
        self._lasting: dict[str, str] = {}
        self._parts = _parts(feed)
        self._worker = self._register("worker-a")

    def run(self) -> None:
        """Play all chapters."""
        scenes = (self._ordinary, self._crash, self._zombie, self._killer, self._switch)
        for chapter, scene, part in zip(CHAPTERS, scenes, self._parts, strict=True):
            self._watcher.begin(chapter.title, len(part))
            scene(part)
            self._watcher.end(chapter.title, chapter.tell(self.story))
        self.stores.leases.stop(self._worker)

    # --- the chapters -----------------------------------------------------------------------------

    def _ordinary(self, units: Sequence[IngestUnit]) -> None:
        """Feed units with duplicates; some fail and come again, some are overwritten."""
        self.story.ordinary = len(units)
        self._draw_fates(units)
        twice = [
            redelivered(unit, self._random)
            for unit in units
            if self._random.randrange(1000) < _DUPLICATED
        ]
        self.story.duplicates += len(twice)
        messages = _mixed_in(list(units), twice, self._random)
        again = self._deliver(messages)
        while again:
            # A queue shows a message again when its back-off is over; the heartbeat goes on.
            self._pass_time(HEARTBEAT_S)
            again = self._deliver([redelivered(unit, self._random) for unit in again])
        calm = [unit for unit in units if unit.wal_id not in self._passing | self._lasting]
        newer = self._random.sample(calm, max(1, len(calm) // 100))
        self.story.overwritten += len(newer)
        self._deliver([overwritten(unit, self._random) for unit in newer])

    def _crash(self, units: Sequence[IngestUnit]) -> None:
        """Let a worker claim a batch and vanish."""
        claims = self._claim(self._register("worker-b"), units)
        self.story.orphans = len(claims)
        self._let_lease_end()
        self._drain_due()

    def _zombie(self, units: Sequence[IngestUnit]) -> None:
        """Let a worker sleep past its lease and try to write what it has."""
        zombie = self._register("worker-c")
        claims = self._claim(zombie, units)
        self._let_lease_end()
        self._drain_due()
        try:
            self.stores.ledger.commit(zombie, [self._outcome(claim) for claim in claims])
        except WorkerFenced:
            self.story.zombie_refused = True

    def _killer(self, units: Sequence[IngestUnit]) -> None:
        """Let one unit kill every worker that holds it, until the ledger holds it back."""
        killer = units[len(units) // 2].wal_id
        self.story.killer = killer
        self.story.neighbours = tuple(u.wal_id for u in units if u.wal_id != killer)
        worker = self._register("worker-d")
        claims: Sequence[Claim] = self._claim(worker, units)
        while True:
            if any(claim.wal_id == killer for claim in claims):
                self.story.workers_killed += 1
                self._let_lease_end()
                worker = self._register("worker-d")
            elif claims:
                self._commit(worker, claims)
            elif not self.stores.reader.stats().due:
                break
            self.stores.leases.renew(worker)
            claims = self.stores.ledger.claim_due(worker, BATCH)
        self.stores.leases.stop(worker)

    def _switch(self, units: Sequence[IngestUnit]) -> None:
        """Turn one dataset off while its units come in, then on again."""
        self.story.parked = tuple(u.wal_id for u in units if u.dataset == PARKED_DATASET)
        set_switch = self.stores.switches.set
        set_switch(
            SwitchScope.INGEST, PARKED_DATASET, is_on=True, actor=OPERATOR, reason="bad model run"
        )
        before = self.story.receipts[Action.PARK]
        self._deliver(units)
        self._drain_due()
        self.story.parked_while_off = self.story.receipts[Action.PARK] - before
        set_switch(
            SwitchScope.INGEST, PARKED_DATASET, is_on=False, actor=OPERATOR, reason="run repeated"
        )
        self._drain_due()

    # --- what a worker does -----------------------------------------------------------------------

    def _deliver(self, messages: Sequence[IngestUnit]) -> list[IngestUnit]:
        """Work on messages batch by batch; return those that a queue would show again."""
        again: list[IngestUnit] = []
        for start in range(0, len(messages), BATCH):
            batch = messages[start : start + BATCH]
            self._pass_time(1.0)
            receipts = self.stores.ledger.record_and_claim(self._worker, batch)
            self._note(receipts)
            again += [r.unit for r in receipts if r.decision.action is Action.WAIT]
            claims = {r.claim.wal_id: r.claim for r in receipts if r.claim}
            verdicts = self._commit(self._worker, list(claims.values()))
            again += [
                claim.unit
                for wal_id, claim in claims.items()
                if verdicts[wal_id] is Verdict.FAILED and wal_id not in self._lasting
            ]
        return again

    def _claim(self, worker: WorkerLease, units: Sequence[IngestUnit]) -> list[Claim]:
        receipts = self.stores.ledger.record_and_claim(worker, units)
        self._note(receipts)
        return [receipt.claim for receipt in receipts if receipt.claim]

    def _drain_due(self) -> None:
        """Claim and finish whatever the ledger holds as due."""
        while claims := self.stores.ledger.claim_due(self._worker, BATCH):
            self._commit(self._worker, claims)
            self.stores.leases.renew(self._worker)

    def _commit(self, worker: WorkerLease, claims: Sequence[Claim]) -> dict[str, Verdict]:
        outcomes = [self._outcome(claim) for claim in claims]
        self.story.failures += sum(outcome.error_code in _PASSING_FAULTS for _, outcome in outcomes)
        verdicts = self.stores.ledger.commit(worker, outcomes).verdicts
        self._watcher.advance(sum(v is not Verdict.FAILED for v in verdicts.values()))
        return verdicts

    def _outcome(self, claim: Claim) -> tuple[Claim, Outcome]:
        """Report what the operators would have found."""
        if code := self._lasting.get(claim.wal_id):
            return claim, _failure(claim, code)
        if codes := self._passing.get(claim.wal_id):
            return claim, _failure(claim, codes.pop(0))
        return claim, _success(claim)

    def _register(self, name: str) -> WorkerLease:
        return self.stores.leases.register(name, ingest_run_id=RUN, lease_s=LEASE_S)

    def _pass_time(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.stores.leases.renew(self._worker)

    def _let_lease_end(self) -> None:
        """Let a lease run out while the good worker goes on renewing its own; then recover."""
        for _ in range(int(LEASE_S // HEARTBEAT_S) + 1):
            self._pass_time(HEARTBEAT_S)
        self.stores.leases.recover()

    def _note(self, receipts: Sequence[Receipt]) -> None:
        self.story.messages += len(receipts)
        self.story.receipts.update(receipt.decision.action.value for receipt in receipts)

    def _draw_fates(self, units: Sequence[IngestUnit]) -> None:
        """Choose who fails; at least one of each kind, so that every story has all of them."""
        chosen = self._random.sample(units, max(3, len(units) * _BAD_LUCK // 1000))
        hard = max(1, len(units) * _HARD_FAILS // 1000)
        broken = max(1, len(units) * _BROKEN // 1000)
        for unit in chosen[:hard]:
            self._lasting[unit.wal_id] = "governance_hard_fail"
        for unit in chosen[hard : hard + broken]:
            self._lasting[unit.wal_id] = self._random.choice(_LASTING_FAULTS)
        for unit in chosen[hard + broken :]:
            times = self._random.randint(1, _FAILURES_MAX)
            self._passing[unit.wal_id] = self._random.choices(_PASSING_FAULTS, k=times)
        self.story.hard_fails, self.story.broken = hard, broken


def _parts(feed: Sequence[IngestUnit]) -> tuple[Sequence[IngestUnit], ...]:
    """Divide the feed among the chapters, in order of data time."""
    share = max(20, len(feed) // 15)
    cuts = [len(feed) - share * left for left in range(len(CHAPTERS) - 1, 0, -1)]
    return tuple(feed[start:end] for start, end in zip([0, *cuts], [*cuts, len(feed)], strict=True))


def _mixed_in(
    units: list[IngestUnit], twice: Sequence[IngestUnit], random: Random
) -> list[IngestUnit]:
    """Return the messages with each duplicate at some place behind its original."""
    places = {unit.wal_id: place for place, unit in enumerate(units)}
    keyed = [(float(place), unit) for place, unit in enumerate(units)]
    keyed += [(random.uniform(places[unit.wal_id], len(units)), unit) for unit in twice]
    return [unit for _, unit in sorted(keyed, key=lambda pair: pair[0])]


def _failure(claim: Claim, code: str) -> Outcome:
    return Outcome(
        wal_id=claim.wal_id,
        attempt_no=claim.attempt_no,
        error_code=code,
        error_message="made up for the demo",
        integrity_status=CheckStatus.FAILED,
    )


def _success(claim: Claim) -> Outcome:
    unit = claim.unit
    again = claim.intent is Intent.REINGEST
    version = f"{unit.wal_id}:{unit.object_ref.etag}"
    return Outcome(
        wal_id=unit.wal_id,
        attempt_no=claim.attempt_no,
        integrity_status=CheckStatus.OK,
        metadata_status=CheckStatus.OK,
        stac_status=StacStatus.UPDATED if again else StacStatus.CREATED,
        provenance_status=ProvenanceStatus.OK,
        stac_item_id=unit.object_uri.rpartition("/")[2],
        stac_collection_id=unit.dataset,
        read_etag=unit.object_ref.etag,
        evidence=b'{"made_up":true}',
        item_sha256=sha256_hex(f"item:{version}".encode()),
        provenance_sha256=sha256_hex(f"provenance:{version}".encode()),
    )
