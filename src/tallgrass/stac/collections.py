"""The collection of a dataset as bytes."""

from collections.abc import Iterable

from tallgrass.canonical_json import canonical_bytes
from tallgrass.datasets.definition import Dataset
from tallgrass.stac.circle import circle
from tallgrass.stac.coarse_places import coarse_box, coarse_properties
from tallgrass.stac.extensions import STAC_VERSION, declared
from tallgrass.stac.geometry import WORLD, Box, box_of
from tallgrass.stac.item import sidecar_fields

#: NODD's terms are no licence that SPDX lists: the data are open and may be used as desired;
#: attribution is asked for, endorsement must not be implied, changed data not be called original.
LICENSE = "other"
LICENSE_URL = "https://www.noaa.gov/nodd"
_LICENSE_TITLE = "Terms of NOAA Open Data Dissemination"

_WORDS = ("mission", "constellation", "instruments", "platform")

_HOSTS = {
    "aws": ("Amazon Web Services", "https://registry.opendata.aws/collab/noaa/"),
    "azure": ("Microsoft Azure", "https://planetarycomputer.microsoft.com/"),
    "gcp": ("Google Cloud", "https://cloud.google.com/public-datasets"),
}


def build_collection(dataset: Dataset) -> bytes:
    """Return the canonical bytes of a dataset's collection, as long as it has no items.

    It spans what the dataset's file says, and all time.
    """
    summaries = _summaries(dataset)
    return canonical_bytes(
        {
            "type": "Collection",
            "stac_version": STAC_VERSION,
            "stac_extensions": declared(summaries),
            "id": dataset.item.collection,
            "title": dataset.title,
            "description": dataset.description,
            "keywords": _keywords(dataset),
            "license": dataset.item.license or LICENSE,
            "providers": _providers(dataset),
            "extent": {
                "spatial": {"bbox": [declared_box(dataset)]},
                "temporal": {"interval": [[None, None]]},
            },
            "summaries": summaries,
            "item_assets": _item_assets(dataset),
            "kfm:care_label": dataset.governance.care_label,
            "kfm:sensitivity": dataset.governance.sensitivity,
            "links": [
                {"rel": "root", "href": "../../catalog.json", "type": "application/json"},
                {"rel": "parent", "href": "../../catalog.json", "type": "application/json"},
                *_license_links(dataset),
            ],
        }
    )


def declared_box(dataset: Dataset) -> Box:
    """Return the box that holds every place of the dataset's file; the world if there is none."""
    rules = dataset.item
    boxes = [box_of(place) for place in rules.places.values()]
    boxes += [circle(*around).box for around in rules.circles.values()]
    if rules.bbox is not None:
        boxes.append(box_of(rules.bbox))
    box = _around(boxes) if boxes else WORLD
    degrees = dataset.governance.degrees
    return coarse_box(box, degrees) if degrees else box


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


def _summaries(dataset: Dataset) -> dict[str, list[object]]:
    """Return what all items have, and for lists also what some of them have instead."""
    rules = dataset.item
    degrees, fixed = dataset.governance.degrees, rules.properties
    told = coarse_properties(fixed, degrees) if degrees else fixed
    found = {name: _listed(value) for name, value in told.items()}
    for name, words in rules.vocabulary.items():
        others = [each for value in words.values() if isinstance(value, list) for each in value]
        if others:
            found[name] = sorted({*found.get(name, ()), *others}, key=str)
    return found


def _listed(value: object) -> list[object]:
    return list(value) if isinstance(value, list | tuple) else [value]


def _keywords(dataset: Dataset) -> list[str]:
    """Return words by which the collection is looked for."""
    told = [_listed(dataset.item.properties.get(name, [])) for name in _WORDS]
    words = [str(each) for values in told for each in values]
    return list(dict.fromkeys(["NOAA", "NODD", dataset.id, *words]))


def _license_links(dataset: Dataset) -> list[dict[str, str]]:
    """Return where the licence can be read; one that SPDX lists needs no link."""
    rules = dataset.item
    if rules.license is None:
        link = {"rel": "license", "href": LICENSE_URL, "title": _LICENSE_TITLE}
    elif rules.license_url is not None:
        link = {"rel": "license", "href": rules.license_url}
    else:
        return []
    return [{**link, "type": "text/html"}]


def _providers(dataset: Dataset) -> list[dict[str, object]]:
    noaa: dict[str, object] = {
        "name": "NOAA",
        "roles": ["producer", "licensor"],
        "url": "https://www.noaa.gov/nodd",
    }
    found = [noaa]
    for each in (dataset.provider, *dataset.mirrors):
        if each in _HOSTS:
            name, url = _HOSTS[each]
            found.append({"name": name, "roles": ["host"], "url": url})
    return found


def _item_assets(dataset: Dataset) -> dict[str, object]:
    rules = dataset.item
    data = {"type": rules.media_type, "roles": ["data"], "title": dataset.title}
    sidecars = {name: sidecar_fields(suffix) for suffix, name in rules.sidecars.items()}
    return {"data": data, **sidecars}
