"""What one key says, told for people: its dataset, its times, its names, or why it is passed over.

An ignored key often stands beside a unit's (an index, a checksum, a volume's metadata) and is named
after it. Then it tells the same times, though it is no unit.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from tallgrass.datasets.catalogue import Catalogue
from tallgrass.datasets.definition import Dataset
from tallgrass.datasets.item_ids import item_id
from tallgrass.datasets.key_grammar import IgnoredKey, KeyMatch, match_key
from tallgrass.errors import InvalidInput
from tallgrass.ledger.identity import wal_id
from tallgrass.ledger.object_uri import SCHEMES, bucket_and_key, canonical_object_uri

#: Where a name may go on after that of a unit: ``.grib2.idx``, ``_V06_MDM.gz``.
_JOINT = re.compile(r"[._-]")


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyReport:
    """What a key says; None is what it does not say, or what only a unit has."""

    dataset: str
    provider: str
    object_uri: str
    time_range_start: datetime | None
    time_range_end: datetime | None
    #: Time of the model run.
    reference_time: datetime | None
    #: Time that a run's output is for.
    valid_time: datetime | None
    item_id: str | None
    wal_id: str | None
    #: Why it is no unit; None for a unit.
    ignored: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutedKey:
    """An object's address, and what the catalogue makes of it."""

    provider: str
    object_uri: str
    bucket: str
    key: str
    found: KeyMatch | IgnoredKey


def route_uri(catalogue: Catalogue, uri: str, providers: Collection[str]) -> RoutedKey:
    """Return what an object is by its address; one that no dataset claims is refused."""
    provider, bucket, key = _place_of(catalogue, uri, providers)
    uri = f"{SCHEMES.get(provider, provider)}://{bucket}/{key}"
    found = catalogue.route(provider, bucket, key)
    if found is None:
        raise InvalidInput(f"no dataset claims the bucket of {uri!r}", code="unroutable")
    return RoutedKey(provider=provider, object_uri=uri, bucket=bucket, key=key, found=found)


def dataset_of_uri(catalogue: Catalogue, uri: str, providers: Collection[str]) -> str | None:
    """Return the dataset that claims an address, even where its key cannot be read."""
    try:
        provider, bucket, key = _place_of(catalogue, uri, providers)
    except InvalidInput:
        return None
    found = catalogue.claimant(provider, bucket, key)
    return None if found is None else found.id


def _place_of(catalogue: Catalogue, uri: str, providers: Collection[str]) -> tuple[str, str, str]:
    """Return provider, present bucket and key of an address."""
    uri = canonical_object_uri(uri)
    scheme = uri.partition(":")[0]
    known = {SCHEMES.get(name, name): name for name in sorted(providers)}
    if scheme not in known:
        raise InvalidInput(
            f"no provider has addresses such as {uri!r}: known are "
            f"{', '.join(f'{name}://' for name in sorted(known))}",
            code="unknown_provider",
        )
    bucket, key = bucket_and_key(uri)
    return known[scheme], catalogue.bucket_now(known[scheme], bucket), key


def report_key(catalogue: Catalogue, uri: str, providers: Collection[str]) -> KeyReport:
    """Tell what a key says; one that no dataset claims, or whose time cannot be, is refused."""
    routed = route_uri(catalogue, uri, providers)
    found = routed.found
    if isinstance(found, KeyMatch):
        return _report(
            routed,
            found.dataset,
            found,
            item=item_id(routed.provider, routed.bucket, routed.key),
            unit=wal_id(found.dataset.id, routed.object_uri, found.start),
        )
    beside = unit_beside(found.dataset, routed.key)
    return _report(routed, found.dataset, beside, ignored=found.reason)


def unit_beside(dataset: Dataset, key: str) -> KeyMatch | None:
    """Return the unit that an ignored key is named after, if it is named after one."""
    if dataset.key.generic:
        return None
    name = key.rfind("/") + 1
    ends = [len(key), *(found.start() for found in _JOINT.finditer(key, name))]
    whole: KeyMatch | None = None
    for end in sorted(ends, reverse=True):
        try:
            found = match_key(dataset, key[:end])
        except InvalidInput:
            return None  # it has the form, but no such time
        if found is not None and found.is_known:
            return found
        whole = whole or found
    return whole


def _report(
    routed: RoutedKey,
    dataset: Dataset,
    times: KeyMatch | None,
    *,
    item: str | None = None,
    unit: str | None = None,
    ignored: str | None = None,
) -> KeyReport:
    run = None if times is None else times.reference
    return KeyReport(
        dataset=dataset.id,
        provider=routed.provider,
        object_uri=routed.object_uri,
        time_range_start=None if times is None else times.start,
        time_range_end=None if times is None else times.end,
        reference_time=run,
        valid_time=None if times is None or run is None else times.start,
        item_id=item,
        wal_id=unit,
        ignored=ignored,
    )
