"""Who acts: proved by a token, never by a flag.

The token comes from ``TALLGRASS_TOKEN`` or, on a terminal, from a hidden prompt; name and role come
from the store. Only while no actor is set up does a name suffice, for what needs no approval.
"""

import os
import sys

import click

from tallgrass.bootstrap.stores import Stores
from tallgrass.errors import NotAuthorized
from tallgrass.governance.actors import UNKNOWN, Acting, Actor, Role, require_role

TOKEN_VARIABLE = "TALLGRASS_TOKEN"  # noqa: S105 - where it is, not what it is

actor_option = click.option(
    "--actor",
    metavar="NAME",
    help="Who does it, while no actor is set up; else your token tells (TALLGRASS_TOKEN).",
)


def require_somebody(claimed: str | None) -> None:
    """Refuse a call that names nobody and has no terminal to ask at, before anything is opened."""
    can_prove = os.environ.get(TOKEN_VARIABLE) or sys.stdin.isatty()
    if not can_prove and not (claimed or "").strip():
        message = f"who does it? {TOKEN_VARIABLE}, or --actor while no actor is set up"
        raise click.UsageError(message)


def acting(stores: Stores, claimed: str | None, *, action: str) -> Acting:
    """Return who acts; a name that the token does not prove is refused.

    While no actor is set up, it is whoever `--actor` names, and the log says that nobody proved it.
    """
    if os.environ.get(TOKEN_VARIABLE) or stores.actors.any():
        return proved(stores, claimed, action=action)
    if not (claimed or "").strip():
        message = "--actor must name somebody: it is kept in the audit log"
        raise click.UsageError(message)
    return claimed or ""


def proved(
    stores: Stores, claimed: str | None = None, *, action: str, role: Role = Role.OPERATOR
) -> Actor:
    """Return the actor whose token was given; without an actor in the store nobody is."""
    if not stores.actors.any():
        raise NotAuthorized("no actor is set up", code="no_actors")
    token = _token()
    if token is None:
        error = NotAuthorized(
            f"who acts must be proved: {TOKEN_VARIABLE} is not set", code="unknown_actor"
        )
        raise stores.actors.refuse(UNKNOWN, action, error, subject=f"actor:{UNKNOWN}")
    actor = stores.actors.authenticate(token, action=action)
    try:
        _require_same(actor, claimed)
        require_role(actor, role, action.replace("_", " "))
    except NotAuthorized as error:
        raise stores.actors.refuse(
            actor.name, action, error, subject=f"actor:{actor.name}"
        ) from None
    return actor


def _require_same(actor: Actor, claimed: str | None) -> None:
    if claimed is not None and claimed != actor.name:
        message = f"the token is that of {actor.name}, not of {claimed!r}"
        raise NotAuthorized(message)


def _token() -> str | None:
    given = os.environ.get(TOKEN_VARIABLE, "")
    if given.strip():
        return given
    if not sys.stdin.isatty():
        return None
    typed: str = click.prompt("Token", hide_input=True, err=True)
    return typed
