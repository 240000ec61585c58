"""``tallgrass explain``: the registry of codes, for people."""

import click

from tallgrass.cli.invocation import examples, output_option
from tallgrass.cli.text import print_json
from tallgrass.error_codes import ErrorCode, nearest, registry
from tallgrass.errors import InvalidInput


@click.command(
    name="explain",
    epilog=examples("tallgrass explain lease_expired", "tallgrass explain --list"),
)
@click.argument("code", required=False)
@click.option("--list", "list_all", is_flag=True, help="Show all codes.")
@output_option
def command(code: str | None, *, list_all: bool, as_json: bool) -> None:
    """Say what a code means and what to do about it."""
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
    from tallgrass.cli.tables import show_facts  # noqa: PLC0415 - rich is for tables only

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
    from tallgrass.cli.tables import show_table  # noqa: PLC0415

    show_table(
        ("code", "stands on", "means"),
        [(entry.code, _stands_on(entry), entry.meaning) for entry in entries],
        wide=("means",),
    )


def _stands_on(entry: ErrorCode) -> str:
    if entry.scope == "command":
        return "a command"
    return "a unit, retried" if entry.retried else "a unit"
