"""``tallgrass queue``: look at the configured queue, by reading only."""

from datetime import datetime

import click

from tallgrass.bootstrap.queue_report import (
    queue_document,
    queue_kind,
    queue_settings,
    queue_url,
    require_queue,
)
from tallgrass.cli.invocation import Invocation, examples, output_option, pass_invocation
from tallgrass.cli.tables import show_facts
from tallgrass.cli.text import duration, print_json
from tallgrass.clock import age_s, system_clock
from tallgrass.config import Config
from tallgrass.queues.protocol import QueueStatus


@click.group(name="queue", epilog=examples("tallgrass queue status"))
def command() -> None:
    """Look at the queue: how much waits, and for how long."""


@command.command(epilog=examples("tallgrass queue status", "tallgrass queue status --output json"))
@click.option("--queue", metavar="URL", help="The queue to look at (queue.url).")
@output_option
@pass_invocation
def status(invocation: Invocation, *, queue: str | None, as_json: bool) -> None:
    """Count what waits in the queue, what is in flight and what is dead.

    Takes nothing out of it. Ends with 4 where the queue cannot be reached or is not there.
    """
    config = invocation.use({"queue.url": queue})
    found = require_queue(config)
    if as_json:
        print_json(queue_document(config, found, system_clock()))
    else:
        _show(config, found, system_clock())


def _show(config: Config, found: QueueStatus, now: datetime) -> None:
    show_facts(
        [
            ("kind", queue_kind(config)),
            ("address", queue_url(config)),
            ("visible", found.visible),
            ("in flight", found.in_flight),
            ("dead letters", found.dead),
            ("oldest message", _oldest(found, now)),
        ],
        title=f"Queue {config.text('queue.name')}",
    )
    settings = queue_settings(config)
    show_facts([(name, str(value) or None) for name, value in settings.items()], title="Settings")


def _oldest(found: QueueStatus, now: datetime) -> str:
    age = age_s(found.oldest_sent_at, now)
    if age is not None:
        return duration(age)
    # SQS tells no age: only its metrics do.
    return "not told" if found.visible or found.in_flight else "nothing waits"
