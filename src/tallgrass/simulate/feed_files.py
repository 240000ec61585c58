"""The objects of the simulated feed: where each lies, what is in it, how it is damaged."""

import hashlib
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random

from tallgrass.simulate.grib2_writer import grib2_message
from tallgrass.simulate.hdf5_writer import hdf5_file
from tallgrass.simulate.nexrad_writer import nexrad_volume

#: Of ten units: GLM files every 20 s, a radar volume every 5 min a site, a forecast run every hour.
PATTERN = ("goes-glm", "goes-glm", "nexrad-l2") * 3 + ("hrrr",)

_SATELLITES = ("19", "18")
#: The plains.
# fmt: off
_SITES = (
    "KTWX", "KICT", "KDDC", "KGLD", "KUEX", "KOAX", "KEAX", "KSGF", "KINX", "KVNX",
    "KTLX", "KFDR", "KAMA", "KPUX", "KFTG", "KLNX", "KDMX", "KLSX", "KSRX", "KLZK",
)
# fmt: on
_PRODUCTS = ("wrfsfc", "wrfprs", "wrfnat", "wrfsubh")
_FORECAST_HOURS = 19
_GLM_EVERY = timedelta(seconds=20)
_VOLUME_EVERY = timedelta(minutes=5)
_VOLUME_LENGTH = timedelta(minutes=4, seconds=30)

#: How many objects of a dataset fall into one hour of data time.
AN_HOUR = {
    "goes-glm": 180 * len(_SATELLITES),
    "nexrad-l2": 12 * len(_SITES),
    "hrrr": _FORECAST_HOURS * len(_PRODUCTS),
}
_TOPIC_GOES = "arn:aws:sns:us-east-1:123901341784:NewGOES{}Object"
_TOPIC_NEXRAD = "arn:aws:sns:us-east-1:684042711724:NewNEXRADLevel2Archive"
_TOPIC_HRRR = "arn:aws:sns:us-east-1:123901341784:NewHRRRObject"


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedPlace:
    """Where one object of the feed lies, and what it is about."""

    dataset: str
    bucket: str
    key: str
    topic: str
    start: datetime
    #: None where the key has no end.
    end: datetime | None
    #: When it can be published at the earliest.
    ready: datetime
    #: Satellite, radar site, or run and forecast hour.
    about: str
    number: int

    @property
    def object_uri(self) -> str:
        """The canonical address."""
        return f"s3://{self.bucket}/{self.key}"


def seeded(seed: int, *about: object) -> Random:
    """Return the chance that belongs to one part of a feed, whatever else was made before it."""
    return Random("/".join(map(str, (seed, *about))))  # noqa: S311 - repeatable, and no secret


def place_of(dataset: str, number: int, first: datetime, random: Random) -> FeedPlace:
    """Return object `number` of a dataset, counted from the first data time."""
    return _PLACES[dataset](number, first, random)


def content_of(place: FeedPlace, version: int, random: Random) -> bytes:
    """Return a small, structurally valid file; each version of an object has another content."""
    return _CONTENTS[place.dataset](place, version, random)


def truncated(content: bytes, random: Random) -> bytes:
    """Return the content as an upload that broke off left it."""
    return content[: random.randrange(1, len(content))]


def etag_of(content: bytes) -> str:
    """Return the etag that S3 gives an object that was put in one piece."""
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


# --- places ---------------------------------------------------------------------------------------


def _glm(number: int, first: datetime, random: Random) -> FeedPlace:
    slot, which = divmod(number, len(_SATELLITES))
    satellite = _SATELLITES[which]
    start = first + slot * _GLM_EVERY
    end = start + _GLM_EVERY
    made = end + timedelta(milliseconds=100 * random.randrange(10, 90))
    times = f"s{_goes_time(start)}_e{_goes_time(end)}_c{_goes_time(made)}"
    return FeedPlace(
        dataset="goes-glm",
        bucket=f"noaa-goes{satellite}",
        key=f"GLM-L2-LCFA/{start:%Y/%j/%H}/OR_GLM-L2-LCFA_G{satellite}_{times}.nc",
        topic=_TOPIC_GOES.format(satellite),
        start=start,
        end=end,
        ready=made,
        about=satellite,
        number=number,
    )


def _goes_time(instant: datetime) -> str:
    return f"{instant:%Y%j%H%M%S}{instant.microsecond // 100_000}"


def _nexrad(number: int, first: datetime, random: Random) -> FeedPlace:
    volume, which = divmod(number, len(_SITES))
    site = _SITES[which]
    start = first + volume * _VOLUME_EVERY + timedelta(seconds=random.randrange(290))
    return FeedPlace(
        dataset="nexrad-l2",
        bucket="unidata-nexrad-level2",
        key=f"{start:%Y/%m/%d}/{site}/{site}{start:%Y%m%d_%H%M%S}_V06",
        topic=_TOPIC_NEXRAD,
        start=start,
        end=None,
        ready=start + _VOLUME_LENGTH,
        about=site,
        number=number,
    )


def _hrrr(number: int, first: datetime, _random: Random) -> FeedPlace:
    hour, rest = divmod(number, AN_HOUR["hrrr"])
    forecast, product = divmod(rest, len(_PRODUCTS))
    run = first.replace(minute=0, second=0, microsecond=0) + timedelta(hours=hour)
    valid = run + timedelta(hours=forecast)
    name = f"hrrr.t{run:%H}z.{_PRODUCTS[product]}f{forecast:02}.grib2"
    return FeedPlace(
        dataset="hrrr",
        bucket="noaa-hrrr-bdp-pds",
        key=f"hrrr.{run:%Y%m%d}/conus/{name}",
        topic=_TOPIC_HRRR,
        start=valid,
        end=valid,
        # A run is published hour by hour, from 50 minutes after its start.
        ready=run + timedelta(minutes=50 + 2 * forecast, seconds=5 * product),
        about=f"{forecast}",
        number=number,
    )


_PLACES = {"goes-glm": _glm, "nexrad-l2": _nexrad, "hrrr": _hrrr}

# --- contents -------------------------------------------------------------------------------------


def _glm_file(place: FeedPlace, version: int, random: Random) -> bytes:
    end = place.end or place.start
    attributes = {
        "Conventions": "CF-1.7",
        "title": "GLM L2 Lightning Detections: Events, Groups, and Flashes (simulated)",
        "platform_ID": f"G{place.about}",
        "production_data_source": "Simulated",
        "time_coverage_start": f"{place.start:%Y-%m-%dT%H:%M:%S}.0Z",
        "time_coverage_end": f"{end:%Y-%m-%dT%H:%M:%S}.0Z",
        "product_version": f"{version}",
    }
    return hdf5_file(attributes, random.randbytes(random.randrange(256, 768)))


def _nexrad_file(place: FeedPlace, version: int, random: Random) -> bytes:
    return nexrad_volume(
        site=place.about,
        start=place.start + timedelta(milliseconds=random.randrange(1000)),
        volume_number=place.number // len(_SITES) % 999 + 1,
        # A volume that is assembled again has more records.
        records=random.randrange(2, 5) + version,
        random=random,
    )


def _hrrr_file(place: FeedPlace, version: int, random: Random) -> bytes:
    forecast = int(place.about)
    nx, ny = 9, 5 + version + random.randrange(8)
    return grib2_message(
        reference=place.start - timedelta(hours=forecast),
        forecast_hours=forecast,
        nx=nx,
        values=random.randbytes(nx * ny),
        # So few points, but all over the domain.
        spacing_m=(_HRRR_DOMAIN_M[0] / (nx - 1), _HRRR_DOMAIN_M[1] / (ny - 1)),
    )


#: 1799 by 1059 points, 3 km apart.
_HRRR_DOMAIN_M = (1_798 * 3_000.0, 1_058 * 3_000.0)

_CONTENTS = {"goes-glm": _glm_file, "nexrad-l2": _nexrad_file, "hrrr": _hrrr_file}
