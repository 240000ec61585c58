"""What a release needs, at its pinned versions: from the project's file and what is installed."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, distribution
from typing import TYPE_CHECKING, Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tallgrass.release.sbom import Component

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

#: Extras that nobody needs who runs a release.
NOT_SHIPPED = frozenset({"bench", "dev", "docs"})


class NotPinned(RuntimeError):
    """A package is missing, or installed at another version than the pinned one."""


def pinned(path: Path) -> dict[str, str]:
    """Return the pinned version of each package."""
    lines = path.read_text(encoding="utf-8").splitlines()
    pins = (line.split("==") for line in lines if "==" in line)
    return {canonicalize_name(name): version for name, version in pins}


def closure(
    project: Mapping[str, Any], pins: Mapping[str, str]
) -> tuple[Component, list[Component]]:
    """Return the product, and everything that it needs with any of its extras."""
    asked = [Requirement(each) for each in project["dependencies"]]
    for extra, needs in project["optional-dependencies"].items():
        if extra not in NOT_SHIPPED:
            asked += [Requirement(each) for each in needs]
    found: dict[str, Component] = {}
    waiting = [(canonicalize_name(each.name), frozenset(each.extras)) for each in asked]
    seen: dict[str, frozenset[str]] = {}
    while waiting:
        name, extras = waiting.pop()
        known = seen.get(name)
        if known is not None and extras <= known:
            continue
        seen[name] = extras | (known or frozenset())
        needs = _needs(name, seen[name])
        found[name] = component(name, pins, needs=(canonicalize_name(n.name) for n in needs))
        waiting += [(canonicalize_name(n.name), frozenset(n.extras)) for n in needs]
    product = Component(
        name=project["name"],
        version=project["version"],
        licence=project["license"],
        requires=tuple(sorted({canonicalize_name(each.name) for each in asked})),
    )
    return product, list(found.values())


def component(name: str, pins: Mapping[str, str], *, needs: Iterable[str]) -> Component:
    """Return a package as it is installed, which must be as it is pinned."""
    try:
        metadata = distribution(name).metadata
    except PackageNotFoundError as error:
        raise NotPinned(f"{name} is not installed: make setup") from error
    version = metadata["Version"]
    if pins.get(name) != version:
        raise NotPinned(f"{name} {version} is installed, pinned is {pins.get(name)}: make setup")
    return Component(
        name=name,
        version=version,
        # The older field is free text, which SPDX does not take.
        licence=(metadata.get_all("License-Expression") or [None])[0],
        requires=tuple(sorted(set(needs))),
    )


def _needs(name: str, extras: frozenset[str]) -> list[Requirement]:
    """Return what an installed package asks for here, with the wanted extras of it."""
    try:
        texts = distribution(name).requires or []
    except PackageNotFoundError as error:
        raise NotPinned(f"{name} is not installed: make setup") from error
    asked = [Requirement(text) for text in texts]
    return [
        each
        for each in asked
        if each.marker is None
        or any(each.marker.evaluate({"extra": extra}) for extra in ("", *extras))
    ]
