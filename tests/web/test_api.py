"""The STAC API over real HTTP, from a real process, on both databases."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from pystac_client import Client

from tests.support.catalog import canonical
from tests.web.scene import BY_ID, ITEMS

if TYPE_CHECKING:
    from tests.web.serving import Answer, Served

BASE = "https://api.stacspec.org/v1.0.0"


def ids(answer: Answer) -> list[str]:
    """Return the items of a page in order."""
    assert answer.status == 200, answer.body
    assert answer.media_type == "application/geo+json"
    page = answer.json
    assert page["type"] == "FeatureCollection"
    assert page["numberReturned"] == len(page["features"])
    return [item["id"] for item in page["features"]]


def links(document: Any) -> dict[str, Any]:
    """Return links by relation."""
    return {each["rel"]: each for each in document["links"]}


def test_the_api_answers_as_it_says(served: Served) -> None:
    """One process is asked everything: each part below is a rule of its own."""
    check_landing_page(served)
    check_collections(served)
    check_items_are_what_is_stored(served)
    check_searches(served)
    check_sorting(served)
    check_paging(served)
    check_fields(served)
    check_bad_requests(served)


def check_landing_page(served: Served) -> None:
    """It names what holds, the same in both places, and every link leads somewhere."""
    landing = served.get("/")
    assert (landing.status, landing.media_type) == (200, "application/json")
    page = landing.json
    assert page["stac_version"] == "1.1.0"
    assert set(page["conformsTo"]) == {
        f"{BASE}/core",
        f"{BASE}/collections",
        f"{BASE}/ogcapi-features",
        f"{BASE}/ogcapi-features#fields",
        f"{BASE}/ogcapi-features#sort",
        f"{BASE}/item-search",
        f"{BASE}/item-search#fields",
        f"{BASE}/item-search#sort",
        "https://api.stacspec.org/v1.1.0/item-search#sort",
        "https://api.stacspec.org/v1.1.0/ogcapi-features#sort",
        "http://www.opengis.net/spec/ogcapi-features-1/1.0/conf/core",
        "http://www.opengis.net/spec/ogcapi-features-1/1.0/conf/geojson",
    }
    assert served.get("conformance").json["conformsTo"] == page["conformsTo"]
    for each in page["links"]:
        assert each["href"].startswith(served.url)
        assert served.get(each["href"]).status == 200, each
    assert "http" not in served.get("api.html").body.decode().split("<h1>")[0]


def check_collections(served: Served) -> None:
    """All datasets' collections are there, each with links that hold."""
    found = served.get("collections").json
    assert found["numberMatched"] == len(found["collections"]) >= 90
    one = served.get("collections/hrrr").json
    assert one in found["collections"]
    assert links(one)["self"]["href"] == f"{served.url}collections/hrrr"
    assert sorted(ids(served.get(links(one)["items"]["href"]))) == ["hrrr-1", "hrrr-2", "hrrr-3"]
    missing = served.get("collections/none")
    assert (missing.status, missing.json["code"]) == (404, "record_unknown")
    assert served.get("collections/none/items").status == 404


def check_items_are_what_is_stored(served: Served) -> None:
    """Whatever way an item comes, all but its links are the stored bytes; the links lead here."""
    pages = {item["id"]: item for item in served.get("search", limit=100).json["features"]}
    assert pages.keys() == BY_ID.keys()
    for known in ITEMS:
        address = f"{served.url}collections/{known.collection}/items/{known.id}"
        item = served.get(address)
        assert item.media_type == "application/geo+json"
        assert item.json == pages[known.id]
        stored = {**known.document(), "links": item.json["links"]}
        assert canonical(item.json) == canonical(stored)
        found = links(item.json)
        assert found["self"]["href"] == address
        assert {rel: served.get(each["href"]).status for rel, each in found.items()} == {
            "self": 200, "root": 200, "parent": 200, "collection": 200,
            "http://www.w3.org/ns/prov#has_provenance": 200,
        }  # fmt: skip
        provenance = served.get(found["http://www.w3.org/ns/prov#has_provenance"]["href"])
        assert provenance.media_type == "application/ld+json"
        assert provenance.body == known.provenance()
    for path in (
        "hrrr/items/none",
        "hrrr/items/glm-1",
        "none/items/glm-1",
        "hrrr/items/x/provenance",
    ):
        assert served.get(f"collections/{path}").status == 404, path


SEARCHES: list[tuple[dict[str, Any], set[str]]] = [
    ({"bbox": [-100, 37.5, -99, 38]}, {"glm-1", "hrrr-1", "hrrr-2"}),
    ({"bbox": [-97, 37, -97, 37]}, {"glm-1", "hrrr-1", "hrrr-2", "nexrad-1"}),
    ({"bbox": [179, -1, -179, 1]}, {"glm-2"}),
    ({"bbox": [175, -1, 176, 1]}, {"glm-2"}),
    ({"bbox": [0, 0, 0, 0]}, {"hrrr-3"}),
    ({"bbox": [-1, -1, -5, 1, 1, 5]}, {"hrrr-3"}),
    ({"datetime": "2026-06-01T12:00:00Z"}, {"glm-1", "nexrad-1"}),
    ({"datetime": "2026-06-01T12:29:59+00:00"}, {"glm-1"}),
    ({"datetime": "../2026-06-01T11:45:00Z"}, {"glm-1"}),
    ({"datetime": "2026-06-01T15:00:00Z/.."}, {"hrrr-2", "hrrr-3"}),
    ({"datetime": "2026-06-01T12:45:00Z/2026-06-01T14:00:00Z"}, {"glm-2", "glm-3", "hrrr-1"}),
    ({"collections": ["hrrr", "nexrad-l2"]}, {"hrrr-1", "hrrr-2", "hrrr-3", "nexrad-1"}),
    ({"collections": ["none"]}, set()),
    ({"ids": ["glm-1", "hrrr-2", "none"]}, {"glm-1", "hrrr-2"}),
    ({"ids": ["glm-1", "hrrr-2"], "collections": ["hrrr"]}, {"hrrr-2"}),
    (
        {"intersects": {"type": "LineString", "coordinates": [[-99, 0], [-99, 80]]}},
        {"glm-1", "hrrr-1", "hrrr-2"},
    ),
    ({"bbox": [-103, 36, -94, 41], "datetime": "2026-06-01T13:00:00Z/.."}, {"hrrr-1", "hrrr-2"}),
]


def check_searches(served: Served) -> None:
    """GET and POST find the same, which is what lies there and then."""
    for search, wanted in SEARCHES:
        assert set(ids(served.post(search))) == wanted, search
        query = {
            name: json.dumps(value)
            if isinstance(value, dict)
            else ",".join(map(str, value))
            if isinstance(value, list)
            else value
            for name, value in search.items()
        }
        assert set(ids(served.get("search", **query))) == wanted, search
        if search.keys() <= {"bbox", "datetime"}:
            own = {name for name in wanted if BY_ID[name].collection == "hrrr"}
            assert set(ids(served.get("collections/hrrr/items", **query))) == own, search


def check_sorting(served: Served) -> None:
    """Newest first unless told otherwise."""
    newest = ["hrrr-3", "hrrr-2", "glm-3", "hrrr-1", "glm-2", "nexrad-1", "glm-1"]
    assert ids(served.get("search")) == newest
    assert ids(served.get("search", sortby="+properties.datetime")) == newest[::-1]
    assert ids(served.get("search", sortby="id")) == sorted(BY_ID)
    both = [{"field": "collection", "direction": "desc"}, {"field": "id", "direction": "asc"}]
    wanted = ["nexrad-1", "hrrr-1", "hrrr-2", "hrrr-3", "glm-1", "glm-2", "glm-3"]
    assert ids(served.post({"sortby": both})) == wanted
    assert ids(served.get("search", sortby="-collection,+id")) == wanted
    assert ids(served.get("collections/hrrr/items", sortby="datetime"))[0] == "hrrr-1"


def check_paging(served: Served) -> None:
    """The next link of a page leads to the rest, with all conditions; the last page has none."""
    everything = ids(served.get("search"))
    found: list[str] = []
    page = served.get("search", limit=3, bbox="-180,-90,180,90")
    for _ in range(10):
        found += ids(page)
        following = links(page.json).get("next")
        if following is None:
            break
        assert following["method"] == "GET"
        page = served.get(following["href"])
    assert found == [name for name in everything if BY_ID[name].box]
    found, body = [], {"limit": 2, "collections": ["hrrr"]}
    for _ in range(10):
        page = served.post(body)
        found += ids(page)
        following = links(page.json).get("next")
        if following is None:
            break
        assert following["method"] == "POST"
        body = following["body"]
    assert found == ["hrrr-3", "hrrr-2", "hrrr-1"]


def check_fields(served: Served) -> None:
    """Fields are chosen as the extension says; what says which item it is, is always there."""
    always = {"type", "stac_version", "id", "collection"}

    def keys(fields: Any) -> set[str]:
        asked = (
            served.get("search", fields=fields)
            if isinstance(fields, str)
            else served.post({"fields": fields})
        )
        item = asked.json["features"][0]
        return {*item, *(f"properties.{name}" for name in item.get("properties", ()))}

    everything = {*always, "assets", "bbox", "geometry", "links", "stac_extensions", "properties"}
    everything |= {"properties.datetime", "properties.kfm:dataset"}
    default = everything - {"stac_extensions", "properties.kfm:dataset"}
    assert keys("geometry") == keys({"include": ["geometry"]}) == {*always, "geometry"}
    assert keys("-geometry") == keys({"exclude": ["geometry"]}) == everything - {"geometry"}
    assert keys("") == keys({}) == keys({"include": None, "exclude": []}) == default
    assert keys({"include": [], "exclude": ["bbox"]}) == default - {"bbox"}
    nested = {*always, "properties", "properties.kfm:dataset"}
    assert keys("-properties,+properties.kfm:dataset") == nested
    assert keys("+bbox,-bbox") == {*always, "bbox"}
    assert keys("properties,-properties.datetime") == nested
    assert keys("assets.data.roles") == {*always, "assets"}


BAD_QUERIES: list[dict[str, Any]] = [
    {"bbox": "1,2,3"}, {"bbox": "a,b,c,d"}, {"bbox": "0,10,1,5"}, {"bbox": "0,0,1,91"},
    {"bbox": "nan,0,1,1"}, {"bbox": "0,0,inf,1"}, {"bbox": "-181,0,1,1"},
    {"bbox": "0,0,5,1,1,4"}, {"bbox": "[0,0,1,1]"},
    {"datetime": "2026-06-01"}, {"datetime": ".."}, {"datetime": "../.."}, {"datetime": "/"},
    {"datetime": "2026-06-02T00:00:00Z/2026-06-01T00:00:00Z"},
    {"datetime": "2026-06-01T00:00:00Z/2026-06-02T00:00:00Z/2026-06-03T00:00:00Z"},
    {"datetime": "2026-06-01T00:00:00"}, {"datetime": "2026-13-01T00:00:00Z"},
    {"limit": 0}, {"limit": -1}, {"limit": "x"}, {"limit": "1.5"},
    {"sortby": "cloud_cover"}, {"sortby": "+properties.nothing"},
    {"token": "x"}, {"token": "W10"}, {"token": "é"}, {"token": ""},
    {"ids": "a\0b"}, {"collections": "x" * 2000},
    {"intersects": "{"}, {"intersects": "[]"}, {"intersects": '{"type":"Point"}'},
    {"intersects": '{"type":"Point","coordinates":[0,95]}'},
    {"intersects": '{"type":"Polygon","coordinates":[[[0,0],[1,1],[0,1],[1,0],[0,0]]]}'},
    {"intersects": '{"type":"Point","coordinates":[0,0]}', "bbox": "0,0,1,1"},
    {"filter": "id='x'"}, {"unknown": "1"},
]  # fmt: skip

BAD_BODIES: list[Any] = [
    {"bbox": "0,0,1,1"}, {"bbox": [0, 0, 1]}, {"bbox": [0, 1, 1, 0]}, {"bbox": [None] * 4},
    {"bbox": [True, 0, 1, 1, 1, 1, 1]}, {"limit": 0}, {"limit": "many"}, {"fields": None},
    {"sortby": [{"field": "x", "direction": "asc"}]}, {"sortby": [{"field": "id"}, 5]},
    {"token": 5}, {"ids": "one"}, {"datetime": 5}, {"filter": {}}, {"query": {}}, [], 5, None, "x",
    {"intersects": {"type": "Point", "coordinates": []}}, {"intersects": {"type": "Rubbish"}},
    {"intersects": {"type": "Polygon", "coordinates": [[[0, 0], [1, 1]]]}},
]  # fmt: skip


def check_bad_requests(served: Served) -> None:
    """What cannot be answered is refused with 400, a code and a description; nothing is guessed."""
    answers: list[tuple[Any, Answer]] = [
        (query, served.get("search", **query)) for query in BAD_QUERIES
    ]
    answers += [(body, served.post(body)) for body in BAD_BODIES]
    answers.append(("a token of another order", served.get("search", token=other_token(served))))
    for asked, answer in answers:
        assert answer.status == 400, (asked, answer.body[:200])
        assert answer.media_type == "application/json"
        assert answer.json.keys() == {"code", "description"}, asked
        assert answer.json["description"]
    inverted = served.get("search", datetime="2026-06-02T00:00:00Z/2026-06-01T00:00:00Z").json
    assert inverted["description"] == "datetime: the range ends before it begins"
    assert served.get("collections", bbox="0,0,1,1").status == 400
    assert served.get("nothing").status == 404
    assert served.post({"ids": [str(number) for number in range(1001)]}).status == 400
    assert len(ids(served.get("search", limit=10**9))) == len(ITEMS)


def other_token(served: Served) -> str:
    """Return a token of a search that is sorted by id."""
    address = links(served.get("search", sortby="id", limit=1).json)["next"]["href"]
    return str(address.rpartition("token=")[2])


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_pystac_client_searches(served: Served) -> None:
    """The client that people use finds items by place and time, through all pages."""
    client = Client.open(served.url)
    assert client.conforms_to("ITEM_SEARCH")
    search = client.search(
        bbox=(-102, 37, -94.6, 40), datetime="2026-06-01T12:00:00Z/2026-06-01T18:00:00Z", limit=1
    )
    assert [item.id for item in search.items()] == ["hrrr-2", "hrrr-1", "nexrad-1", "glm-1"]
    assert sum(1 for _ in search.pages()) == 4
    by_get = client.search(collections=["hrrr"], method="GET", limit=2, sortby="+id")
    assert [item.id for item in by_get.items()] == ["hrrr-1", "hrrr-2", "hrrr-3"]
    names = [each.id for each in client.get_collections()]
    assert {"goes-glm", "hrrr", "nexrad-l2"} <= set(names)
    collection = client.get_collection("goes-glm")
    assert collection is not None
    item = collection.get_item("glm-1")
    assert item is not None
    assert item.bbox == [-102.0, 37.0, -94.6, 40.0]
