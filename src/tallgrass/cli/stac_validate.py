"""``tallgrass stac validate``: files, or the catalog itself, against STAC and its extensions."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import orjson

from tallgrass.bootstrap.validating import ValidationReport, judge_catalog
from tallgrass.cli.invocation import Invocation, examples, output_option, pass_invocation
from tallgrass.cli.tables import progress
from tallgrass.cli.text import print_json, printable

if TYPE_CHECKING:
    from tallgrass.stac.validation import StacValidator

_LINES = {".jsonl", ".ndjson"}


@click.command(
    epilog=examples(
        "tallgrass stac validate --schemas schemas",
        "tallgrass stac validate item.json items.ndjson catalog/ --fetch --output json",
    )
)
@click.argument(
    "paths", nargs=-1, metavar="[FILE|DIR]…", type=click.Path(exists=True, path_type=Path)
)
@click.option(
    "--schemas",
    "folders",
    multiple=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="A folder of extension schemas; repeatable.",
)
@click.option("--fetch", is_flag=True, help="Fetch schemas that are found nowhere, and keep them.")
@click.option(
    "--cache",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Where fetched schemas are kept. Default: the user's cache folder.",
)
@click.option("--collection", "collections", multiple=True, help="Only of this; repeatable.")
@output_option
@pass_invocation
def validate(
    invocation: Invocation,
    *,
    paths: Sequence[Path],
    folders: Sequence[Path],
    fetch: bool,
    cache: Path | None,
    collections: Sequence[str],
    as_json: bool,
) -> None:
    """Check documents against STAC core and every extension that they declare.

    Files of JSON or JSON lines, folders of them, or without any the whole catalog. Core schemas are
    at hand; those of extensions come from --schemas, or are fetched once with --fetch. Ends with 1
    if a document is invalid, or cannot be judged because a schema is missing.
    """
    from tallgrass.bootstrap.schemas import (  # noqa: PLC0415 - help is quick
        default_cache,
        fetch_https,
        open_validator,
    )

    if paths and collections:
        message = "--collection chooses from the catalog, not from files"
        raise click.UsageError(message)
    validator = open_validator(
        folders, fetch=fetch_https if fetch else None, cache=cache or default_cache()
    )
    report = ValidationReport()
    if paths:
        for path in paths:
            _judge_path(path, validator, report)
    else:
        _judge_catalog(invocation, collections, validator, report)
    _show(report, as_json=as_json)
    if report.valid != report.checked:
        raise click.exceptions.Exit(1)


def _judge_catalog(
    invocation: Invocation,
    collections: Sequence[str],
    validator: "StacValidator",
    report: ValidationReport,
) -> None:
    from tallgrass.bootstrap.datasets import open_catalogue  # noqa: PLC0415

    catalogue = open_catalogue(invocation.config)
    with (
        invocation.stores(read_only=True) as stores,
        progress("checking items", None) as bar,
    ):
        for _checked in judge_catalog(stores, catalogue, collections, validator, report):
            if bar is not None:
                bar.advance(bar.task_ids[0])


def _judge_path(path: Path, validator: "StacValidator", report: ValidationReport) -> None:
    from tallgrass.stac.validation import documents_in  # noqa: PLC0415

    files = sorted(_files_in(path)) if path.is_dir() else [path]
    if not files:
        # To call nothing valid would pass in every script whose export went wrong.
        message = f"{path} has no file of JSON or JSON lines: nothing was checked"
        raise click.UsageError(message)
    for file in files:
        for place, value in _values_in(file, report):
            for document in documents_in(value):
                report.count(_name(place, document), validator.judge(document))


def _files_in(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        if path.is_file() and path.suffix in {".json", ".geojson", *_LINES}:
            yield path


def _values_in(file: Path, report: ValidationReport) -> Iterator[tuple[str, Any]]:
    """Yield what a file holds; what is no JSON counts as invalid."""
    from tallgrass.stac.validation import Problem, Verdict  # noqa: PLC0415

    parts = [(str(file), file.read_bytes())] if file.suffix not in _LINES else _lines(file)
    for place, text in parts:
        try:
            value = orjson.loads(text)
        except orjson.JSONDecodeError as exc:
            problem = Problem(path="", message=f"not JSON: {exc}", rule="json")
            report.count(place, Verdict(problems=(problem,)))
            continue
        yield place, value


def _lines(file: Path) -> Iterator[tuple[str, bytes]]:
    with file.open("rb") as stream:
        for number, line in enumerate(stream, start=1):
            if line.strip():
                yield f"{file}:{number}", line


def _name(place: str, document: Any) -> str:
    named = document.get("id") if isinstance(document, dict) else None
    return f"{place} ({named})" if isinstance(named, str) else place


def _show(report: ValidationReport, *, as_json: bool) -> None:
    if as_json:
        print_json(report)
        return
    for each in report.problems:
        line = f"{each['document']} {each['path'] or '/'}: {each['message']}"
        sys.stdout.write(f"{printable(line)}\n")
    for address, number in sorted(report.missing_schemas.items()):
        line = f"schema missing: {address} ({number:,} documents could not be judged)"
        sys.stdout.write(f"{printable(line)}\n")
    if report.missing_schemas:
        sys.stdout.write("Name a folder that has them with --schemas, or add --fetch.\n")
    sys.stdout.write(
        f"{report.checked:,} documents: {report.valid:,} valid, {report.invalid:,} invalid, "
        f"{report.unchecked:,} not judged\n"
    )
