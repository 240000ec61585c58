"""``tallgrass verify``: make every item again of the kept evidence, and compare the bytes."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from tallgrass.bootstrap.verifying import VerifyRequest, verify
from tallgrass.cli.invocation import Invocation, examples, output_option, pass_invocation
from tallgrass.cli.replay_options import unit_options
from tallgrass.cli.tables import cell, progress, say, show_facts
from tallgrass.cli.text import print_json
from tallgrass.replay.selection_words import Selected
from tallgrass.replay.verify import Judgement, Verdict, VerifyReport

if TYPE_CHECKING:
    from rich.text import Text

_STYLES = {
    Verdict.IDENTICAL: "green",
    Verdict.DIFFERS: "red",
    Verdict.SOURCE_CHANGED: "yellow",
    Verdict.SOURCE_GONE: "yellow",
    Verdict.UNREAD: "red",
}


@click.command(
    name="verify",
    epilog=examples(
        "tallgrass verify",
        "tallgrass verify --dataset goes-glm --since 2026-06-01 --reread",
        "tallgrass verify --sample 1000 --store postgresql://… --output json",
    ),
)
@unit_options
@click.option(
    "--reread", is_flag=True, help="Read each object again: has it changed, is it still there?"
)
@click.option(
    "--sample", type=click.IntRange(1), metavar="N", help="Only N of the selected units, by chance."
)
@click.option(
    "--seed",
    type=int,
    default=0,
    show_default=True,
    help="Which ones a sample takes: the same seed takes the same.",
)
@click.option("--store", metavar="URL", help="Ledger and catalog (database.url).")
@click.option("--objects", metavar="URL", help="file:FOLDER or cloud, for --reread (objects.url).")
@output_option
@pass_invocation
def command(
    invocation: Invocation,
    *,
    selected: Selected,
    reread: bool,
    sample: int | None,
    seed: int,
    store: str | None,
    objects: str | None,
    as_json: bool,
) -> None:
    """Prove the catalog: make its documents again, and compare the bytes.

    Each unit's item and provenance are made of the evidence that the ledger keeps, by the code and
    the datasets of this installation. Without a condition everything is verified. Writes nothing.
    Ends with 1 if anything differs, or with --reread if an object could not be read.
    """
    config = invocation.use({"database.url": store, "objects.url": objects})
    request = VerifyRequest(selection=selected.selection, reread=reread, sample=sample, seed=seed)
    with invocation.stores(read_only=True) as stores, _progress(sample) as tell:
        report = verify(config, stores, request, progress=tell)
    if as_json:
        print_json(report.document())
    else:
        _show(report, reread=reread)
    if not report.holds:
        raise click.exceptions.Exit(1)


@contextmanager
def _progress(total: int | None) -> Iterator[Callable[[int], None]]:
    """Show on stderr how many units were judged, where somebody looks."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    with progress("verifying", total) as bar:

        def tell(done: int) -> None:
            if bar is not None:
                bar.update(bar.task_ids[0], completed=done)

        yield tell


def _show(report: VerifyReport, *, reread: bool) -> None:
    for judgement in report.listed:
        for line in _lines(judgement):
            say(cell(line))
    left_out = report.verified - report.counts[Verdict.IDENTICAL] - len(report.listed)
    if left_out:
        say(f"… and {left_out:,} more units", "dim")
    sources = (Verdict.SOURCE_CHANGED, Verdict.SOURCE_GONE, Verdict.UNREAD)
    shown = [each for each in Verdict if reread or each not in sources]
    show_facts(
        [
            ("verified", report.verified),
            *((each.value, _counted(report, each)) for each in shown),
            ("without an item", report.without_item),
            ("by other versions", report.other_versions),
        ],
        title="Units",
    )
    if not report.verified:
        say("There was nothing to verify.")


def _counted(report: VerifyReport, verdict: Verdict) -> "Text":
    number = report.counts[verdict]
    return cell(number, _STYLES[verdict] if number else "")


def _lines(judgement: Judgement) -> Iterator[str]:
    """Yield a line for the unit, and one for each of its fields."""
    unit, failure = judgement.unit, judgement.failure
    said = "" if failure is None else f": {failure[0]}: {failure[1]}"
    yield f"{judgement.verdict.value}  {unit.wal_id}  {unit.object_uri}{said}"
    for each in judgement.fields:
        stored, found = each.stored or "nothing", each.found or "nothing"
        yield f"  {each.part.value} {each.field or '/'}: stored {stored}, found {found}"
    if judgement.fields_left_out:
        yield f"  … and {judgement.fields_left_out:,} more fields"
