"""What the exports for a release share: their folder, and a lock so that one runs at a time."""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

import tallgrass

_LOCK = ".pipeline_outbox_ledger.lock"


def release_options(written: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command the folder that it writes to and the release; `written` is what it writes."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        of_release = click.option(
            "--release",
            default=f"v{tallgrass.__version__}",
            show_default=True,
            help=f"The release whose telemetry it is: {written}.",
        )
        below = click.option(
            "--dir",
            "folder",
            type=click.Path(path_type=Path, file_okay=False),
            required=True,
            help="The folder below which the files are written; made if it is not there.",
        )
        return below(of_release(function))

    return decorate


def make_release_folder(folder: Path, release: str) -> Path:
    """Return the folder of a release, made below the one that was given."""
    if not release or release in {".", ".."} or set(release) & {"/", "\\", "\0"}:
        message = "--release must be the name of one folder"
        raise click.UsageError(message)
    below = folder / "releases" / release
    below.mkdir(parents=True, exist_ok=True)
    return below


@contextmanager
def one_export_at_a_time(folder: Path) -> Iterator[None]:
    """Exclude other exports: one that began earlier must not replace what a later one wrote."""
    descriptor = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
