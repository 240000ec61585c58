"""``tallgrass changes`` and ``tallgrass incidents``: what a replay or a drain refers to."""

import click

from tallgrass.cli.identity import acting, actor_option
from tallgrass.cli.invocation import (
    Invocation,
    examples,
    limit_option,
    output_option,
    pass_invocation,
)
from tallgrass.cli.tables import cell, say, show_facts, show_table
from tallgrass.cli.text import print_json
from tallgrass.governance.references import Reference, ReferenceKind
from tallgrass.views.governance import reference_document, reference_state


def reference_group(kind: ReferenceKind, name: str, example: str, title: str) -> click.Group:
    """Return the commands for one kind of reference, with the reference and title of an example."""
    help_text = {
        ReferenceKind.CHANGE: "Change records, which a replay refers to: open, list, show, close.",
        ReferenceKind.INCIDENT: "Incidents, which a replay refers to: open, list, show, close.",
    }[kind]
    group = click.Group(
        name=name,
        help=help_text,
        epilog=examples(f"tallgrass {name} open {example} --title '{title}'"),
    )
    group.add_command(_open_command(kind, name, example, title))
    group.add_command(_list_command(kind, name, example))
    group.add_command(_show_command(kind, name, example))
    group.add_command(_close_command(kind, name, example))
    return group


def _open_command(kind: ReferenceKind, name: str, example: str, title: str) -> click.Command:
    @click.command(
        name="open",
        help=f"Open {kind.words} under a reference of your choice, such as {example}.",
        epilog=examples(f"tallgrass {name} open {example} --title '{title}'"),
    )
    @click.argument("ref")
    @click.option("--title", required=True, help="What it is, in one line.")
    @click.option("--description", default="", help="More about it.")
    @actor_option
    @output_option
    @pass_invocation
    def open_reference(
        invocation: Invocation,
        *,
        ref: str,
        title: str,
        description: str,
        actor: str | None,
        as_json: bool,
    ) -> None:
        with invocation.stores(read_only=False) as stores:
            by = acting(stores, actor, action=f"{kind.value}_open")
            opened = stores.changes.open(kind, ref, title=title, description=description, by=by)
        _show_one(opened, as_json=as_json)

    return open_reference


def _list_command(kind: ReferenceKind, name: str, example: str) -> click.Command:
    @click.command(
        name="list",
        help=f"List {name}, newest first.",
        epilog=examples(
            f"tallgrass {name} list --state open", f"tallgrass {name} list --after {example}"
        ),
    )
    @click.option("--state", type=click.Choice(["open", "closed"]), help="Only these.")
    @limit_option("At most.")
    @click.option("--after", metavar="REF", help="Go on after the page that gave this cursor.")
    @output_option
    @pass_invocation
    def list_references(
        invocation: Invocation, *, state: str | None, limit: int, after: str | None, as_json: bool
    ) -> None:
        is_open = None if state is None else state == "open"
        with invocation.stores(read_only=True) as stores:
            if after is not None:  # after one that is not there would come nothing
                stores.changes.find(kind, after)
            found = stores.changes.page(kind, is_open=is_open, after=after, size=limit + 1)
        page, more = found[:limit], len(found) > limit
        next_cursor = page[-1].ref if more else None
        if as_json:
            documents = [reference_document(each) for each in page]
            print_json({name: documents, "next_cursor": next_cursor})
        else:
            _show_page(list(page), next_cursor)

    return list_references


def _show_command(kind: ReferenceKind, name: str, example: str) -> click.Command:
    @click.command(
        name="show",
        help=f"Show {kind.words}.",
        epilog=examples(f"tallgrass {name} show {example}"),
    )
    @click.argument("ref")
    @output_option
    @pass_invocation
    def show(invocation: Invocation, *, ref: str, as_json: bool) -> None:
        with invocation.stores(read_only=True) as stores:
            found = stores.changes.find(kind, ref)
        _show_one(found, as_json=as_json)

    return show


def _close_command(kind: ReferenceKind, name: str, example: str) -> click.Command:
    @click.command(
        name="close",
        help=f"Close {kind.words} and say how it ended; it then stays as it is.",
        epilog=examples(f"tallgrass {name} close {example} --resolution 'replayed, verified'"),
    )
    @click.argument("ref")
    @click.option("--resolution", required=True, help="How it ended.")
    @actor_option
    @output_option
    @pass_invocation
    def close(
        invocation: Invocation, *, ref: str, resolution: str, actor: str | None, as_json: bool
    ) -> None:
        with invocation.stores(read_only=False) as stores:
            by = acting(stores, actor, action=f"{kind.value}_close")
            closed = stores.changes.close(kind, ref, resolution=resolution, by=by)
        _show_one(closed, as_json=as_json)

    return close


def _show_one(reference: Reference, *, as_json: bool) -> None:
    if as_json:
        print_json(reference_document(reference))
        return
    facts = [
        (reference.kind.noun, reference.ref),
        ("title", reference.title),
        ("description", reference.description or None),
        ("state", reference_state(reference)),
        ("opened", f"{reference.opened_at:%Y-%m-%d %H:%M:%SZ} by {reference.opened_by}"),
    ]
    if reference.closed_at is not None:
        facts += [
            ("closed", f"{reference.closed_at:%Y-%m-%d %H:%M:%SZ} by {reference.closed_by}"),
            ("resolution", reference.resolution),
        ]
    show_facts(facts)


def _show_page(page: list[Reference], next_cursor: str | None) -> None:
    if not page:
        say("None matches.")
        return
    show_table(
        ("reference", "state", "opened", "by", "title"),
        [
            (each.ref, reference_state(each), each.opened_at, each.opened_by, cell(each.title))
            for each in page
        ],
        wide=("title",),
    )
    if next_cursor is not None:
        say(f"More: --after {next_cursor}", style="dim")


command = reference_group(ReferenceKind.CHANGE, "changes", "CHG-2041", "New calibration")
