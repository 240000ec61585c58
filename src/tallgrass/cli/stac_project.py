"""``tallgrass stac project``: keep the copy of the catalog in pgstac."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from tallgrass.cli.invocation import (
    FiniteRange,
    Invocation,
    examples,
    output_option,
    pass_invocation,
)
from tallgrass.cli.stopping import told_to_stop
from tallgrass.cli.tables import progress
from tallgrass.cli.text import hide_credentials, print_json, printable, tell

if TYPE_CHECKING:
    from rich.progress import Progress

    from tallgrass.bootstrap.projecting import ProjectionReport, Projector
    from tallgrass.bootstrap.stores import Stores
    from tallgrass.errors import TransientError

BATCH = 5000
BATCH_MAX = 50_000
EVERY_S = 5.0


@click.command(
    epilog=examples(
        "tallgrass --database postgresql://… stac project --migrate",
        "tallgrass stac project --follow",
        "tallgrass stac project --rebuild --collection goes-abi-l2-cmi",
    )
)
@click.option("--collection", "collections", multiple=True, help="Only this; repeatable.")
@click.option(
    "--batch",
    type=click.IntRange(1, BATCH_MAX),
    default=BATCH,
    show_default=True,
    help="Items copied in one transaction.",
)
@click.option(
    "--migrate", is_flag=True, help="First make pgstac's tables, or bring them up to date."
)
@click.option("--rebuild", is_flag=True, help="First empty the copy, then make it again.")
@click.option("--follow", is_flag=True, help="Go on until Ctrl-C or SIGTERM.")
@click.option(
    "--every",
    "every_s",
    type=FiniteRange(0.1, 3600),
    default=EVERY_S,
    show_default=True,
    help="Seconds between two looks, with --follow.",
)
@click.option("--forget", is_flag=True, help="Copy no longer; what pgstac has stays in it.")
@output_option
@pass_invocation
def project(  # noqa: PLR0913 - one parameter an option
    invocation: Invocation,
    *,
    collections: Sequence[str],
    batch: int,
    migrate: bool,
    rebuild: bool,
    follow: bool,
    every_s: float,
    forget: bool,
    as_json: bool,
) -> None:
    """Copy the catalog to pgstac in the same database, for servers like stac-fastapi-pgstac.

    Copies what is new or changed since the last time. The catalog's own tables remain the truth:
    the copy can be made again at any time. Needs PostgreSQL with PostGIS. Items without a geometry
    are left out, as pgstac cannot hold them.
    """
    from tallgrass.bootstrap.projecting import open_projector  # noqa: PLC0415 - help is quick

    if forget and (migrate or rebuild or follow):
        message = "--forget goes alone, or with --collection"
        raise click.UsageError(message)
    shown = _Shown()
    with invocation.stores(read_only=False) as stores:
        projector = open_projector(
            invocation.config, stores, wanted=collections, batch=batch, advance=shown.advance
        )
        if forget:
            number = projector.forget()
            _tell({"forgotten": number}, f"{number:,} collections forgotten.", as_json=as_json)
            return
        version = projector.prepare(migrate=migrate, rebuild=rebuild)
        with shown.over(stores):
            _run(projector, every_s if follow else None)
        left = stores.catalog.projection_lag()
    document = {"pgstac": version, **asdict(projector.report), "waiting": left.items if left else 0}
    _tell(document, _words(projector.report, version), as_json=as_json)


def _run(projector: "Projector", every_s: float | None) -> None:
    from tallgrass.bootstrap.projecting import Following  # noqa: PLC0415

    with told_to_stop() as stop:

        def sleep(seconds: float) -> None:
            stop.wait(seconds)

        if every_s is None:
            projector.once(stop.is_set)
        else:
            projector.follow(
                Following(every_s=every_s, stop=stop.is_set, sleep=sleep, failed=_failed)
            )


class _Shown:
    """A bar of what is copied, while somebody looks."""

    def __init__(self) -> None:
        self._bar: Progress | None = None

    @contextmanager
    def over(self, stores: "Stores") -> Iterator[None]:
        """Show it until the end of the block."""
        lag = stores.catalog.projection_lag()
        # Before the first copy nobody has counted.
        with progress("copying items", lag.items if lag else None) as self._bar:
            yield

    def advance(self, number: int) -> None:
        """Count what was copied."""
        if self._bar is not None:
            self._bar.advance(self._bar.task_ids[0], number)


def _failed(error: "TransientError") -> None:
    tell(f"{printable(hide_credentials(str(error)))}; trying again\n")


def _words(report: "ProjectionReport", version: str) -> str:
    left_out = (
        f", {report.without_place:,} without a place left out" if report.without_place else ""
    )
    return (
        f"{report.items:,} items of {report.collections:,} collections copied to pgstac {version}"
        f"{left_out}."
    )


def _tell(document: dict[str, object], words: str, *, as_json: bool) -> None:
    if as_json:
        print_json(document)
    else:
        click.echo(words)
