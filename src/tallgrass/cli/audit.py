"""``tallgrass audit``: read, seal and verify the log of who did what."""

from pathlib import Path

import click

from tallgrass.bootstrap.auditing import (
    ChainReport,
    check_audit,
    heads_to_check,
    heads_to_extend,
    seal_audit,
)
from tallgrass.cli.invocation import (
    Invocation,
    examples,
    numbered_page_options,
    output_option,
    pass_invocation,
)
from tallgrass.cli.tables import cell, say, show_facts, show_table
from tallgrass.cli.text import print_json
from tallgrass.errors import AuditBroken
from tallgrass.governance.audit import StoredEntry
from tallgrass.views.governance import entry_document

_anchor_option = click.option(
    "--anchor",
    "anchor_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="File with the chain's heads; default: audit.anchor_file.",
)


@click.group(
    name="audit", epilog=examples("tallgrass audit seal", "tallgrass audit verify --anchor FILE")
)
def command() -> None:
    """The log of who did what: list, seal, verify."""


@command.command(
    name="list",
    epilog=examples(
        "tallgrass audit list --action quarantine", "tallgrass audit list --actor j.doe"
    ),
)
@click.option("--actor", help="Only what this actor did.")
@click.option("--action", help="Only this action, such as quarantine.")
@click.option("--subject", help="Only what was done to this wal_id, switch or migration.")
@numbered_page_options("Entries")
@output_option
@pass_invocation
def list_entries(
    invocation: Invocation,
    *,
    actor: str | None,
    action: str | None,
    subject: str | None,
    limit: int,
    after: int,
    as_json: bool,
) -> None:
    """List entries, oldest first. All filters hold together."""
    with invocation.stores(read_only=True) as stores:
        found = stores.audit.entries(
            after=after, size=limit + 1, actor=actor, action=action, subject=subject
        )
    entries, more = found[:limit], len(found) > limit
    next_cursor = entries[-1].entry_id if more else None
    if as_json:
        print_json({"entries": [entry_document(e) for e in entries], "next_cursor": next_cursor})
    else:
        _show_entries(entries, next_cursor)


@command.command(epilog=examples("tallgrass audit seal --anchor /mnt/elsewhere/anchors.jsonl"))
@_anchor_option
@output_option
@pass_invocation
def seal(invocation: Invocation, *, anchor_file: Path | None, as_json: bool) -> None:
    """Chain all entries and write the chain's head to the anchor file.

    Keep that file out of reach of whoever can write the database: a cut-off tail is found by it.
    """
    heads = heads_to_extend(invocation.config, anchor_file)
    with invocation.stores(read_only=False) as stores:
        sealed = seal_audit(stores, heads)
    if as_json:
        print_json(sealed.document())
        return
    if sealed.head is None:
        say("The audit log is empty: nothing to seal.")
        return
    say(f"Sealed up to {sealed.head.position:,}: {sealed.head.chain_hash}")
    say(f"{'Anchored' if sealed.anchored else 'Anchored before'} in {sealed.anchor_file}")


@command.command(epilog=examples("tallgrass audit verify --anchor /mnt/elsewhere/anchors.jsonl"))
@_anchor_option
@click.option(
    "--archives", is_flag=True, help="Also walk archived entries, which are read from their files."
)
@output_option
@pass_invocation
def verify(
    invocation: Invocation, *, anchor_file: Path | None, archives: bool, as_json: bool
) -> None:
    """Walk the whole chain and name every entry that was edited, removed, reordered or cut off.

    Entries that left for an archive are passed over by the links that its record holds.
    """
    heads = heads_to_check(invocation.config, anchor_file)
    with invocation.stores(read_only=True) as stores:
        report = check_audit(invocation.config, stores, heads, archives=archives)
    if as_json:
        print_json(report.document())
    else:
        _show_chain(report)
    if report.faults:
        number = len(report.faults)
        raise AuditBroken(f"the audit log has {number} fault{'s' if number > 1 else ''}")


def _show_entries(entries: list[StoredEntry], next_cursor: int | None) -> None:
    if not entries:
        say("No entries match.")
        return
    show_table(
        ("entry", "when", "actor", "action", "subject", "reason", "sealed"),
        [
            (
                str(entry.entry_id),
                entry.occurred_at,
                entry.actor,
                entry.action,
                entry.subject,
                entry.reason,
                cell("no", "dim") if entry.position is None else cell("yes", "green"),
            )
            for entry in entries
        ],
        right=("entry",),
        wide=("subject", "reason"),
    )
    if next_cursor is not None:
        say(f"More: --after {next_cursor}", "dim")


def _show_chain(report: ChainReport) -> None:
    show_facts(
        [
            ("chain", cell("broken", "red") if report.faults else cell("holds", "green")),
            ("sealed", report.sealed),
            ("archived", report.archived),
            ("not yet sealed", report.unsealed),
            ("head", None if report.head is None else report.head.chain_hash),
            (
                "anchors",
                f"{report.anchors} checked, from {report.anchor_file}"
                if report.anchor_file is not None
                else "none: without them a cut-off tail cannot be seen",
            ),
        ]
    )
    for fault in report.faults:
        say(cell(f"seal {fault.position}: {fault.what}", "red"))
