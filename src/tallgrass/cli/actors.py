"""``tallgrass actors``: who may act, and in which role."""

import os

import click

from tallgrass.bootstrap.enrolling import add_actor, rotate_actor
from tallgrass.cli.identity import proved
from tallgrass.cli.invocation import Invocation, examples, output_option, pass_invocation
from tallgrass.cli.tables import say, show_table
from tallgrass.cli.text import print_json
from tallgrass.governance.actors import Actor, Role


@click.group(
    name="actors",
    epilog=examples(
        "tallgrass actors add j.doe --role approver", "tallgrass actors list --output json"
    ),
)
def command() -> None:
    """Who may act: add, rotate, revoke, list."""


@command.command(
    epilog=examples(
        "tallgrass actors add j.doe --role approver",
        "TALLGRASS_TOKEN=tg_… tallgrass actors add night-shift --role operator",
    )
)
@click.argument("name")
@click.option(
    "--role",
    type=click.Choice([role.value for role in Role]),
    required=True,
    help="viewer looks, operator acts and requests approvals, approver decides.",
)
@output_option
@pass_invocation
def add(invocation: Invocation, *, name: str, role: str, as_json: bool) -> None:
    """Add an actor and show their token, this once.

    The very first needs no token, and is an approver; all others need an approver's.
    """
    with invocation.stores(read_only=False) as stores:
        first = not stores.actors.any() and not os.environ.get("TALLGRASS_TOKEN")
        by = None if first else proved(stores, action="actor_add", role=Role.APPROVER)
        added, token = add_actor(stores, name, Role(role), by=by)
    _show_token(added, token, as_json=as_json)


@command.command(epilog=examples("tallgrass actors rotate j.doe"))
@click.argument("name")
@output_option
@pass_invocation
def rotate(invocation: Invocation, *, name: str, as_json: bool) -> None:
    """Give an actor a new token and show it, this once; the old one is void at once.

    Everybody may renew their own; an approver that of others.
    """
    with invocation.stores(read_only=False) as stores:
        by = proved(stores, action="actor_rotate", role=Role.VIEWER)
        rotated, token = rotate_actor(stores, name, by=by)
    _show_token(rotated, token, as_json=as_json)


@command.command(epilog=examples("tallgrass actors revoke j.doe"))
@click.argument("name")
@output_option
@pass_invocation
def revoke(invocation: Invocation, *, name: str, as_json: bool) -> None:
    """Take an actor's rights, for good.

    What they did stays; approvals that they gave and that are not used yet count no more. The last
    approver cannot be revoked: add another one first, who then revokes this one.
    """
    with invocation.stores(read_only=False) as stores:
        by = proved(stores, action="actor_revoke", role=Role.APPROVER)
        stores.actors.revoke(name, by=by)
    if as_json:
        print_json({"revoked": name})
        return
    say(f"{name} is revoked.")


@command.command(
    name="list", epilog=examples("tallgrass actors list", "tallgrass actors list --output json")
)
@output_option
@pass_invocation
def list_actors(invocation: Invocation, *, as_json: bool) -> None:
    """List all actors, also the revoked ones; nobody's token."""
    with invocation.stores(read_only=True) as stores:
        actors = stores.actors.list()
    if as_json:
        print_json({"actors": actors})
        return
    if not actors:
        say("No actor is set up: `tallgrass actors add NAME --role approver` adds the first.")
        return
    show_table(
        ("name", "role", "added by", "added", "token of", "revoked"),
        [
            (
                each.name,
                each.role.value,
                each.created_by,
                each.created_at,
                each.rotated_at or each.created_at,
                each.revoked_at,
            )
            for each in actors
        ],
    )


def _show_token(actor: Actor, token: str, *, as_json: bool) -> None:
    if as_json:
        print_json({"name": actor.name, "role": actor.role, "token": token})
        return
    say(f"{actor.name} ({actor.role.value})")
    say(token)
    say("This token is shown once and kept nowhere. Use it as TALLGRASS_TOKEN, or type it.")
