"""What buckets hold: their listings, and files that list objects."""

import random
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path

from tallgrass.bootstrap.workers import open_clouds
from tallgrass.config import Config
from tallgrass.datasets.definition import Dataset
from tallgrass.errors import ConfigError, InvalidInput
from tallgrass.evidence.listing import CloudListing, FolderListing, Listing, Page, PlainPages
from tallgrass.evidence.listing_files import read_listing_file
from tallgrass.inventory.backfill import Wanted
from tallgrass.inventory.prefixes import beginnings, expanded
from tallgrass.ledger.object_uri import SCHEMES


def open_listing(config: Config, *, sleep: Callable[[float], object] = time.sleep) -> Listing:
    """Return what lists the buckets whose objects are read: those of clouds, or of a folder."""
    url = config.text("objects.url")
    if url == "event":
        raise ConfigError("objects.url is event: nothing is read, so nothing can be listed")
    if url == "cloud":
        return CloudListing(
            open_clouds(config), sleep=sleep, random=random.random, plain=_open_plain(config)
        )
    folder = Path(url.removeprefix("file:"))
    if not folder.is_dir():
        raise ConfigError(f"objects.url: there is no folder {folder}")
    return FolderListing(folder)


def _open_plain(config: Config) -> PlainPages | None:
    """Return what lists through boto3, if it is installed."""
    if find_spec("boto3") is None:
        return None

    def pages(bucket: str, prefix: str, after: str) -> Iterator[Page]:
        from tallgrass.evidence.plain_listing import plain_listing  # noqa: PLC0415 - optional extra

        address, signed = config.text("objects.endpoint_url"), config.flag("objects.signed")
        return plain_listing(endpoint_url=address, signed=signed)(bucket, prefix, after)

    return pages


def buckets_of(dataset: Dataset, chosen: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the buckets to list, as ``scheme://name``: those of the provider, or the chosen ones.

    A chosen bucket is named with or without its scheme, and may be that of a mirror.
    """
    scheme = _scheme(dataset.provider)
    if not chosen:
        return tuple(f"{scheme}://{name}" for name in dataset.buckets)
    known = {f"{_scheme(provider)}://{name}": name for provider, name in dataset.places()}
    found = []
    for each in chosen:
        match = [uri for uri, name in known.items() if each.rstrip("/") in {uri, name}]
        if not match:
            told = ", ".join(known)
            raise InvalidInput(f"{each!r} is no bucket of {dataset.id}: its buckets are {told}")
        if (moved := dataset.aliases.get(known[match[0]])) is not None:
            raise InvalidInput(f"the objects of {each!r} moved to {moved!r}: list that one")
        found.append(match[0])
    return tuple(dict.fromkeys(found))


def listed_pages(
    listing: Listing, dataset: Dataset, wanted: Wanted, buckets: Sequence[str]
) -> Iterator[Page]:
    """Yield what buckets hold of the wanted time or prefix, the older data first."""

    @cache
    def folders(bucket: str, folder: str) -> Sequence[str]:
        return listing.folders(bucket, folder)

    if wanted.prefix:
        for bucket in buckets:
            yield from listing.pages(bucket, wanted.prefix)
        return
    for begin in beginnings(dataset, wanted.since, wanted.until, by_run=wanted.by_run):
        for bucket in buckets:
            for prefix in expanded(begin, partial(folders, bucket)):
                yield from listing.pages(bucket, prefix)


def pages_of_file(file: Path, buckets: Sequence[str]) -> Iterator[Page]:
    """Yield what a file lists; plain keys are of the only bucket, if there is only one."""
    return read_listing_file(file, bucket=buckets[0] if len(buckets) == 1 else None)


def _scheme(provider: str) -> str:
    return SCHEMES.get(provider, provider)
