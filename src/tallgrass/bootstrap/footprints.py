"""Footprints: where the newest items lie, for the API and the map."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import orjson

from tallgrass.bootstrap.stores import Stores
from tallgrass.datasets.catalogue import Catalogue
from tallgrass.governance.policy import Policies
from tallgrass.stac.place import Place
from tallgrass.stac.search import ItemSearch, Key, StoredItem
from tallgrass.views.places import Telling, item_as_told, telling_of

#: Items on a map: more cannot be told apart, and one page of JSON stays small.
FOOTPRINTS_MAX = 500
#: Items that a page looks through for a place that the store may not be asked for.
LOOKED_AT_MAX = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which footprints; all conditions hold together. Times are both included.

    The place is one among places as they are told: who asks box by box learns no more than that.
    """

    datasets: Sequence[str] = ()
    since: datetime | None = None
    until: datetime | None = None
    place: Place | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Footprints:
    """GeoJSON features, the newest first."""

    features: list[dict[str, Any]]
    #: Datasets of which nothing may be told → why.
    withheld: dict[str, str]
    #: Behind which the next page begins; None on the last.
    last: Key | None


def read_footprints(
    stores: Stores,
    catalogue: Catalogue,
    policies: Policies,
    wanted: Wanted,
    *,
    after: Key | None = None,
    size: int = 100,
) -> Footprints:
    """Return a page of footprints, each as exact as its dataset's policy allows.

    A page for a place may be short, even empty, before the last one: where not all is told as it
    is stored, a bounded number of items is looked through.
    """
    names, size = set(wanted.datasets), min(size, FOOTPRINTS_MAX)
    collections = {catalogue.named(name).item.collection for name in wanted.datasets}
    stored = wanted.place is None or _are_exact(stores, catalogue, policies, collections)
    search = ItemSearch(
        collections=tuple(sorted(collections)) if names else None,
        since=wanted.since,
        until=wanted.until,
        place=wanted.place if stored else None,
    )
    page = stores.catalog.page(search, after=after, size=size if stored else LOOKED_AT_MAX)
    tellings: dict[str, Telling] = {}
    found: list[tuple[StoredItem, dict[str, Any], str]] = []
    last = page.last
    for number, item in enumerate(page.items):
        if len(found) == size:
            last = page.items[number - 1].key
            break
        document = orjson.loads(item.body)
        dataset = str(document["properties"].get("kfm:dataset", item.key.collection))
        if names and dataset not in names:
            continue
        if dataset not in tellings:
            tellings[dataset] = telling_of(policies, dataset)
        shown = item_as_told(document, tellings[dataset])
        if shown is not None and (wanted.place is None or wanted.place.holds(shown["geometry"])):
            found.append((item, shown, dataset))
    units = stores.catalog.units_of([item.key for item, _, _ in found])
    refusals = {name: each.refusal for name, each in sorted(tellings.items())}
    return Footprints(
        features=[_feature(*each, units.get(each[0].key)) for each in found],
        withheld={name: why for name, why in refusals.items() if why is not None},
        last=last,
    )


def _are_exact(
    stores: Stores, catalogue: Catalogue, policies: Policies, collections: Collection[str]
) -> bool:
    """Tell whether all items of some collections, or of all, are told as they are stored."""
    known = {each.item.collection for each in catalogue.datasets}
    coarse = {
        each.item.collection
        for each in catalogue.datasets
        if not telling_of(policies, each.id).is_exact
    }
    return (known - coarse).issuperset(collections or stores.catalog.filled_collections())


def read_newest_of_each(
    stores: Stores,
    catalogue: Catalogue,
    policies: Policies,
    wanted: Wanted,
    *,
    datasets: Sequence[str],
    size: int,
) -> Footprints:
    """Return the newest footprints of each dataset, at most `size` in all.

    The time of a forecast is ahead of every measurement: merged by time alone, forecasts would
    hide everything else.
    """
    share = max(1, size // max(1, len(datasets)))
    pages = [
        read_footprints(stores, catalogue, policies, replace(wanted, datasets=[name]), size=share)
        for name in datasets[:size]
    ]
    features = [feature for page in pages for feature in page.features]
    return Footprints(
        features=sorted(features, key=lambda each: each["properties"]["datetime"], reverse=True),
        withheld={name: why for page in pages for name, why in page.withheld.items()},
        last=None,
    )


def _feature(
    item: StoredItem, shown: dict[str, Any], dataset: str, wal_id: str | None
) -> dict[str, Any]:
    properties = shown["properties"]
    return {
        "type": "Feature",
        "id": shown["id"],
        "geometry": shown["geometry"],
        **({} if shown.get("bbox") is None else {"bbox": shown["bbox"]}),
        "properties": {
            "dataset": dataset,
            "collection": item.key.collection,
            "datetime": item.key.datetime,
            "start_datetime": properties.get("start_datetime"),
            "end_datetime": properties.get("end_datetime"),
            "care_label": properties.get("kfm:care_label"),
            "cell_degrees": properties.get("anon:size"),
            "wal_id": wal_id,
        },
    }
