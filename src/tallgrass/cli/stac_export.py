"""``tallgrass stac export``: the catalog as a folder, as lines of JSON, or as GeoParquet."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tallgrass.cli.invocation import Invocation, examples, output_option, pass_invocation
from tallgrass.cli.tables import progress
from tallgrass.cli.text import json_bytes
from tallgrass.cli.whole_files import appearing_folder, appearing_whole
from tallgrass.views.times import range_of_days

if TYPE_CHECKING:
    from tallgrass.bootstrap.views import CatalogView
    from tallgrass.stac.search import ItemSearch

STDIO = "-"
STATIC, NDJSON, GEOPARQUET = "static", "ndjson", "geoparquet"

_Advance = Callable[[int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    """What is exported, how, and where to."""

    format: str
    target: str
    replace: bool
    search: "ItemSearch"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Written:
    """What was written."""

    format: str
    target: str
    items: int
    #: Of a static catalog.
    collections: int | None = None
    files: int | None = None


@click.command(
    epilog=examples(
        "tallgrass stac export --format static --dir catalog",
        "tallgrass stac export --format ndjson --collection goes-glm --file - | gzip > glm.gz",
        "tallgrass stac export --format geoparquet --file items.parquet"
        " --bbox -102,37,-94.6,40 --datetime 2026-01-01T00:00:00Z/..",
    )
)
@click.option(
    "--format",
    "form",
    type=click.Choice([STATIC, NDJSON, GEOPARQUET]),
    default=STATIC,
    show_default=True,
    help="A folder of STAC files, one item a line, or one GeoParquet file.",
)
@click.option("--dir", "folder", metavar="FOLDER", help="Where a static catalog goes to.")
@click.option("--file", "file", metavar="FILE|-", help="Where ndjson or geoparquet goes to.")
@click.option("--replace", is_flag=True, help="Replace an earlier static catalog there.")
@click.option("--collection", "collections", multiple=True, help="Only of this; repeatable.")
@click.option("--bbox", metavar="W,S,E,N", help="Only items that lie there, at least in part.")
@click.option(
    "--datetime",
    "times",
    metavar="TIME[/TIME]",
    help="Only items of a time, or of a range; .. is open. A date is its whole day, in UTC.",
)
@output_option
@pass_invocation
def export(  # noqa: PLR0913 - one parameter an option
    invocation: Invocation,
    *,
    form: str,
    folder: str | None,
    file: str | None,
    replace: bool,
    collections: Sequence[str],
    bbox: str | None,
    times: str | None,
    as_json: bool,
) -> None:
    """Write the catalog out: all of it, or what the filters leave; whole, or not at all.

    The same catalog gives the same bytes. Items are as at one moment, however long it takes.
    """
    wanted = _Wanted(
        format=form,
        target=_target(form, folder, file),
        replace=replace,
        search=_search(collections, bbox, times),
    )
    from tallgrass.bootstrap.datasets import open_catalogue  # noqa: PLC0415 - help is quick
    from tallgrass.bootstrap.named_collections import require_collections  # noqa: PLC0415

    with invocation.stores(read_only=True) as stores, stores.catalog.view() as view:
        require_collections(collections, view, open_catalogue(invocation.config))
        with _progress(view, wanted.search) as advance:
            written = _write(invocation, view, wanted, advance)
    _report(written, as_json=as_json)


def _target(form: str, folder: str | None, file: str | None) -> str:
    wanted, other = (folder, file) if form == STATIC else (file, folder)
    name, instead = ("--dir", "--file") if form == STATIC else ("--file", "--dir")
    if other is not None:
        message = f"--format {form} goes to {name}, not to {instead}"
        raise click.UsageError(message)
    if wanted is None:
        message = f"say where --format {form} goes to: {name}"
        raise click.UsageError(message)
    if form == GEOPARQUET and wanted == STDIO:
        message = "--format geoparquet needs a file: its end is written with its beginning in mind"
        raise click.UsageError(message)
    return wanted


def _search(collections: Sequence[str], bbox: str | None, times: str | None) -> "ItemSearch":
    from tallgrass.stac.search import ItemSearch, time_range_of  # noqa: PLC0415

    since, until = (None, None) if times is None else time_range_of(range_of_days(times))
    place = None
    if bbox is not None:
        from tallgrass.stac.place import place_of_box  # noqa: PLC0415

        try:
            numbers = [float(side) for side in bbox.split(",")]
        except ValueError:
            message = f"--bbox: not W,S,E,N in degrees: {bbox!r}"
            raise click.UsageError(message) from None
        place = place_of_box(numbers)
    return ItemSearch(collections=tuple(collections) or None, place=place, since=since, until=until)


def _write(
    invocation: Invocation, view: "CatalogView", wanted: _Wanted, advance: _Advance
) -> _Written:
    if wanted.format == STATIC:
        return _write_static(invocation, view, wanted, advance)
    stdout = wanted.target == STDIO
    place = nullcontext(sys.stdout.buffer) if stdout else appearing_whole(Path(wanted.target))
    with place as target:
        if wanted.format == NDJSON:
            from tallgrass.stac.export import lines  # noqa: PLC0415

            items = 0
            for items, line in enumerate(lines(view, wanted.search), start=1):  # noqa: B007
                target.write(line)
                advance(1)
        else:
            from tallgrass.bootstrap.catalog import export_geoparquet  # noqa: PLC0415

            items = export_geoparquet(view, wanted.search, target, advance)
        target.flush()
    return _Written(format=wanted.format, target=wanted.target, items=items)


def _write_static(
    invocation: Invocation, view: "CatalogView", wanted: _Wanted, advance: _Advance
) -> _Written:
    from tallgrass.bootstrap.catalog import dataset_folders  # noqa: PLC0415
    from tallgrass.bootstrap.datasets import open_catalogue  # noqa: PLC0415
    from tallgrass.stac.export import is_export, write_static  # noqa: PLC0415

    folders = dataset_folders(open_catalogue(invocation.config))
    path = Path(wanted.target)
    with appearing_folder(
        path, replace=lambda found: wanted.replace and is_export(found)
    ) as folder:
        done = write_static(
            view,
            wanted.search,
            folder,
            dataset_of=lambda name: folders.get(name, name),
            advance=advance,
        )
    return _Written(
        format=STATIC,
        target=wanted.target,
        items=done.items,
        collections=done.collections,
        files=done.files,
    )


@contextmanager
def _progress(view: "CatalogView", search: "ItemSearch") -> Iterator[_Advance]:
    """Show a bar where somebody looks."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    names = search.collections
    extents = view.extents(search)
    total = sum(each.items for name, each in extents.items() if names is None or name in names)
    with progress("exporting items", total) as bar:
        yield lambda number: bar.advance(bar.task_ids[0], number) if bar is not None else None


def _report(written: _Written, *, as_json: bool) -> None:
    """Say what was written: on stdout, unless the export itself went there."""
    stream = sys.stderr if written.target == STDIO else sys.stdout
    if as_json:
        stream.write(json_bytes(written).decode())
        return
    more = "" if written.files is None else f" of {written.collections:,} collections"
    stream.write(f"{written.target}: {written.items:,} items{more}\n")
