"""``tallgrass demo``: the whole pipeline at work on a simulated feed, then the proof."""

import tempfile
from pathlib import Path

import click

from tallgrass.bootstrap.audit_anchors import append_anchor
from tallgrass.cli.invocation import examples, output_option
from tallgrass.cli.text import json_bytes, print_json
from tallgrass.clock import system_clock
from tallgrass.errors import InvalidInput, PermanentError, Refused
from tallgrass.ledger.vocabulary import Status
from tallgrass.simulate.demo_folder import ALL_NAMES, ANCHORS_NAME, MANIFEST_NAME
from tallgrass.simulate.demo_telling import DemoResult, Watcher
from tallgrass.simulate.pipeline_demo import play

UNITS_MAX = 200_000


class PromiseBroken(PermanentError):
    """The demo found a promise that does not hold."""

    default_code = "promise_broken"


@click.command(
    name="demo",
    epilog=examples("tallgrass demo", "tallgrass demo --units 20000 --seed 7 --dir ./demo"),
)
@click.option(
    "--units",
    type=click.IntRange(1, UNITS_MAX),
    default=3000,
    show_default=True,
    help="How many units the feed has.",
)
@click.option("--seed", type=int, default=1, show_default=True, help="One seed, one story.")
@click.option(
    "--dir",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="FOLDER",
    help="Where to keep everything; default: a new folder for temporary files.",
)
@output_option
def command(*, units: int, seed: int, folder: Path | None, as_json: bool) -> None:
    """See the pipeline at work on a simulated feed.

    Notifications, objects, queue, ledger and catalog, all in one folder, with everything that goes
    wrong: duplicates, reorderings, overwritten, truncated and missing objects, poison, a worker
    that dies, a kill switch. Then every promise is checked by counting rows.
    """
    folder = _prepared(folder)
    if as_json:
        result = _played(folder, units, seed, Watcher())
        print_json(_document(result))
    else:
        from tallgrass.cli.demo_view import Screen, show_result  # noqa: PLC0415 - draws with rich

        with Screen() as screen:
            result = _played(folder, units, seed, screen)
        show_result(result)
    if result.broken:
        number = len(result.broken)
        message = f"{number} of {len(result.proofs)} promises do not hold: {result.broken[0]}"
        raise PromiseBroken(message)


def _prepared(folder: Path | None) -> Path:
    """Return the folder; a demo never writes over anything that is there."""
    if folder is None:
        return Path(tempfile.mkdtemp(prefix="tallgrass-demo-"))
    _require_text(folder.absolute())
    folder.mkdir(parents=True, exist_ok=True)
    for name in ALL_NAMES:
        if (folder / name).exists():
            message = f"{folder / name} is there already; name another --dir or remove it"
            raise Refused(message)
    return folder.absolute()


def _require_text(folder: Path) -> None:
    """Refuse a folder whose path is no text: the demo's configuration could not name it."""
    try:
        str(folder).encode()
    except UnicodeEncodeError:
        raise InvalidInput(f"not UTF-8: {str(folder)!r}; name another --dir") from None


def _played(folder: Path, units: int, seed: int, watcher: Watcher) -> DemoResult:
    result = play(folder, units=units, seed=seed, watcher=watcher)
    (folder / MANIFEST_NAME).write_bytes(json_bytes(result.manifest.to_json()))
    if result.head is not None:
        append_anchor(folder / ANCHORS_NAME, result.head, system_clock())
    return result


def _document(result: DemoResult) -> dict[str, object]:
    """Return the summary; `messages` is the sum of the four figures that follow it."""
    units = len(result.manifest.units)
    return {
        "units": units,
        "by_status": {status.value: result.by_status.get(status.value, 0) for status in Status},
        "messages": result.manifest.messages,
        "announcements": result.manifest.announcements,
        "ignored": sum(result.ignored.values()),
        "poison": result.poison,
        "duplicates": result.manifest.duplicates,
        "items": result.items,
        "catalog_sha256": result.catalog_sha256,
        "seconds": round(result.seconds, 3),
        "units_per_second": round(units / max(result.seconds, 0.001), 1),
        "folder": str(result.folder),
    }
