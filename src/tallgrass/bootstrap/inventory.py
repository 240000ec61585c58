"""What buckets hold: their listings, and files that list objects."""

import random
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path

from tallgrass.bootstrap.workers import open_clouds, require_objects
from tallgrass.config import Config
from tallgrass.datasets.definition import Dataset
from tallgrass.errors import ConfigError, InvalidInput
from tallgrass.evidence.listing import (
    CloudListing,
    FolderListing,
    Listing,
    Page,
    Persistence,
    PlainPages,
)
from tallgrass.evidence.listing_files import read_listing_file
from tallgrass.inventory.backfill import Wanted
from tallgrass.inventory.prefixes import beginnings, expanded
from tallgrass.ledger.object_uri import SCHEMES
from tallgrass.replay.engine import wait_s, within_rate


def open_listing(
    config: Config,
    *,
    sleep: Callable[[float], object] = time.sleep,
    persistence: Persistence | None = None,
) -> Listing:
    """Return what lists the buckets whose objects are read: those of clouds, or of a folder."""
    url = config.text("objects.url")
    if url == "event":
        raise ConfigError("objects.url is event: nothing is read, so nothing can be listed")
    if url == "cloud":
        return CloudListing(
            open_clouds(config),
            sleep=sleep,
            random=random.random,
            persistence=persistence,
            plain=_open_plain(config),
        )
    require_objects(config)
    return FolderListing(Path(url.removeprefix("file:")))


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


class ListingPace:
    """Holds what is done with a listing to so much a second; without a limit it holds nothing."""

    def __init__(
        self,
        per_s: float | None,
        *,
        sleep: Callable[[float], object] = time.sleep,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._per_s = per_s
        self._sleep = sleep
        self._monotonic = monotonic
        self._began = 0.0

    def parts(self, page: Page) -> Iterator[Page]:
        """Cut a page so small that one part is the work of a second at most."""
        size = len(page) if self._per_s is None else within_rate(len(page), self._per_s)
        for start in range(0, len(page), size):
            self._began = self._monotonic()
            yield page[start : start + size]

    def rest(self, done: int) -> None:
        """Rest for what is left of a part's time; slow ones before it earn it no haste."""
        if self._per_s is None:
            return
        if rest_s := wait_s(done, self._monotonic() - self._began, self._per_s):
            self._sleep(rest_s)


def pages_of_file(file: Path, buckets: Sequence[str]) -> Iterator[Page]:
    """Yield what a file lists; plain keys are of the only bucket, if there is only one."""
    return read_listing_file(file, bucket=buckets[0] if len(buckets) == 1 else None)


def _scheme(provider: str) -> str:
    return SCHEMES.get(provider, provider)
