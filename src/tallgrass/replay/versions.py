"""Which of two versions is the older: of the code, and of the schemas that an item names.

A version is a release, such as ``1.4.0``, ``1.4.0-rc.1`` or the ordinal ``57``, with what it was
built from after a ``+``. Hashes of commits have no order, so two builds of one release have none
either. What has no order counts as older: nobody can say that it is not.
"""

import re
from collections.abc import Iterable, Iterator
from enum import StrEnum
from functools import lru_cache

import orjson

from tallgrass.stac.extensions import STAC_VERSION, known_schemas

_RELEASE = re.compile(r"v?(\d+(?:\.\d+)*)(?:-([0-9A-Za-z.-]+))?(?:\+([0-9A-Za-z.-]+))?")
_SCHEMA = re.compile(r"https?://[^\s]+?/(?P<name>[^/\s]+)/v(?P<version>[^/\s]+)/schema\.json")


class Order(StrEnum):
    """Where the second of two versions stands to the first."""

    SAME = "same"
    NEWER = "newer"
    OLDER = "older"
    UNKNOWN = "unknown"


@lru_cache(maxsize=256)
def order_of(applied: str, wanted: str) -> Order:
    """Compare the version that made something with the one that would make it again."""
    if applied == wanted:
        return Order.SAME
    one, other = _RELEASE.fullmatch(applied), _RELEASE.fullmatch(wanted)
    if one is None or other is None:
        return Order.UNKNOWN
    first, second = _numbers(one[1]), _numbers(other[1])
    if len(first) != len(second):
        return Order.UNKNOWN
    if first != second:
        return Order.NEWER if second > first else Order.OLDER
    before, after = _precedence(one[2]), _precedence(other[2])
    if before == after:
        return Order.UNKNOWN  # two builds of one release
    return Order.NEWER if after > before else Order.OLDER


def lowers(applied: str | None, wanted: str) -> bool:
    """Tell whether going from one version to the other is a downgrade, or may be one."""
    return applied is not None and order_of(applied, wanted) not in {Order.SAME, Order.NEWER}


def lowered_schemas(item: bytes) -> list[str]:
    """Return the schemas that a stored item names in a newer version than this release writes."""
    document = orjson.loads(item)
    ours = dict(_named(known_schemas()))
    stored = _named(document.get("stac_extensions", ()))
    found = [name for name, version in stored if name in ours and lowers(version, ours[name])]
    if lowers(str(document.get("stac_version", STAC_VERSION)), STAC_VERSION):
        found.append("stac")
    return sorted(found)


def _named(addresses: Iterable[str]) -> Iterator[tuple[str, str]]:
    for address in addresses:
        if match := _SCHEMA.fullmatch(address):
            yield match["name"], match["version"]


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("."))


def _precedence(pre: str | None) -> tuple[object, ...]:
    """Return what pre-releases are compared by, as semantic versioning says; a release is last."""
    if pre is None:
        return (1,)
    parts = ((0, int(p), "") if p.isdigit() else (1, 0, p) for p in pre.split("."))
    return (0, *parts)
