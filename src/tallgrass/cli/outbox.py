"""``tallgrass outbox``: deliver events, and see how far each has come."""

import click

from tallgrass.bootstrap.outbox import dispatch
from tallgrass.bootstrap.outbox_status import (
    RequeueRequest,
    delivery_document,
    delivery_filter,
    event_id,
    find_delivery,
    read_outbox_status,
    refuse_left_out,
    require_code,
    require_target,
    status_document,
    whole_document,
)
from tallgrass.bootstrap.outbox_status import requeue as send_again
from tallgrass.bootstrap.telemetry import open_recorder
from tallgrass.cli.identity import acting, actor_option, require_somebody
from tallgrass.cli.invocation import (
    Invocation,
    examples,
    output_option,
    page_options,
    pass_invocation,
)
from tallgrass.cli.metrics_option import metrics_port_option
from tallgrass.cli.outbox_ledger import ledger
from tallgrass.cli.outbox_view import (
    dispatch_document,
    show_delivery,
    show_page,
    show_requeued,
    show_result,
    show_status,
)
from tallgrass.cli.stopping import told_to_stop
from tallgrass.cli.text import log_line, print_json
from tallgrass.clock import system_clock
from tallgrass.outbox.dispatch_loop import DispatchUntil
from tallgrass.outbox.dispatch_rules import DeliveryState


@click.group(
    name="outbox",
    epilog=examples("tallgrass outbox dispatch --drain", "tallgrass outbox status"),
)
def command() -> None:
    """Events on their way out: dispatch, status, list, show, requeue, ledger."""


command.add_command(ledger)


@command.command(
    name="dispatch",
    epilog=examples("tallgrass outbox dispatch", "tallgrass outbox dispatch --target lake --drain"),
)
@click.option("--target", "targets", multiple=True, metavar="NAME", help="Only this target.")
@click.option("--once", is_flag=True, help="End after one batch of each target.")
@click.option("--drain", is_flag=True, help="End when nothing is due now.")
@metrics_port_option
@output_option
@pass_invocation
def dispatch_events(
    invocation: Invocation,
    *,
    targets: tuple[str, ...],
    once: bool,
    drain: bool,
    metrics_port: int | None,
    as_json: bool,
) -> None:
    """Deliver events to their targets.

    Runs until it is told to stop: by Ctrl-C or SIGTERM it finishes what it is sending, gives back
    the rest and reports what is undelivered. Any number of dispatchers may run at the same time.
    """
    if once and drain:
        message = "--once or --drain, not both"
        raise click.UsageError(message)
    until = DispatchUntil.STOPPED
    if once or drain:
        until = DispatchUntil.ONCE if once else DispatchUntil.DRAINED
    config = invocation.config
    with (
        told_to_stop() as stop,
        open_recorder(
            config, log_line, command="outbox dispatch", metrics_port=metrics_port
        ) as recorder,
    ):
        result = dispatch(config, targets=targets, until=until, stop=stop.is_set, recorder=recorder)
    if as_json:
        print_json(dispatch_document(result))
    else:
        show_result(result)


@command.command(
    epilog=examples("tallgrass outbox status", "tallgrass outbox status --output json")
)
@output_option
@pass_invocation
def status(invocation: Invocation, *, as_json: bool) -> None:
    """Count the events of each target by where they stand; tell the age of the oldest.

    What keeps events is told too: a target that is down, and on a target that keeps order an
    exhausted event that holds back those behind it, or an older transaction that is still open.
    """
    with invocation.stores(read_only=True) as stores:
        found = read_outbox_status(invocation.config, stores, now=system_clock())
    if as_json:
        print_json(status_document(found))
    else:
        show_status(found)


@command.command(
    name="list",
    epilog=examples(
        "tallgrass outbox list --state exhausted",
        "tallgrass outbox list --target lake --dataset goes-glm --output json",
    ),
)
@click.option("--target", metavar="NAME", help="Only events for this target.")
@click.option("--dataset", metavar="ID", help="Only events of this dataset.")
@click.option("--event", "event_name", metavar="NAME", help="Only events of this name.")
@click.option("--code", metavar="CODE", help="Only those whose last failure had this code.")
@click.option(
    "--state",
    type=click.Choice([state.value for state in DeliveryState]),
    help="Only those that stand there.",
)
@page_options("Events")
@output_option
@pass_invocation
def list_deliveries(  # noqa: PLR0913 - one an option
    invocation: Invocation,
    *,
    target: str | None,
    dataset: str | None,
    event_name: str | None,
    code: str | None,
    state: str | None,
    limit: int,
    after: str | None,
    as_json: bool,
) -> None:
    """List events with how far each has come, by their ids. All filters hold together."""
    wanted = delivery_filter(
        target=target,
        dataset=dataset,
        event_name=event_name,
        code=code,
        state=None if state is None else DeliveryState(state),
    )
    cursor = None if after is None else event_id(after)
    with invocation.stores(read_only=True) as stores:
        page = stores.deliveries.page(wanted, after=cursor, size=limit)
        if target is not None and not page.deliveries:
            require_target(invocation.config, stores, target)
    if as_json:
        events = [delivery_document(one) for one in page.deliveries]
        print_json({"events": events, "next_cursor": page.next_cursor})
    else:
        show_page(page.deliveries, page.next_cursor)


@command.command(epilog=examples("tallgrass outbox show 0190c7e8-5f4e-7cc1-9d7e-3f0a5b1c2d3e"))
@click.argument("outbox_id", metavar="ID")
@output_option
@pass_invocation
def show(invocation: Invocation, *, outbox_id: str, as_json: bool) -> None:
    """Show one event: its fields and payload, how far it has come, and every attempt."""
    with invocation.stores(read_only=True) as stores:
        whole = find_delivery(stores, outbox_id)
    if as_json:
        print_json(whole_document(whole))
    else:
        show_delivery(whole)


@command.command(
    epilog=examples(
        "tallgrass outbox requeue 0190c7e8-5f4e-7cc1-9d7e-3f0a5b1c2d3e --actor j.doe "
        "--reason 'the target is mended'",
        "tallgrass outbox requeue --target lake --code sink_refused --actor j.doe "
        "--reason CHG-2041",
    )
)
@click.argument("outbox_ids", metavar="[ID]...", nargs=-1)
@click.option("--target", metavar="NAME", help="All exhausted events of this target.")
@click.option("--code", metavar="CODE", help="All exhausted events with this error code.")
@click.option("--all", "everything", is_flag=True, help="All exhausted events.")
@actor_option
@click.option("--reason", required=True, help="Why; kept in the audit log.")
@output_option
@pass_invocation
def requeue(
    invocation: Invocation,
    *,
    outbox_ids: tuple[str, ...],
    target: str | None,
    code: str | None,
    everything: bool,
    actor: str | None,
    reason: str,
    as_json: bool,
) -> None:
    """Send exhausted events again, with all their attempts anew.

    Only what is exhausted: everything else is sent by itself, or has been.
    """
    by_filter = target is not None or code is not None
    if [bool(outbox_ids), by_filter, everything].count(True) != 1:
        message = "say which events: their ids, or --target and --code, or --all"
        raise click.UsageError(message)
    require_code(code)
    if not reason.strip():
        message = "--reason must say something: it is kept in the audit log"
        raise click.UsageError(message)
    require_somebody(actor)
    with invocation.stores(read_only=False) as stores:
        by = acting(stores, actor, action="outbox_requeue")
        if target is not None:
            require_target(invocation.config, stores, target)
        wanted = RequeueRequest(outbox_ids=outbox_ids, target=target, code=code)
        done = send_again(stores, wanted, by=by, reason=reason)
    if as_json:
        print_json({"requeued": len(done.requeued), "left_out": done.left_out})
    else:
        show_requeued(done)
    refuse_left_out(done)
