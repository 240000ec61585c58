"""Items of a masked dataset: nothing that leaves the ledger tells a place more exactly."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tallgrass.governance.policy import GovernanceDefaults
from tallgrass.operators.trial import try_unit
from tallgrass.stac.collections import build_collection
from tests.operators import scene
from tests.operators.scene import run_chain
from tests.stac import schemas

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tallgrass.operators.effects import ChainResult, ItemEffect

#: A number that is written out; no part of a version or of a time.
NUMBER = re.compile(r"(?<![\d.:])\d+\.\d+(?![\d.])")

ANONYMIZED = "https://stac-extensions.github.io/anonymized-location/v1.0.0/schema.json"
DECIMALS = {1.0: 0, 0.1: 1, 0.01: 2, 0.001: 3}

KEYS = (
    "sites/plot_{lat}_{lon}.nc",
    "sites/{lat},{lon}/plot.nc",
    "lon={lon}/lat={lat}/plot.nc",
    "POINT({lon} {lat}).nc",
    "sites/plot.nc",
)

#: Exact places: every digit counts, so none of them is on the grid by chance.
fraction = st.text("123456789", min_size=6, max_size=6)
longitudes = st.builds(
    lambda sign, whole, part: float(f"{sign}{whole}.{part}"),
    st.sampled_from(["", "-"]),
    st.integers(2, 178),
    fraction,
)
latitudes = st.builds(
    lambda sign, whole, part: float(f"{sign}{whole}.{part}"),
    st.sampled_from(["", "-"]),
    st.integers(2, 88),
    fraction,
)


def made(
    lon: float,
    lat: float,
    *,
    key: str = KEYS[0],
    width: float = 0.0,
    outline: bool = False,
    **rules: Any,
) -> ChainResult:
    """Run the chain on an object at a place, which header, key and dataset all tell of."""
    governance = GovernanceDefaults(**{"care_label": "public", "sensitivity": "high", **rules})
    dataset = scene.dataset(
        governance=governance,
        item={
            "bbox": (lon, lat, lon, lat),
            "properties": {"kfm:site_lat": lat, "kfm:site_lon": lon, "geohash": "9yutq"},
            "from_key": {},
            "vocabulary": {},
            "sidecars": {".idx": "index"},
            "place_group": None,
            "places": {},
        },
    )
    header: dict[str, Any] = {
        "format": "netcdf4",
        "complete": True,
        "bbox": [lon, lat, lon + width, lat + width],
        "properties": {
            "radar:latitude": lat,
            "radar:longitude": lon,
            "kfm:centroid": {"coordinates": [lon, lat]},
            "kfm:note": f"at {lat}, {lon}",
            "proj:centroid": {"lat": lat, "lon": lon},
            "proj:transform": [0.01, 0.0, lon, 0.0, -0.01, lat],
        },
    }
    if outline:
        header["footprint"] = [
            [round(lon + east, 6), round(lat + north, 6)]
            for east, north in ((0, 0), (0.2, 0), (0.2, 0.2), (0, 0.2), (0, 0))
        ]
    match = scene.glm(dataset=dataset)
    claim = scene.claim(match, key.format(lat=lat, lon=lon))
    result = run_chain(
        claim, match, scene.evidence(header=header), None, scene.context(lineage_target="marquez")
    )
    assert (result.outcome.error_code, result.outcome.issues) == (None, ())
    return result


def item_of(result: ChainResult) -> ItemEffect:
    """Return the item that was staged."""
    assert result.effects.item is not None
    return result.effects.item


def told(result: ChainResult) -> Iterator[str]:
    """Yield every text that leaves the ledger."""
    item, provenance = item_of(result), result.effects.provenance
    assert provenance is not None
    yield item.body.decode()
    yield item.item_id
    yield from (repr(degree) for degree in item.bbox)
    yield provenance.body.decode()
    yield provenance.run.decode()
    for event in result.effects.events:
        yield event.payload.decode()
        yield f"{event.idempotency_key} {event.version}"
    outcome = result.outcome
    yield f"{outcome.stac_item_id} {outcome.stac_item_href}"


def betrayals(result: ChainResult, lon: float, lat: float, decimals: int) -> list[str]:
    """Return the numbers that tell the place more exactly than allowed, by another way than ours.

    A number with more decimals than allowed, within a cell of the longitude or latitude.
    """
    cell = 10**-decimals
    return [
        number
        for text in told(result)
        for number in NUMBER.findall(text)
        if len(number.split(".")[1].rstrip("0")) > decimals
        and min(abs(float(number) - abs(lon)), abs(float(number) - abs(lat))) < cell
    ]


@pytest.mark.conformance("OB-6.1")
@given(
    longitudes,
    latitudes,
    st.sampled_from(sorted(DECIMALS)),
    st.sampled_from(KEYS),
    st.booleans(),
)
@example(-95.235123, 38.971234, 0.1, KEYS[0], True)  # noqa: FBT003 - as Hypothesis gives them
def test_no_output_tells_a_masked_place_exactly(
    lon: float,
    lat: float,
    degrees: float,
    key: str,
    outline: bool,  # noqa: FBT001
) -> None:
    """Item, columns, provenance, events and lineage; the evidence stays in the ledger."""
    result = made(lon, lat, key=key, outline=outline, masking_degrees=degrees)
    assert betrayals(result, lon, lat, DECIMALS[degrees]) == []
    assert str(lon).encode() in (result.outcome.evidence or b"")


@given(longitudes, latitudes, st.sampled_from(KEYS))
def test_without_masking_the_place_is_told(lon: float, lat: float, key: str) -> None:
    """What the test above looks for is there when nothing is masked."""
    assert betrayals(made(lon, lat, key=key), lon, lat, 3)


@pytest.mark.conformance("OB-6.1")
@pytest.mark.parametrize(
    ("label", "degrees"), [("public", 0.0), ("sensitive", 0.1), ("restricted", 1.0)]
)
def test_labels_mask_by_themselves(label: str, degrees: float) -> None:
    """What is not open is coarse in the catalog as it is in events, unless a policy says more."""
    result = made(-95.235123, 38.971234, care_label=label, governance_ref="CR-7")
    properties = json.loads(item_of(result).body)["properties"]
    assert properties.get("anon:size", 0.0) == degrees
    payload = json.loads(result.effects.events[0].payload)
    noted = {"method": "degree-grid", "degrees": degrees} if degrees else None
    assert payload.get("masking") == noted


@given(longitudes, latitudes, st.sampled_from(sorted(DECIMALS)), st.floats(0.0, 0.9))
def test_the_data_lie_in_the_cells_that_are_told(
    lon: float, lat: float, degrees: float, width: float
) -> None:
    """The box is that of whole cells around the place, one at least; a search there finds it."""
    result = made(lon, lat, width=width, masking_degrees=degrees)
    west, south, east, north = item_of(result).bbox
    assert west <= lon <= east
    assert south <= lat <= north
    assert east - west >= degrees - 1e-9
    assert north - south >= degrees - 1e-9
    document = json.loads(item_of(result).body)
    assert tuple(document["bbox"]) == item_of(result).bbox
    corners = {tuple(corner) for corner in document["geometry"]["coordinates"][0]}
    assert corners == {(west, south), (east, south), (east, north), (west, north)}


def test_a_masked_item_by_hand() -> None:
    """Its box, its names and its words, for one place at a tenth of a degree."""
    result = made(-95.235123, 38.971234, masking_degrees=0.1)
    item = item_of(result)
    document = json.loads(item.body)
    wal_id = result.outcome.wal_id
    assert item.bbox == (-95.3, 38.9, -95.2, 39.0)
    assert document["bbox"] == [-95.3, 38.9, -95.2, 39.0]
    assert document["id"].startswith("plot_39.0_-95.2.nc-")
    properties = document["properties"]
    assert (properties["anon:size"], properties["radar:latitude"]) == (0.1, 39.0)
    assert properties["anon:warning"] == (
        "Places are generalised to cells of 0.1 degrees; the data lie inside."
    )
    assert not [name for name in properties if name.startswith("proj:") or name == "geohash"]
    href = f"s3://noaa-goes19/{wal_id}/sites/plot_39.0_-95.2.nc"
    assert document["assets"]["data"]["href"] == href
    assert document["assets"]["index"]["href"] == f"{href}.idx"
    assert json.loads(result.effects.events[0].payload)["object"]["uri"] == href
    addresses = document["stac_extensions"]
    assert "https://stac-extensions.github.io/anonymized-location/v1.0.0/schema.json" in addresses
    assert not any("projection" in each for each in addresses)


def test_a_masked_item_is_a_valid_one() -> None:
    """By the schemas of STAC and of the anonymized-location extension."""
    document = json.loads(item_of(made(-95.235123, 38.971234, masking_degrees=0.1)).body)
    assert schemas.core_errors(document) == []
    assert schemas.extension_errors(document, ANONYMIZED) == []


def test_objects_of_one_cell_are_told_apart() -> None:
    """Two places that look alike once they are coarse have items of their own."""
    one, other = (made(-95.235123, lat, masking_degrees=1.0) for lat in (38.971234, 38.961234))
    assert item_of(one).item_id != item_of(other).item_id
    assert one.outcome.stac_item_href != other.outcome.stac_item_href


def test_masking_is_never_by_chance() -> None:
    """The same object gives the same bytes."""
    one, other = (made(-95.235123, 38.971234, masking_degrees=0.01) for _ in range(2))
    assert item_of(one).body == item_of(other).body
    assert one.effects.events == other.effects.events


@pytest.mark.parametrize(
    ("box", "degrees", "cells"),
    [
        ([179.95, 10.5, -179.95, 10.6], 0.1, (179.9, 10.5, -179.9, 10.6)),
        ([10.05, 0.5, 10.01, 0.6], 1.0, (-180.0, 0.0, 180.0, 1.0)),
        ([180.0, 90.0, 180.0, 90.0], 1.0, (179.0, 89.0, 180.0, 90.0)),
        ([-180.0, -90.0, -180.0, -90.0], 0.1, (-180.0, -90.0, -179.9, -89.9)),
        ([1.1, 2.2, 1.3, 2.4], 0.1, (1.1, 2.2, 1.3, 2.4)),
        ([-0.04, -0.04, 0.0, 0.0], 0.1, (-0.1, -0.1, 0.0, 0.0)),
    ],
)
def test_cells_at_the_edges_of_the_world(
    box: list[float], degrees: float, cells: tuple[float, ...]
) -> None:
    """Across the antimeridian, all round, at the poles, on the grid, and beside zero."""
    governance = GovernanceDefaults(
        care_label="public", sensitivity="high", masking_degrees=degrees
    )
    match = scene.glm(dataset=scene.dataset(governance=governance))
    header = {"format": "netcdf4", "complete": True, "bbox": box}
    reading = scene.evidence(header=header)
    result = run_chain(scene.claim(match), match, reading, None, scene.context())
    assert item_of(result).bbox == cells
    assert "-0.0" not in repr(item_of(result).bbox)


def test_a_trial_shows_the_item_that_would_be_stored() -> None:
    """Looking at an object by hand tells no more than the catalog would."""
    governance = GovernanceDefaults(care_label="sensitive", sensitivity="high")
    match = scene.glm(dataset=scene.dataset(governance=governance))
    claim = scene.claim(match, "plot_38.9712_-95.2351.nc")
    context = scene.context()
    result = run_chain(claim, match, scene.evidence(), None, context)
    trial = try_unit(claim.unit, match, scene.evidence(), context.rules)
    assert trial.item == item_of(result).body
    assert b"38.97" not in trial.item


def test_the_collection_of_a_masked_dataset_is_coarse_too() -> None:
    """Its extent and summaries tell what the dataset's file says, on the grid."""
    dataset = scene.dataset(
        governance=GovernanceDefaults(care_label="sensitive", sensitivity="high"),
        item={
            "bbox": (-95.235123, 38.971234, -95.235123, 38.971234),
            "place_group": None,
            "places": {},
            "properties": {"site:latitude": 38.971234, "mission": "PLOT"},
            "from_key": {},
            "vocabulary": {},
        },
    )
    document = json.loads(build_collection(dataset))
    assert document["extent"]["spatial"]["bbox"] == [[-95.3, 38.9, -95.2, 39.0]]
    assert document["summaries"]["site:latitude"] == [39.0]


@pytest.mark.conformance("RP-9.3")
def test_items_and_provenance_name_the_policy() -> None:
    """Where the policy has a reference, and nowhere otherwise."""
    named, plain = made(10.5, 20.5, policy_ref="POL-3"), made(10.5, 20.5)
    assert json.loads(item_of(named).body)["properties"]["kfm:policy_ref"] == "POL-3"
    assert _activity(named)["kfm:policyRef"] == "POL-3"
    assert json.loads(named.effects.events[0].payload)["policy_ref"] == "POL-3"
    assert "kfm:policy_ref" not in json.loads(item_of(plain).body)["properties"]
    assert "kfm:policyRef" not in _activity(plain)
    assert "policy_ref" not in json.loads(plain.effects.events[0].payload)


def _activity(result: ChainResult) -> dict[str, Any]:
    assert result.effects.provenance is not None
    graph = json.loads(result.effects.provenance.body)["@graph"]
    activity: dict[str, Any] = next(node for node in graph if "prov:Activity" in node["@type"])
    return activity
