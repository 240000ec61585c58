"""A simulated NODD feed: objects and messages, with faults in chosen shares; one seed, one feed.

    feed = Feed(seed=7, units=1000)
    for step in feed.steps():        # objects and messages in the order in which they come
        ...
    feed.manifest()                  # what must become of each unit

A message may be delivered after its object was written again, so that a feed may also be taken all
at once: `write` the objects, then send the `bodies`. What must become of each unit is the same.
"""

import os
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from pathlib import Path

from tallgrass.clock import format_instant
from tallgrass.errors import InvalidInput
from tallgrass.simulate.feed_files import FeedPlace, content_of, etag_of, seeded, truncated
from tallgrass.simulate.feed_messages import (
    CREATED,
    REMOVED,
    S3Event,
    s3_message,
    s3_test_message,
    sns_envelope,
)
from tallgrass.simulate.feed_plan import (
    FEED_START,
    POISON_KINDS,
    Announcement,
    Fate,
    FeedFaults,
    Kind,
    Plan,
    PlannedUnit,
    Sending,
    place_in,
)

_CONTENTS_KEPT = 4096
_UNKNOWN_BUCKET = "noaa-unheard-of-pds"
#: Why a unit of this fate cannot succeed.
_CODES = {
    Fate.TRUNCATED: "size_too_small",
    Fate.ZERO_BYTES: "size_zero",
    Fate.MISSING: "missing_object",
}
_SUFFIXES = {Kind.SIDECAR: ".idx", Kind.METADATA_ONLY: "_MDM"}
_POISON_CODES = {
    Kind.NOT_JSON: "invalid_input",
    Kind.UNKNOWN_BUCKET: "unroutable",
    Kind.NO_KEY: "missing_required_field",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedObject:
    """An object is written, perhaps over an older one."""

    bucket: str
    key: str
    content: bytes

    def write(self, folder: Path) -> None:
        """Write it below the folder; who reads meanwhile sees the old or the new one whole."""
        path = folder / self.bucket / self.key
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f".{path.name}.part")
        part.write_bytes(self.content)
        os.replace(part, path)  # noqa: PTH105 - the name says that it replaces


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedMessage:
    """A message arrives."""

    at: datetime
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedUnit:
    """What must become of one unit."""

    dataset: str
    object_uri: str
    time_range_start: str
    time_range_end: str
    fate: str
    #: `succeeded`; or `failed`, which a limit of attempts may turn into `quarantined`.
    expected: str
    #: Why it fails.
    expected_code: str | None
    #: Of the newest object, which the item describes; None where there is none.
    etag: str | None
    size: int | None
    sequencer: str
    #: How many records of how many messages announce it, duplicates included.
    announced: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedManifest:
    """What a feed is made of; all values are JSON's."""

    seed: int
    units: tuple[FeedUnit, ...]
    messages: int
    #: Messages that announce units, the first time that they come.
    announcements: int
    #: Messages that are a second copy of another one.
    duplicates: int
    #: Reason → messages that bring no unit and are acknowledged.
    ignored: dict[str, int]
    #: Code → messages that cannot be understood.
    poison: dict[str, int]

    def to_json(self) -> dict[str, object]:
        """Return it as JSON's own types."""
        values = asdict(self)
        values["units"] = list(values["units"])
        return values


class Feed:
    """A feed of so many units whose data times begin at `start` and fill the `window`.

    Without a window it is as many hours long as the cadence of the datasets needs.
    """

    def __init__(
        self,
        seed: int,
        units: int,
        faults: FeedFaults | None = None,
        *,
        start: datetime = FEED_START,
        window: timedelta | None = None,
    ) -> None:
        if units < 0:
            raise InvalidInput(f"a feed of {units} units")
        self.seed = seed
        self._start = start
        chosen = FeedFaults() if faults is None else faults
        self._plan = Plan(seed, units, chosen, start, window)
        # An object's message follows soon after its write and needs its etag.
        self._content = lru_cache(maxsize=_CONTENTS_KEPT)(self._made_content)

    def steps(self) -> Iterator[FeedObject | FeedMessage]:
        """Yield writes and messages in order; a write precedes its message, unless it is late."""
        times = [(self._plan.written_at(put), put.unit, put) for put in self._plan.puts]
        puts = deque(sorted(times, key=lambda each: each[:2]))
        for sending in self._plan.sendings:
            while puts and puts[0][0] <= sending.arrives:
                yield self._object(puts.popleft()[2])
            yield FeedMessage(at=sending.arrives, body=self._body(sending))
        while puts:
            yield self._object(puts.popleft()[2])

    def bodies(self) -> Iterator[bytes]:
        """Yield the messages alone, in order."""
        return (self._body(sending) for sending in self._plan.sendings)

    def write(self, folder: Path, progress: Callable[[], None] = lambda: None) -> None:
        """Write the objects as they are in the end; `progress` is called after each unit."""
        for index, unit in enumerate(self._plan.units):
            if unit.fate is not Fate.MISSING:
                newest = Announcement(unit=index, version=_versions(unit), time=unit.ready)
                self._object(newest).write(folder)
            progress()

    def manifest(self) -> FeedManifest:
        """Return what must become of it all."""
        announced = [0] * len(self._plan.units)
        ignored: dict[str, int] = {}
        poison: dict[str, int] = {}
        for sending in self._plan.sendings:
            if sending.kind is Kind.UNITS:
                for each in sending.announces:
                    announced[each.unit] += 1
            elif sending.kind in POISON_KINDS:
                code = _POISON_CODES[sending.kind]
                poison[code] = poison.get(code, 0) + 1
            else:
                ignored[sending.kind.value] = ignored.get(sending.kind.value, 0) + 1
        return FeedManifest(
            seed=self.seed,
            units=tuple(
                self._expected(index, unit, announced[index])
                for index, unit in enumerate(self._plan.units)
            ),
            messages=len(self._plan.sendings),
            announcements=sum(
                sending.kind is Kind.UNITS and not sending.duplicate
                for sending in self._plan.sendings
            ),
            duplicates=sum(sending.duplicate for sending in self._plan.sendings),
            ignored=dict(sorted(ignored.items())),
            poison=dict(sorted(poison.items())),
        )

    # --- how a part is made, always the same ------------------------------------------------------

    def _place(self, index: int) -> FeedPlace:
        unit = self._plan.units[index]
        return place_in(self.seed, self._start, unit.dataset, unit.number)

    def _made_content(self, index: int, version: int) -> bytes:
        fate = self._plan.units[index].fate
        if fate is Fate.ZERO_BYTES:
            return b""
        random = seeded(self.seed, "content", index, version)
        content = content_of(self._place(index), version, random)
        return truncated(content, random) if fate is Fate.TRUNCATED else content

    def _sequencer(self, index: int, version: int) -> str:
        """Return a number that grows with each write of the same key."""
        base = int(self._plan.units[index].ready.timestamp()) << 32
        chance = seeded(self.seed, "sequencer", index).getrandbits(24)
        return f"{base + (version << 24) + chance:018X}"

    def _object(self, put: Announcement) -> FeedObject:
        place = self._place(put.unit)
        content = self._content(put.unit, put.version)
        return FeedObject(bucket=place.bucket, key=place.key, content=content)

    def _expected(self, index: int, unit: PlannedUnit, announced: int) -> FeedUnit:
        place = self._place(index)
        version = _versions(unit)
        content = None if unit.fate is Fate.MISSING else self._content(index, version)
        return FeedUnit(
            dataset=place.dataset,
            object_uri=place.object_uri,
            time_range_start=format_instant(place.start),
            time_range_end=format_instant(place.end or place.start),
            fate=unit.fate.value,
            expected="failed" if unit.fate in _CODES else "succeeded",
            expected_code=_CODES.get(unit.fate),
            etag=None if content is None else etag_of(content),
            size=None if content is None else len(content),
            sequencer=self._sequencer(index, version),
            announced=announced,
        )

    def _body(self, sending: Sending) -> bytes:
        random = seeded(self.seed, "message", sending.number)
        first = sending.announces[0]
        place = self._place(first.unit)
        sent = max(each.time for each in sending.announces) + timedelta(seconds=1.5)
        if sending.kind is Kind.NOT_JSON:
            return random.choice((b'{"Records": [', b"not JSON at all", b'{"Records": NaN}'))
        if sending.kind is Kind.TEST_EVENT:
            message = s3_test_message(place.bucket, first.time, random)
        else:
            events = [self._event(sending.kind, each) for each in sending.announces]
            message = s3_message(events, random)
        if sending.kind is Kind.NO_KEY:
            message = message.replace('"key":', '"name":')
        return message.encode() if sending.raw else sns_envelope(message, place.topic, sent, random)

    def _event(self, kind: Kind, each: Announcement) -> S3Event:
        place = self._place(each.unit)
        sequencer = self._sequencer(each.unit, each.version)
        if kind is Kind.DELETION:
            return S3Event(
                name=REMOVED,
                bucket=place.bucket,
                key=place.key,
                time=each.time,
                sequencer=sequencer,
            )
        missing = self._plan.units[each.unit].fate is Fate.MISSING
        random = seeded(self.seed, "content", each.unit, each.version)
        content = (
            content_of(place, each.version, random)
            if missing
            else self._content(each.unit, each.version)
        )
        return S3Event(
            name=CREATED,
            bucket=_UNKNOWN_BUCKET if kind is Kind.UNKNOWN_BUCKET else place.bucket,
            key=place.key + _SUFFIXES.get(kind, ""),
            time=each.time,
            sequencer=sequencer,
            size=len(content),
            etag=etag_of(content),
        )


def _versions(unit: PlannedUnit) -> int:
    return 2 if unit.fate in {Fate.OVERWRITTEN, Fate.STALE} else 1
