"""Copies the catalog to pgstac: once, or again and again until it is told to stop."""

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tallgrass.bootstrap.stores import Stores
from tallgrass.config import Config
from tallgrass.errors import ConfigError, TransientError
from tallgrass.retry import Backoff

if TYPE_CHECKING:
    from tallgrass.storage.pgstac_projection import PgstacProjection

#: Statistics of partitions are renewed this often: it takes a scan that keeps readers out.
STATISTICS_EVERY_S = 300.0
_BACKOFF = Backoff(base_s=1.0, cap_s=30.0)


@dataclass(slots=True, kw_only=True)
class ProjectionReport:
    """What a run did."""

    collections: int = 0
    items: int = 0
    #: Items that pgstac cannot hold, as they have no geometry.
    without_place: int = 0
    batches: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Following:
    """How to go on after the first round: until told to stop, looking again every so often."""

    every_s: float
    stop: Callable[[], bool]
    sleep: Callable[[float], None]
    #: Is told why a round failed that is tried again.
    failed: Callable[[TransientError], None]


class Projector:
    """Copies what waits, collection by collection, batch by batch."""

    def __init__(
        self,
        projection: "PgstacProjection",
        *,
        wanted: Sequence[str],
        batch: int,
        advance: Callable[[int], None] = lambda _number: None,
        monotonic: Callable[[], float] = time.monotonic,
        draw: Callable[[], float] = random.random,
    ) -> None:
        self._projection = projection
        self._wanted = wanted
        self._batch = batch
        self._advance = advance
        self._monotonic = monotonic
        self._draw = draw
        self.report = ProjectionReport()

    def prepare(self, *, migrate: bool, rebuild: bool) -> str:
        """Return pgstac's version in the database, brought up to date and emptied as asked for."""
        version = self._projection.install() if migrate else self._projection.require_usable()
        if rebuild:
            for name in self._projection.register(self._wanted):
                self._projection.restart(name)
        return version

    def forget(self) -> int:
        """Copy no longer; return how many collections were copied until now."""
        return len(self._projection.forget(self._wanted))

    def once(self, stop: Callable[[], bool] = lambda: False) -> None:
        """Copy what waits now; what comes meanwhile may be left for the next time."""
        self._round(stop)
        self._renew_statistics(stop)

    def follow(self, how: Following) -> None:
        """Copy what waits, again and again; an outage is waited for."""
        renewed_at: float | None = None
        failures = 0
        while not how.stop():
            try:
                self._round(how.stop)
                if renewed_at is None or self._monotonic() - renewed_at >= STATISTICS_EVERY_S:
                    self._renew_statistics(how.stop)
                    renewed_at = self._monotonic()
            except TransientError as error:
                failures += 1
                how.failed(error)
                how.sleep(_BACKOFF.delay_s(failures, self._draw))
            else:
                failures = 0
                how.sleep(how.every_s)

    def _round(self, stop: Callable[[], bool]) -> None:
        chosen = self._projection.register(self._wanted)
        self.report.collections = len(chosen)
        for name in self._projection.waiting():
            if name in chosen:
                self._copy(name, stop)

    def _copy(self, collection_id: str, stop: Callable[[], bool]) -> None:
        has_more = True
        while has_more and not stop():
            done = self._projection.copy_batch(collection_id, self._batch)
            has_more = done.has_more
            self.report.items += done.items
            self.report.without_place += done.without_place
            self.report.batches += 1
            self._advance(done.items + done.without_place)

    def _renew_statistics(self, stop: Callable[[], bool]) -> None:
        while not stop() and self._projection.run_queued():
            pass


def open_projector(
    config: Config,
    stores: Stores,
    *,
    wanted: Sequence[str],
    batch: int,
    advance: Callable[[int], None] = lambda _number: None,
) -> Projector:
    """Return what copies the catalog; a database or library that it cannot use is refused."""
    if stores.database.dialect != "postgres":
        message = f"the catalog is in {stores.database.place}"
        raise ConfigError(message, code="pgstac_needs_postgres")
    try:
        from tallgrass.storage.pgstac_projection import (  # noqa: PLC0415 - optional extra
            PgstacProjection,
        )
    except ModuleNotFoundError as exc:
        raise ConfigError("pypgstac is not installed", code="pgstac_missing") from exc
    projection = PgstacProjection(stores.runner, config.text("database.url"))
    return Projector(projection, wanted=wanted, batch=batch, advance=advance)
