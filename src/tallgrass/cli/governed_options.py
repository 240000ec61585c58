"""Options that governed commands share; each also has a longer name."""

from collections.abc import Callable
from typing import Any

import click

change_option = click.option(
    "--change",
    "--change-ref",
    "change_ref",
    metavar="REF",
    help="The open change record that it belongs to.",
)
incident_option = click.option(
    "--incident",
    "--incident-ref",
    "incident_ref",
    metavar="REF",
    help="The open incident that it belongs to.",
)
yes_option = click.option(
    "--yes",
    "--confirm",
    "confirmed",
    is_flag=True,
    help="Do not ask; needed where nobody can answer.",
)


def approval_option(help_text: str) -> Callable[[Any], Any]:
    """Return the option that names an approval."""
    return click.option("--approval", "--approval-id", "approval_id", metavar="ID", help=help_text)
