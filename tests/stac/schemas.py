"""The schemas that documents are checked against: STAC core from pystac, the rest from a folder."""

from __future__ import annotations

import json
import os
from functools import cache
from pathlib import Path
from typing import Any

import pystac
import pytest
from jsonschema import Draft7Validator, Draft202012Validator
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT7

_CORE = Path(pystac.__file__).parent / "validation" / "jsonschemas"
_STAC = "https://schemas.stacspec.org/v1.1.0"
_CORE_ADDRESSES = {
    "item": f"{_STAC}/item-spec/json-schema",
    "collection": f"{_STAC}/collection-spec/json-schema",
    "catalog": f"{_STAC}/catalog-spec/json-schema",
}
_ITEM_PARTS = (
    *("bands", "basics", "common", "data-values", "datetime", "instrument"),
    *("licensing", "provider", "item"),
)


def published() -> Path | None:
    """Return the folder of published schemas, if it is there."""
    data = os.environ.get("TALLGRASS_TEST_DATA")
    root = Path(__file__).resolve().parents[3]
    beside = Path(data).parent if data else root / "shared"
    return beside / "schemas" if (beside / "schemas").is_dir() else None


def folder() -> Path:
    """Return the folder of published schemas, or skip."""
    found = published()
    if found is None:
        pytest.skip("no published schemas beside the folder that TALLGRASS_TEST_DATA names")
    return found


def read(path: Path) -> Any:
    """Return a JSON file."""
    return json.loads(path.read_text(encoding="utf-8"))


@cache
def core_registry() -> Registry[Any]:
    """Return STAC core and GeoJSON under the addresses by which they name each other."""
    pairs = []
    for name in _ITEM_PARTS:
        schema = read(_CORE / "stac-spec" / "v1.1.0" / f"{name}.json")
        pairs.append((f"{_CORE_ADDRESSES['item']}/{name}.json", schema))
    for name in ("collection", "catalog"):
        schema = read(_CORE / "stac-spec" / "v1.1.0" / f"{name}.json")
        pairs.append((f"{_CORE_ADDRESSES[name]}/{name}.json", schema))
    pairs += [
        (f"https://geojson.org/schema/{name}.json", read(_CORE / "geojson" / f"{name}.json"))
        for name in ("Feature", "Geometry")
    ]
    return Registry().with_resources(
        [(address, Resource.from_contents(each, DRAFT7)) for address, each in pairs]
    )


def core_errors(document: Any) -> list[str]:
    """Return what STAC core says against an item or collection."""
    kind = "item" if document["type"] == "Feature" else "collection"
    address = f"{_CORE_ADDRESSES[kind]}/{kind}.json"
    return errors(document, {"$ref": address}, core_registry())


def extension_errors(document: Any, address: str) -> list[str]:
    """Return what a declared extension's own schema says against a document."""
    name = address.split("/")[3]
    schemas = folder() / "stac"
    registry = core_registry()
    for path in sorted(schemas.rglob("*.json")):
        schema = read(path)
        registry = registry.with_resource(
            schema["$id"].rstrip("#"), Resource.from_contents(schema, DRAFT7)
        )
    schema = read(schemas / name / "schema.json")
    assert schema["$id"].rstrip("#") == address, "the declared version is not the published one"
    return errors(document, {"$ref": address}, registry)


def errors(document: Any, schema: Any, registry: Registry[Any]) -> list[str]:
    """Return each violation as text."""
    validator = Draft7Validator(schema, registry=registry)
    return [f"{each.json_path}: {each.message}" for each in validator.iter_errors(document)]


def openlineage_errors(document: Any, address: str) -> list[str]:
    """Return what the OpenLineage schema at an address says against an event or facet."""
    schemas = folder() / "openlineage"
    registry: Registry[Any] = Registry()
    for path in sorted(schemas.rglob("*.json")):
        schema = read(path)
        registry = registry.with_resource(schema["$id"], Resource.from_contents(schema))
    validator = Draft202012Validator(
        {"$ref": address},
        registry=registry,
        format_checker=Draft202012Validator.FORMAT_CHECKER,
    )
    return [f"{each.json_path}: {each.message}" for each in validator.iter_errors(document)]
