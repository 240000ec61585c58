"""Values of nodes as JSON and back: for hashes, for the log and for the cache. No pickle.

Types matter: ``1``, ``1.0`` and ``True`` differ, and so do a list and a tuple. Plain JSON stands
for itself; everything else is a table with one key that begins with ``$``. A type beyond these is
stored only if it was registered by name: reading stored bytes never imports or calls what they
say. Hashing needs no way back, so it also takes dataclasses, enums and pydantic models that nobody
registered.
"""

import base64
import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from pathlib import PurePosixPath
from typing import Any, Final, Protocol
from uuid import UUID
from zoneinfo import ZoneInfo

from tallgrass.canonical_json import canonical_bytes, sha256_hex
from tallgrass.errors import InvalidInput

DEPTH_MAX: Final = 64
_INT_MAX: Final = (1 << 63) - 1
_INT_MIN: Final = -(1 << 63)
_PLAIN: Final = frozenset({str, bool, type(None)})


class Extension(Protocol):
    """Stores values of another library; `tag` begins with ``$`` and is its own."""

    @property
    def tag(self) -> str:
        """The key under which its values are stored."""

    def takes(self, value: object) -> bool:
        """Tell whether the value is one of its own."""

    def identity(self, value: Any) -> Any:
        """Return what of the value counts for a hash, as values that are known here."""

    def encode(self, value: Any) -> str:
        """Return the value as text."""

    def decode(self, text: str) -> Any:
        """Return the value of a text; it must call nothing that the text names."""


class Values:
    """Knows how values are hashed, stored and read back."""

    def __init__(self, types: Iterable[type] = (), extensions: Sequence[Extension] = ()) -> None:
        self._types = {type_name(each): each for each in types}
        for each in self._types.values():
            if not (dataclasses.is_dataclass(each) or _is_model(each) or issubclass(each, Enum)):
                raise InvalidInput(
                    f"{type_name(each)} is no dataclass, enum or pydantic model",
                    code="node_declaration_invalid",
                )
        self._extensions = {each.tag: each for each in extensions}

    def extended(self, extensions: Sequence[Extension]) -> "Values":
        """Return these with more extensions."""
        return Values(self._types.values(), (*self._extensions.values(), *extensions))

    def encode(self, value: Any) -> Any:
        """Return the JSON value that is stored; what could not be read back is refused."""
        encoder = _Encoder(self._types, self._extensions, "node_result_unstorable")
        encoded = encoder.encode(value)
        # What a model does when it is made is its own affair, and may not be the same twice.
        if encoder.has_models and self.hash_of(self.decode(encoded)) != self.hash_of(value):
            raise InvalidInput(
                "it holds a pydantic model that would be read back as another",
                code="node_result_unstorable",
            )
        return encoded

    def decode(self, stored: Any) -> Any:
        """Return the value of what `encode` gave; anything else is refused."""
        try:
            return self._decode(stored)
        except (ValueError, TypeError, KeyError, ArithmeticError, RecursionError) as exc:
            raise InvalidInput(
                f"a stored value cannot be read: {exc}", code="node_result_unstorable"
            ) from exc

    def identity(self, value: Any) -> Any:
        """Return a JSON value that is equal for equal values of equal types, and only for them.

        Ids of chat messages are left out: they are drawn anew in every run.
        """
        return _Encoder(None, self._extensions, "node_input_unhashable").encode(value)

    def hash_of(self, value: Any) -> str:
        """Return the SHA-256 of a value's identity; it holds in every process."""
        return hash_of_identity(self.identity(value))

    def _decode(self, stored: Any) -> Any:
        if isinstance(stored, list):
            return [self._decode(each) for each in stored]
        if not isinstance(stored, dict):
            return stored
        if len(stored) == 1:
            ((tag, body),) = stored.items()
            if tag.startswith("$"):
                return self._decode_tagged(tag, body)
        return {key: self._decode(each) for key, each in stored.items()}

    def _decode_tagged(self, tag: str, body: Any) -> Any:
        if tag in _SCALARS:
            return _SCALARS[tag](body)
        if tag in _CONTAINERS:
            return _CONTAINERS[tag]([self._decode(each) for each in body])
        if tag == "$map":
            return {self._decode(key): self._decode(each) for key, each in body}
        if tag in {"$enum", "$data", "$model"}:
            return self._decode_registered(tag, body)
        if tag in self._extensions:
            return self._extensions[tag].decode(body)
        raise ValueError(f"{tag!r} is not known")

    def _decode_registered(self, tag: str, body: Any) -> Any:
        name, content = body
        kind: Any = self._types.get(name)
        if kind is None:
            raise ValueError(f"{name} is not registered")
        if tag == "$enum":
            return kind[content]
        fields = {key: self._decode(each) for key, each in content.items()}
        if tag == "$model":
            return _model(kind, fields)
        made = object.__new__(kind)
        for key, each in fields.items():
            object.__setattr__(made, key, each)
        return made


def _model(kind: Any, fields: Mapping[str, Any]) -> Any:
    """Return a model as it was: names are no aliases, and validators had their say before."""
    missing = sorted(kind.model_fields.keys() - fields.keys())
    if missing:
        raise ValueError(f"{type_name(kind)} has fields that were not stored: {', '.join(missing)}")
    return kind.model_construct(**fields)


def hash_of_identity(identity: Any) -> str:
    """Return the SHA-256 of a JSON value's canonical bytes."""
    return sha256_hex(canonical_bytes(identity))


def type_name(kind: type) -> str:
    """Return the name under which a type is registered."""
    return f"{kind.__module__}.{kind.__qualname__}"


class _Encoder:
    """One pass over a value. `types` None: for a hash; else only what can be read back."""

    def __init__(
        self,
        types: Mapping[str, type] | None,
        extensions: Mapping[str, Extension],
        refusal: str,
    ) -> None:
        self._types = types
        self._extensions = extensions
        self._refusal = refusal
        self._depth = 0
        #: Whether any pydantic model was met.
        self.has_models = False

    def encode(self, value: Any) -> Any:
        kind = type(value)
        if kind in _PLAIN:
            return value if kind is not str else self._text(value)
        if kind is int:
            return value if _INT_MIN <= value <= _INT_MAX else {"$int": hex(value)}
        if kind is float:
            return value if math.isfinite(value) else {"$float": repr(value)}
        writer = _WRITERS.get(kind)
        if writer is not None:
            tag, write = writer
            return {tag: write(value)}
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise self._refused(f"it is deeper than {DEPTH_MAX} levels, or holds itself")
        try:
            return self._encode_composed(value, kind)
        finally:
            self._depth -= 1

    def _encode_composed(self, value: Any, kind: type) -> Any:
        if kind is dict:
            return self._mapping(value)
        if kind is list:
            return [self.encode(each) for each in value]
        if kind is tuple:
            return {"$tuple": [self.encode(each) for each in value]}
        if kind is set or kind is frozenset:
            members = sorted((self.encode(each) for each in value), key=canonical_bytes)
            return {f"${kind.__name__}": members}
        for extension in self._extensions.values():
            if extension.takes(value):
                if self._types is None:
                    return {extension.tag: self.encode(extension.identity(value))}
                return {extension.tag: extension.encode(value)}
        return self._of_class(value, kind)

    def _mapping(self, value: dict[Any, Any]) -> Any:
        if all(type(key) is str and not key.startswith("$") for key in value):
            return {self._text(key): self.encode(each) for key, each in value.items()}
        pairs = [[self.encode(key), self.encode(each)] for key, each in value.items()]
        if self._types is None:
            pairs.sort(key=lambda pair: canonical_bytes(pair[0]))
        return {"$map": pairs}

    def _of_class(self, value: Any, kind: type) -> Any:
        name = type_name(kind)
        if self._types is not None and self._types.get(name) is not kind:
            raise self._refused(f"{name} is not a registered type")
        if isinstance(value, Enum):
            return {"$enum": [name, value.name]}
        if dataclasses.is_dataclass(kind):
            # Every field by name, private and derived ones too: the way back sets them as they are.
            names = [each.name for each in dataclasses.fields(kind)]
            if not all(hasattr(value, each) for each in names):
                raise self._refused(f"{name} has a field without a value")
            fields = {each: getattr(value, each) for each in names}
            return {"$data": [name, self._mapping_of_fields(fields)]}
        if _is_model(kind):
            self.has_models = True
            return {"$model": [name, self._mapping_of_fields(self._model_fields(value, kind))]}
        raise self._refused(f"{name} has no form that is the same everywhere")

    def _model_fields(self, value: Any, kind: Any) -> dict[str, Any]:
        # Beside its fields a model may remember what was computed of them.
        own = {each: part for each, part in vars(value).items() if each in kind.model_fields}
        fields = {**own, **(value.model_extra or {})}
        if self._types is None and _is_message(kind) and fields.get("type") != "remove":
            fields.pop("id", None)
        return fields

    def _mapping_of_fields(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        return {name: self.encode(each) for name, each in fields.items()}

    def _text(self, value: str) -> str:
        if not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError:
                raise self._refused("it holds text that is no Unicode") from None
        return value

    def _refused(self, why: str) -> InvalidInput:
        return InvalidInput(why, code=self._refusal)


def _is_model(kind: type) -> bool:
    """Tell a pydantic model without importing pydantic."""
    return hasattr(kind, "__pydantic_validator__") and hasattr(kind, "model_validate")


def _is_message(kind: type) -> bool:
    return any(
        type_name(each) == "langchain_core.messages.base.BaseMessage" for each in kind.__mro__
    )


def _write_instant(value: datetime) -> list[str | int | None]:
    # Without its zone: reading a text with an offset would give another kind of zone.
    return [value.replace(tzinfo=None).isoformat(), value.fold, *_zone(value.tzinfo)]


def _read_instant(body: Any) -> datetime:
    text, fold, kind, zone = body
    tzinfo = _ZONES[kind](zone)
    return datetime.fromisoformat(text).replace(tzinfo=tzinfo, fold=fold)


def _write_time(value: time) -> list[str | int | None]:
    return [value.replace(tzinfo=None).isoformat(), value.fold, *_zone(value.tzinfo)]


def _read_time(body: Any) -> time:
    text, fold, kind, zone = body
    return time.fromisoformat(text).replace(tzinfo=_ZONES[kind](zone), fold=fold)


def _zone(tzinfo: Any) -> tuple[str | None, str | int | None]:
    if tzinfo is None:
        return None, None
    if isinstance(tzinfo, ZoneInfo) and tzinfo.key:
        return "zone", tzinfo.key
    if isinstance(tzinfo, timezone):
        offset = tzinfo.utcoffset(None)
        return "offset", offset // timedelta(microseconds=1)
    raise InvalidInput(
        f"a time in a zone of type {type_name(type(tzinfo))}; use UTC or zoneinfo",
        code="node_input_unhashable",
    )


def _fixed_zone(microseconds: Any) -> timezone:
    return UTC if microseconds == 0 else timezone(timedelta(microseconds=microseconds))


_ZONES: Final[Mapping[str | None, Callable[[Any], Any]]] = {
    None: lambda _: None,
    "zone": ZoneInfo,
    "offset": _fixed_zone,
}


def _read_bytes(text: Any) -> bytes:
    return base64.b64decode(text, validate=True)


def _read_float(text: Any) -> float:
    if text not in {"nan", "inf", "-inf"}:
        raise ValueError(f"{text!r} is no float that needs a tag")
    return float(text)


def _read_delta(body: Any) -> timedelta:
    days, seconds, microseconds = body
    return timedelta(days=days, seconds=seconds, microseconds=microseconds)


#: By exact type: the tag, and the JSON value that stands for it.
_WRITERS: Final[Mapping[type, tuple[str, Callable[[Any], Any]]]] = {
    bytes: ("$bytes", lambda value: base64.b64encode(value).decode()),
    complex: ("$complex", lambda value: [repr(value.real), repr(value.imag)]),
    datetime: ("$datetime", _write_instant),
    date: ("$date", date.isoformat),
    time: ("$time", _write_time),
    timedelta: ("$timedelta", lambda value: [value.days, value.seconds, value.microseconds]),
    Decimal: ("$decimal", str),
    UUID: ("$uuid", str),
    PurePosixPath: ("$path", str),
}
_SCALARS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "$int": lambda text: int(text, 16),
    "$float": _read_float,
    "$bytes": _read_bytes,
    "$complex": lambda body: complex(float(body[0]), float(body[1])),
    "$datetime": _read_instant,
    "$date": date.fromisoformat,
    "$time": _read_time,
    "$timedelta": _read_delta,
    "$decimal": Decimal,
    "$uuid": UUID,
    "$path": PurePosixPath,
}
_CONTAINERS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "$tuple": tuple,
    "$set": set,
    "$frozenset": frozenset,
}
