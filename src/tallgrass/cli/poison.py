"""``tallgrass poison``: messages that could not be understood. List, show, feed them again."""

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field

import click

from tallgrass.bootstrap.queues import open_queue
from tallgrass.bootstrap.stores import Stores
from tallgrass.bootstrap.workers import open_feeder
from tallgrass.cli.identity import acting, actor_option, require_somebody
from tallgrass.cli.invocation import (
    NUMBER_MAX,
    Invocation,
    examples,
    output_option,
    page_options,
    pass_invocation,
)
from tallgrass.cli.poison_view import (
    body_document,
    candidate_document,
    poison_document,
    show_body,
    show_feeding,
    show_message,
    show_page,
)
from tallgrass.cli.text import print_json
from tallgrass.error_codes import nearest, registry
from tallgrass.errors import InvalidInput, Refused, TallgrassError
from tallgrass.governance.actors import Acting
from tallgrass.intake.poison import PoisonFilter, PoisonState, StoredPoison
from tallgrass.poison_feeding import Candidate, select_named, select_waiting
from tallgrass.views.times import time_or_date

#: Messages of which a feeding tells more than their number.
DETAILS_MAX = 1000

_poison_id = click.IntRange(1, NUMBER_MAX)


@click.group(
    name="poison",
    epilog=examples(
        "tallgrass poison list --code unroutable", "tallgrass poison feed --all --dry-run"
    ),
)
def command() -> None:
    """Messages that could not be understood: list, show, feed again."""


@command.command(
    name="list",
    epilog=examples(
        "tallgrass poison list --state open",
        "tallgrass poison list --code unroutable --since 2026-06-01 --output json",
    ),
)
@click.option("--queue", metavar="NAME", help="Only what came from this queue (queue.name).")
@click.option("--code", metavar="CODE", help="Only messages with this error code.")
@click.option("--since", metavar="TIME", help="Last seen at or after this time or date.")
@click.option(
    "--state",
    type=click.Choice([state.value for state in PoisonState]),
    help="Only open messages, those whose feeding was begun and not confirmed, or those fed.",
)
@page_options("Messages")
@output_option
@pass_invocation
def list_messages(
    invocation: Invocation,
    *,
    queue: str | None,
    code: str | None,
    since: str | None,
    state: str | None,
    limit: int,
    after: int,
    as_json: bool,
) -> None:
    """List poison messages, oldest first. All filters hold together."""
    _require_code(code)
    wanted = PoisonFilter(
        queue=queue,
        error_code=code,
        since=time_or_date(since),
        state=None if state is None else PoisonState(state),
    )
    with invocation.stores(read_only=True) as stores:
        found = stores.poison.page(wanted, after=after, size=limit + 1)
    messages, more = found[:limit], len(found) > limit
    next_cursor = messages[-1].poison_id if more else None
    if as_json:
        documents = [poison_document(message) for message in messages]
        print_json({"messages": documents, "next_cursor": next_cursor})
    else:
        show_page(messages, next_cursor)


@command.command(epilog=examples("tallgrass poison show 7 --body"))
@click.argument("poison_id", metavar="ID", type=_poison_id)
@click.option("--body", "with_body", is_flag=True, help="Show the body too.")
@output_option
@pass_invocation
def show(invocation: Invocation, *, poison_id: int, with_body: bool, as_json: bool) -> None:
    """Show one message: its error, how often it came, whether it was fed, and its body.

    The body is shown so that it cannot steer the terminal; one that is no text, as hexadecimal
    (base64 in JSON).
    """
    with invocation.stores(read_only=True) as stores:
        (message,) = select_named(stores.poison, [poison_id])
        body = stores.poison.bodies([poison_id])[poison_id] if with_body else None
    if as_json:
        shown = {} if body is None else {"body": body_document(message, body)}
        print_json({**poison_document(message), **shown})
        return
    show_message(message)
    if body is not None:
        show_body(message, body)


@dataclass(slots=True)
class Report:
    """What a feeding did, added up."""

    dry_run: bool
    fed: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    #: The first of them, to be told one by one.
    details: list[Candidate] = field(default_factory=list)

    def add(self, candidate: Candidate) -> None:
        """Count one message."""
        if candidate.left_out is None:
            self.fed += 1
        else:
            self.left_out[candidate.left_out.value] += 1
        if len(self.details) < DETAILS_MAX:
            self.details.append(candidate)

    @property
    def untold(self) -> int:
        """How many messages are counted only."""
        return self.fed + self.left_out.total() - len(self.details)


@command.command(
    epilog=examples(
        "tallgrass poison feed --all --dry-run",
        "tallgrass poison feed 7 8 --actor j.doe --reason 'the dataset is there now'",
        "tallgrass poison feed --code unroutable --actor j.doe --reason CHG-2041",
    )
)
@click.argument("poison_ids", metavar="[ID]...", type=_poison_id, nargs=-1)
@click.option("--code", metavar="CODE", help="All messages with this error code.")
@click.option("--all", "everything", is_flag=True, help="All messages that were not fed yet.")
@actor_option
@click.option("--reason", help="Why; kept in the audit log. Needed unless --dry-run.")
@click.option("--dry-run", is_flag=True, help="Only tell what each message would give now.")
@click.option(
    "--force",
    is_flag=True,
    help="Also what is not understood, was fed already, or came from another queue.",
)
@output_option
@pass_invocation
def feed(  # noqa: PLR0913 - one an option
    invocation: Invocation,
    *,
    poison_ids: tuple[int, ...],
    code: str | None,
    everything: bool,
    actor: str | None,
    reason: str | None,
    dry_run: bool,
    force: bool,
    as_json: bool,
) -> None:
    """Put messages into the configured queue again, once they are understood.

    Each is read again first, with the datasets and settings of now. One that is still not
    understood is left out; one whose body was cut cannot be fed. The stored message stays, marked
    as fed; if it comes again as poison it is open again.
    """
    _require_one_choice(poison_ids, code, everything=everything)
    _require_code(code)
    if not dry_run and not (reason or "").strip():
        message = "--reason is needed: it is kept in the audit log"
        raise click.UsageError(message)
    if not dry_run:
        require_somebody(actor)
    report = Report(dry_run=dry_run)
    with invocation.stores(read_only=dry_run) as stores:
        by = "" if dry_run else acting(stores, actor, action="poison_feed")
        chosen: Iterable[StoredPoison] = (
            select_named(stores.poison, poison_ids)
            if poison_ids
            else select_waiting(stores.poison, code)
        )
        done = (
            open_feeder(invocation.config, stores).consider(chosen, force=force)
            if dry_run
            else _fed(invocation, stores, chosen, by, reason, force=force, named=bool(poison_ids))
        )
        try:
            for candidate in done:
                report.add(candidate)
        except TallgrassError:
            # What was fed before is told: only the rest is to be fed again.
            _tell(report, as_json=as_json)
            raise
    _tell(report, as_json=as_json)
    if poison_ids and report.left_out and not dry_run:
        number = report.left_out.total()
        message = f"{number} of {number + report.fed} messages were not fed"
        raise Refused(message, code="poison_not_fed")


def _fed(
    invocation: Invocation,
    stores: Stores,
    chosen: Iterable[StoredPoison],
    by: Acting,
    reason: str | None,
    *,
    force: bool,
    named: bool,
) -> Iterator[Candidate]:
    feeder = open_feeder(invocation.config, stores)
    with closing(open_queue(invocation.config)) as queue:
        yield from feeder.feed(
            chosen, queue, actor=by, reason=reason or "", force=force, named=named
        )


def _tell(report: Report, *, as_json: bool) -> None:
    if not as_json:
        show_feeding(
            report.details,
            dry_run=report.dry_run,
            fed=report.fed,
            left_out=report.left_out,
            untold=report.untold,
        )
        return
    print_json(
        {
            "dry_run": report.dry_run,
            "fed": 0 if report.dry_run else report.fed,
            "would_feed": report.fed if report.dry_run else 0,
            "left_out": dict(sorted(report.left_out.items())),
            "messages": [candidate_document(candidate) for candidate in report.details],
            "untold": report.untold,
        }
    )


def _require_one_choice(poison_ids: tuple[int, ...], code: str | None, *, everything: bool) -> None:
    if [bool(poison_ids), code is not None, everything].count(True) != 1:
        message = "say which messages: their numbers, or --code CODE, or --all"
        raise click.UsageError(message)


def _require_code(code: str | None) -> None:
    if code is not None and code not in registry():
        message = f"no message can have the code {code!r}{nearest(code)}"
        raise InvalidInput(message, code="unknown_code")
