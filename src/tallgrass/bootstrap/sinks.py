"""Targets of events, opened with what they need of the catalog and of the database."""

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tallgrass.bootstrap.catalog import SharedCatalog
from tallgrass.bootstrap.stores import open_database
from tallgrass.config import Config
from tallgrass.errors import ConfigError
from tallgrass.outbox.routing import Target
from tallgrass.sinks.protocol import Sink
from tallgrass.sqlite_address import sqlite_file

if TYPE_CHECKING:
    from tallgrass.sinks.resources import SinkResources


@contextmanager
def sink_resources(
    config: Config, *, environment: Mapping[str, str] = os.environ
) -> "Iterator[SinkResources]":
    """Lend what sinks need of the configured database; nothing is connected before it is used."""
    # TLS and HTTP: 20 ms that only whoever sends needs.
    from tallgrass.sinks.resources import SinkResources  # noqa: PLC0415

    with ExitStack() as open_parts:
        catalog = open_parts.enter_context(closing(SharedCatalog(config)))
        file, notify = sqlite_file(config.text("database.url")), None
        if file is None:
            from tallgrass.storage.notifications import Notifications  # noqa: PLC0415 - an extra
            from tallgrass.storage.postgres import PostgresDatabase  # noqa: PLC0415 - an extra

            database = open_database(config)
            if isinstance(database, PostgresDatabase):
                notify = open_parts.enter_context(closing(Notifications(database))).send
        yield SinkResources(
            items=catalog.item,
            former_items=catalog.former_items,
            collections=catalog.collection,
            provenance=catalog.document,
            notify=notify,
            folder=Path() if file is None else file.parent,
            lease_s=config.number("outbox.lease_s"),
            environment=environment,
        )


def open_target(target: Target, resources: "SinkResources") -> Sink:
    """Return the sink of a target; what is wrong with its settings is told with its name."""
    from tallgrass.sinks.registry import open_sink  # noqa: PLC0415 - as above

    try:
        return open_sink(target.kind, target.settings, resources)
    except ConfigError as exc:
        raise ConfigError(f"outbox.targets.{target.name}: {exc}", code=exc.code) from exc


def check_targets(config: Config) -> int:
    """Open each target of the configuration and close it; return how many there are."""
    with sink_resources(config) as resources:
        for target in config.routing.targets.values():
            open_target(target, resources).close()
    return len(config.routing.targets)
