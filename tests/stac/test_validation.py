"""Documents against the schemas: what is wrong is named, what cannot be judged is never passed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.bootstrap.schemas import fetch_https, open_validator
from tallgrass.errors import InvalidInput
from tallgrass.stac.validation import documents_in
from tests.operators import scene
from tests.operators.test_same_bytes import outputs
from tests.stac.schemas import folder

if TYPE_CHECKING:
    from pathlib import Path

OWN = "https://example.org/own/v1.0.0/schema.json"
PARTS = "https://example.org/parts/v1.0.0/schema.json"


def item(**changes: Any) -> dict[str, Any]:
    """Return a valid item of core alone."""
    return {
        "type": "Feature",
        "stac_version": "1.1.0",
        "id": "one",
        "geometry": None,
        "properties": {"datetime": "2026-06-01T12:00:00Z"},
        "links": [],
        "assets": {},
        **changes,
    }


def own_schema(address: str = OWN, **rules: Any) -> dict[str, Any]:
    """Return an extension of our own, which wants a property."""
    wanted = {"properties": {"type": "object", "required": ["own:name"]}}
    return {"$schema": "http://json-schema.org/draft-07/schema#", "$id": f"{address}#",
            "type": "object", "properties": wanted, **rules}  # fmt: skip


def schemas(path: Path, *found: dict[str, Any]) -> Path:
    """Write schemas into a folder."""
    for number, schema in enumerate(found):
        below = path / str(number)
        below.mkdir(parents=True)
        (below / "schema.json").write_text(json.dumps(schema))
    return path


@pytest.mark.parametrize("name", list(scene.MATCHES))
def test_items_of_the_pipeline_are_valid(name: str) -> None:
    """Core and every declared extension have nothing against the committed items."""
    document = json.loads(outputs(name)[f"{name}.item.json"])
    assert len(document["stac_extensions"]) >= 4
    verdict = open_validator([folder() / "stac"]).judge(document)
    assert verdict.is_valid, verdict


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"properties": {"datetime": "yesterday"}}, "/properties/datetime"),
        ({"properties": {}}, "/properties"),
        ({"id": ""}, "/id"),
        ({"geometry": {"type": "Polygon", "coordinates": []}, "bbox": [0, 0, 1]}, "/bbox"),
        ({"links": [{"rel": "self", "href": "./one.json"}]}, "/links/0/href"),
        ({"assets": {"data": {}}}, "/assets/data"),
        ({"type": "Something"}, "/type"),
        ({"stac_version": "0.9.0"}, "/stac_version"),
        ({"stac_extensions": "none"}, "/stac_extensions"),
    ],
)
def test_what_core_forbids_is_named_with_its_place(change: dict[str, Any], path: str) -> None:
    """Core is at hand without any folder; a relative `self` is wrong too."""
    verdict = open_validator().judge(item(**change))
    assert path in {each.path for each in verdict.problems}
    assert not verdict.is_valid
    assert open_validator().judge(item()).is_valid


@pytest.mark.parametrize("value", [None, 5, "x", [], {}, {"type": 5}, {"type": None}])
def test_what_is_no_document_is_invalid(value: Any) -> None:
    """Nothing that JSON can hold breaks the judge."""
    assert open_validator().judge(value).problems


def test_an_extension_of_a_folder_counts(tmp_path: Path) -> None:
    """It is found by the address that it gives itself, wherever it lies in the folder."""
    validator = open_validator([schemas(tmp_path, own_schema())])
    declared = item(stac_extensions=[OWN])
    assert [each.path for each in validator.judge(declared).problems] == ["/properties"]
    declared["properties"]["own:name"] = "x"
    assert validator.judge(declared).is_valid


def test_a_missing_schema_is_told_and_never_passed(tmp_path: Path) -> None:
    """A document that declares it is not judged, and so not valid; its address is named."""
    verdict = open_validator([tmp_path]).judge(item(stac_extensions=[OWN]))
    assert verdict.missing == (OWN,)
    assert not verdict.problems
    assert not verdict.is_valid


def test_a_schema_that_leads_to_a_missing_one(tmp_path: Path) -> None:
    """It matters only to documents that lead there; those are not judged, others are."""
    part = {"properties": {"own:part": {"$ref": PARTS}}}
    schema = own_schema(properties={"properties": part})
    validator = open_validator([schemas(tmp_path, schema)])
    assert validator.judge(item(stac_extensions=[OWN])).is_valid
    leading = item(stac_extensions=[OWN])
    leading["properties"]["own:part"] = {}
    assert validator.judge(leading).missing == (PARTS,)
    leading["id"] = ""
    verdict = validator.judge(leading)
    assert [each.path for each in verdict.problems] == ["/id"]


def test_a_schema_is_fetched_once_and_kept(tmp_path: Path) -> None:
    """Only if that is asked for; then it serves without a network."""
    asked = []

    def fetch(address: str) -> bytes:
        asked.append(address)
        return json.dumps(own_schema()).encode()

    declared = item(stac_extensions=[OWN])
    cache = tmp_path / "cache"
    assert open_validator(cache=cache).judge(declared).missing == (OWN,)
    fetching = open_validator(fetch=fetch, cache=cache)
    assert fetching.judge(declared).problems
    assert fetching.judge(declared).problems
    assert open_validator(cache=cache).judge(declared).problems
    assert asked == [OWN]


def test_a_schema_that_cannot_be_fetched_is_an_error(tmp_path: Path) -> None:
    """It is named; nothing is kept of it."""

    def rubbish(_: str) -> bytes:
        return b"<html>"

    validator = open_validator(fetch=rubbish, cache=tmp_path)
    with pytest.raises(InvalidInput, match="example") as caught:
        validator.judge(item(stac_extensions=[OWN]))
    assert caught.value.code == "stac_schema_missing"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("address", ["http://example.org/x.json", "file:///etc/passwd", "x"])
def test_only_https_is_fetched(address: str) -> None:
    """A document cannot make us read files or plain connections."""
    with pytest.raises(InvalidInput, match="only https"):
        fetch_https(address)


def test_a_folder_with_a_broken_schema_is_refused(tmp_path: Path) -> None:
    """It is named: a schema that is passed over would judge nothing."""
    (tmp_path / "broken.json").write_text("{")
    with pytest.raises(InvalidInput, match=r"broken\.json"):
        open_validator([tmp_path])


def test_a_feature_collection_is_its_features() -> None:
    """Each is judged for itself."""
    both = [item(), item(id="two")]
    assert list(documents_in({"type": "FeatureCollection", "features": both})) == both
    assert list(documents_in(both[0])) == [both[0]]
    odd = {"type": "FeatureCollection", "features": 5}
    assert list(documents_in(odd)) == [odd]
