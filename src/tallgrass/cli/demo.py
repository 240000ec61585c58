"""``tallgrass demo``: the ledger at work on made-up units, then the proof."""

import tempfile
from pathlib import Path

import click

from tallgrass.cli.anchors import append_anchor
from tallgrass.cli.invocation import examples, output_option
from tallgrass.cli.text import plain, print_json
from tallgrass.clock import system_clock
from tallgrass.errors import PermanentError, Refused
from tallgrass.ledger.vocabulary import Status
from tallgrass.simulate.ledger_demo import Watcher
from tallgrass.simulate.play import DemoResult, play

UNITS_MIN, UNITS_MAX = 200, 200_000
DATABASE_NAME = "ledger.db"
ANCHORS_NAME = "audit-anchors.jsonl"


class PromiseBroken(PermanentError):
    """The demo found a promise of the ledger that does not hold."""

    default_code = "promise_broken"


@click.command(
    name="demo",
    epilog=examples("tallgrass demo", "tallgrass demo --units 20000 --seed 7 --dir ./demo"),
)
@click.option(
    "--units",
    type=click.IntRange(UNITS_MIN, UNITS_MAX),
    default=3000,
    show_default=True,
    help="How many units to make up.",
)
@click.option("--seed", type=int, default=1, show_default=True, help="One seed, one story.")
@click.option(
    "--dir",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="FOLDER",
    help="Where to keep the database; default: a new folder for temporary files.",
)
@output_option
def command(*, units: int, seed: int, folder: Path | None, as_json: bool) -> None:
    """See the ledger at work on made-up units.

    Duplicates, overwritten objects, failures, a worker that dies, a zombie, a unit that kills its
    workers, a kill switch. Then every promise is checked by counting rows.
    """
    folder = _prepared(folder)
    if as_json:
        result = _played(folder, units, seed, Watcher())
        print_json(_document(result))
    else:
        from tallgrass.cli.demo_view import Screen, show_result  # noqa: PLC0415 - draws with rich

        with Screen() as screen:
            result = _played(folder, units, seed, screen)
        show_result(result, folder / ANCHORS_NAME)
    if result.broken:
        number = len(result.broken)
        message = f"{number} of {len(result.proofs)} promises do not hold: {result.broken[0]}"
        raise PromiseBroken(message)


def _prepared(folder: Path | None) -> Path:
    """Return the folder; a demo never writes into a database that is there."""
    if folder is None:
        return Path(tempfile.mkdtemp(prefix="tallgrass-demo-"))
    folder.mkdir(parents=True, exist_ok=True)
    for name in (DATABASE_NAME, ANCHORS_NAME):
        if (folder / name).exists():
            message = f"{folder / name} is there already; name another --dir or remove it"
            raise Refused(message)
    return folder.absolute()


def _played(folder: Path, units: int, seed: int, watcher: Watcher) -> DemoResult:
    result = play(folder / DATABASE_NAME, units=units, seed=seed, watcher=watcher)
    if result.head is not None:
        append_anchor(folder / ANCHORS_NAME, result.head, system_clock())
    return result


def _document(result: DemoResult) -> dict[str, object]:
    story = result.story
    return {
        "ok": not result.broken,
        "seed": result.seed,
        "units": story.units,
        "database": str(result.database),
        "anchor_file": str(result.database.with_name(ANCHORS_NAME)),
        "messages": story.messages,
        "duplicates": story.duplicates,
        "overwritten": story.overwritten,
        "failed_attempts": story.failures,
        "workers_killed": story.workers_killed,
        "killer": story.killer,
        "parked": story.parked_while_off,
        "receipts": dict(sorted(story.receipts.items())),
        "became": {
            status.value: sum(counts.get(status.value, 0) for counts in _counts(result))
            for status in Status
        },
        "proofs": [{**plain(proof), "holds": proof.holds} for proof in result.proofs],
    }


def _counts(result: DemoResult) -> list[dict[str, int]]:
    return list(result.stats.by_dataset.values())
