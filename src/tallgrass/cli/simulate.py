"""``tallgrass simulate``: a feed like NODD's, with faults in chosen shares."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import click

from tallgrass.bootstrap.queues import open_queue
from tallgrass.cli.invocation import (
    FiniteRange,
    Invocation,
    examples,
    output_option,
    pass_invocation,
)
from tallgrass.cli.tables import progress, say, show_facts
from tallgrass.cli.text import json_bytes, print_json
from tallgrass.cli.whole_files import appearing_whole
from tallgrass.config import Config
from tallgrass.errors import Refused
from tallgrass.simulate.feed import Feed, FeedManifest
from tallgrass.simulate.feed_plan import FeedFaults

UNITS_MAX = 1_000_000
OBJECTS_NAME, MESSAGES_NAME = "objects", "messages"
_SEND_AT_ONCE = 500

_SHARES = {
    "overwritten": "Units written again under the same key",
    "stale": "Units whose first write is announced after the second",
    "truncated": "Units whose object breaks off",
    "zero_bytes": "Units whose object is empty",
    "missing": "Units whose object is not there",
    "late": "Units that are announced before their object is there",
    "duplicated": "Messages that come twice",
    "reordered": "Messages that come late",
    "poison": "Messages that cannot be understood",
    "deletions": "Messages that announce a deletion",
    "sidecars": "Messages about files that are no data",
    "test_events": "Messages that a bucket sends as a test",
    "raw_delivery": "Messages without the SNS envelope",
    "two_records": "Messages that announce two objects",
}


def _share_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add an option for each share, in the order of the faults."""
    for each in reversed(fields(FeedFaults)):
        function = click.option(
            f"--{each.name.replace('_', '-')}",
            each.name,
            type=FiniteRange(0, 1),
            default=each.default,
            show_default=True,
            metavar="SHARE",
            help=f"{_SHARES[each.name]}.",
        )(function)
    return function


@dataclass(frozen=True, slots=True, kw_only=True)
class _Made:
    """What was made, and where it is."""

    manifest: FeedManifest
    objects: Path
    #: Where the messages went: a queue's address or a folder.
    messages: str


@click.command(
    name="simulate",
    epilog=examples(
        "tallgrass simulate --units 1000 --dir feed --queue sqlite:///feed/queue.db",
        "tallgrass simulate --units 50 --dir feed --truncated 0.5 --manifest feed/manifest.json",
    ),
)
@click.option(
    "--units",
    type=click.IntRange(1, UNITS_MAX),
    default=1000,
    show_default=True,
    help="How many units the feed has.",
)
@click.option("--seed", type=int, default=1, show_default=True, help="One seed, one feed.")
@click.option(
    "--dir",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    metavar="FOLDER",
    help="Objects go to FOLDER/objects.",
)
@click.option(
    "--queue",
    metavar="URL",
    help="Send the messages there; without it they are files in FOLDER/messages.",
)
@click.option(
    "--manifest",
    "manifest_file",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write down there what must become of each unit, as JSON.",
)
@_share_options
@output_option
@pass_invocation
def command(
    invocation: Invocation,
    /,
    *,
    units: int,
    seed: int,
    folder: Path,
    queue: str | None,
    manifest_file: Path | None,
    as_json: bool,
    **shares: Any,
) -> None:
    """Make a feed: objects, and messages that announce them.

    Small files in the real formats, real key forms and envelopes, and faults in chosen shares. The
    same seed and options make the same feed.
    """
    feed = Feed(seed, units, FeedFaults(**shares))
    made = _make(feed, folder, queue, invocation)
    if manifest_file is not None:
        with appearing_whole(manifest_file, mode=0o644) as file:
            file.write(json_bytes(made.manifest.to_json()))
    if as_json:
        print_json(_document(made))
    else:
        _show(made)


def _make(feed: Feed, folder: Path, queue: str | None, invocation: Invocation) -> _Made:
    messages = folder / MESSAGES_NAME
    if queue is None and messages.exists():
        message = f"{messages} is there already; name another --dir, or a --queue"
        raise Refused(message)
    # A queue that cannot be used is told before anything is written.
    config = None if queue is None else invocation.use({"queue.url": queue})
    objects = folder / OBJECTS_NAME
    objects.mkdir(parents=True, exist_ok=True)
    manifest = feed.manifest()
    with _counted_aloud("units written", len(manifest.units)) as advance:
        feed.write(objects, advance)
    with _counted_aloud("messages sent", manifest.messages) as advance:
        if config is None:
            messages.mkdir()
            for number, body in enumerate(feed.bodies(), start=1):
                (messages / f"{number:07}.json").write_bytes(body)
                advance()
        else:
            _send(config, feed, advance)
    return _Made(manifest=manifest, objects=objects, messages=queue or str(messages))


@contextmanager
def _counted_aloud(what: str, total: int) -> Iterator[Callable[[], None]]:
    """Show a bar to whoever looks; what is yielded moves it on."""
    with progress(what, total) as bar:
        yield (lambda: None) if bar is None else (lambda: bar.advance(bar.task_ids[0]))


def _send(config: Config, feed: Feed, advance: Callable[[], None]) -> None:
    queue = open_queue(config)
    try:
        for bodies in _batches(feed.bodies()):
            queue.send(bodies)
            for _ in bodies:
                advance()
    finally:
        queue.close()


def _batches(bodies: Iterator[bytes]) -> Iterator[list[bytes]]:
    batch: list[bytes] = []
    for body in bodies:
        batch.append(body)
        if len(batch) == _SEND_AT_ONCE:
            yield batch
            batch = []
    if batch:
        yield batch


def _document(made: _Made) -> dict[str, object]:
    manifest = made.manifest
    return {
        "seed": manifest.seed,
        "units": len(manifest.units),
        "by_dataset": _counted(unit.dataset for unit in manifest.units),
        "by_fate": _counted(unit.fate for unit in manifest.units),
        "expected": _counted(unit.expected for unit in manifest.units),
        "messages": manifest.messages,
        "duplicates": manifest.duplicates,
        "ignored": manifest.ignored,
        "poison": manifest.poison,
        "objects": str(made.objects),
        "sent_to": made.messages,
    }


def _counted(words: Iterator[str]) -> dict[str, int]:
    return dict(sorted(Counter(words).items()))


def _show(made: _Made) -> None:
    manifest = made.manifest
    fates = _counted(unit.fate for unit in manifest.units)
    expected = _counted(unit.expected for unit in manifest.units)
    show_facts(
        [
            ("units", len(manifest.units)),
            *((f"  {name}", number) for name, number in fates.items()),
            ("messages", manifest.messages),
            ("  duplicates", manifest.duplicates),
            *((f"  no unit: {name}", number) for name, number in manifest.ignored.items()),
            *((f"  poison: {name}", number) for name, number in manifest.poison.items()),
            ("must succeed", expected.get("succeeded", 0)),
            ("must fail", expected.get("failed", 0)),
            ("objects", str(made.objects)),
            ("messages in", made.messages),
        ]
    )
    say(f"One seed, one feed: --seed {manifest.seed}", "dim")
