"""Validates the catalog against STAC and its extensions, for the command line and the API."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson

from tallgrass.bootstrap.named_collections import require_collections
from tallgrass.stac.search import ItemSearch

if TYPE_CHECKING:
    from tallgrass.bootstrap.stores import Stores
    from tallgrass.datasets.catalogue import Catalogue
    from tallgrass.stac.validation import StacValidator, Verdict

#: Shown in full; the counts are of all.
SHOWN_MAX = 100


@dataclass(slots=True)
class ValidationReport:
    """What came of all documents."""

    checked: int = 0
    valid: int = 0
    invalid: int = 0
    #: For want of a schema.
    unchecked: int = 0
    missing_schemas: dict[str, int] = field(default_factory=dict)
    problems: list[dict[str, Any]] = field(default_factory=list)

    def count(self, name: str, verdict: "Verdict") -> None:
        """Count one document."""
        self.checked += 1
        if verdict.is_valid:
            self.valid += 1
            return
        if verdict.problems:
            self.invalid += 1
        else:
            self.unchecked += 1
        for address in verdict.missing:
            self.missing_schemas[address] = self.missing_schemas.get(address, 0) + 1
        for problem in verdict.problems:
            if len(self.problems) < SHOWN_MAX:
                self.problems.append(
                    {"document": name, "path": problem.path, "message": problem.message,
                     "rule": problem.rule}
                )  # fmt: skip


def judge_catalog(
    stores: "Stores",
    catalogue: "Catalogue",
    collections: Sequence[str],
    validator: "StacValidator",
    report: ValidationReport,
) -> Iterator[int]:
    """Judge collections, then items, each as it is asked for; yield how many were judged."""
    search = ItemSearch(collections=tuple(collections) or None)
    with stores.catalog.view() as view:
        require_collections(collections, view, catalogue)
        for name, body in view.collections().items():
            if not collections or name in collections:
                report.count(name, validator.judge(orjson.loads(body)))
        for item in view.walk(search):
            name = f"{item.key.collection}/{item.key.id}"
            report.count(name, validator.judge(orjson.loads(item.body)))
            yield report.checked
