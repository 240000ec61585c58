"""A pipeline whose objects are listed and never announced, and backfills of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from tallgrass.bootstrap.backfilling import (
    BackfillRequest,
    Surroundings,
    open_inventory,
    run_backfill,
)
from tallgrass.bootstrap.datasets import open_catalogue
from tallgrass.datasets.catalogue import default_catalogue
from tallgrass.inventory.backfill import Backfill, Wanted
from tallgrass.inventory.listed import ListedObject, listed_line
from tallgrass.ledger.vocabulary import Intent
from tests.pipeline.scene import Pipeline

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.pipeline.scene import Thing
    from tests.support.backends import Backend


SINCE = datetime(2026, 6, 1, 12, tzinfo=UTC)
WANTED = Wanted(dataset="goes-glm", since=SINCE, until=SINCE + timedelta(hours=1))
NOW = datetime(2026, 7, 1, tzinfo=UTC)


def listed(given: Thing, **changes: Any) -> ListedObject:
    """Return an object as its bucket lists it."""
    event = given.event()
    values = {"size": event.size, "etag": event.etag, "modified": given.place.ready, **changes}
    return ListedObject(uri=given.uri, **values)


class Listed:
    """A pipeline whose objects are listed and never announced."""

    def __init__(self, backend: Backend, folder: Path, **options: Any) -> None:
        self.pipeline = Pipeline(backend, folder, **options)
        self.pipeline.lease = self.pipeline.register("later")
        self.intent = Intent.BACKFILL

    def take(self, *objects: ListedObject, **options: Any) -> Backfill:
        """Take one page."""
        dry_run = options.pop("dry_run", False)
        store = open_inventory(
            self.pipeline.config,
            self.pipeline.stores,
            default_catalogue(),
            "11111111-1111-4111-8111-111111111111",
            self.intent,
            dry_run=dry_run,
        )
        backfill = Backfill(store, default_catalogue(), WANTED, clock=lambda: NOW, **options)
        backfill.take(objects)
        return backfill

    def sql(self, statement: str, *params: object) -> list[tuple[Any, ...]]:
        """Ask the database."""
        return self.pipeline.backend.sql(statement, *params)

    def intents(self) -> list[tuple[Any, ...]]:
        """Return intent and status of every attempt."""
        return self.sql("SELECT intent, status FROM wal_attempts ORDER BY wal_id, attempt_no")


# --- the whole of it ------------------------------------------------------------------------------


class Run:
    """Backfills of a file over the pipeline's ledger."""

    def __init__(self, scene: Listed, file: Path, objects: Sequence[ListedObject]) -> None:
        self.scene = scene
        self.file = file
        file.write_text("".join(f"{listed_line(each)}\n" for each in objects))

    def __call__(self, around: Surroundings | None = None, **changes: Any) -> dict[str, Any]:
        """Run one; return its report."""
        pipeline = self.scene.pipeline
        values: dict[str, Any] = {"dataset": "goes-glm", "listing": self.file, **changes}
        by, config = values.pop("by", "ann"), values.pop("config", pipeline.config)
        return run_backfill(
            config,
            pipeline.stores,
            open_catalogue(config),
            BackfillRequest(**values),
            around or Surroundings(),
            by=by,
        ).document()

    def log(self) -> list[tuple[Any, ...]]:
        """Return action and reason of the log."""
        return self.scene.sql("SELECT action, reason FROM audit_log ORDER BY entry_id")
