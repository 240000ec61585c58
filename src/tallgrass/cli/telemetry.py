"""``tallgrass telemetry``: the files that a release carries about how it ran."""

from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import click
import orjson

from tallgrass.bootstrap.retaining import delivery_ledger
from tallgrass.bootstrap.telemetry_files import checker, ingest_telemetry, node_telemetry
from tallgrass.cli.invocation import Invocation, examples, output_option, pass_invocation
from tallgrass.cli.release_folder import (
    make_release_folder,
    one_export_at_a_time,
    release_options,
)
from tallgrass.cli.tables import say
from tallgrass.cli.text import print_json, printable, tell
from tallgrass.cli.whole_files import appearing_whole
from tallgrass.errors import TallgrassError
from tallgrass.outbox.deliveries import LedgerEntry
from tallgrass.outbox.dispatch_rules import AttemptOutcome
from tallgrass.telemetry.files import FOCUS, NODD, RELIABILITY, SCHEMAS
from tallgrass.views.outbox import telemetry_entry


@click.group(name="telemetry", epilog=examples("tallgrass telemetry export --dir ."))
def command() -> None:
    """The files that a release carries about how it ran: export."""


@command.command(
    epilog=examples(
        "tallgrass telemetry export --dir .",
        "tallgrass telemetry export --dir . --release v1.2.0 --output json",
    )
)
@release_options("the folder releases/RELEASE")
@click.option(
    "--nodes-dir",
    metavar="FOLDER",
    help="The folder of the node runner (nodes.folder).",
)
@output_option
@pass_invocation
def export(
    invocation: Invocation, *, folder: Path, release: str, nodes_dir: str | None, as_json: bool
) -> None:
    """Write the telemetry of ingest, of the outbox and of nodes, each as its schema says.

    nodd-sns-telemetry.json is one document; focus-telemetry.json and reliability-telemetry.json
    have one object a line. Each appears whole, in place of the one before. Runs of nodes whose
    journals are damaged are left out and named.
    """
    config = invocation.use({"nodes.folder": nodes_dir})
    below = make_release_folder(folder, release)
    written: dict[str, int] = {}
    problems: dict[str, TallgrassError] = {}
    with (
        invocation.stores(read_only=True) as stores,
        one_export_at_a_time(folder),
        closing(delivery_ledger(config, stores)) as entries,
    ):
        document = ingest_telemetry(config, stores, release)
        written[NODD] = _write(below / NODD, [document], pretty=True)
        written[FOCUS] = _write(below / FOCUS, _sent(entries))
        written[RELIABILITY] = _write(below / RELIABILITY, node_telemetry(config, problems))
    _tell(below, written, problems, as_json=as_json)


def _sent(entries: Iterator[LedgerEntry]) -> Iterator[dict[str, object]]:
    for entry in entries:
        if entry.outcome is not AttemptOutcome.RELEASED:  # nothing was sent
            yield telemetry_entry(entry)


def _write(path: Path, documents: Iterable[dict[str, Any]], *, pretty: bool = False) -> int:
    """Write documents, each checked; one that is not as its schema says leaves the old file."""
    check = checker(SCHEMAS[path.name])
    style = orjson.OPT_APPEND_NEWLINE | (orjson.OPT_INDENT_2 if pretty else 0)
    written = 0
    with appearing_whole(path, mode=0o644) as file:
        for document in documents:
            check(document)
            file.write(orjson.dumps(document, option=style))
            written += 1
    return written


def _tell(
    below: Path, written: dict[str, int], problems: dict[str, TallgrassError], *, as_json: bool
) -> None:
    if as_json:
        files = [
            {"file": str(below / name), "schema": SCHEMAS[name], "documents": number}
            for name, number in written.items()
        ]
        told = {run: {"code": error.code, "message": str(error)} for run, error in problems.items()}
        print_json({"files": files, "problems": told})
        return
    for name, number in written.items():
        say(f"{number:,} written to {below / name} ({SCHEMAS[name]})")
    if problems:
        tell(f"Runs of nodes that were left out: {len(problems):,}\n")
    for run_id, error in problems.items():
        tell(printable(f"  {run_id}: {error}") + "\n")
