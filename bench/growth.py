"""Growth: the same work with more and more records behind, on both databases.

Writing is compared with a young ledger of 10,000 records: batch by batch both take turns, so that a
busy moment meets them alike. Reading is a share of what a reader waits without a thought: 50 ms
for the first page of records, 100 ms for the first page of a search by place and time.
"""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import timedelta
from random import Random
from typing import TYPE_CHECKING

from bench import growth_fill
from bench.growth_fill import START
from bench.ledger import BATCH, make_unit, open_ledger, run_ledger
from bench.report import Row, beside, in_turn, row
from tallgrass.garbage import rare_collections
from tallgrass.ledger.record_filter import RecordFilter
from tallgrass.ledger.vocabulary import Status
from tallgrass.stac.place import place_of_box
from tallgrass.stac.search import ItemSearch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

YOUNG = 10_000
SIZES = (10_000, 100_000, 1_000_000, 10_000_000)
PAGE_MS = 50.0
SEARCH_MS = 100.0
SEARCHES = 60
#: Pairs of batches that are not counted: what was just made is read back.
WARM_UP = 4


class Grown:
    """A ledger with a catalog that has as many records as it was told to have."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.stores = open_ledger(url)
        self._worker = self.stores.leases.register("bench", ingest_run_id="bench", lease_s=36_000)
        self.size = 0

    def grow(self, size: int) -> float:
        """Fill it up to this many records; return the seconds."""
        began = time.perf_counter()
        if size > self.size:
            if self.url.startswith("sqlite:///"):
                path = self.url.removeprefix("sqlite:///")
                growth_fill.fill_sqlite(path, self.size, size - 1)
            else:
                growth_fill.fill_postgres(self.url, self.size, size - 1)
            self.size = size
        return time.perf_counter() - began

    def batch_s(self) -> float:
        """Write a batch through the ledger; return the seconds."""
        units = [make_unit(self.size + each, "hrrr") for each in range(BATCH)]
        self.size += BATCH
        took, claims = run_ledger(self.stores, self._worker, units)
        assert len(claims) == BATCH, "a unit was known already"
        return took

    def page_ms(self) -> list[float]:
        """Return how long first pages of records take: by dataset, status and time."""
        half = START + timedelta(seconds=self.size // 2)
        wanted = RecordFilter(datasets=["hrrr"], statuses=[Status.SUCCEEDED], since=half)
        filters = [wanted, replace(wanted, statuses=[Status.FAILED]), replace(wanted, since=None)]
        found = []
        for _ in range(20):
            for each in filters:
                began = time.perf_counter()
                self.stores.reader.page(each, size=100)
                found.append(1000 * (time.perf_counter() - began))
        return found

    def search_ms(self) -> list[float]:
        """Return how long first pages of searches take, each for another place and time."""
        random, found, items = Random(7), [], 0
        for number in range(SEARCHES + 1):
            west, south = random.uniform(-120, -75), random.uniform(27, 46)
            since = START + timedelta(seconds=self.size * random.random())
            wanted = ItemSearch(
                place=place_of_box([west, south, west + random.random(), south + random.random()]),
                since=since,
                until=since + timedelta(hours=random.choice([1, 24, 24 * 7])),
            )
            began = time.perf_counter()
            page = self.stores.catalog.page(wanted, size=10)
            if number:  # The first opens the connection.
                found.append(1000 * (time.perf_counter() - began))
                items += len(page.items)
        assert items > SEARCHES, "the searches find next to nothing"
        return found

    def close(self) -> None:
        """Close files and connections."""
        self.stores.close()


def growth(name: str, young: Grown, old: Grown, sizes: Sequence[int], pairs: int) -> list[Row]:
    """Return the rows of all sizes, in order."""
    young.grow(YOUNG)
    rows = []
    for size in sizes:
        took = old.grow(size)
        print(f"{name}: {size:,} records, filled in {took:.0f} s", flush=True)
        rates = _rates(young, old, pairs)
        writes = beside(
            f"{name}: ledger writes at {size:,} records / at {YOUNG:,}",
            rates, "units/s", at_least=0.8,
        )  # fmt: skip
        page = row(
            f"{name}: first page of records at {size:,} / {PAGE_MS:g} ms",
            [each / PAGE_MS for each in old.page_ms()],
            at_most=1.0, limit=PAGE_MS, unit="ms", steady=True,
        )  # fmt: skip
        search = row(
            f"{name}: first page of a search at {size:,} items / {SEARCH_MS:g} ms",
            [each / SEARCH_MS for each in old.search_ms()],
            at_most=1.0, limit=SEARCH_MS, unit="ms", steady=True,
        )  # fmt: skip
        rows += [
            replace(each, curve=f"{what}, {name}", size=size)
            for each, what in (
                (writes, "write rate / at 10,000"),
                (page, "page of records / 50 ms"),
                (search, "search / 100 ms"),
            )
        ]
    for each in (young, old):
        each.close()
    return rows


def _rates(young: Grown, old: Grown, pairs: int) -> list[tuple[float, float]]:
    """Return units a second of old and young, batch by batch."""
    found = []
    with rare_collections():
        for number in range(WARM_UP + pairs):
            took = {each: each.batch_s() for each in in_turn(number, (old, young))}
            found.append((BATCH / took[old], BATCH / took[young]))
    return found[WARM_UP:]


def benchmarks(
    folder: Path,
    new_postgres: Callable[[], str],
    *,
    quick: bool,
    sizes: Sequence[int] | None = None,
) -> list[Row]:
    """Return the rows of both databases."""
    sizes = sizes or (SIZES[:1] if quick else SIZES)
    pairs = 6 if quick else 40
    young, old = (Grown(f"sqlite:///{folder}/{name}.db") for name in ("young", "old"))
    rows = growth("sqlite", young, old, sizes, pairs)
    for path in folder.glob("*.db*"):
        path.unlink()
    young, old = Grown(new_postgres()), Grown(new_postgres())
    return rows + growth("postgres", young, old, sizes, pairs)
