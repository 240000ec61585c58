"""``tallgrass retention``: old rows leave for archives, which can be searched and read back."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice

import click

from tallgrass.bootstrap.retaining import Step, count_expirable, open_retention
from tallgrass.bootstrap.retention_run import (
    RATE,
    RetentionAround,
    RetentionRequest,
    apply_retention,
    archive_search,
)
from tallgrass.cli.identity import acting, actor_option
from tallgrass.cli.invocation import (
    NUMBER_MAX,
    FiniteRange,
    Invocation,
    examples,
    output_option,
    pass_invocation,
)
from tallgrass.cli.retention_view import (
    show_applied,
    show_archive,
    show_archives,
    show_plan,
    show_rows,
)
from tallgrass.cli.stopping import told_to_stop
from tallgrass.cli.tables import progress, say
from tallgrass.cli.text import json_line, print_json
from tallgrass.inventory.retention import ArchiveKind, Planned, kinds_named
from tallgrass.views.retention import archive_document, plan_document

#: Not rows that leave, but marks of items: see policies, `expires_after_days`.
_ITEMS = "items"


def _kind_option(*more: str) -> Callable[[click.decorators.FC], click.decorators.FC]:
    return click.option(
        "--kind",
        "kinds",
        type=click.Choice([*(kind.value for kind in ArchiveKind), *more]),
        multiple=True,
        help="Only rows of this kind; repeatable.",
    )


def _chosen(kinds: tuple[str, ...]) -> tuple[tuple[ArchiveKind, ...], bool]:
    """Return the kinds of rows that were asked for, and whether items were."""
    rows = [name for name in kinds if name != _ITEMS]
    return (kinds_named(rows) if rows or not kinds else ()), not kinds or _ITEMS in kinds


@click.group(
    name="retention",
    epilog=examples(
        "tallgrass retention plan",
        "tallgrass retention apply --rate 500",
        "tallgrass retention search --wal-id ID",
    ),
)
def command() -> None:
    """Old rows leave for archives: plan, apply, list, show, search."""


@command.command(
    epilog=examples("tallgrass retention plan", "tallgrass retention plan --output json")
)
@_kind_option(_ITEMS)
@output_option
@pass_invocation
def plan(invocation: Invocation, *, kinds: tuple[str, ...], as_json: bool) -> None:
    """Count what is older than retention.*_days and may leave now. Writes nothing.

    Of items, count those that a policy lets expire (expires_after_days) and that are not marked,
    or not with this time.
    """
    rows, with_items = _chosen(kinds)
    with invocation.stores(read_only=True) as stores:
        found = open_retention(invocation.config, stores).plan(rows)
        items = count_expirable(invocation.config, stores) if with_items else {}
    if as_json:
        print_json({"plan": [plan_document(each) for each in found], "expirable": items})
    else:
        show_plan(found, items)


@command.command(
    epilog=examples(
        "tallgrass retention apply --dry-run",
        "tallgrass retention apply --kind attempts --max-rows 100000 --rate 500",
    )
)
@_kind_option(_ITEMS)
@click.option(
    "--max-rows",
    type=click.IntRange(1, NUMBER_MAX),
    metavar="N",
    help="Archive at most N rows in this call.",
)
@click.option(
    "--rate",
    type=FiniteRange(0.001),
    default=RATE,
    show_default=True,
    metavar="N",
    help="Remove at most N rows a second: ingest beside it must not be slowed.",
)
@click.option("--dry-run", is_flag=True, help="Only say what would be done, as `plan` does.")
@actor_option
@output_option
@pass_invocation
def apply(
    invocation: Invocation,
    *,
    kinds: tuple[str, ...],
    max_rows: int | None,
    rate: float,
    dry_run: bool,
    actor: str | None,
    as_json: bool,
) -> None:
    """Write what is old to archives, read them back, and remove what they hold.

    Nothing leaves that a unit still needs: not the last attempt, the applied one or the maker of
    an item; no event that is not delivered; no audit entry that is not sealed. It can be stopped
    or killed at any point: the next call goes on. Items that a policy lets expire are marked.
    """
    rows, with_items = _chosen(kinds)
    config = invocation.config
    with invocation.stores(read_only=dry_run) as stores:
        if dry_run:
            planned = open_retention(config, stores).plan(rows)
            items = count_expirable(config, stores) if with_items else {}
            _report_plan(planned, items, max_rows, as_json=as_json)
            return
        by = acting(stores, actor, action="archive_record")
        request = RetentionRequest(kinds=rows, with_items=with_items, rows_max=max_rows, rate=rate)
        with told_to_stop() as stop, _bar(max_rows) as tell:
            around = RetentionAround(stop=stop.is_set, sleep=stop.wait, tell=tell)
            done, items = apply_retention(config, stores, request, around, by=by)
    if as_json:
        print_json({"archives": [archive_document(each) for each in done], "expired": items})
    else:
        show_applied(done, items)


@command.command(name="list", epilog=examples("tallgrass retention list --output json"))
@_kind_option()
@output_option
@pass_invocation
def list_archives(invocation: Invocation, *, kinds: tuple[str, ...], as_json: bool) -> None:
    """List all archives, oldest first, with their ranges and hashes."""
    wanted = kinds_named(kinds)
    with invocation.stores(read_only=True) as stores:
        archives = open_retention(invocation.config, stores).archives()
        found = [each for each in archives if each.file.kind in wanted]
    if as_json:
        print_json({"archives": [archive_document(each) for each in found]})
    else:
        show_archives(found)


@command.command(epilog=examples("tallgrass retention show 3 --limit 10"))
@click.argument("archive_id", type=click.IntRange(1, NUMBER_MAX), metavar="ARCHIVE")
@click.option(
    "--limit", type=click.IntRange(0, NUMBER_MAX), default=50, show_default=True, help="Rows shown."
)
@output_option
@pass_invocation
def show(invocation: Invocation, *, archive_id: int, limit: int, as_json: bool) -> None:
    """Check an archive's file against its recorded hash, and show its first rows."""
    with invocation.stores(read_only=True) as stores:
        retention = open_retention(invocation.config, stores)
        archive = retention.archive(archive_id)
        rows = list(islice(retention.rows(archive), limit))
    if as_json:
        print_json({"archive": archive_document(archive), "rows": rows})
    else:
        show_archive(archive, rows)


@command.command(
    epilog=examples(
        "tallgrass retention search --wal-id ID",
        "tallgrass retention search --kind audit --since 2026-01-01 --until 2026-02-01",
    )
)
@click.option("--wal-id", metavar="ID", help="Archived attempts of this unit.")
@click.option("--event", metavar="ID", help="The archived event of this outbox id.")
@click.option("--since", metavar="TIME", help="Closed, delivered or done at or after this time.")
@click.option("--until", metavar="TIME", help="Before this time.")
@click.option(
    "--kind", type=click.Choice([kind.value for kind in ArchiveKind]), help="Only of this kind."
)
@click.option(
    "--limit", type=click.IntRange(1, NUMBER_MAX), default=1000, show_default=True, help="Rows."
)
@output_option
@pass_invocation
def search(
    invocation: Invocation,
    *,
    wal_id: str | None,
    event: str | None,
    since: str | None,
    until: str | None,
    kind: str | None,
    limit: int,
    as_json: bool,
) -> None:
    """Find archived rows. With --output json each is one line, as it is found."""
    wanted = archive_search(
        wal_id=wal_id,
        event=event,
        since=since,
        until=until,
        kind=None if kind is None else ArchiveKind(kind),
    )
    with invocation.stores(read_only=True) as stores:
        found = open_retention(invocation.config, stores).search(wanted)
        for archive, row in islice(found, limit) if as_json else ():
            line = {"archive": archive.archive_id, "kind": archive.file.kind.value, "row": row}
            sys.stdout.write(json_line(line).decode())
        if not as_json:
            show_rows(list(islice(found, limit)))


@contextmanager
def _bar(total: int | None) -> Iterator[Callable[[Step], None]]:
    """Show on stderr how many rows have left, only where somebody looks.

    Without a cap nobody knows how many there will be: to count them is half of the work.
    """
    if not sys.stderr.isatty():
        yield lambda _step: None
        return
    with progress("archiving", total) as bar:

        def tell(step: Step) -> None:
            if bar is not None and step.what == "removed":
                bar.advance(bar.task_ids[0], step.rows)

        yield tell


def _report_plan(
    planned: list[Planned], items: dict[str, int], max_rows: int | None, *, as_json: bool
) -> None:
    rows = sum(each.rows for each in planned)
    would = rows if max_rows is None else min(rows, max_rows)
    if as_json:
        found = [plan_document(each) for each in planned]
        counted = {"would_archive": would, "plan": found, "expirable": items}
        print_json({"dry_run": True, **counted})
        return
    show_plan(planned, items)
    say(f"Nothing was written. {would:,} rows would leave.")
