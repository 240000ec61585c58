"""The next page of a listing is fetched while this one is compared: a store answers slowly."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from tallgrass.evidence.listing import Page


def read_ahead(pages: Iterator[Page]) -> Iterator[Page]:
    """Yield the same pages in the same order; at most one is held that nobody asked for yet."""
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="listing") as thread:
        coming = thread.submit(next, pages, None)
        while (page := coming.result()) is not None:
            coming = thread.submit(next, pages, None)
            yield page
