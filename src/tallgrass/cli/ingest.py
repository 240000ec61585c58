"""``tallgrass ingest``: run workers until they are told to stop."""

import threading
from contextlib import closing, suppress
from dataclasses import asdict

import click

from tallgrass.bootstrap.ingesting import ingest
from tallgrass.bootstrap.queues import check_queue
from tallgrass.bootstrap.stores import Stores, open_current_stores
from tallgrass.bootstrap.telemetry import chosen_port, open_recorder
from tallgrass.cli.dispatch_beside import DispatchBeside
from tallgrass.cli.invocation import Invocation, examples, output_option, pass_invocation
from tallgrass.cli.metrics_option import metrics_port_option
from tallgrass.cli.outbox_view import dispatch_document, show_result
from tallgrass.cli.stopping import told_to_stop
from tallgrass.cli.tables import say, show_facts
from tallgrass.cli.text import log_line, print_json
from tallgrass.cli.worker_processes import run_processes
from tallgrass.config import Config
from tallgrass.errors import InvalidInput, UnknownRecord
from tallgrass.governance.policy import ReplayMode
from tallgrass.ingest_loop import LoopReport, Until
from tallgrass.queues.replay_queues import is_replay_queue
from tallgrass.telemetry.recorder import Recorder

PROCESSES_MAX = 64


@click.command(
    name="ingest",
    epilog=examples(
        "tallgrass ingest --drain",
        "tallgrass ingest --queue sqlite:///queue.db --store sqlite:///ledger.db --processes 2",
        "tallgrass ingest --queue arn:aws:sqs:us-east-1:123456789012:nodd --store postgresql://…",
    ),
)
@click.option("--queue", metavar="URL", help="Where messages come from (queue.url).")
@click.option("--store", metavar="URL", help="Ledger and catalog (database.url).")
@click.option("--objects", metavar="URL", help="file:FOLDER, cloud, or event (objects.url).")
@click.option("--once", is_flag=True, help="End after one round: a batch of messages, one of due.")
@click.option("--drain", is_flag=True, help="End when queue and ledger have nothing to do now.")
@click.option(
    "--processes",
    type=click.IntRange(1, PROCESSES_MAX),
    default=1,
    show_default=True,
    help="How many workers, each a process of its own.",
)
@click.option("--batch", type=int, metavar="N", help="Units worked on together (worker.batch).")
@click.option(
    "--replay-run-id",
    metavar="ID",
    help="Work off the queue of this drain (`dlq drain --to replay-queue`), under its id.",
)
@click.option("--dispatch", "dispatching", is_flag=True, help="Deliver the events as well.")
@metrics_port_option
@output_option
@pass_invocation
def command(  # noqa: PLR0913 - one parameter an option
    invocation: Invocation,
    *,
    queue: str | None,
    store: str | None,
    objects: str | None,
    once: bool,
    drain: bool,
    processes: int,
    batch: int | None,
    replay_run_id: str | None,
    dispatching: bool,
    metrics_port: int | None,
    as_json: bool,
) -> None:
    """Turn notifications into a catalog.

    Runs until it is told to stop: by Ctrl-C or SIGTERM it finishes its batch, hands back what it
    holds and reports. What happens is told on stderr, a line an event. Of several processes, each
    answers Prometheus at the next port after --metrics-port, which is the first one's.
    """
    if once and drain:
        message = "--once or --drain, not both"
        raise click.UsageError(message)
    config = invocation.use(
        {"queue.url": queue, "database.url": store, "objects.url": objects, "worker.batch": batch}
    )
    until = Until.ONCE if once else Until.DRAINED if drain else Until.STOPPED
    # A database or queue that cannot be used is told once, before any process starts.
    with closing(open_current_stores(config, read_only=True)) as stores:
        _require_drain(stores, config, replay_run_id)
    check_queue(config)
    port = chosen_port(config, metrics_port)
    with (
        told_to_stop() as stop,
        open_recorder(config, log_line, command="ingest", metrics_port=port) as recorder,
    ):
        beside = DispatchBeside(config, recorder, stop) if dispatching else None
        if beside is not None:
            beside.start()
        try:
            report = (
                _run_here(config, until, stop, recorder, replay_run_id)
                if processes == 1
                else run_processes(
                    config,
                    until,
                    stop,
                    processes,
                    recorder,
                    replay_run_id=replay_run_id,
                    metrics_port=port,
                )
            )
        except BaseException:
            if beside is not None:
                # What befalls it is told, and the answer is what befell the workers.
                with suppress(Exception):
                    beside.finish(until)
            raise
        delivered = None if beside is None else beside.finish(until)
    if as_json:
        told = {} if delivered is None else {"dispatch": dispatch_document(delivered)}
        print_json({"processes": processes, **asdict(report), **told})
        return
    _show(report, processes)
    if delivered is not None:
        show_result(delivered)


def _require_drain(stores: Stores, config: Config, replay_run_id: str | None) -> None:
    """Refuse a run that is no drain, and a queue that is not the run's own."""
    if replay_run_id is None:
        return
    run = stores.replay_runs.find(replay_run_id)
    if run is None or run.order.mode is not ReplayMode.DLQ:
        raise UnknownRecord(f"there is no drain {replay_run_id}", code="run_unknown")
    if not is_replay_queue(config.text("queue.url"), replay_run_id):
        message = f"--replay-run-id: {config.text('queue.url')} is not the queue of that run"
        raise InvalidInput(message)


def _run_here(
    config: Config,
    until: Until,
    stop: threading.Event,
    recorder: Recorder,
    replay_run_id: str | None,
) -> LoopReport:
    def sleep(seconds: float) -> None:
        stop.wait(seconds)

    return ingest(
        config,
        until=until,
        stop=stop.is_set,
        sleep=sleep,
        recorder=recorder,
        replay_run_id=replay_run_id,
    )


def _show(report: LoopReport, processes: int) -> None:
    say("What this run did", "bold")
    show_facts(
        [
            ("processes", processes),
            ("rounds", report.rounds),
            ("messages received", report.messages),
            ("units worked on", report.units),
            *((f"  {name}", number) for name, number in sorted(report.by_verdict.items())),
            ("announced units", sum(report.by_action.values())),
            *((f"  {name}", number) for name, number in sorted(report.by_action.items())),
            ("no units", sum(report.ignored.values())),
            *((f"  {name}", number) for name, number in sorted(report.ignored.items())),
            ("poison", report.poison),
            *([("put off", report.deferred)] if report.deferred else []),
        ]
    )
