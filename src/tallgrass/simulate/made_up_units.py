"""Units as NODD announces them, with keys in the real grammars; one seed, one feed."""

import uuid
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random

from tallgrass.ledger.object_uri import object_uri
from tallgrass.ledger.unit import EventMetadata, IngestUnit, ObjectReference

#: The first data time of every feed.
FEED_START = datetime(2026, 6, 1, 12, tzinfo=UTC)
QUEUE = "nodd-demo"

#: Of ten units: GLM files every 20 s, a radar volume every 5 min a site, a forecast run every hour.
_PATTERN = ("goes-glm", "goes-glm", "nexrad-l2") * 3 + ("hrrr",)
_SATELLITES = ("19", "18")
_SITES = ("KTWX", "KICT", "KDDC", "KGLD", "KUEX", "KOAX", "KEAX", "KSGF", "KINX", "KTLX")
_PRODUCTS = ("wrfsfc", "wrfprs", "wrfnat", "wrfsubh")
_FORECAST_HOURS = 19
#: Bytes of an ordinary object of each dataset.
_SIZES = {"goes-glm": 400_000, "nexrad-l2": 7_000_000, "hrrr": 140_000_000}

#: (bucket, key, start, end)
_Place = tuple[str, str, datetime, datetime | None]


def made_up_units(count: int, random: Random) -> list[IngestUnit]:
    """Return so many different units, roughly in order of data time."""
    numbers = dict.fromkeys(_SIZES, 0)
    return [_unit(dataset, numbers, random) for dataset in _datasets(count)]


def redelivered(unit: IngestUnit, random: Random) -> IngestUnit:
    """Return the unit as a second message announces it: same object, another message id."""
    return replace(unit, event=replace(unit.event, sqs_message_id=_message_id(random)))


def overwritten(unit: IngestUnit, random: Random) -> IngestUnit:
    """Return the unit as announced after its object was written again."""
    before = unit.object_ref
    after = ObjectReference(
        etag=f"{random.getrandbits(128):032x}",
        size=(before.size or 0) + random.randrange(1, 5000),
        sequencer=f"{int(before.sequencer or '0', 16) + random.randrange(1, 2**24):018X}",
    )
    event = EventMetadata(
        event_time=unit.event.event_time + timedelta(minutes=4),
        sns_message_id=_message_id(random),
        sqs_message_id=_message_id(random),
    )
    return replace(unit, object_ref=after, event=event)


def _datasets(count: int) -> Iterator[str]:
    return (_PATTERN[number % len(_PATTERN)] for number in range(count))


def _unit(dataset: str, numbers: dict[str, int], random: Random) -> IngestUnit:
    number = numbers[dataset]
    numbers[dataset] += 1
    bucket, key, start, end = _PLACES[dataset](number, random)
    announced = (end or start) + timedelta(seconds=random.randrange(15, 90))
    size = _SIZES[dataset]
    return IngestUnit.of(
        dataset=dataset,
        object_uri=object_uri("aws", bucket, key),
        provider="aws",
        queue=QUEUE,
        time_range_start=start,
        time_range_end=end,
        event=EventMetadata(
            event_time=announced,
            sns_message_id=_message_id(random),
            sqs_message_id=_message_id(random),
        ),
        object_ref=ObjectReference(
            etag=f"{random.getrandbits(128):032x}",
            size=random.randrange(size // 2, size * 2),
            sequencer=f"{int(announced.timestamp()):010X}{random.getrandbits(32):08X}",
        ),
    )


def _glm(number: int, random: Random) -> _Place:
    slot, satellite = divmod(number, len(_SATELLITES))
    start = FEED_START + timedelta(seconds=20 * slot)
    end = start + timedelta(seconds=20)
    made = end + timedelta(seconds=random.randrange(12, 30))
    name = _SATELLITES[satellite]
    key = (
        f"GLM-L2-LCFA/{start:%Y/%j/%H}/"
        f"OR_GLM-L2-LCFA_G{name}_s{start:%Y%j%H%M%S}0_e{end:%Y%j%H%M%S}0_c{made:%Y%j%H%M%S}0.nc"
    )
    return f"noaa-goes{name}", key, start, end


def _nexrad(number: int, random: Random) -> _Place:
    volume, site = divmod(number, len(_SITES))
    start = FEED_START + timedelta(seconds=300 * volume + random.randrange(60))
    name = _SITES[site]
    key = f"{start:%Y/%m/%d}/{name}/{name}{start:%Y%m%d_%H%M%S}_V06"
    return "unidata-nexrad-level2", key, start, None


def _hrrr(number: int, _random: Random) -> _Place:
    hour, rest = divmod(number, _FORECAST_HOURS * len(_PRODUCTS))
    forecast, product = divmod(rest, len(_PRODUCTS))
    run = FEED_START + timedelta(hours=hour)
    valid = run + timedelta(hours=forecast)
    key = f"hrrr.{run:%Y%m%d}/conus/hrrr.t{run:%H}z.{_PRODUCTS[product]}f{forecast:02}.grib2"
    return "noaa-hrrr-bdp-pds", key, valid, valid


_PLACES = {"goes-glm": _glm, "nexrad-l2": _nexrad, "hrrr": _hrrr}


def _message_id(random: Random) -> str:
    return str(uuid.UUID(int=random.getrandbits(128), version=4))
