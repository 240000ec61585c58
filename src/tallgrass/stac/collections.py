"""The collection of a dataset as bytes."""

from collections.abc import Iterable
from datetime import datetime

from tallgrass.canonical_json import canonical_bytes
from tallgrass.clock import format_instant
from tallgrass.datasets.definition import Dataset
from tallgrass.stac.extensions import STAC_VERSION, declared
from tallgrass.stac.geometry import WORLD, Box, box_of
from tallgrass.stac.item import sidecar_fields

#: NOAA's own data are works of the United States government, in the public domain.
LICENSE = "CC0-1.0"

_HOSTS = {
    "aws": ("Amazon Web Services", "https://registry.opendata.aws/collab/noaa/"),
    "azure": ("Microsoft Azure", "https://planetarycomputer.microsoft.com/"),
    "gcp": ("Google Cloud", "https://cloud.google.com/public-datasets"),
}


def build_collection(
    dataset: Dataset,
    *,
    box: Box | None = None,
    interval: tuple[datetime | None, datetime | None] = (None, None),
) -> bytes:
    """Return the canonical bytes of a dataset's collection.

    Box and interval are those of the items so far; without them the collection spans what the
    dataset's file says, and all time.
    """
    summaries = {name: _summary(value) for name, value in dataset.item.properties.items()}
    return canonical_bytes(
        {
            "type": "Collection",
            "stac_version": STAC_VERSION,
            "stac_extensions": declared(summaries),
            "id": dataset.item.collection,
            "title": dataset.title,
            "description": dataset.description,
            "license": LICENSE,
            "providers": _providers(dataset),
            "extent": {
                "spatial": {"bbox": [box or declared_box(dataset)]},
                "temporal": {"interval": [[t and format_instant(t) for t in interval]]},
            },
            "summaries": summaries,
            "item_assets": _item_assets(dataset),
            "kfm:care_label": dataset.governance.care_label,
            "kfm:sensitivity": dataset.governance.sensitivity,
            "links": [
                {"rel": "root", "href": "../../catalog.json", "type": "application/json"},
                {"rel": "parent", "href": "../../catalog.json", "type": "application/json"},
            ],
        }
    )


def declared_box(dataset: Dataset) -> Box:
    """Return the box that holds every place of the dataset's file; the world if there is none."""
    rules = dataset.item
    boxes = [box_of(place) for place in rules.places.values()]
    if rules.bbox is not None:
        boxes.append(box_of(rules.bbox))
    return _around(boxes) if boxes else WORLD


def _around(boxes: Iterable[Box]) -> Box:
    """Return the box around boxes; one that crosses the antimeridian makes it go all round."""
    boxes = list(boxes)
    if len(set(boxes)) == 1:
        return boxes[0]
    crosses = any(west > east for west, _, east, _ in boxes)
    return (
        -180.0 if crosses else min(box[0] for box in boxes),
        min(box[1] for box in boxes),
        180.0 if crosses else max(box[2] for box in boxes),
        max(box[3] for box in boxes),
    )


def _summary(value: object) -> list[object]:
    return list(value) if isinstance(value, list | tuple) else [value]


def _providers(dataset: Dataset) -> list[dict[str, object]]:
    noaa: dict[str, object] = {
        "name": "NOAA",
        "roles": ["producer", "licensor"],
        "url": "https://www.noaa.gov/nodd",
    }
    if dataset.provider not in _HOSTS:
        return [noaa]
    name, url = _HOSTS[dataset.provider]
    return [noaa, {"name": name, "roles": ["host"], "url": url}]


def _item_assets(dataset: Dataset) -> dict[str, object]:
    rules = dataset.item
    data = {"type": rules.media_type, "roles": ["data"], "title": dataset.title}
    sidecars = {name: sidecar_fields(suffix) for suffix, name in rules.sidecars.items()}
    return {"data": data, **sidecars}
