"""``tallgrass audit``: read, seal and verify the log of who did what."""

import json
from pathlib import Path

import click

from tallgrass.bootstrap.retaining import open_retention
from tallgrass.cli.anchors import (
    append_anchor,
    contradictions,
    read_anchors,
    require_continuation,
    require_heads,
    require_writable,
)
from tallgrass.cli.invocation import (
    Invocation,
    examples,
    output_option,
    page_options,
    pass_invocation,
)
from tallgrass.cli.text import plain, print_json
from tallgrass.clock import system_clock
from tallgrass.errors import AuditBroken
from tallgrass.governance.audit import Anchor, Fault, StoredEntry

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
@page_options("Entries")
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
        print_json({"entries": [_document(e) for e in entries], "next_cursor": next_cursor})
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
    path = anchor_file or Path(invocation.config.text("audit.anchor_file"))
    anchors = read_anchors(path) if path.exists() else []
    require_writable(path)
    with invocation.stores(read_only=False) as stores:
        head = stores.audit.seal()
    new = require_continuation(anchors, head)
    if head is not None and new:
        append_anchor(path, head, system_clock())
    if as_json:
        print_json({"head": head, "anchor_file": str(path), "anchored": new})
        return
    from tallgrass.cli.tables import say  # noqa: PLC0415 - rich is for tables only

    if head is None:
        say("The audit log is empty: nothing to seal.")
        return
    say(f"Sealed up to {head.position:,}: {head.chain_hash}")
    say(f"{'Anchored' if new else 'Anchored before'} in {path}")


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
    path = _anchor_file(invocation, anchor_file)
    anchors = [] if path is None else require_heads(path)
    with invocation.stores(read_only=True) as stores:
        read = open_retention(invocation.config, stores).rows_of if archives else None
        verifier, unsealed = stores.audit.verify(anchors, read_archive=read)
        archived = stores.audit.archived()
    faults = verifier.faults + [
        Fault(position=position, what="the anchor file holds two different heads for it")
        for position in contradictions(anchors)
    ]
    if as_json:
        print_json(
            {
                "ok": not faults,
                "sealed": verifier.position,
                "unsealed": unsealed,
                "archived": archived,
                "head": verifier.head,
                "anchors": len(anchors),
                "faults": faults,
            }
        )
    else:
        _show_chain(verifier.head, (unsealed, archived), faults, anchors, path)
    if faults:
        message = f"the audit log has {len(faults)} fault{'s' if len(faults) > 1 else ''}"
        raise AuditBroken(message)


def _anchor_file(invocation: Invocation, given: Path | None) -> Path | None:
    """Return the file to check against: one that was named must be there, the default one may."""
    if given is not None:
        return given
    path = Path(invocation.config.text("audit.anchor_file"))
    named = invocation.config.origins["audit.anchor_file"] != "default"
    return path if named or path.exists() else None


def _document(entry: StoredEntry) -> dict[str, object]:
    return {**plain(entry), "detail": json.loads(entry.detail)}


def _show_entries(entries: list[StoredEntry], next_cursor: int | None) -> None:
    from tallgrass.cli.tables import cell, say, show_table  # noqa: PLC0415

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


def _show_chain(
    head: Anchor | None,
    counts: tuple[int, int],
    faults: list[Fault],
    anchors: list[Anchor],
    path: Path | None,
) -> None:
    from tallgrass.cli.tables import cell, say, show_facts  # noqa: PLC0415

    show_facts(
        [
            ("chain", cell("broken", "red") if faults else cell("holds", "green")),
            ("sealed", 0 if head is None else head.position),
            ("archived", counts[1]),
            ("not yet sealed", counts[0]),
            ("head", None if head is None else head.chain_hash),
            (
                "anchors",
                f"{len(anchors)} checked, from {path}"
                if path is not None
                else "none: without them a cut-off tail cannot be seen",
            ),
        ]
    )
    for fault in faults:
        say(cell(f"seal {fault.position}: {fault.what}", "red"))
