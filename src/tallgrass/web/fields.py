"""The fields extension: which parts of an item are wanted."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tallgrass.errors import InvalidInput

#: What is given where fields are asked for but none is named, as the extension recommends.
DEFAULT_FIELDS = (
    *("type", "stac_version", "id", "collection", "geometry", "bbox", "links", "assets"),
    "properties.datetime",
)
#: What says which document this is; given whatever is included.
_ALWAYS = ("type", "stac_version", "id", "collection")
_FIELDS_MAX = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Fields:
    """What to include and what to leave out; a field in both is included."""

    include: frozenset[str]
    exclude: frozenset[str]

    def of(self, item: dict[str, Any]) -> dict[str, Any]:
        """Return the wanted parts of an item."""
        found: dict[str, Any] = {}
        for path in sorted(self.include) if self.include else item:
            _copy(item, found, path.split(".") if self.include else [path])
        for path in self.exclude:
            if not any(wanted == path or wanted.startswith(f"{path}.") for wanted in self.include):
                _remove(found, path.split("."))
        return found


def fields_of(include: Iterable[str] | None, exclude: Iterable[str]) -> Fields:
    """Return the choice; `include` is None where nothing was said of it, so that all is wanted."""
    left_out = frozenset(exclude)
    wanted = None if include is None else frozenset(include)
    if len(left_out) + len(wanted or ()) > _FIELDS_MAX:
        raise InvalidInput(f"fields: at most {_FIELDS_MAX}")
    if wanted is None and left_out:
        return Fields(include=frozenset(), exclude=left_out)
    chosen = frozenset((*_ALWAYS, *wanted)) if wanted else frozenset(DEFAULT_FIELDS) - left_out
    return Fields(include=chosen, exclude=left_out)


def fields_of_text(text: str) -> Fields:
    """Return the choice of a query: names after commas, `-` before those to leave out."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    exclude = [name[1:] for name in names if name.startswith("-")]
    include = [name.removeprefix("+") for name in names if not name.startswith("-")]
    return fields_of(include if include or not exclude else None, exclude)


def _copy(source: Any, target: dict[str, Any], path: list[str]) -> None:
    """Copy what is at a path, if it is there."""
    name, *rest = path
    if not isinstance(source, dict) or name not in source:
        return
    if not rest:
        target[name] = _own(source[name])
        return
    if isinstance(source[name], dict):
        below = target.setdefault(name, {})
        _copy(source[name], below, rest)
        if not below:
            del target[name]


def _own(value: Any) -> Any:
    """Return a value whose objects may be changed without changing the source."""
    return {name: _own(each) for name, each in value.items()} if isinstance(value, dict) else value


def _remove(target: Any, path: list[str]) -> None:
    name, *rest = path
    if not isinstance(target, dict) or name not in target:
        return
    if rest:
        _remove(target[name], rest)
    else:
        del target[name]
