"""The option that names a runner's folder, for all commands about nodes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from tallgrass.cli.invocation import Invocation

_Function = TypeVar("_Function", bound=Callable[..., Any])


def folder_option(function: _Function) -> _Function:
    """Add `--dir`; the command gets `folder`, None where the setting counts."""
    return click.option(
        "--dir",
        "folder",
        type=click.Path(file_okay=False, path_type=str),
        metavar="FOLDER",
        help="The runner's folder (nodes.folder).",
    )(function)


def nodes_folder(invocation: Invocation, folder: str | None) -> Path:
    """Return the folder of the runner that is meant."""
    return Path(invocation.use({"nodes.folder": folder}).text("nodes.folder"))
