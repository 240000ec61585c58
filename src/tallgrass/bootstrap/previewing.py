"""What a re-run would change in items, computed from the kept evidence; nothing here writes."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import tallgrass
from tallgrass.bootstrap.datasets import config_version
from tallgrass.bootstrap.planning import Plan
from tallgrass.bootstrap.stores import Stores
from tallgrass.config import Config
from tallgrass.datasets.catalogue import Catalogue
from tallgrass.ledger.vocabulary import Status
from tallgrass.replay.recompute import Recomputer
from tallgrass.replay.verify import StoredUnit
from tallgrass.stac.comparison import differences
from tallgrass.storage.verify_reader import VerifyReader

#: Units read and made again together.
PAGE_SIZE = 500
#: Told of the fields, those that change most often.
FIELDS_MAX = 50
EXAMPLES_MAX = 5


@dataclass(slots=True)
class Preview:
    """What the items of succeeded units would become under the code and settings in use."""

    compared: int = 0
    changed: int = 0
    #: Of these, items that would get another id, or go to another collection.
    renamed: int = 0
    #: Items that could not be made again, by code.
    failing: Counter[str] = field(default_factory=Counter)
    #: JSON Pointer → items in which it would change.
    fields: Counter[str] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)

    def document(self) -> dict[str, Any]:
        """Return it as a JSON value."""
        return {
            "compared": self.compared,
            "changed": self.changed,
            "renamed": self.renamed,
            "unchanged": self.compared - self.changed - self.failing.total(),
            "failing": dict(sorted(self.failing.items())),
            "fields": [
                {"pointer": pointer, "items": items}
                for pointer, items in sorted(self.fields.items(), key=_most_first)[:FIELDS_MAX]
            ],
            "fields_total": len(self.fields),
            "examples": self.examples,
        }


def preview(config: Config, stores: Stores, catalogue: Catalogue, plan: Plan) -> Preview:
    """Take all rows of a plan, and make the items of its succeeded units again."""
    versions = (tallgrass.__version__, config_version(config, catalogue))
    recomputer = Recomputer(catalogue, config.rules, versions=versions)
    reader, found = VerifyReader(stores.database), Preview()
    plan.stream.first_line()
    for page in _pages(plan):
        for unit in reader.units(page):
            _compare(unit, recomputer, found)
    return found


def _compare(unit: StoredUnit, recomputer: Recomputer, found: Preview) -> None:
    if unit.applied is None or unit.item_body is None:
        return
    found.compared += 1
    made = recomputer.recompute(unit.applied)
    if made.item is None:
        found.failing["unknown" if made.failure is None else made.failure[0]] += 1
        return
    changes = differences(bytes(unit.item_body), made.item.body)
    if changes:
        found.changed += 1
        found.renamed += unit.item != (made.item.collection_id, made.item.item_id)
        found.fields.update(change.pointer for change in changes)
        if len(found.examples) < EXAMPLES_MAX:
            found.examples.append(unit.wal_id)


def _pages(plan: Plan) -> Iterator[list[str]]:
    page: list[str] = []
    for candidate, _, _ in plan.rows():
        if candidate.status == Status.SUCCEEDED:
            page.append(candidate.wal_id)
        if len(page) == PAGE_SIZE:
            yield page
            page = []
    if page:
        yield page


def _most_first(pair: tuple[str, int]) -> tuple[int, str]:
    return -pair[1], pair[0]
