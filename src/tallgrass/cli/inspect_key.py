"""``tallgrass inspect key``: what the pipeline reads in an object's key."""

import sys
from collections.abc import Iterable, Iterator
from typing import BinaryIO

import click

from tallgrass.bootstrap.datasets import open_catalogue
from tallgrass.cli.failures import ERROR
from tallgrass.cli.invocation import Invocation, examples, json_output_option, pass_invocation
from tallgrass.cli.tables import show_facts
from tallgrass.cli.text import json_bytes, json_line, printable
from tallgrass.datasets.key_report import KeyReport
from tallgrass.errors import InvalidInput
from tallgrass.views.inspection import KeyFault, inspect_key

#: A longer line is no address: a key has at most 1,024 bytes.
LINE_BYTES_MAX = 8192


@click.command(
    name="key",
    epilog=examples(
        "tallgrass inspect key s3://unidata-nexrad-level2/2025/01/01/KDMX/KDMX20250101_225441_V06",
        "tallgrass inspect key - < keys.txt | jq -r 'select(.ignored == null) | .item_id'",
    ),
)
@click.argument("addresses", metavar="URI…|-", nargs=-1, required=True)
@json_output_option
@click.pass_context
@pass_invocation
def key(
    invocation: Invocation, ctx: click.Context, addresses: tuple[str, ...], *, as_json: bool
) -> None:
    """Say what a key tells: dataset, times, item and unit, or why it is passed over.

    A key is given with its bucket: s3://BUCKET/KEY, gs://BUCKET/KEY, az://ACCOUNT.CONTAINER/KEY,
    as the store knows it, not URL-encoded. Several, or one a line from the standard input (-), are
    answered in order, one JSON document a line; empty lines are passed over. One that cannot be
    read is answered with an `error`, and with its `dataset` where one claims it; then it ends
    with 1.
    """
    if "-" in addresses and len(addresses) > 1:
        raise click.UsageError("- reads keys from the standard input and stands alone.")
    streamed = addresses == ("-",)
    lines = _lines(sys.stdin.buffer) if streamed else iter(addresses)
    catalogue, providers = open_catalogue(invocation.config), invocation.config.rules.providers
    answers = (inspect_key(catalogue, line, providers) for line in lines)
    if as_json:
        faults = _print(answers, one=len(addresses) == 1 and not streamed)
    else:
        faults = _show(answers)
    if faults:
        ctx.exit(ERROR)


def _lines(stream: BinaryIO) -> Iterator[str | InvalidInput]:
    """Yield the lines, each as soon as it is there; empty ones are none."""
    while line := stream.readline(LINE_BYTES_MAX):
        if len(line) == LINE_BYTES_MAX and not line.endswith(b"\n"):
            yield _refusal(f"a line of more than {LINE_BYTES_MAX} bytes: {line[:80]!r}…")
            while line and not line.endswith(b"\n"):
                line = stream.readline(LINE_BYTES_MAX)
            continue
        try:
            text = line.decode().rstrip("\r\n")
        except UnicodeDecodeError:
            yield _refusal(f"not UTF-8: {line[:80]!r}")
            continue
        if text:
            yield text


def _refusal(text: str) -> InvalidInput:
    return InvalidInput(text, code="invalid_object_uri")


def _print(answers: Iterable[KeyReport | KeyFault], *, one: bool) -> int:
    """Print each answer as soon as it is there; return how many are faults."""
    faults = 0
    for answer in answers:
        faults += isinstance(answer, KeyFault)
        sys.stdout.write((json_bytes if one else json_line)(answer).decode())
        sys.stdout.flush()
    return faults


def _show(answers: Iterable[KeyReport | KeyFault]) -> int:
    faults = 0
    for answer in answers:
        if isinstance(answer, KeyFault):
            faults += 1
            title = printable(answer.key or "a line that is no address")
            show_facts(answer.error.items(), title=title)
            continue
        show_facts(
            [
                ("dataset", answer.dataset),
                ("provider", answer.provider),
                ("ignored", answer.ignored),
                ("starts", answer.time_range_start),
                ("ends", answer.time_range_end),
                ("run", answer.reference_time),
                ("valid", answer.valid_time),
                ("item", answer.item_id),
                ("unit", answer.wal_id),
            ],
            title=printable(answer.object_uri),
        )
    return faults
