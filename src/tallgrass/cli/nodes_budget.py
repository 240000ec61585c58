"""``tallgrass nodes budget``: how much failure the pipelines of a folder have left. No database."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from tallgrass.bootstrap.node_reports import read_budgets
from tallgrass.cli.invocation import (
    FiniteRange,
    Invocation,
    examples,
    output_option,
    pass_invocation,
)
from tallgrass.cli.nodes_folder import folder_option, nodes_folder
from tallgrass.cli.tables import cell, say, show_table
from tallgrass.cli.text import print_json
from tallgrass.nodes.error_budget import BudgetPolicy, ErrorBudgets
from tallgrass.nodes.wal_store import WalStore

_STYLES = {"green": "green", "yellow": "yellow", "red": "red", "black": "bold red"}
_DEFAULT = BudgetPolicy()


@click.command(
    name="budget",
    epilog=examples(
        "tallgrass nodes budget",
        "tallgrass nodes budget hydrology --objective 0.999 --days 7",
        "tallgrass nodes budget --rebuild",
    ),
)
@click.argument("pipeline", required=False)
@folder_option
@click.option(
    "--objective",
    type=FiniteRange(0, 1, min_open=True, max_open=True),
    default=_DEFAULT.objective,
    show_default=True,
    help="The share of outcomes that is to succeed.",
)
@click.option(
    "--days",
    type=click.IntRange(1, 366),
    default=_DEFAULT.window_days,
    show_default=True,
    help="Outcomes of the last so many days count.",
)
@click.option("--rebuild", is_flag=True, help="First add outcomes that only the journals tell of.")
@output_option
@pass_invocation
def budget(
    invocation: Invocation,
    *,
    pipeline: str | None,
    folder: str | None,
    objective: float,
    days: int,
    rebuild: bool,
    as_json: bool,
) -> None:
    """Show the error budget of each pipeline, and the zone that it is in."""
    root = nodes_folder(invocation, folder)
    policy = BudgetPolicy(objective=objective, window_days=days)
    budgets = ErrorBudgets(root / "outcomes", policy=policy)
    added = _rebuilt(budgets, root) if rebuild else None
    shown = read_budgets(budgets, root, pipeline)
    if as_json:
        print_json({"pipelines": shown, "added": added})
    else:
        _show(shown, root, added)


def _rebuilt(budgets: ErrorBudgets, root: Path) -> int:
    wal = WalStore(root / "wal")
    return sum(budgets.rebuild(run_id, wal.entries(run_id)) for run_id in wal.run_ids())


def _show(shown: Sequence[Mapping[str, Any]], root: Path, added: int | None) -> None:
    if added is not None:
        say(f"{added:,} outcomes added.")
    if not shown:
        say(f"No outcomes below {root}.")
        return
    show_table(
        ("pipeline", "outcomes", "failures", "remaining", "zone"),
        [
            (each["pipeline"], each["outcomes"], each["failures"], f"{each['remaining']:.0%}",
             cell(each["zone"], _STYLES[each["zone"]]))
            for each in shown
        ],
        right=("outcomes", "failures", "remaining"),
    )  # fmt: skip
