"""The plan of a feed: which units there are, what happens to each, and when what arrives."""

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from random import Random

from tallgrass.errors import InvalidInput
from tallgrass.simulate.feed_files import AN_HOUR, PATTERN, FeedPlace, place_of, seeded

#: The first data time of a feed that names none.
FEED_START = datetime(2026, 6, 1, 12, tzinfo=UTC)

_HOUR = timedelta(hours=1)


class Fate(StrEnum):
    """What happens to the object of a unit."""

    PLAIN = "plain"
    #: Written again under the same key; both writes are announced, in order.
    OVERWRITTEN = "overwritten"
    #: Written again, and the first write is announced after the second.
    STALE = "stale"
    TRUNCATED = "truncated"
    ZERO_BYTES = "zero_bytes"
    #: Announced, but not there.
    MISSING = "missing"
    #: Announced before it is there; it comes some minutes later.
    LATE = "late"


class Kind(StrEnum):
    """What a message is."""

    UNITS = "units"
    SIDECAR = "sidecar"
    METADATA_ONLY = "metadata_only"
    DELETION = "deletion"
    TEST_EVENT = "test_event"
    NOT_JSON = "not_json"
    UNKNOWN_BUCKET = "unknown_bucket"
    NO_KEY = "no_key"


POISON_KINDS = (Kind.NOT_JSON, Kind.UNKNOWN_BUCKET, Kind.NO_KEY)


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedFaults:
    """Shares, from 0 to 1, of the units or, after the blank line, of the messages.

    A share above 0 gives at least one case, as long as there are units left for it.
    """

    overwritten: float = 0.04
    stale: float = 0.02
    truncated: float = 0.02
    zero_bytes: float = 0.01
    missing: float = 0.01
    late: float = 0.02

    duplicated: float = 0.05
    reordered: float = 0.1
    poison: float = 0.01
    deletions: float = 0.01
    sidecars: float = 0.02
    test_events: float = 0.002
    raw_delivery: float = 0.2
    two_records: float = 0.05

    def __post_init__(self) -> None:
        for each in fields(self):
            share = getattr(self, each.name)
            if not 0 <= share <= 1:
                raise InvalidInput(f"the share {each.name} is {share}, not from 0 to 1")

    @classmethod
    def none(cls) -> "FeedFaults":
        """Return a feed in which nothing goes wrong."""
        return cls(**{each.name: 0.0 for each in fields(cls)})


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedUnit:
    """A unit, without what can be made again from the seed."""

    dataset: str
    number: int
    ready: datetime
    fate: Fate = Fate.PLAIN


@dataclass(frozen=True, slots=True, kw_only=True)
class Announcement:
    """One write of a unit's object."""

    unit: int
    version: int
    time: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Sending:
    """A message. A second sending with the same number has the same bytes."""

    number: int
    kind: Kind
    arrives: datetime
    announces: tuple[Announcement, ...] = ()
    raw: bool = False
    duplicate: bool = False


def place_in(seed: int, first: datetime, dataset: str, number: int) -> FeedPlace:
    """Return a place of the feed; always the same one."""
    return place_of(dataset, number, first, seeded(seed, "place", dataset, number))


class Plan:
    """What a seed makes of a number of units; nothing in it depends on anything else."""

    def __init__(
        self,
        seed: int,
        units: int,
        faults: FeedFaults,
        first: datetime,
        window: timedelta | None,
    ) -> None:
        self._seed = seed
        self._random = seeded(seed, "plan")
        self._faults = faults
        self._numbers = iter(range(10**12))
        self.units = self._with_fates(_places(seed, units, first, window, self._random))
        self.puts = list(self._puts())
        sendings = self._paired(sorted(self._announcements(), key=_arrival))
        sendings = [*sendings, *self._others()]
        sendings = self._reordered([*sendings, *self._duplicates(sendings)])
        self.sendings = sorted(sendings, key=_arrival)

    def written_at(self, put: Announcement) -> datetime:
        """Return when an object is there; a late one is announced as if it were."""
        if self.units[put.unit].fate is not Fate.LATE:
            return put.time
        return put.time + timedelta(seconds=seeded(self._seed, "late", put.unit).uniform(60, 300))

    def _with_fates(self, units: list[PlannedUnit]) -> list[PlannedUnit]:
        waiting = list(range(len(units)))
        self._random.shuffle(waiting)
        for fate in Fate:
            if fate is not Fate.PLAIN:
                count = self._count(getattr(self._faults, fate.value), len(units))
                for index in (waiting.pop() for _ in range(min(count, len(waiting)))):
                    units[index] = replace(units[index], fate=fate)
        return units

    @staticmethod
    def _count(share: float, total: int) -> int:
        return max(1, round(share * total)) if share and total else 0

    def _puts(self) -> Iterator[Announcement]:
        """Yield each write of an object."""
        for index, unit in enumerate(self.units):
            if unit.fate is not Fate.MISSING:
                time = unit.ready + self._seconds(1, 20)
                yield Announcement(unit=index, version=1, time=time)
                if unit.fate in {Fate.OVERWRITTEN, Fate.STALE}:
                    again = time + self._seconds(60, 400)
                    yield Announcement(unit=index, version=2, time=again)

    def _announcements(self) -> Iterator[Sending]:
        """Yield a message for each write, and for each that never was."""
        last: dict[int, datetime] = {}
        missing = [
            Announcement(unit=index, version=1, time=unit.ready + self._seconds(1, 20))
            for index, unit in enumerate(self.units)
            if unit.fate is Fate.MISSING
        ]
        # The second write first, so that it is known when a stale message must follow it.
        for put in sorted([*self.puts, *missing], key=lambda put: -put.version):
            arrives = put.time + self._seconds(2, 15)
            if self.units[put.unit].fate is Fate.STALE and put.version == 1:
                arrives = last[put.unit] + self._seconds(30, 300)
            last[put.unit] = arrives
            yield self._sending(Kind.UNITS, arrives, (put,))

    def _paired(self, sendings: list[Sending]) -> list[Sending]:
        """Join some messages with the next one of the same bucket."""
        wanted = self._count(self._faults.two_records, len(sendings))
        every = max(2, len(sendings) // max(1, wanted))
        paired: list[Sending] = []
        held: dict[str, Sending] = {}
        for number, sending in enumerate(sendings):
            bucket = self._bucket(sending.announces[0])
            first = held.get(bucket)
            if first is not None and first.announces[0].unit != sending.announces[0].unit:
                del held[bucket]
                announces = (*first.announces, *sending.announces)
                paired.append(replace(sending, announces=announces))
            elif wanted and number % every == 0 and first is None:
                held[bucket] = sending
                wanted -= 1
            else:
                paired.append(sending)
        return [*paired, *held.values()]

    def _bucket(self, announcement: Announcement) -> str:
        unit = self.units[announcement.unit]
        # The two satellites have buckets of their own.
        return f"{unit.dataset}/{unit.number % 2}" if unit.dataset == "goes-glm" else unit.dataset

    def _others(self) -> Iterator[Sending]:
        """Yield the messages that bring no unit; each speaks of the object of some unit."""
        faults = self._faults
        kinds = [
            POISON_KINDS[number % 3]
            for number in range(self._count(faults.poison, len(self.units)))
        ]
        kinds += [Kind.DELETION] * self._count(faults.deletions, len(self.units))
        kinds += [Kind.TEST_EVENT] * self._count(faults.test_events, len(self.units))
        by_dataset = {
            name: [index for index, unit in enumerate(self.units) if unit.dataset == name]
            for name in AN_HOUR
        }
        sidecars = self._count(faults.sidecars, len(self.units))
        if by_dataset["nexrad-l2"]:
            kinds += [Kind.METADATA_ONLY] * (sidecars // 2)
        if by_dataset["hrrr"]:
            kinds += [Kind.SIDECAR] * (sidecars - sidecars // 2)
        of_kind = {Kind.METADATA_ONLY: by_dataset["nexrad-l2"], Kind.SIDECAR: by_dataset["hrrr"]}
        everything = range(len(self.units))
        for kind in kinds:
            index = self._random.choice(of_kind.get(kind, everything))
            # A deletion comes after all that was announced of its object.
            after = self._seconds(1, 600) + timedelta(minutes=15) * (kind is Kind.DELETION)
            time = self.units[index].ready + after
            about = Announcement(unit=index, version=3, time=time)
            yield self._sending(kind, time + self._seconds(2, 15), (about,))

    def _duplicates(self, sendings: list[Sending]) -> Iterator[Sending]:
        units = [sending for sending in sendings if sending.kind is Kind.UNITS]
        for sending in self._random.sample(units, self._count(self._faults.duplicated, len(units))):
            arrives = sending.arrives + self._seconds(1, 600)
            yield replace(sending, arrives=arrives, duplicate=True)

    def _reordered(self, sendings: list[Sending]) -> list[Sending]:
        count = self._count(self._faults.reordered, len(sendings))
        for index in self._random.sample(range(len(sendings)), count):
            arrives = sendings[index].arrives + self._seconds(30, 1800)
            sendings[index] = replace(sendings[index], arrives=arrives)
        return sendings

    def _sending(
        self, kind: Kind, arrives: datetime, announces: tuple[Announcement, ...]
    ) -> Sending:
        raw = self._random.random() < self._faults.raw_delivery
        number = next(self._numbers)
        return Sending(number=number, kind=kind, arrives=arrives, announces=announces, raw=raw)

    def _seconds(self, least: int, most: int) -> timedelta:
        return timedelta(milliseconds=self._random.randrange(1000 * least, 1000 * most))


def _arrival(sending: Sending) -> tuple[datetime, int, bool]:
    return sending.arrives, sending.number, sending.duplicate


def _places(
    seed: int, units: int, first: datetime, window: timedelta | None, random: Random
) -> list[PlannedUnit]:
    """Choose the objects within the window, in the order in which they are ready."""
    counts = dict.fromkeys(AN_HOUR, 0)
    for number in range(units):
        counts[PATTERN[number % len(PATTERN)]] += 1
    if window is None:
        hours = max(-(-count // AN_HOUR[name]) for name, count in counts.items())
    else:
        hours = window // _HOUR
        if any(count > hours * AN_HOUR[name] for name, count in counts.items()):
            raise InvalidInput(f"{units} units do not fit into {hours} hours of data time")
    planned = [
        PlannedUnit(dataset=name, number=number, ready=place_in(seed, first, name, number).ready)
        for name, count in counts.items()
        for number in sorted(random.sample(range(hours * AN_HOUR[name]), count))
    ]
    return sorted(planned, key=lambda unit: (unit.ready, unit.dataset, unit.number))
