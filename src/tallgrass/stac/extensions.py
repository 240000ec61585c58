"""The STAC extensions that documents declare, in the versions that they are written for."""

from collections.abc import Iterable

STAC_VERSION = "1.1.0"

#: Prefix of its fields → name and version of the extension.
_BY_PREFIX = {
    "anon": "anonymized-location/v1.0.0",
    "alternate": "alternate-assets/v1.2.0",
    "eo": "eo/v2.0.0",
    "file": "file/v2.1.0",
    "forecast": "forecast/v0.2.0",
    "goes": "goes/v1.0.0",
    "noaa_mrms_qpe": "noaa-mrms-qpe/v1.0.0",
    "processing": "processing/v1.2.0",
    "product": "product/v1.0.0",
    "proj": "projection/v2.0.0",
    "raster": "raster/v2.0.0",
    "sar": "sar/v1.3.2",
    "sat": "sat/v1.2.0",
    "storage": "storage/v2.0.0",
}

#: Declares `expires`, which has no prefix.
EXPIRES_SCHEMA = "https://stac-extensions.github.io/timestamps/v1.1.0/schema.json"


def declared(fields: Iterable[str]) -> list[str]:
    """Return the schema addresses of the extensions that the fields belong to, in order.

    A prefix of nobody's extension, such as ``kfm:``, declares none.
    """
    prefixes = {field.partition(":")[0] for field in fields if ":" in field}
    return sorted(_address(_BY_PREFIX[prefix]) for prefix in prefixes & _BY_PREFIX.keys())


def known_schemas() -> list[str]:
    """Return the schema addresses of all extensions that documents may declare."""
    return sorted([*map(_address, _BY_PREFIX.values()), EXPIRES_SCHEMA])


def _address(extension: str) -> str:
    return f"https://stac-extensions.github.io/{extension}/schema.json"
