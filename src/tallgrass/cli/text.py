"""Writes text to a terminal or a pipe; nothing in the data can control the terminal."""

import contextlib
import os
import sys
from typing import Any

import click

from tallgrass.views.text import duration, hide_credentials, json_bytes, json_line, plain, printable

__all__ = [
    "duration",
    "hide_credentials",
    "json_bytes",
    "json_line",
    "log_line",
    "plain",
    "print_json",
    "printable",
    "styled",
    "tell",
    "wants_colour",
]


def print_json(value: object) -> None:
    """Print one JSON document on stdout."""
    sys.stdout.write(json_bytes(value).decode())


def tell(text: str) -> None:
    """Write to stderr for whoever looks; nothing where nobody can."""
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.write(text)
        sys.stderr.flush()


def log_line(line: str) -> None:
    """Write a line of the log in one piece: several processes share stderr."""
    sys.stderr.write(hide_credentials(line))
    sys.stderr.flush()


def styled(text: str, colour: str, *, bold: bool = False) -> str:
    """Colour a word on stderr, where it is a terminal that wants colours."""
    return click.style(text, fg=colour, bold=bold) if wants_colour(sys.stderr) else text


def wants_colour(stream: Any) -> bool:
    """Tell whether a stream is a terminal and nobody asked for plain text."""
    plain_wanted = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return stream.isatty() and not plain_wanted
