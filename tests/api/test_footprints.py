from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.api.service import open_service
from tallgrass.bootstrap import footprints
from tallgrass.console.app import create_console
from tests.support.catalog import HOUR, NOON, Known, write_catalog
from tests.support.console import Console

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.backends import Backend

ITEMS = [
    Known(id="old", at=NOON, box=(170.0, -10.0, -170.0, 10.0)),
    Known(id="new", at=NOON + 2 * HOUR, box=(0.0, 0.0, 1.0, 1.0)),
    Known(id="mid", at=NOON + HOUR, box=(0.0, 0.0, 1.0, 1.0), collection="hrrr"),
    Known(id="nowhere", at=NOON - HOUR, box=None),
]
PATH = "/api/v1/footprints"


@contextmanager
def governed(backend: Backend, **policies: dict[str, Any]) -> Iterator[Console]:
    """Open the console under policies, by dataset."""
    overlays = {name.replace("_", "-"): rules for name, rules in policies.items()}
    config = replace(backend.config(), policies=overlays)
    service = open_service(config, figures_age_s=0.0)
    console = Console(service, create_console(service))
    try:
        yield console
    finally:
        console.close()


@pytest.fixture
def catalog(backend: Backend) -> Backend:
    """Four items, in a database of each kind."""
    write_catalog(backend, ITEMS)
    return backend


def features(answer: Any) -> list[dict[str, Any]]:
    """Return the features of an answer."""
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["features"]
    return found


def test_footprints_are_geojson_newest_first_with_their_units(catalog: Backend) -> None:
    """Filters hold together; pages follow each other; each feature names its unit and its place."""
    with governed(catalog) as console:
        reader = console.browser_of()
        answer = reader.get(PATH)
        assert answer.headers["content-type"] == "application/geo+json"
        assert answer.json()["type"] == "FeatureCollection"
        found = features(answer)
        assert [each["id"] for each in found] == ["new", "mid", "old", "nowhere"]
        units = catalog.sql("SELECT item_id, wal_id FROM stac_items")
        assert {each["id"]: each["properties"]["wal_id"] for each in found} == {
            item: str(wal_id) for item, wal_id in units
        }
        assert found[2]["bbox"] == [170.0, -10.0, -170.0, 10.0]
        assert found[2]["geometry"]["type"] == "MultiPolygon"
        assert found[3]["geometry"] is None
        first = reader.get(PATH, params={"limit": 3})
        assert [each["id"] for each in features(first)] == ["new", "mid", "old"]
        rest = reader.get(first.links["next"]["url"])
        assert [each["id"] for each in features(rest)] == ["nowhere"]
        assert rest.json()["next_cursor"] is None
        for query, ids in (
            ({"dataset": "hrrr"}, ["mid"]),
            ({"since": "2026-06-01T12:30:00Z"}, ["new", "mid"]),
            ({"until": "2026-06-01T11:30:00Z"}, ["nowhere"]),
            ({"bbox": "175,0,-175,1"}, ["old"]),
        ):
            assert [each["id"] for each in features(reader.get(PATH, params=query))] == ids
        again = reader.get(PATH, headers={"If-None-Match": answer.headers["etag"]})
        assert again.status_code == 304


def test_wrong_questions_are_refused(catalog: Backend) -> None:
    """A mistyped dataset, a box that is none, a cursor of nobody, times in the wrong order."""
    with governed(catalog) as console:
        reader = console.browser_of()
        for query, status in (
            ({"dataset": "goes-gml"}, 400),
            ({"bbox": "1,2,3"}, 400),
            ({"bbox": "a,b,c,d"}, 400),
            ({"bbox": "nan,0,1,1"}, 400),
            ({"cursor": "AAAA"}, 400),
            ({"since": "2026-06-02", "until": "2026-06-01"}, 400),
            ({"limit": "501"}, 422),
        ):
            answer = reader.get(PATH, params=query)
            assert answer.status_code == status, (query, answer.text)
            assert answer.headers["content-type"] == "application/problem+json"
        assert console.client().get(PATH).status_code == 401


def test_only_what_the_gate_allows_is_told(catalog: Backend) -> None:
    """Sensitive data are told in cells of 0.1°, those that are rejected not at all."""
    review = {"care_label": "restricted", "reject": "in review"}
    rules = {"goes_glm": {"care_label": "sensitive"}, "hrrr": review}
    with governed(catalog, **rules) as console:
        reader = console.browser_of()
        answer = reader.get(PATH, params={"bbox": "-1,-1,2,2"})
        (shown,) = features(answer)
        assert shown["id"] == "new"
        assert shown["properties"]["cell_degrees"] == 0.1
        assert list(answer.json()["withheld"]) == ["hrrr"]
        assert "in review" in answer.json()["withheld"]["hrrr"]
        page = reader.get("/map").text
        assert "Not shown: hrrr" in page
        assert ">new<" in page
        assert ">mid<" not in page
        wal_id = catalog.sql("SELECT wal_id FROM stac_items WHERE item_id = 'mid'")[0][0]
        unit = reader.get(f"/api/v1/records/{wal_id}").json()
        assert unit["item"] is None
        assert "in review" in unit["withheld"]
        assert "Not shown." in reader.get(f"/records/{wal_id}").text


def test_a_box_finds_places_as_they_are_told(backend: Backend) -> None:
    """Masked items lie in all of their cell of 0.1° and nowhere else; nothing is told by boxes."""
    fine = (0.02, 0.02, 0.03, 0.03)
    write_catalog(
        backend, [Known(id="masked", box=fine), Known(id="held", box=fine, collection="hrrr")]
    )
    review = {"care_label": "restricted", "reject": "in review"}
    with governed(backend, goes_glm={"care_label": "sensitive"}, hrrr=review) as console:
        reader = console.browser_of()

        def asked(**query: str) -> tuple[list[str], list[str]]:
            answer = reader.get(PATH, params=query)
            return [each["id"] for each in features(answer)], list(answer.json()["withheld"])

        for box, found in (
            ("0.02,0.02,0.03,0.03", ["masked"]),
            ("0.07,0.07,0.08,0.08", ["masked"]),
            ("-1,-1,-0.01,-0.01", []),
            ("0.11,0.11,0.12,0.12", []),
            ("100,50,101,51", []),
        ):
            assert asked(bbox=box) == (found, ["hrrr"]), box
            assert asked(bbox=box, dataset="goes-glm") == (found, []), box
            assert asked(bbox=box, dataset="hrrr") == ([], ["hrrr"]), box


def test_no_box_finds_items_of_a_dataset_that_no_policy_knows(backend: Backend) -> None:
    """It is named whatever the box is, though all datasets that are known are told exactly."""
    write_catalog(backend, [Known(id="here"), Known(id="gone", collection="no-longer")])
    with governed(backend) as console:
        reader = console.browser_of()
        for box, found in (("0,0,1,1", ["here"]), ("100,50,101,51", [])):
            answer = reader.get(PATH, params={"bbox": box})
            assert [each["id"] for each in features(answer)] == found
            assert list(answer.json()["withheld"]) == ["no-longer"]


def test_pages_for_a_box_end(catalog: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each looks through so many items at most, and together they have what lies there, once."""
    with governed(catalog, hrrr={"care_label": "sensitive"}) as console:
        reader = console.browser_of()
        query = {"bbox": "-1,-1,2,2"}
        whole = reader.get(PATH, params=query).json()
        assert ([each["id"] for each in whole["features"]], whole["next_cursor"]) == (
            ["new", "mid"],
            None,
        )
        for looked, limit, pages in (
            (1000, 1, [["new"], ["mid"], []]),
            (1, 100, [["new"], ["mid"], [], []]),
            (3, 100, [["new", "mid"], []]),
        ):
            monkeypatch.setattr(footprints, "LOOKED_AT_MAX", looked)
            answer = reader.get(PATH, params={**query, "limit": str(limit)})
            found = [[each["id"] for each in features(answer)]]
            while "next" in answer.links:
                answer = reader.get(answer.links["next"]["url"])
                found.append([each["id"] for each in features(answer)])
            assert found == pages


def test_the_map_shows_each_dataset_and_lists_the_same(catalog: Backend) -> None:
    """Every item is in the list with its place in words; a place is drawn once; empty says how."""
    with governed(catalog) as console:
        reader = console.browser_of()
        page = reader.get("/map").text
        for each in ITEMS:
            assert f">{each.id}</a>" in page
        assert "10.0° S to 10.0° N, 170.0° E to 170.0° W" in page
        assert "4 items at 3 places" in page
        assert page.count('class="footprint') == 3
        one = reader.get("/map", params={"dataset": "goes-glm", "limit": 1}).text
        assert one.count('class="footprint') == 1
        assert "1 item at 1 place" in one
        assert "Older items" in one
        near = reader.get("/map", params={"dataset": "hrrr", "window": "found"}).text
        assert 'viewBox="0 0 3600 1800"' in page
        assert 'viewBox="0 0 3600 1800"' not in near
        none = reader.get("/map", params={"until": "2000-01-01"}).text
        assert "No item is like that." in none


def test_names_of_units_tell_no_exact_place(backend: Backend) -> None:
    """A key that spells coordinates is coarse in lists, on pages and in evidence, for everybody."""
    write_catalog(backend, [Known(id="buoy_38.971,-95.235")])
    with governed(backend, goes_glm={"care_label": "sensitive"}) as console:
        reader = console.browser_of()
        wal_id = backend.sql("SELECT wal_id FROM wal_records")[0][0]
        for path in ("/api/v1/records", f"/api/v1/records/{wal_id}", "/records",
                     f"/records/{wal_id}", "/map", PATH):  # fmt: skip
            text = reader.get(path).text
            assert "buoy_39.0,-95.2" in text, path
            assert "38.971" not in text, path
            assert "95.235" not in text, path
