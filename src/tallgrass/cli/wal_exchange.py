"""``tallgrass wal export`` and ``wal import``: a ledger as JSON Lines, whole or not at all."""

import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO

import click

from tallgrass.bootstrap.stores import Stores, export_ledger, import_ledger
from tallgrass.cli.identity import acting, actor_option, require_somebody
from tallgrass.cli.invocation import Invocation, examples, output_option, pass_invocation
from tallgrass.cli.tables import progress, say
from tallgrass.cli.text import json_bytes, print_json
from tallgrass.cli.whole_files import appearing_whole

STDIO = "-"

_RECORD = b'{"record":'


@dataclass(slots=True)
class Written:
    """What an export wrote."""

    file: str
    records: int = 0
    lines: int = 0
    size: int = 0
    #: Of all lines before the last, which repeats it.
    sha256: str = ""

    def count(self, line: bytes) -> None:
        """Count one line; the last one brings the hash."""
        self.records += line.startswith(_RECORD)
        self.lines += 1
        self.size += len(line)
        if line.startswith(b'{"end":'):
            self.sha256 = json.loads(line)["end"]["sha256"]


@click.command(
    epilog=examples(
        "tallgrass wal export --file ledger.jsonl", "tallgrass wal export | gzip > l.gz"
    )
)
@click.option(
    "--file",
    "target",
    default=STDIO,
    metavar="FILE|-",
    help="Where to; it appears whole or not at all. Default: standard output.",
)
@output_option
@pass_invocation
def export(invocation: Invocation, *, target: str, as_json: bool) -> None:
    """Write all records with their attempts, transitions and notes."""
    written = Written(file=target)
    with invocation.stores(read_only=True) as stores:
        place = nullcontext(sys.stdout.buffer) if target == STDIO else appearing_whole(Path(target))
        with place as file:
            for line in _counted(stores, written):
                file.write(line)
            file.flush()
    _report(written, as_json=as_json)


@click.command(
    name="import",
    epilog=examples(
        "tallgrass wal import ledger.jsonl --actor j.doe",
        "zcat l.gz | tallgrass wal import - --actor j.doe",
    ),
)
@click.argument(
    "source", metavar="FILE|-", type=click.Path(exists=True, dir_okay=False, allow_dash=True)
)
@actor_option
@output_option
@pass_invocation
def import_(invocation: Invocation, *, source: str, actor: str | None, as_json: bool) -> None:
    """Bring in an export: all of it, or nothing. Ids, versions and history stay as they were."""
    require_somebody(actor)
    name = "stdin" if source == STDIO else Path(source).name
    with _readable_twice(source) as file, invocation.stores(read_only=False) as stores:
        by = acting(stores, actor, action="import")
        done = import_ledger(stores, invocation.config, file, actor=by, source=name)
    if as_json:
        print_json({"source": name, **asdict(done)})
        return
    say(f"{done.records:,} records imported, {done.already_there:,} were there already.")
    if done.notes:
        say(f"{done.notes:,} notes were added to these.")


def _counted(stores: Stores, written: Written) -> Iterator[bytes]:
    """Yield the export, counted, with a bar where somebody looks."""
    if not sys.stderr.isatty():
        for line in export_ledger(stores):
            written.count(line)
            yield line
        return
    found = stores.reader.stats()
    total = sum(sum(counts.values()) for counts in found.by_dataset.values())
    with progress("exporting records", total) as bar:
        for line in export_ledger(stores):
            written.count(line)
            if bar is not None and line.startswith(_RECORD):
                bar.advance(bar.task_ids[0])
            yield line


@contextmanager
def _readable_twice(source: str) -> Iterator[BinaryIO]:
    """Open a file; a pipe is spooled, since an import is read once to check and once to write."""
    if source != STDIO:
        with Path(source).open("rb") as file:
            if file.seekable():
                yield file
                return
            with _spooled(file) as copy:
                yield copy
        return
    with _spooled(sys.stdin.buffer) as copy:
        yield copy


@contextmanager
def _spooled(stream: BinaryIO) -> Iterator[BinaryIO]:
    with tempfile.TemporaryFile() as copy:
        shutil.copyfileobj(stream, copy)
        copy.seek(0)
        yield copy


def _report(written: Written, *, as_json: bool) -> None:
    """Say what was written: on stdout, unless the export itself went there."""
    stream = sys.stderr if written.file == STDIO else sys.stdout
    if as_json:
        stream.write(json_bytes(written).decode())
    else:
        size = f"{written.records:,} records, {written.lines:,} lines, {written.size:,} bytes"
        stream.write(f"{written.file}: {size}\n" if written.file != STDIO else f"{size}\n")
