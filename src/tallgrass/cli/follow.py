"""``tallgrass follow``: a catalog that is kept up to date from a bucket's listing."""

import random
import re
from datetime import datetime, timedelta

import click

from tallgrass.bootstrap.datasets import open_catalogue
from tallgrass.bootstrap.follow_rounds import Following
from tallgrass.bootstrap.following import follow
from tallgrass.bootstrap.stores import open_current_stores
from tallgrass.bootstrap.telemetry import open_recorder
from tallgrass.cli.invocation import (
    FiniteRange,
    Invocation,
    examples,
    output_option,
    pass_invocation,
)
from tallgrass.cli.listing_options import bucket_option, prefix_option
from tallgrass.cli.metrics_option import metrics_port_option
from tallgrass.cli.stopping import told_to_stop
from tallgrass.cli.tables import say, show_facts
from tallgrass.cli.text import print_json, printable, tell
from tallgrass.clock import format_instant, system_clock
from tallgrass.config import Config
from tallgrass.errors import InvalidInput, TransientError
from tallgrass.inventory.backfill import OUTSIDE_TIME
from tallgrass.inventory.following import (
    LOOK_BACK,
    FollowedBucket,
    FollowReport,
    FollowRequest,
    FollowUntil,
)
from tallgrass.views.times import time_or_date

_AGO = re.compile(r"now-([0-9]{1,5})([smhd])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
#: It ended by itself, but some buckets could not be listed.
_INCOMPLETE = 1


@click.command(
    name="follow",
    epilog=examples(
        "tallgrass follow --dataset goes-glm",
        "tallgrass follow --dataset goes-glm --bucket noaa-goes19 --since now-6h",
        "tallgrass follow --dataset goes-glm --since 2026-06-01 --until-idle",
        "tallgrass follow --dataset goes-glm --since now-6h --dry-run",
    ),
)
@click.option(
    "--dataset",
    required=True,
    metavar="ID",
    help="The dataset that is listed; the work is on all that is due.",
)
@click.option(
    "--since",
    metavar="TIME",
    help="Begin with data, or model runs, of this time, date, or so long ago: now-90m, now-6h, "
    "now-2d. Without it, as far back as listings look.",
)
@prefix_option
@bucket_option
@click.option(
    "--every",
    type=FiniteRange(0.1, 86_400),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="Seconds from one listing to the next.",
)
@click.option("--store", metavar="URL", help="Ledger and catalog (database.url).")
@click.option(
    "--objects",
    metavar="URL",
    help="file:FOLDER or cloud (objects.url); without either, the public buckets in the cloud.",
)
@click.option("--once", is_flag=True, help="End after one listing and the work that is due then.")
@click.option(
    "--until-idle", is_flag=True, help="End when a listing brings nothing new and nothing is due."
)
@click.option(
    "--max-events",
    type=click.IntRange(1),
    metavar="N",
    help="End when N units were made due and worked on.",
)
@click.option(
    "--rate",
    type=FiniteRange(0.001),
    metavar="N",
    help="Make at most N units a second due, and work on them as they come.",
)
@click.option(
    "--dry-run", is_flag=True, help="List once, only tell what would be recorded, write nothing."
)
@metrics_port_option
@output_option
@pass_invocation
def command(  # noqa: PLR0913 - one parameter an option
    invocation: Invocation,
    *,
    dataset: str,
    since: str | None,
    prefix: str,
    buckets: tuple[str, ...],
    every: float,
    store: str | None,
    objects: str | None,
    once: bool,
    until_idle: bool,
    max_events: int | None,
    rate: float | None,
    dry_run: bool,
    metrics_port: int | None,
    as_json: bool,
) -> None:
    """Keep a catalog up to date from listings: no account, no queue.

    Lists the folders of the time that is wanted, records what is new and works on it, again and
    again, until it is told to stop by Ctrl-C or SIGTERM. Listings look back one hour, three times
    the dataset's cadence, or as far as --since now-… says, whichever is longer; what comes later
    than that is a backfill's. It works on whatever is due, of other datasets too, as every worker.

    A bucket that cannot be listed is told once and asked again by and by; the others go on. Where
    following ends by itself, it ends with 1 if some buckets could not be listed, with 4 if none.
    """
    if once and until_idle:
        message = "--once or --until-idle, not both"
        raise click.UsageError(message)
    # It lists the provider's own buckets unless somebody says otherwise.
    invocation.defaults = {"objects.url": "cloud"}
    config = invocation.use({"database.url": store, "objects.url": objects})
    start, look_back = (None, LOOK_BACK) if since is None else _since(since, system_clock())
    until = FollowUntil.ONCE if once else FollowUntil.IDLE if until_idle else FollowUntil.STOPPED
    request = FollowRequest(
        dataset=dataset,
        since=start,
        look_back=look_back,
        prefix=prefix,
        buckets=buckets,
        every_s=every,
        until=until,
        max_events=max_events,
        rate=rate,
        dry_run=dry_run,
    )
    report, is_stopped = _followed(config, request, metrics_port)
    if as_json:
        print_json({"dataset": dataset, "dry_run": dry_run, **report.document()})
    else:
        _show(report, dry_run=dry_run)
    if not is_stopped:
        _end(report)


def _followed(
    config: Config, request: FollowRequest, metrics_port: int | None
) -> tuple[FollowReport, bool]:
    """Follow to the end; return what it came to, and whether it was told to stop."""
    # A database that cannot be used is told before any bucket is asked.
    open_current_stores(config, read_only=True).close()
    telling = _Telling()
    with (
        told_to_stop() as stop,
        open_recorder(
            config, None, command="follow", metrics_port=metrics_port, served=telling.served
        ) as recorder,
    ):
        outside = Following(
            stop=stop.is_set,
            progress=telling.progress,
            waiting=telling.waiting,
            down=telling.down,
            back=telling.back,
            sleep=stop.wait,
            random=random.random,
        )
        report = follow(config, open_catalogue(config), request, outside, recorder=recorder)
    return report, stop.is_set()


def _end(report: FollowReport) -> None:
    """Say by the exit code that buckets could not be listed."""
    errors = [bucket.error for bucket in report.down if bucket.error is not None]
    if errors and len(errors) == len(report.buckets):
        raise errors[0]
    if errors:
        raise click.exceptions.Exit(_INCOMPLETE)


class _Telling:
    """Writes a line to stderr for each listing that brought something, and for each outage."""

    def __init__(self) -> None:
        self._last = 0
        self._waited_for = ""

    def progress(self, report: FollowReport) -> None:
        """Tell what is new since the last line."""
        self._waited_for = ""
        done = report.due + report.worked_on
        if done != self._last:
            self._last = done
            self._say(
                f"listed {report.listed:,}, recorded {report.recorded:,},"
                f" overwritten {report.changed:,}, worked on {report.worked_on:,}"
            )

    def served(self, url: str) -> None:
        """Tell where Prometheus is answered."""
        self._say(f"metrics: {url}")

    def waiting(self, error: TransientError) -> None:
        """Tell once what is down."""
        if error.code != self._waited_for:
            self._waited_for = error.code
            self._say(f"waiting: {error} ({error.code})")

    def down(self, bucket: FollowedBucket) -> None:
        """Tell that a bucket cannot be listed."""
        if bucket.error is not None:
            self._say(f"not listed: {bucket.error} ({bucket.error.code}); it is asked again")

    def back(self, bucket: FollowedBucket) -> None:
        """Tell that it can be listed again."""
        self._say(f"listed again: {bucket.uri}")

    def _say(self, text: str) -> None:
        tell(f"{format_instant(system_clock())} {printable(text)}\n")


def _since(text: str, now: datetime) -> tuple[datetime, timedelta]:
    """Return where to begin, and how far later listings look back."""
    match = _AGO.fullmatch(text.strip())
    if match is None:
        given = time_or_date(text)
        assert given is not None  # noqa: S101 - there is a text
        return given, LOOK_BACK
    ago = timedelta(**{_UNITS[match[2]]: int(match[1])})
    try:
        return now - ago, max(ago, LOOK_BACK)
    except OverflowError as exc:
        raise InvalidInput(f"{text} is before all calendars", code="invalid_time") from exc


def _show(report: FollowReport, *, dry_run: bool) -> None:
    say(f"What following {'would do' if dry_run else 'did'}", "bold")
    waited = report.waited_for_message
    show_facts(
        [
            ("listings", report.rounds),
            ("objects listed", report.listed),
            ("new", report.recorded),
            ("overwritten", report.changed),
            *([("waited for a message", waited)] if waited else []),
            ("units worked on", report.worked_on),
            ("outside time", report.passed[OUTSIDE_TIME]),
            *(("not listed", _down(bucket)) for bucket in report.down),
        ]
    )
    if report.capped:
        say("--max-events is reached: run it again for the rest")


def _down(bucket: FollowedBucket) -> str:
    since = (
        "" if bucket.down_since is None else f", since {format_instant(bucket.down_since)[:19]}Z"
    )
    code = "" if bucket.error is None else bucket.error.code
    return printable(f"{bucket.uri}: {code}{since}")
