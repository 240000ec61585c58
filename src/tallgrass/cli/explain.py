"""``tallgrass explain``: the registry of codes, for people."""

import click

from tallgrass.cli.invocation import examples, output_option
from tallgrass.cli.tables import show_facts, show_table
from tallgrass.cli.text import print_json
from tallgrass.error_codes import CodeScope, ErrorCode, nearest, registry
from tallgrass.errors import InvalidInput


@click.command(
    name="explain",
    epilog=examples(
        "tallgrass explain lease_expired",
        "tallgrass explain code_not_replayed",
        "tallgrass explain --list",
    ),
)
@click.argument("code", required=False)
@click.option("--list", "list_all", is_flag=True, help="Show all codes.")
@output_option
def command(code: str | None, *, list_all: bool, as_json: bool) -> None:
    """Say what a code means and what to do about it.

    Codes of units and of commands, names of guards, reasons that plans, reports and the journal
    give, and findings of reconcile, verify and the like.
    """
    if (code is None) != list_all:
        message = "give one code, or --list"
        raise click.UsageError(message)
    if code is None:
        _list_codes(as_json=as_json)
    else:
        _explain(code, as_json=as_json)


def _explain(code: str, *, as_json: bool) -> None:
    entry = registry().get(code)
    if entry is None:
        message = f"unknown code {code!r}{nearest(code)}"
        raise InvalidInput(message, code="unknown_code")
    if as_json:
        print_json(entry)
        return
    show_facts(
        [
            ("means", entry.meaning),
            ("what to do", entry.remedy),
            ("stands on", _stands_on(entry)),
        ],
        title=code,
    )


def _list_codes(*, as_json: bool) -> None:
    entries = list(registry().values())
    if as_json:
        print_json({"codes": entries})
        return
    show_table(
        ("code", "stands on", "means"),
        [(entry.code, _stands_on(entry), entry.meaning) for entry in entries],
        wide=("means",),
    )


_STANDS_ON = {
    CodeScope.UNIT: "a unit",
    CodeScope.COMMAND: "a command",
    CodeScope.GUARD: "a refusal, or what was left out",
    CodeScope.REASON: "a plan, a report or the journal",
    CodeScope.FINDING: "a finding",
}


def _stands_on(entry: ErrorCode) -> str:
    return "a unit, retried" if entry.retried else _STANDS_ON[entry.scope]
