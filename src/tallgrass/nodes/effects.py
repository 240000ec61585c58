"""Effects of a node outside: announced, made, written down; never made twice under one key.

    @runner.node(has_effects=True, procedure="SOP-12")
    def publish(state):
        address = effect("put", key=state["name"], do=lambda: upload(state), idempotent=True)
        return {"address": address}

The intent is on the disk before `do` is called, and its result before `effect` returns it. On a
retry or a resume an effect that is done is not made again: what was written down is returned. One
that was begun, and of which nobody knows whether it was made, is made again only if it is declared
idempotent; else the node fails, and compensation undoes it. `key` names the effect in the world
outside: it holds whatever tells it from another one of its name.
"""

import asyncio
import inspect
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tallgrass.errors import InvalidInput, Refused
from tallgrass.nodes.effect_states import (
    EffectRecord,
    EffectState,
    effects_begun,
    latest_effect,
)
from tallgrass.nodes.entries import Kind
from tallgrass.nodes.protocols import ActiveNode, current_node

#: The effect of a file that is staged; the path is its key.
STAGED: Final = "staged_file"
NAME_CHARS_MAX: Final = 128
KEY_CHARS_MAX: Final = 4096

#: Kinds of errors that prove that an effect was not made.
NotMade = tuple[type[BaseException], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Made:
    """An effect that was made before."""

    result: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class _Begun:
    """An effect that is announced; its intent ends there in the journal."""

    active: ActiveNode
    number: int
    name: str
    key: Any
    end: int

    def done(self, result: Any) -> int:
        """Write what came of it; durable after the commit of what is returned."""
        log = self.active.log
        return log.append(Kind.EFFECT_DONE, {**self._head(), "result": log.to_log(result)})

    def not_made(self) -> None:
        """Write that it was certainly not made, so that it may be tried again."""
        self.active.log.append(Kind.EFFECT_NOT_MADE, self._head())

    def _head(self) -> dict[str, Any]:
        return {"number": self.number, "effect": self.name, "key": self.key}


def effect(
    name: str,
    *,
    key: str,
    do: Callable[[], Any],
    idempotent: bool = False,
    not_made: NotMade = (),
) -> Any:
    """Make an effect outside, once under its key, and return its result.

    `do` raising one of `not_made` proves that nothing was done, so a retry may try it again; any
    other error leaves it open.
    """
    begun = _begin(name, key, idempotent=idempotent)
    if isinstance(begun, _Made):
        return begun.result
    log = begun.active.log
    log.commit(begun.end)
    # Given up meanwhile: others may have undone it already.
    log.require_open()
    try:
        result = do()
    except not_made:
        begun.not_made()
        raise
    if inspect.iscoroutine(result):
        result.close()
        raise InvalidInput(
            f"what {name} does is async: use `aeffect`", code="node_declaration_invalid"
        )
    log.commit(begun.done(result))
    return result


async def aeffect(
    name: str,
    *,
    key: str,
    do: Callable[[], Awaitable[Any] | Any],
    idempotent: bool = False,
    not_made: NotMade = (),
) -> Any:
    """Make an effect as `effect` does, in an event loop, which goes on while the disk is synced."""
    begun = _begin(name, key, idempotent=idempotent)
    if isinstance(begun, _Made):
        return begun.result
    log = begun.active.log
    try:
        await asyncio.to_thread(log.commit, begun.end)
    except asyncio.CancelledError:
        begun.not_made()
        raise
    # As in `effect`: a task of its own outlives the node that began it.
    log.require_open()
    try:
        result = do()
        if inspect.isawaitable(result):
            result = await result
    except not_made:
        begun.not_made()
        raise
    await asyncio.to_thread(log.commit, begun.done(result))
    return result


def stage_file(path: str | os.PathLike[str]) -> Path:
    """Announce a file or folder that the node will make; it is removed if the node fails.

    Returns the path, absolute. Call it before the file is made: what was there before is not the
    node's to remove, and is refused. Staging the same path again does nothing more.
    """
    absolute = Path(os.path.abspath(path))  # noqa: PTH100 - a link stays what it is
    log = current_node().log
    was_staged = latest_effect(log.state, STAGED, log.to_log(str(absolute))) is not None
    if not was_staged and os.path.lexists(absolute):
        raise InvalidInput(
            f"{absolute} is there already: it would be removed if the node fails",
            code="node_declaration_invalid",
        )
    effect(STAGED, key=str(absolute), do=lambda: None, idempotent=True)
    return absolute


def _begin(name: str, key: str, *, idempotent: bool) -> _Made | _Begun:
    """Return what an earlier attempt made, or announce the effect."""
    active = current_node()
    _require_declared(active, name, key)
    log = active.log
    stored_key = log.to_log(key)
    with log.exclusive:
        known = latest_effect(log.state, name, stored_key)
        if known is not None and known.state is EffectState.DONE and known.done is not None:
            return _Made(result=log.from_log(known.done.body["result"]))
        _require_settled(known, active, idempotent=idempotent)
        number = 1 + effects_begun(log.state.effects)
        head = {"number": number, "effect": name, "key": stored_key}
        body = {**head, "attempt": active.attempt, "idempotent": idempotent}
        end = log.append(Kind.EFFECT, body)
    return _Begun(active=active, number=number, name=name, key=stored_key, end=end)


def _require_declared(active: ActiveNode, name: object, key: object) -> None:
    if not active.call.declaration.has_effects:
        raise InvalidInput(
            f"{active.call.node_id} makes the effect {name!r} and is not declared with "
            "has_effects: its result could come from the cache, and the effect be missing",
            code="node_declaration_invalid",
        )
    for what, said, most in (("name", name, NAME_CHARS_MAX), ("key", key, KEY_CHARS_MAX)):
        if not isinstance(said, str) or not said.strip() or len(said) > most:
            raise InvalidInput(
                f"the {what} of an effect is a text of 1 to {most} characters",
                code="node_declaration_invalid",
            )


def _require_settled(known: EffectRecord | None, active: ActiveNode, *, idempotent: bool) -> None:
    """Refuse what may have been made and must not be made twice, and what could not be undone."""
    if known is None or known.state in {
        EffectState.NOT_MADE,
        EffectState.UNDONE,
        EffectState.VOID,
    }:
        return
    if known.state is EffectState.BEGUN and idempotent:
        return
    raise Refused(
        f"{active.call.node_id} began the effect {known.name!r} in attempt "
        f"{known.begun.body.get('attempt', '?')}, and nobody knows whether it was made",
        code="node_effect_unsettled",
    )
