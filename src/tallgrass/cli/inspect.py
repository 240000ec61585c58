"""``tallgrass inspect``: what the pipeline would make of a message, a key or a file."""

import sys
from pathlib import Path

import click

from tallgrass.bootstrap.datasets import open_catalogue
from tallgrass.cli.failures import ERROR
from tallgrass.cli.inspect_key import key
from tallgrass.cli.inspect_object import object_command
from tallgrass.cli.invocation import Invocation, examples, output_option, pass_invocation
from tallgrass.cli.tables import say, show_facts, show_table
from tallgrass.cli.text import print_json
from tallgrass.clock import system_clock
from tallgrass.error_codes import lookup
from tallgrass.intake.message import ParsedMessage
from tallgrass.intake.parse import parse_message
from tallgrass.intake.strict_json import BYTES_MAX
from tallgrass.views.inspection import message_document


@click.group(
    name="inspect",
    epilog=examples(
        "tallgrass inspect message body.json",
        "tallgrass inspect key s3://noaa-hrrr-bdp-pds/hrrr.20240510/conus/hrrr.t12z.wrfsfcf02.grib2",
    ),
)
def command() -> None:
    """See what the pipeline would make of a message, a key or a file.

    Needs no database and writes nothing.
    """


command.add_command(key)
command.add_command(object_command)


@command.command(
    epilog=examples(
        "tallgrass inspect message body.json",
        "aws sqs receive-message --queue-url URL | tallgrass inspect message - --output json",
    )
)
@click.argument(
    "source", metavar="FILE|-", type=click.Path(exists=True, dir_okay=False, allow_dash=True)
)
@output_option
@click.pass_context
@pass_invocation
def message(invocation: Invocation, ctx: click.Context, source: str, *, as_json: bool) -> None:
    """Say which units a notification announces, what of it is ignored, and what is wrong with it.

    Takes the body of a queue message, or what SQS, Lambda or Pub/Sub wrap around it. Signatures are
    not checked. Ends with 1 if anything could not be understood.
    """
    config = invocation.config
    found = parse_message(
        _content(source),
        message_id=None,
        sent_at=system_clock(),
        queue=config.text("queue.name"),
        catalogue=open_catalogue(config),
        providers=config.rules.providers,
    )
    if as_json:
        print_json(message_document(found))
    else:
        _show(found)
    if found.faults:
        ctx.exit(ERROR)


def _content(source: str) -> bytes:
    """Read one byte more than a message may have: the parser says what is wrong with it."""
    if source == "-":
        return sys.stdin.buffer.read(BYTES_MAX + 1)
    with Path(source).open("rb") as file:
        return file.read(BYTES_MAX + 1)


def _show(found: ParsedMessage) -> None:
    for unit in found.units:
        reference = unit.object_ref
        show_facts(
            [
                ("object", unit.object_uri),
                ("unit", unit.wal_id),
                ("starts", unit.time_range_start),
                ("ends", unit.time_range_end),
                ("announced", unit.event.event_time),
                ("size", reference.size),
                ("etag", reference.etag),
                ("sequencer", reference.sequencer),
                ("version", reference.version_id),
                ("SNS message", unit.event.sns_message_id),
                ("SQS message", unit.event.sqs_message_id),
            ],
            title=f"Unit of {unit.dataset}",
        )
    if found.ignored:
        say("Ignored", "bold")
        show_table(
            ("reason", "object"),
            [(one.reason, one.object_uri) for one in found.ignored],
            wide=("object",),
        )
    if found.faults:
        say("Not understood", "bold red")
        show_table(
            ("code", "why", "what to do"),
            [(one.code, one.message, lookup(one.code).remedy) for one in found.faults],
            wide=("why", "what to do"),
        )
