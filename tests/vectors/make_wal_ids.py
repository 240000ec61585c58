"""Write `wal_ids.json`: ids worked out by another way than the package's.

Plain integer arithmetic for the calendar and the bits, and the system's `sha256sum` for the hash;
nothing of tallgrass. Run it only when vectors are added: `python tests/vectors/make_wal_ids.py`.
The ids of vectors that exist must never change.
"""

from __future__ import annotations

import json
import subprocess
import uuid
from pathlib import Path

GOES = "s3://noaa-goes19/GLM-L2-LCFA/2026/001/00/OR_GLM-L2-LCFA_G19_s20260010000000.nc"
NEXRAD = "s3://unidata-nexrad-level2/2026/03/08/KTWX/KTWX20260308_075959_V06"

#: (dataset, object_uri, time_range_start as year … microsecond)
UNITS: list[tuple[str, str, tuple[int, int, int, int, int, int, int]]] = [
    # The oldest data that NODD holds, and times before 1970.
    ("ghcn-daily", "s3://noaa-ghcn-pds/csv/by_year/1763.csv", (1763, 1, 1, 0, 0, 0, 0)),
    ("ghcn-daily", "s3://noaa-ghcn-pds/csv/by_year/1763.csv", (1763, 12, 31, 23, 59, 59, 999999)),
    ("ghcn-daily", "s3://noaa-ghcn-pds/csv/by_year/1764.csv", (1764, 1, 1, 0, 0, 0, 0)),
    ("ghcn-daily", "s3://noaa-ghcn-pds/csv/by_year/1799.csv", (1799, 12, 31, 0, 0, 0, 0)),
    ("ghcn-daily", "s3://noaa-ghcn-pds/csv/by_year/1800.csv", (1800, 2, 28, 0, 0, 0, 0)),
    ("ghcn-daily", "s3://noaa-ghcn-pds/csv/by_year/1800.csv", (1800, 3, 1, 0, 0, 0, 0)),
    ("20cr", "s3://noaa-20crv3/prmsl/1836.nc", (1836, 1, 1, 0, 0, 0, 0)),
    ("20cr", "s3://noaa-20crv3/prmsl/1900.nc", (1900, 2, 28, 21, 0, 0, 0)),
    ("20cr", "s3://noaa-20crv3/prmsl/1900.nc", (1900, 3, 1, 0, 0, 0, 0)),
    ("isd", "s3://noaa-isd-pds/data/1901/029070-99999-1901.gz", (1901, 12, 13, 20, 45, 52, 0)),
    ("isd", "s3://noaa-isd-pds/data/1969/010010-99999-1969.gz", (1969, 12, 31, 23, 59, 59, 999000)),
    # The start of a key without a time, and its neighbours.
    ("sounding", "s3://noaa-raob/README-like/key-without-time", (1970, 1, 1, 0, 0, 0, 0)),
    ("sounding", "s3://noaa-raob/README-like/key-without-time", (1970, 1, 1, 0, 0, 0, 1000)),
    # Year, month, leap-day and century boundaries.
    ("goes-abi", "s3://noaa-goes16/ABI/1999", (1999, 12, 31, 23, 59, 59, 999999)),
    ("goes-abi", "s3://noaa-goes16/ABI/2000", (2000, 1, 1, 0, 0, 0, 0)),
    ("goes-abi", "s3://noaa-goes16/ABI/2000", (2000, 2, 29, 12, 0, 0, 0)),
    ("goes-abi", "s3://noaa-goes16/ABI/2023", (2023, 2, 28, 23, 59, 59, 0)),
    ("goes-abi", "s3://noaa-goes16/ABI/2024", (2024, 2, 29, 0, 0, 0, 0)),
    ("goes-abi", "s3://noaa-goes19/ABI/2025", (2025, 12, 31, 23, 59, 59, 999000)),
    ("goes-abi", "s3://noaa-goes19/ABI/2026", (2026, 1, 1, 0, 0, 0, 0)),
    ("goes-glm", GOES, (2026, 1, 1, 0, 0, 0, 0)),
    ("goes-glm", GOES, (2026, 1, 1, 0, 0, 20, 0)),
    # Milliseconds and what lies below them.
    ("goes-glm", GOES, (2026, 1, 1, 0, 0, 0, 1000)),
    ("goes-glm", GOES, (2026, 1, 1, 0, 0, 0, 999)),
    ("goes-glm", GOES, (2026, 1, 1, 0, 0, 0, 1)),
    ("goes-glm", GOES, (2026, 1, 1, 0, 0, 0, 123456)),
    # An hour that wall clocks skip or repeat.
    ("nexrad-l2", NEXRAD, (2026, 3, 8, 7, 59, 59, 0)),
    ("nexrad-l2", NEXRAD, (2026, 3, 8, 8, 0, 0, 0)),
    ("nexrad-l2", NEXRAD, (2026, 11, 1, 6, 30, 0, 0)),
    # Keys with plus, percent, blank, question mark, hash, doubled slashes.
    ("hrrr", "s3://noaa-hrrr-bdp-pds/a+b", (2026, 6, 1, 0, 0, 0, 0)),
    ("hrrr", "s3://noaa-hrrr-bdp-pds/a b", (2026, 6, 1, 0, 0, 0, 0)),
    ("hrrr", "s3://noaa-hrrr-bdp-pds/a%2Bb", (2026, 6, 1, 0, 0, 0, 0)),
    ("hrrr", "s3://noaa-hrrr-bdp-pds/a%20b?x=1#y", (2026, 6, 1, 0, 0, 0, 0)),
    ("hrrr", "s3://noaa-hrrr-bdp-pds//a//b/", (2026, 6, 1, 0, 0, 0, 0)),
    # Not ASCII: composed, decomposed, beyond the basic plane.
    ("mrms", "s3://noaa-mrms-pds/caf\u00e9", (2026, 6, 1, 0, 0, 0, 0)),
    ("mrms", "s3://noaa-mrms-pds/cafe\u0301", (2026, 6, 1, 0, 0, 0, 0)),
    ("mrms", "s3://noaa-mrms-pds/雷達/🌾.grib2", (2026, 6, 1, 0, 0, 0, 0)),
    ("größe", "s3://noaa-mrms-pds/x", (2026, 6, 1, 0, 0, 0, 0)),
    # Parts that would be one text if they were simply joined.
    ("ab", "s3://c/d", (2026, 6, 1, 0, 0, 0, 0)),
    ("a", "bs3://c/d", (2026, 6, 1, 0, 0, 0, 0)),
    ("a|b", "s3://c/d", (2026, 6, 1, 0, 0, 0, 0)),
    ("a", "s3://c/d|2026-06-01T00:00:00.000000Z", (2026, 6, 1, 0, 0, 0, 0)),
    # Other providers, and the far end.
    ("himawari", "gs://noaa-himawari8/AHI-L1b/x", (2026, 6, 1, 0, 10, 0, 0)),
    ("himawari", "az://noaa-himawari8/AHI-L1b/x", (2026, 6, 1, 0, 10, 0, 0)),
    ("cmip6-forecast", "s3://noaa-cmip6/2099.nc", (2099, 12, 31, 23, 59, 59, 999999)),
    ("cmip6-forecast", "s3://noaa-cmip6/2100.nc", (2100, 1, 1, 0, 0, 0, 0)),
    ("cmip6-forecast", "s3://noaa-cmip6/2100.nc", (2100, 2, 28, 23, 59, 59, 999999)),
    ("cmip6-forecast", "s3://noaa-cmip6/2100.nc", (2100, 12, 31, 23, 59, 59, 999999)),
]


def days_before(year: int, month: int, day: int) -> int:
    """Return the days from 1 January of year 1 to a date of the Gregorian calendar."""
    lengths = (31, 29 if _is_leap(year) else 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
    full_years = year - 1
    leap_days = full_years // 4 - full_years // 100 + full_years // 400
    return full_years * 365 + leap_days + sum(lengths[: month - 1]) + day - 1


def sha256(data: bytes) -> int:
    """Return the SHA-256 as a number, by the system's own tool."""
    done = subprocess.run(["sha256sum"], input=data, stdout=subprocess.PIPE, check=True)
    return int(done.stdout.split()[0], 16)


def expected_id(dataset: str, object_uri: str, start: str, milliseconds: int) -> str:
    """Return the UUIDv8: 48 bits of time, then 76 of the hash, two of which become the variant."""
    hashed = b""
    for part in (dataset, object_uri, start):
        encoded = part.encode("utf-8")
        hashed += bytes((0, 0, len(encoded) >> 8, len(encoded) & 255)) + encoded
    hash_bits = sha256(hashed) >> (256 - 76)
    number = milliseconds << 80
    number |= 8 << 76
    number |= (hash_bits >> 64) << 64
    number |= 0b10 << 62
    number |= hash_bits & ((1 << 62) - 1)
    return str(uuid.UUID(int=number))


def vectors() -> list[dict[str, str]]:
    """Return all vectors."""
    made = []
    for dataset, object_uri, (year, month, day, hour, minute, second, micros) in UNITS:
        seconds = ((days_before(year, month, day) * 24 + hour) * 60 + minute) * 60 + second
        start = f"{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z"
        made.append(
            {
                "dataset": dataset,
                "object_uri": object_uri,
                "time_range_start": start,
                "wal_id": expected_id(dataset, object_uri, start, seconds * 1000 + micros // 1000),
            }
        )
    return made


def _is_leap(year: int) -> bool:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


if __name__ == "__main__":
    target = Path(__file__).with_name("wal_ids.json")
    target.write_text(json.dumps(vectors(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
