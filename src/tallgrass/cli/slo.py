"""``tallgrass slo``: what the service promises, and how much of each error budget is left."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tallgrass.cli.invocation import (
    FiniteRange,
    Invocation,
    examples,
    output_option,
    pass_invocation,
)
from tallgrass.cli.tables import cell, say, show_table
from tallgrass.cli.text import duration, print_json
from tallgrass.clock import system_clock
from tallgrass.telemetry.slo import WINDOW_DAYS, SloState, Zone
from tallgrass.views.slo import SAMPLE, SAMPLE_MAX, slos_document

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

_DAYS_MAX = 366
_COLOURS = {Zone.GREEN: "green", Zone.YELLOW: "yellow", Zone.RED: "red", Zone.BLACK: "bold red"}
_ALARMING = frozenset({Zone.RED, Zone.BLACK})


@click.command(
    name="slo",
    epilog=examples("tallgrass slo", "tallgrass slo --days 1 --check --output json"),
)
@click.option(
    "--days",
    type=FiniteRange(0, _DAYS_MAX, min_open=True),
    default=WINDOW_DAYS,
    show_default=True,
    help="Judge the units whose data are of the last days.",
)
@click.option(
    "--sample",
    type=click.IntRange(1, SAMPLE_MAX),
    default=SAMPLE,
    show_default=True,
    help="Judge times by so many of the newest units of each dataset.",
)
@click.option("--check", is_flag=True, help="Exit with 1 where a budget is red or black.")
@output_option
@pass_invocation
def command(
    invocation: Invocation, *, days: float, sample: int, check: bool, as_json: bool
) -> None:
    """Show each promise, and how much of its error budget is left.

    A budget is green while at least half of it is left, yellow from 20 %, red below, and black when
    nothing is left. Writes nothing.
    """
    now = system_clock()
    states = _states(invocation, days, sample, now)
    if as_json:
        print_json(slos_document(states, judged_at=now, days=days))
    else:
        _show(states)
    if check and any(one.zone in _ALARMING for one in states):
        raise click.exceptions.Exit(1)


def _states(
    invocation: Invocation, days: float, sample: int, now: datetime
) -> tuple[SloState, ...]:
    from tallgrass.bootstrap.datasets import open_catalogue  # noqa: PLC0415 - help needs none
    from tallgrass.bootstrap.health import read_slos  # noqa: PLC0415

    catalogue = open_catalogue(invocation.config)
    with invocation.stores(read_only=True) as stores:
        return read_slos(stores, catalogue, now=now, sample=sample, window_days=days)


def _show(states: Sequence[SloState]) -> None:
    show_table(
        ("promise", "events", "bad", "P90", "budget left", "zone"),
        [
            (
                one.slo.promise,
                one.events,
                one.bad,
                None if one.p90_s is None else duration(one.p90_s),
                f"{float(one.remaining):.0%}",
                cell(one.zone.value, _COLOURS[one.zone]),
            )
            for one in states
        ],
        right=("events", "bad", "P90", "budget left"),
        wide=("promise",),
    )
    for one in states:
        if one.zone in _ALARMING:
            say(f"{one.slo.name} is {one.zone.value}: see docs/replay/runbooks/{one.slo.runbook}")
