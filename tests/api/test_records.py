from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.command import here, uri

if TYPE_CHECKING:
    from tests.support.backends import Backend
    from tests.support.console import Client, Console
    from tests.support.governance import People


@pytest.fixture
def reader(console: Console) -> Client:
    """Somebody who may read."""
    return console.browser_of()


def listed(reader: Client, **query: Any) -> list[str]:
    """Return the objects of a page of records."""
    answer = reader.get("/api/v1/records", params=query)
    assert answer.status_code == 200, answer.text
    return [each["object_uri"] for each in answer.json()["records"]]


def test_filters_are_those_of_the_command_line(reader: Client, backend: Backend) -> None:
    """The records are the same documents, in the same order, as `wal list` gives."""
    for flags, query in (
        ((), {}),
        (("--dataset", "hrrr"), {"dataset": "hrrr"}),
        (("--status", "failed", "--status", "pending"), {"status": ["failed", "pending"]}),
        (("--error-code", "size_zero"), {"error_code": "size_zero"}),
        (("--stale",), {"stale": "true"}),
    ):
        told = here("wal", "list", *flags, at=backend).json["records"]
        assert reader.get("/api/v1/records", params=query).json()["records"] == told
        assert told


def test_pages_follow_each_other_in_both_orders(reader: Client) -> None:
    """By cursors and by Link headers one meets each record once; newest first is the reverse."""
    everything = listed(reader)
    assert len(everything) == 10
    for order, expected in (("oldest", everything), ("newest", everything[::-1])):
        found, path = [], f"/api/v1/records?limit=3&order={order}"
        cursors = []
        for _ in range(4):
            answer = reader.get(path)
            found += [each["object_uri"] for each in answer.json()["records"]]
            cursors.append(answer.json()["next_cursor"])
            path = answer.links.get("next", {}).get("url", "")
        assert found == expected
        assert path == ""
        assert [cursor is None for cursor in cursors] == [False, False, False, True]


def test_newest_first_keeps_all_filters(reader: Client) -> None:
    """The reverse holds under each filter, that of stale units too."""
    for query in ({"status": "failed"}, {"dataset": "goes-glm"}, {"stale": "true"}):
        assert listed(reader, **query, order="newest") == listed(reader, **query)[::-1]


def test_a_cursor_of_another_list_is_refused(reader: Client) -> None:
    """A cursor belongs to its list and its order, and cannot be made up."""
    cursor = reader.get("/api/v1/records?limit=1").json()["next_cursor"]
    for query in (
        f"cursor={cursor}&order=newest",
        "cursor=AAAA",
        "cursor=%F0",
        "cursor=cmVjb3Jkcw",
    ):
        answer = reader.get(f"/api/v1/records?limit=1&{query}")
        assert (answer.status_code, answer.json()["code"]) == (400, "invalid_input")


def test_facets_count_under_the_other_filter(reader: Client) -> None:
    """By hand: of hrrr 2 failed and 1 is quarantined; of the failed all are hrrr."""
    facets = reader.get("/api/v1/records?dataset=hrrr").json()["facets"]
    assert facets["status"] == {
        "pending": 0, "in_progress": 0, "succeeded": 0, "failed": 2, "quarantined": 1,
    }  # fmt: skip
    assert facets["dataset"] == {"goes-glm": 6, "hrrr": 3, "nexrad-l2": 1}
    failed = reader.get("/api/v1/records?status=failed").json()["facets"]
    assert failed["dataset"] == {"goes-glm": 0, "hrrr": 2, "nexrad-l2": 0}


def test_one_unit_is_told_whole(reader: Client, backend: Backend) -> None:
    """Record, attempts and notes as `wal show` tells them; its history, events and documents."""
    told = here("wal", "show", uri(4), at=backend).json
    answer = reader.get(f"/api/v1/records/{told['record']['wal_id']}")
    unit = answer.json()
    assert {name: unit[name] for name in told if name != "attempts"} == {
        name: told[name] for name in told if name != "attempts"
    }
    assert [each["attempt_no"] for each in unit["attempts"]] == [1, 2]
    assert [each["error_code"] for each in unit["attempts"]] == [None, "io_error"]
    assert [each["to_status"] for each in unit["history"]][-1] == "succeeded"


def test_a_unit_of_which_more_is_known_is_told_again(reader: Client, backend: Backend) -> None:
    """A note changes no version, and who has the unit without it still gets it."""
    wal_id = reader.get("/api/v1/records", params={"find": uri(0)}).json()["records"][0]["wal_id"]
    path = f"/api/v1/records/{wal_id}"
    before = reader.get(path)
    stores = backend.open()
    stores.interventions.annotate(wal_id, 1, actor="j.doe", note="seen again")
    stores.close()
    after = reader.get(path, headers={"If-None-Match": before.headers["etag"]})
    assert after.status_code == 200
    assert after.json()["record"]["version"] == before.json()["record"]["version"]
    assert [each["note"] for each in after.json()["annotations"]] == ["looked at", "seen again"]


def test_a_note_is_written_by_whom_the_token_proves(console: Console, people: People) -> None:
    """An operator may, a viewer may not; the unit is told with it."""
    otto, vera = console.program("otto"), console.program("vera")
    wal_id = vera.get("/api/v1/records", params={"find": uri(0)}).json()["records"][0]["wal_id"]
    path, body = f"/api/v1/records/{wal_id}/notes", {"attempt_no": 1, "note": "seen again"}
    assert vera.post(path, json=body).status_code == 403
    assert otto.post(path, json={**body, "attempt_no": 7}).status_code == 400
    written = otto.post(path, json=body)
    assert (written.status_code, written.json()["actor"]) == (200, "otto")
    told = vera.get(f"/api/v1/records/{wal_id}").json()["annotations"]
    assert [(each["actor"], each["note"]) for each in told] == [
        ("j.doe", "looked at"), ("otto", "seen again"),
    ]  # fmt: skip


def test_who_has_the_version_gets_no_second_copy(reader: Client) -> None:
    """If-None-Match with the tag is 304 without a body; another tag is the document."""
    wal_id = reader.get("/api/v1/records?limit=1").json()["records"][0]["wal_id"]
    path = f"/api/v1/records/{wal_id}"
    tag = reader.get(path).headers["etag"]
    same = reader.get(path, headers={"If-None-Match": f'"x", {tag}'})
    assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", tag)
    assert reader.get(path, headers={"If-None-Match": '"x"'}).status_code == 200


def test_what_is_not_there_is_a_problem(reader: Client) -> None:
    """An unknown id is 404, what is no id is 400; both say what to do."""
    for name, status, code in (
        ("00000000-0000-8000-8000-000000000000", 404, "record_unknown"),
        ("nonsense", 400, "invalid_input"),
    ):
        answer = reader.get(f"/api/v1/records/{name}")
        assert answer.status_code == status
        assert set(answer.json()) == {"type", "title", "status", "detail", "code", "remedy"}
        assert answer.json()["code"] == code
        explained = reader.get(answer.json()["type"])
        assert explained.json()["remedy"] == answer.json()["remedy"]


def test_a_really_ingested_unit_has_its_documents(ingested: Backend) -> None:
    """Item, provenance, evidence and event of a unit are those that the pipeline wrote."""
    from tests.support.console import console_at  # noqa: PLC0415 - this test alone opens its own

    with console_at(ingested) as console:
        reader = console.browser_of()
        record = reader.get("/api/v1/records?status=succeeded&limit=1").json()["records"][0]
        unit = reader.get(f"/api/v1/records/{record['wal_id']}").json()
        assert unit["item"]["id"] == record["stac_item_id"]
        assert unit["provenance"]["@graph"] or unit["provenance"]
        assert unit["attempts"][0]["evidence"]
        assert [each["state"] for each in unit["events"]] == ["pending"]
        served = reader.get(
            f"/stac/collections/{record['stac_collection_id']}/items/{record['stac_item_id']}"
        )
        assert served.json()["properties"] == unit["item"]["properties"]
        assert served.json()["links"][0]["href"].startswith("http://localhost:8090/stac/")
