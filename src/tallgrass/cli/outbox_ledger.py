"""``tallgrass outbox ledger``: the log of deliveries as the files that governance reads."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import click
import orjson

from tallgrass.bootstrap.retaining import delivery_ledger
from tallgrass.cli.invocation import Invocation, examples, output_option, pass_invocation
from tallgrass.cli.release_folder import (
    make_release_folder,
    one_export_at_a_time,
    release_options,
)
from tallgrass.cli.tables import say
from tallgrass.cli.text import print_json
from tallgrass.cli.whole_files import appearing_whole
from tallgrass.outbox.deliveries import LedgerEntry
from tallgrass.outbox.dispatch_rules import AttemptOutcome
from tallgrass.views.outbox import ledger_entry, telemetry_entry

#: Below the folder that is given.
LEDGER = Path("docs/reports/audit/pipeline_outbox_ledger.json")
TELEMETRY_NAME = "focus-telemetry.json"


@click.group(name="ledger", epilog=examples("tallgrass outbox ledger export --dir ."))
def ledger() -> None:
    """The log of deliveries: every attempt that ended, append-only."""


@ledger.command(epilog=examples("tallgrass outbox ledger export --dir . --release v1.2.0"))
@release_options("releases/RELEASE/focus-telemetry.json")
@output_option
@pass_invocation
def export(invocation: Invocation, *, folder: Path, release: str, as_json: bool) -> None:
    """Write the governance ledger and the telemetry of all deliveries.

    docs/reports/audit/pipeline_outbox_ledger.json is one JSON array,
    releases/RELEASE/focus-telemetry.json has one object a line. Each appears whole, in place of
    the one before, with everything that was committed when the export began. What retention moved
    to archives is read from there; one that cannot be read is an error, and leaves both files.
    """
    telemetry = make_release_folder(folder, release) / TELEMETRY_NAME
    (folder / LEDGER).parent.mkdir(parents=True, exist_ok=True)
    with (
        invocation.stores(read_only=True) as stores,
        one_export_at_a_time(folder),
        # Ended before the stores are closed, also where writing failed.
        closing(delivery_ledger(invocation.config, stores)) as entries,
    ):
        written = _write(folder / LEDGER, telemetry, entries)
    if as_json:
        files = [str(folder / LEDGER), str(telemetry)]
        print_json({"attempts": written, "files": files})
        return
    say(f"{written:,} attempts written to {folder / LEDGER}")
    say(f"and to {telemetry}")


def _write(ledger_path: Path, telemetry_path: Path, entries: Iterator[LedgerEntry]) -> int:
    """Write both files in one walk; entries pass through one by one."""
    written = 0
    with (
        appearing_whole(ledger_path, mode=0o644) as array,
        appearing_whole(telemetry_path, mode=0o644) as lines,
    ):
        array.write(b"[")
        for entry in entries:
            array.write(b",\n" if written else b"\n")
            array.write(orjson.dumps(ledger_entry(entry)))
            if entry.outcome is not AttemptOutcome.RELEASED:  # nothing was sent
                lines.write(orjson.dumps(telemetry_entry(entry), option=orjson.OPT_APPEND_NEWLINE))
            written += 1
        array.write(b"\n]\n" if written else b"]\n")
    return written
