"""Where schemas are found: in the installed packages, in folders, or fetched once and kept."""

import hashlib
import os
import urllib.request
from collections.abc import Callable, Sequence
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from tallgrass.errors import ConfigError, InvalidInput

if TYPE_CHECKING:
    from tallgrass.stac.validation import StacValidator

#: Returns the bytes at an https address.
Fetch = Callable[[str], bytes]

_FETCH_TIMEOUT_S = 30
_SCHEMA_BYTES_MAX = 5_000_000
#: Under which a schema is asked for, where that differs from the name that it gives itself.
_ALIASES = {
    "https://schemas.stacspec.org/v1.1.0/item-spec/json-schema/commonjson": (
        "https://schemas.stacspec.org/v1.1.0/item-spec/json-schema/common.json"
    )
}


def open_validator(
    folders: Sequence[Path] = (), *, fetch: Fetch | None = None, cache: Path | None = None
) -> "StacValidator":
    """Return a validator over the shipped schemas and those of folders.

    With `fetch`, a schema that is found nowhere is fetched and kept in the cache. A schema that is
    in the cache is used without `fetch` too.
    """
    try:
        from tallgrass.stac.validation import StacValidator  # noqa: PLC0415 - optional extra
    except ModuleNotFoundError as exc:
        raise ConfigError(
            "stac validate: jsonschema-rs is not installed", code="stac_missing"
        ) from exc
    known = {**_core_schemas(), **_shipped_schemas()}
    for folder in folders:
        known.update(_folder_schemas(folder))

    def source(address: str) -> Any:
        if address in known:
            return known[address]
        return None if cache is None else _kept(address, cache, fetch)

    return StacValidator(source)


def default_cache() -> Path:
    """Return where fetched schemas are kept unless told otherwise."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "tallgrass" / "schemas"


def fetch_https(address: str) -> bytes:
    """Fetch a schema; only https addresses are followed."""
    if not address.startswith("https://"):
        raise InvalidInput(f"{address} is not fetched: only https addresses are")
    request = urllib.request.Request(address, headers={"Accept": "application/json"})  # noqa: S310
    with urllib.request.urlopen(request, timeout=_FETCH_TIMEOUT_S) as answer:  # noqa: S310 - https
        body: bytes = answer.read(_SCHEMA_BYTES_MAX + 1)
    if len(body) > _SCHEMA_BYTES_MAX:
        raise InvalidInput(f"{address} is larger than {_SCHEMA_BYTES_MAX:,} bytes")
    return body


def _core_schemas() -> dict[str, Any]:
    """Return STAC core and GeoJSON, which pystac brings."""
    found = find_spec("pystac")
    if found is None or found.origin is None:
        raise ConfigError("stac validate: pystac-core is not installed", code="stac_missing")
    folder = Path(found.origin).parent / "validation" / "jsonschemas"
    return {
        _ALIASES.get(address, address): schema
        for address, schema in _folder_schemas(folder).items()
    }


def _shipped_schemas() -> dict[str, Any]:
    folder = files("tallgrass.stac").joinpath("schemas")
    schemas = [
        orjson.loads(each.read_bytes()) for each in folder.iterdir() if each.name[-5:] == ".json"
    ]
    return {_address_of(schema): schema for schema in schemas}


def _folder_schemas(folder: Path) -> dict[str, Any]:
    """Return the schemas below a folder by the addresses that they give themselves."""
    if not folder.is_dir():
        raise InvalidInput(f"there is no folder of schemas {folder}")
    found = {}
    for path in sorted(folder.rglob("*.json")):
        try:
            schema = orjson.loads(path.read_bytes())
        except orjson.JSONDecodeError as exc:
            raise InvalidInput(f"{path} is not JSON: {exc}") from exc
        if isinstance(schema, dict) and isinstance(schema.get("$id"), str):
            found[_address_of(schema)] = schema
    return found


def _address_of(schema: dict[str, Any]) -> str:
    return str(schema["$id"]).rstrip("#")


def _kept(address: str, cache: Path, fetch: Fetch | None) -> Any:
    """Return a schema from the cache, fetched into it where that is wanted."""
    path = cache / f"{hashlib.sha256(address.encode()).hexdigest()}.json"
    if path.is_file():
        return orjson.loads(path.read_bytes())
    if fetch is None:
        return None
    try:
        body = fetch(address)
        schema = orjson.loads(body)
    except (OSError, orjson.JSONDecodeError, InvalidInput) as exc:
        raise InvalidInput(
            f"{address} cannot be fetched: {exc}", code="stac_schema_missing"
        ) from exc
    cache.mkdir(parents=True, exist_ok=True)
    half = path.with_suffix(f".{os.getpid()}")
    half.write_bytes(body)
    half.replace(path)
    return schema
