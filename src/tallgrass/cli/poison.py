"""``tallgrass poison``: messages that could not be understood. List, show, feed them again."""

import click

from tallgrass.bootstrap.feeding import FeedReport, FeedRequest, feed_poison
from tallgrass.cli.identity import acting, actor_option, require_somebody
from tallgrass.cli.invocation import (
    NUMBER_MAX,
    Invocation,
    examples,
    numbered_page_options,
    output_option,
    pass_invocation,
)
from tallgrass.cli.poison_view import show_body, show_feeding, show_message, show_page
from tallgrass.cli.text import print_json
from tallgrass.errors import Refused, TallgrassError
from tallgrass.intake.poison import PoisonState
from tallgrass.poison_feeding import select_named
from tallgrass.views.poison import body_document, poison_document, poison_filter, require_code

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
@numbered_page_options("Messages")
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
    wanted = poison_filter(
        queue=queue,
        code=code,
        since=since,
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
    require_code(code)
    if not dry_run and not (reason or "").strip():
        message = "--reason is needed: it is kept in the audit log"
        raise click.UsageError(message)
    if not dry_run:
        require_somebody(actor)
    report = FeedReport(dry_run=dry_run)
    wanted = FeedRequest(poison_ids=poison_ids, code=code, reason=reason or "", force=force)
    with invocation.stores(read_only=dry_run) as stores:
        by = None if dry_run else acting(stores, actor, action="poison_feed")
        done = feed_poison(invocation.config, stores, wanted, by=by)
        try:
            for candidate in done:
                report.add(candidate)
        except TallgrassError:
            # What was fed before is told: only the rest is to be fed again.
            if report.details:
                _tell(report, as_json=as_json)
            raise
    _tell(report, as_json=as_json)
    if poison_ids and report.left_out and not dry_run:
        number = report.left_out.total()
        message = f"{number} of {number + report.fed} messages were not fed"
        raise Refused(message, code="poison_not_fed")


def _tell(report: FeedReport, *, as_json: bool) -> None:
    if not as_json:
        show_feeding(
            report.details,
            dry_run=report.dry_run,
            fed=report.fed,
            left_out=report.left_out,
            untold=report.untold,
        )
        return
    print_json(report.document())


def _require_one_choice(poison_ids: tuple[int, ...], code: str | None, *, everything: bool) -> None:
    if [bool(poison_ids), code is not None, everything].count(True) != 1:
        message = "say which messages: their numbers, or --code CODE, or --all"
        raise click.UsageError(message)
