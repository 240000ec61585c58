"""Adds actors and gives them new tokens, for commands, the API and pages."""

import secrets

from tallgrass.bootstrap.stores import Stores
from tallgrass.governance.actors import TOKEN_BYTES, Actor, Role, make_token


def add_actor(stores: Stores, name: str, role: Role, *, by: Actor | None) -> tuple[Actor, str]:
    """Add an actor; return them and their token, which is kept nowhere."""
    token = make_token(secrets.token_bytes(TOKEN_BYTES))
    return stores.actors.add(name, role, token=token, by=by), token


def rotate_actor(stores: Stores, name: str, *, by: Actor) -> tuple[Actor, str]:
    """Give an actor another token; return them and the token, which is kept nowhere."""
    token = make_token(secrets.token_bytes(TOKEN_BYTES))
    return stores.actors.rotate(name, token=token, by=by), token
