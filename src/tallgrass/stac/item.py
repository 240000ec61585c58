"""A STAC item as bytes: what the catalog stores, hashes and compares.

The bytes are a function of the object as read, its key, what was read of it, and the dataset's
file. They hold no clock time, event time, attempt, worker or software version, so that ingest and
replay give the same.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import orjson

from tallgrass.canonical_json import canonical_bytes
from tallgrass.clock import format_instant
from tallgrass.datasets.definition import Band, Dataset
from tallgrass.made_often import made_often
from tallgrass.stac.coarse_places import coarse_properties
from tallgrass.stac.extensions import STAC_VERSION, declared
from tallgrass.stac.geometry import Box, geometry_of
from tallgrass.stac.hrefs import https_prefix, part, quoted_key
from tallgrass.stac.source_object import SourceObject, multihash
from tallgrass.stac.storage_schemes import is_stored, storage_scheme
from tallgrass.stac.summarised import summarised

#: PROV-AQ's relation from a resource to its provenance.
PROVENANCE_REL = "http://www.w3.org/ns/prov#has_provenance"

_ASSET_FIELDS = ("alternate:name", "file:size")
_SIDECAR_TYPES = {".idx": "text/plain"}
_ALTERNATE_NAMES = {"aws": "S3", "azure": "Azure", "gcp": "Google Cloud Storage"}
#: Relation and address of what all items lead to.
_LINKS = (
    ("root", "../../../catalog.json"),
    ("parent", "../collection.json"),
    ("collection", "../collection.json"),
)
_PLANS_MAX = 1024


@made_often
class Description:
    """When and where the data are, and what they are: the findings of metadata-extract."""

    start: datetime
    #: Equal to the start where no end is known.
    end: datetime
    #: What the item gives as its one time.
    instant: datetime
    #: None where nothing tells it: the geometry is null then.
    box: Box | None
    #: GeoJSON inside the box, where it is not the box itself.
    geometry: Mapping[str, object] | None = None
    #: STAC properties of this unit, beside those of its dataset.
    properties: Mapping[str, object] = field(default_factory=dict)
    #: Spectral bands of the data.
    bands: Sequence[Band] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """What all items of a dataset share."""

    #: Kept, so that its identity is not given to another dataset.
    dataset: Dataset
    properties: dict[str, object]
    #: Those that its collection tells in summaries.
    summarised: frozenset[str]
    asset: dict[str, object]
    #: Written once.
    links: tuple[orjson.Fragment, ...]
    #: Asset key, suffix and fields of each sidecar.
    sidecars: tuple[tuple[str, str, dict[str, object]], ...]
    #: Suffix and media type, longest first.
    media_types: tuple[tuple[str, str], ...]
    #: Provider and names of a unit's own properties → extensions; few differ.
    extensions: dict[tuple[str, ...], list[str]]
    #: Provider and bucket → its storage scheme.
    stored: dict[tuple[str, str], dict[str, object] | None]


def build_item(
    *,
    dataset: Dataset,
    item_id: str,
    source: SourceObject,
    description: Description,
    properties: Mapping[str, object] | None = None,
) -> bytes:
    """Return the canonical bytes of the item of one object.

    Whoever needs its properties beside the bytes gives them, as `properties_of` made them.
    """
    plan = _plan_of(dataset)
    if properties is None:
        properties = properties_of(dataset, source, description)
    named, box = part(item_id), description.box
    return canonical_bytes(
        {
            "type": "Feature",
            "stac_version": STAC_VERSION,
            "stac_extensions": _extensions_of(plan, source.provider, description),
            "id": item_id,
            "collection": dataset.item.collection,
            "geometry": None if box is None else description.geometry or geometry_of(box),
            # STAC core forbids the box where there is no geometry.
            **({} if box is None else {"bbox": box}),
            "properties": properties,
            "assets": _assets(plan, source, description.bands),
            # No `self`: STAC wants a full address there, which is not known before it is served.
            "links": [
                *plan.links,
                {
                    "rel": PROVENANCE_REL,
                    "href": f"./{named}.prov.jsonld",
                    "type": "application/ld+json",
                },
            ],
        }
    )


def properties_of(
    dataset: Dataset, source: SourceObject, description: Description
) -> dict[str, object]:
    """Return the properties of the item of one object."""
    plan = _plan_of(dataset)
    values = {
        **plan.properties,
        **description.properties,
        "datetime": format_instant(description.instant),
    }
    if description.end > description.start:
        values["start_datetime"] = format_instant(description.start)
        values["end_datetime"] = format_instant(description.end)
    stored = _stored(plan, source)
    if stored is not None:
        values["storage:schemes"] = stored
    return values


def _stored(plan: _Plan, source: SourceObject) -> dict[str, object] | None:
    """Return how a bucket's objects are stored. It is shared: do not change it."""
    place = (source.provider, source.bucket)
    if place not in plan.stored:
        if len(plan.stored) > _PLANS_MAX:
            plan.stored.clear()
        scheme = storage_scheme(plan.dataset, *place)
        plan.stored[place] = None if scheme is None else {source.provider: scheme}
    return plan.stored[place]


def summarised_of(dataset: Dataset, properties: Mapping[str, object]) -> dict[str, object]:
    """Return those properties of an item that its collection tells in summaries."""
    told = _plan_of(dataset).summarised
    return {name: value for name, value in properties.items() if name in told}


def _assets(plan: _Plan, source: SourceObject, bands: Sequence[Band]) -> dict[str, object]:
    prefix = https_prefix(source.provider, source.bucket)
    key = None if prefix is None else prefix + quoted_key(source.key)
    asset = _located(plan, plan.asset, source, source.uri, key)
    if plan.media_types:
        asset["type"] = _media_type(plan, source.key)
    if source.size is not None:
        asset["file:size"] = source.size
    checksum = multihash(source.etag)
    if checksum is not None:
        asset["file:checksum"] = checksum
    if bands:
        asset["bands"] = bands
    assets: dict[str, object] = {"data": asset}
    if not _has_sidecars(plan, source.key):
        return assets
    for name, suffix, fields in plan.sidecars:
        https = None if key is None else key + quoted_key(suffix)
        assets[name] = _located(plan, fields, source, source.uri + suffix, https)
    return assets


def _has_sidecars(plan: _Plan, key: str) -> bool:
    keys = plan.dataset.item.sidecar_keys
    return keys is None or keys.fullmatch(key) is not None


def _media_type(plan: _Plan, key: str) -> object:
    """Return the media type of the longest suffix that the key ends with."""
    for suffix, media_type in plan.media_types:
        if key.endswith(suffix):
            return media_type
    return plan.asset["type"]


def _located(
    plan: _Plan, fields: dict[str, object], source: SourceObject, href: str, https: str | None
) -> dict[str, object]:
    asset = {**fields, "href": href}
    asset["alternate:name"] = _ALTERNATE_NAMES.get(source.provider, source.provider)
    if https is not None:
        asset["alternate"] = {"https": {"href": https, "alternate:name": "HTTPS"}}
    if is_stored(plan.dataset, source.provider):
        asset["storage:refs"] = [source.provider]
    return asset


def _extensions_of(plan: _Plan, provider: str, description: Description) -> list[str]:
    properties = (*description.properties, *(description.bands[0] if description.bands else ()))
    names = (provider, *properties)
    known = plan.extensions.get(names)
    if known is None:
        if len(plan.extensions) > _PLANS_MAX:
            plan.extensions.clear()
        storage = ("storage:schemes",) if is_stored(plan.dataset, provider) else ()
        known = declared((*properties, *plan.properties, *_ASSET_FIELDS, *storage))
        plan.extensions[names] = known
    return known


# A dataset holds mappings, so it has no hash: plans are found by identity. 0.1 µs, against 6 µs to
# make them anew for each item.
_plans: dict[int, _Plan] = {}


def _plan_of(dataset: Dataset) -> _Plan:
    plan = _plans.get(id(dataset))
    if plan is None:
        if len(_plans) > _PLANS_MAX:
            _plans.clear()
        plan = _plans[id(dataset)] = _make_plan(dataset)
    return plan


def _make_plan(dataset: Dataset) -> _Plan:
    rules = dataset.item
    return _Plan(
        dataset=dataset,
        properties={**_governed(dataset), **_fixed_properties(dataset)},
        summarised=summarised(dataset),
        asset={"type": rules.media_type, "roles": ["data"], "title": dataset.title},
        links=tuple(
            orjson.Fragment(canonical_bytes({"rel": rel, "href": href, "type": "application/json"}))
            for rel, href in _LINKS
        ),
        sidecars=tuple(
            (name, suffix, sidecar_fields(suffix))
            for suffix, name in sorted(rules.sidecars.items())
        ),
        media_types=tuple(
            sorted(rules.media_types.items(), key=lambda pair: (-len(pair[0]), pair))
        ),
        extensions={},
        stored={},
    )


def _governed(dataset: Dataset) -> dict[str, object]:
    """Return what all items tell of the rules that they were made under."""
    rules = dataset.governance
    values: dict[str, object] = {
        "kfm:dataset": dataset.id,
        "kfm:care_label": rules.care_label,
        "kfm:sensitivity": rules.sensitivity,
    }
    if rules.policy_ref is not None:
        values["kfm:policy_ref"] = rules.policy_ref
    return values


def _fixed_properties(dataset: Dataset) -> Mapping[str, object]:
    degrees, properties = dataset.governance.degrees, dataset.item.properties
    return coarse_properties(properties, degrees) if degrees else properties


def sidecar_fields(suffix: str) -> dict[str, object]:
    """Return what all sidecars with the suffix have in common."""
    media_type = _SIDECAR_TYPES.get(suffix)
    fields: dict[str, object] = {"roles": ["metadata"]}
    return fields if media_type is None else {**fields, "type": media_type}
