"""``tallgrass``: finds the command, runs it, and answers every failure in the same way.

Commands are imported when they are called, so that help and mistakes cost no start-up.
"""

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Never

import click

import tallgrass
from tallgrass.cli.failures import BROKEN_PIPE, is_expected, report_failure
from tallgrass.cli.invocation import Invocation, examples

PROGRAM = "tallgrass"

#: Each command, which is a module here, with its line in the list; in the order of first use.
COMMANDS: dict[str, str] = {
    "demo": "See the pipeline at work on a simulated feed.",
    "init": "Write a configuration file with every setting and its default.",
    "aws": "Set up AWS: the queue that NOAA's topics send to.",
    "doctor": "Find what would stop the pipeline, each with its fix.",
    "ingest": "Turn notifications into a catalog.",
    "backfill": "Make due what a bucket holds and no notification brought.",
    "follow": "Keep a catalog up to date from listings: no account, no queue.",
    "status": "Show the whole pipeline on one page.",
    "slo": "Show each promise, and how much of its error budget is left.",
    "console": "See and steer the pipeline in a browser, with its API.",
    "telemetry": "The files that a release carries about how it ran: export.",
    "metrics": "The state of the whole pipeline, for Prometheus.",
    "simulate": "Make a feed: objects, and messages that announce them.",
    "db": "Prepare, check and back up the database.",
    "wal": "Look at the ledger: list, show, history, stats, annotate, export, import.",
    "queue": "Look at the queue: how much waits, and for how long.",
    "poison": "Messages that could not be understood: list, show, feed again.",
    "outbox": "Events on their way out: dispatch, status, list, show, requeue, ledger.",
    "replay": "Run units again: failed ones, and with an approved plan succeeded ones.",
    "reconcile": "Compare bucket, ledger and catalog, and say what would mend them.",
    "dlq": "Dead letters: classify, plan, drain, report, close.",
    "verify": "Prove the catalog: make its documents again, and compare the bytes.",
    "stac": "Use the catalog: export, validate, serve it as a STAC API, copy it to pgstac.",
    "datasets": "What is ingested: list, show, check and write dataset files.",
    "inspect": "See what the pipeline would make of a message, a key or a file.",
    "nodes": "Nodes: runs, show, rebuild, budget, plan-clear, clear-failed, plan-rerun, cache.",
    "switches": "Stop work of a dataset, or of all, and let it go on: list, on, off.",
    "freeze": "Stop everything, and let it go on: on, off.",
    "approvals": "What may be done once, by another's leave: request, approve, reject, list, show.",
    "quarantine": "Units that are held for a person: list, show, hold, release.",
    "changes": "Change records, which a replay refers to: open, list, show, close.",
    "incidents": "Incidents, which a replay refers to: open, list, show, close.",
    "actors": "Who may act: add, rotate, revoke, list.",
    "audit": "The log of who did what: list, seal, verify.",
    "retention": "Old rows leave for archives: plan, apply, list, show, search.",
    "release": "A release's files: verify.",
    "config": "Show and check the configuration.",
    "explain": "Say what a code means and what to do about it.",
}


class LazyGroup(click.Group):
    """Imports a command only when it is called; its line in the list needs no import."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return all names, in reading order."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import the command of that name."""
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"tallgrass.cli.{cmd_name}")
        command: click.Command = module.command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; a mistyped one is answered with the nearest name."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            raise click.NoSuchCommand(args[0], possibilities=list(COMMANDS), ctx=ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the list from the table above."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=examples("tallgrass demo", "tallgrass --database sqlite:///tallgrass.db wal list"),
)
@click.option(
    "--config",
    "config_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Configuration file; else $TALLGRASS_CONFIG, else ./tallgrass.toml.",
)
@click.option("--database", metavar="URL", help="sqlite:///FILE or postgresql://… (database.url).")
@click.option(
    "--debug", is_flag=True, hidden=True, expose_value=False, help="Raise unexpected errors."
)
@click.version_option(tallgrass.__version__, prog_name=PROGRAM)
@click.pass_context
def cli(ctx: click.Context, config_file: Path | None, database: str | None) -> None:
    """Turn NOAA open-data notifications into a catalog that can be proved."""
    ctx.obj = Invocation(config_file=config_file, database=database)


def run(args: Sequence[str]) -> int:
    """Run one command line and return its exit code; nothing escapes as a traceback."""
    _open_missing_streams()
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character gets its escape, never an error.
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        _require_text(args)
        with cli.make_context(PROGRAM, list(args)) as ctx:
            cli.invoke(ctx)
        sys.stdout.flush()
    except click.exceptions.Exit as done:
        return _flushed(done.exit_code)
    except BaseException as error:  # the last place that can answer
        if "--debug" in args and not is_expected(error):
            raise
        return report_failure(error, args)
    return 0


def main() -> Never:
    """Be the command `tallgrass`."""
    if "_TALLGRASS_COMPLETE" in os.environ:
        cli.main(prog_name=PROGRAM)
    sys.exit(run(sys.argv[1:]))


def replay_main() -> Never:
    """Be the command `nodd-replay`, which is `tallgrass replay`.

    The options that stand before a command's name may come first here too.
    """
    before: list[str] = []
    rest = sys.argv[1:]
    while rest and rest[0].partition("=")[0] in {"--config", "--database"}:
        taken = 1 if "=" in rest[0] else 2
        before, rest = [*before, *rest[:taken]], rest[taken:]
    sys.exit(run([*before, "replay", *rest]))


def _open_missing_streams() -> None:
    """Let whoever closed a standard stream (`<&-`) have nothing to read, and nowhere to write to.

    In this order each gets the number that is its own, which no database or socket then takes.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            stream = open(os.devnull, mode, encoding="utf-8")  # noqa: PTH123, SIM115 - stays open
            os.set_inheritable(stream.fileno(), True)  # noqa: FBT003 - workers have it too
            setattr(sys, name, stream)


def _require_text(args: Sequence[str]) -> None:
    """Refuse bytes that are no text: neither database could look for them."""
    for arg in args:
        if not arg.isprintable() and any("\ud800" <= c <= "\udfff" for c in arg):
            message = f"not UTF-8: {arg!r}"
            raise click.BadArgumentUsage(message)


def _flushed(exit_code: int) -> int:
    try:
        sys.stdout.flush()
    except BrokenPipeError as error:
        report_failure(error, ())
        return BROKEN_PIPE
    return exit_code
