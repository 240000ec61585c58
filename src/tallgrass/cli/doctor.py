"""``tallgrass doctor``: finds what would stop the pipeline, each with its fix."""

from collections.abc import Sequence

import click

from tallgrass.bootstrap.audit_anchors import read_anchors
from tallgrass.cli.failures import ERROR
from tallgrass.cli.invocation import Invocation, examples, output_option, pass_invocation
from tallgrass.cli.tables import cell, say, show_table
from tallgrass.cli.text import print_json
from tallgrass.clock import system_clock
from tallgrass.doctor.diagnosis import (
    diagnose,
    is_healthy,
    unusable_configuration,
    without_credentials,
)
from tallgrass.doctor.finding import Finding, Verdict
from tallgrass.doctor.gathering import gather, trouble_of
from tallgrass.errors import ConfigError

_STYLES = {
    Verdict.OK: "green",
    Verdict.WARNING: "yellow",
    Verdict.PROBLEM: "red",
    Verdict.SKIPPED: "dim",
}


@click.command(
    name="doctor",
    epilog=examples("tallgrass doctor", "tallgrass doctor --skip-network --output json"),
)
@click.option("--queue", metavar="URL", help="The queue to look at (queue.url).")
@click.option("--skip-network", is_flag=True, help="Ask neither SQS nor a PostgreSQL server.")
@output_option
@click.pass_context
@pass_invocation
def command(
    invocation: Invocation,
    ctx: click.Context,
    *,
    queue: str | None,
    skip_network: bool,
    as_json: bool,
) -> None:
    """Find what would stop the pipeline, each with its fix. Writes nothing.

    Looks at configuration, folders, disk, database, clocks, limits, queue, credentials and rights,
    and at what waits for somebody. Ends with 0 if there is no problem, else with 1; a warning is no
    problem.
    """
    findings = _findings(invocation, queue, skip_network=skip_network)
    healthy = is_healthy(findings)
    if as_json:
        print_json({"ok": healthy, "findings": findings})
    else:
        _show(findings)
    if not healthy:
        ctx.exit(ERROR)


def _findings(
    invocation: Invocation, queue: str | None, *, skip_network: bool
) -> tuple[Finding, ...]:
    try:
        config = invocation.use({"queue.url": queue})
    except ConfigError as error:
        found = unusable_configuration(trouble_of(error))
    else:
        found = diagnose(
            gather(config, skip_network=skip_network, clock=system_clock, read_anchors=read_anchors)
        )
    return without_credentials(found)


def _show(findings: Sequence[Finding]) -> None:
    show_table(
        ("check", "verdict", "seen"),
        [(one.name, cell(one.verdict.value, _STYLES[one.verdict]), one.seen) for one in findings],
        wide=("seen",),
    )
    wanting = [one for one in findings if one.fix is not None]
    if not wanting:
        say("Nothing to mend.")
        return
    say("What to do", "bold")
    show_table(("check", "fix"), [(one.name, one.fix) for one in wanting], wide=("fix",))
