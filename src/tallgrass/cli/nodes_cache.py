"""``tallgrass nodes cache``: results of nodes by content address; all of it may go at any time."""

from datetime import timedelta

import click

from tallgrass.cli.invocation import (
    FiniteRange,
    Invocation,
    examples,
    output_option,
    pass_invocation,
)
from tallgrass.cli.nodes_folder import folder_option, nodes_folder
from tallgrass.cli.tables import say
from tallgrass.cli.text import plain, print_json
from tallgrass.clock import system_clock
from tallgrass.errors import InvalidInput
from tallgrass.nodes.cache_store import FolderCache
from tallgrass.nodes.rebuild import forget_node

#: A hundred years.
_DAYS_MAX = 36_500


@click.group(
    name="cache",
    epilog=examples(
        "tallgrass nodes cache stats",
        "tallgrass nodes cache prune --older-than 30",
        "tallgrass nodes cache clear --node smooth --yes",
    ),
)
def cache() -> None:
    """Count and remove cached results: stats, prune, clear."""


@cache.command(epilog=examples("tallgrass nodes cache stats --dir work"))
@folder_option
@output_option
@pass_invocation
def stats(invocation: Invocation, *, folder: str | None, as_json: bool) -> None:
    """Say how many results the cache holds, and how large they are."""
    found = _opened(invocation, folder).stats()
    if as_json:
        print_json(plain(found))
    else:
        say(f"{found.entries:,} results, {found.bytes:,} bytes; at most {found.bytes_max:,}.")


@cache.command(
    epilog=examples(
        "tallgrass nodes cache prune --max-bytes 500000000",
        "tallgrass nodes cache prune --older-than 30",
    )
)
@folder_option
@click.option(
    "--max-bytes",
    type=click.IntRange(0),
    metavar="N",
    help="Keep at most so many bytes; else the bound of the cache.",
)
@click.option(
    "--older-than",
    type=FiniteRange(0, _DAYS_MAX),
    metavar="DAYS",
    help="Remove whatever was neither made nor used for so many days.",
)
@output_option
@pass_invocation
def prune(
    invocation: Invocation,
    *,
    folder: str | None,
    max_bytes: int | None,
    older_than: float | None,
    as_json: bool,
) -> None:
    """Remove old results: those that were used longest ago go first."""
    since = None if older_than is None else system_clock() - timedelta(days=older_than)
    opened = _opened(invocation, folder)
    _removed(opened, opened.prune(max_bytes, unused_since=since), as_json=as_json)


@cache.command(epilog=examples("tallgrass nodes cache clear --node smooth --yes"))
@folder_option
@click.option("--node", metavar="NODE", help="Only results of this node.")
@click.option("--yes", is_flag=True, help="Really remove them: they would have to be made again.")
@output_option
@pass_invocation
def clear(
    invocation: Invocation, *, folder: str | None, node: str | None, yes: bool, as_json: bool
) -> None:
    """Remove all results, or those of one node. Runs keep what they recorded."""
    if not yes:
        raise InvalidInput("say --yes to remove cached results; `prune` removes only old ones")
    opened = _opened(invocation, folder)
    removed = opened.clear() if node is None else forget_node(opened, node)
    _removed(opened, removed, as_json=as_json)


def _opened(invocation: Invocation, folder: str | None) -> FolderCache:
    return FolderCache(nodes_folder(invocation, folder) / "cache")


def _removed(opened: FolderCache, removed: int, *, as_json: bool) -> None:
    left = opened.stats()
    if as_json:
        print_json({"removed": removed, **plain(left)})
    else:
        say(f"Removed {removed:,} results; {left.entries:,} are left, {left.bytes:,} bytes.")
