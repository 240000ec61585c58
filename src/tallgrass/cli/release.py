"""``tallgrass release``: check what was downloaded before it is used."""

from dataclasses import asdict
from pathlib import Path

import click

from tallgrass.cli.invocation import examples, output_option
from tallgrass.cli.tables import cell, say, show_facts
from tallgrass.cli.text import print_json
from tallgrass.errors import ReleaseBroken
from tallgrass.release.verify import ReleaseReport, Signature, verify_release

_SAID = {
    Signature.VALID: ("valid: the given key signed manifest.zip", "green"),
    Signature.INVALID: ("not of the given key", "red"),
    Signature.UNCHECKED: ("not checked: name the publisher's key with --key", "yellow"),
    Signature.UNSIGNED: ("none: the release is unsigned", "yellow"),
}


@click.group(name="release", epilog=examples("tallgrass release verify releases/v0.1.0"))
def command() -> None:
    """A release's files: verify."""


@command.command(
    epilog=examples(
        "tallgrass release verify releases/v0.1.0",
        "tallgrass release verify releases/v0.1.0 --key publisher.pem --output json",
    )
)
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False, exists=True))
@click.option(
    "--key",
    "key_file",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    metavar="FILE",
    help="The publisher's public key (Ed25519, PEM), from elsewhere than the release.",
)
@output_option
def verify(*, folder: Path, key_file: Path | None, as_json: bool) -> None:
    """Check every file of a release against its list, and the list against its signature.

    Names each file that is missing, added or changed. Without --key nothing is known of who made
    the release. Ends with 1 if anything is wrong. Needs no network and no database.
    """
    report = verify_release(folder, None if key_file is None else key_file.read_bytes())
    if as_json:
        print_json(_document(report))
    else:
        _show(folder, report)
    if not report.holds:
        number = len(report.findings)
        raise ReleaseBroken(f"{folder}: {number} finding{'s' * (number != 1)}")


def _document(report: ReleaseReport) -> dict[str, object]:
    manifest = report.manifest
    return {
        "ok": report.holds,
        "version": None if manifest is None else manifest.version,
        "commit": None if manifest is None else manifest.commit,
        "signature": report.signature.value,
        "files": 0 if manifest is None else len(manifest.files),
        "findings": [asdict(each) for each in report.findings],
    }


def _show(folder: Path, report: ReleaseReport) -> None:
    manifest = report.manifest
    said, colour = _SAID[report.signature]
    show_facts(
        [
            ("release", None if manifest is None else manifest.version),
            ("commit", None if manifest is None else manifest.commit),
            ("files listed", 0 if manifest is None else len(manifest.files)),
            ("signature", cell(said, colour)),
        ],
        title=str(folder),
    )
    for each in report.findings:
        say(cell(f"{each.kind.value}  {each.file}: {each.message}", "red"))
    if report.holds:
        say("Every file is as the list says.")
