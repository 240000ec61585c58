"""``tallgrass queue``: look at the configured queue, by reading only."""

from datetime import datetime

import click

from tallgrass.bootstrap.queues import read_queue_status
from tallgrass.cli.invocation import Invocation, examples, output_option, pass_invocation
from tallgrass.cli.text import duration, hide_credentials, print_json
from tallgrass.clock import system_clock
from tallgrass.config import Config
from tallgrass.errors import QueueMissing
from tallgrass.queues.protocol import QueueStatus

#: Settings that say how this queue is used, by its kind.
_SETTINGS = {
    "embedded": ("visibility_s", "max_receive_count", "signatures", "topics"),
    "sqs": ("endpoint_url", "wait_s", "receivers", "visibility_s", "signatures", "topics"),
}


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
    found = read_queue_status(config)
    if found is None:
        message = f"queue {config.text('queue.name')}: nothing is at {_url(config)}"
        raise QueueMissing(message)
    if as_json:
        print_json(_document(config, found, system_clock()))
    else:
        _show(config, found, system_clock())


def _kind(config: Config) -> str:
    return "embedded" if config.text("queue.url").startswith("sqlite:") else "sqs"


def _url(config: Config) -> str:
    return hide_credentials(config.text("queue.url"))


def _settings(config: Config) -> dict[str, object]:
    return {name: config.values[f"queue.{name}"] for name in _SETTINGS[_kind(config)]}


def _document(config: Config, found: QueueStatus, now: datetime) -> dict[str, object]:
    return {
        "name": config.text("queue.name"),
        "kind": _kind(config),
        "url": _url(config),
        "visible": found.visible,
        "in_flight": found.in_flight,
        "dead": found.dead,
        "oldest_sent_at": found.oldest_sent_at,
        "oldest_age_s": _age_s(found.oldest_sent_at, now),
        "settings": _settings(config),
    }


def _age_s(since: datetime | None, now: datetime) -> float | None:
    """Return the seconds since then; clocks may differ a little, so never below zero."""
    return None if since is None else max(0.0, round((now - since).total_seconds(), 3))


def _show(config: Config, found: QueueStatus, now: datetime) -> None:
    from tallgrass.cli.tables import show_facts  # noqa: PLC0415 - rich is for tables only

    show_facts(
        [
            ("kind", _kind(config)),
            ("address", _url(config)),
            ("visible", found.visible),
            ("in flight", found.in_flight),
            ("dead letters", found.dead),
            ("oldest message", _oldest(found, now)),
        ],
        title=f"Queue {config.text('queue.name')}",
    )
    settings = _settings(config)
    show_facts([(name, str(value) or None) for name, value in settings.items()], title="Settings")


def _oldest(found: QueueStatus, now: datetime) -> str:
    age_s = _age_s(found.oldest_sent_at, now)
    if age_s is not None:
        return duration(age_s)
    # SQS tells no age: only its metrics do.
    return "not told" if found.visible or found.in_flight else "nothing waits"
