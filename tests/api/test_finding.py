from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.cli.command import uri
from tests.support.catalog import Known, write_catalog
from tests.support.console import console_at

if TYPE_CHECKING:
    from tests.support.backends import Backend
    from tests.support.console import Client, Console

PATH = "/api/v1/records"


def found(reader: Client, **query: Any) -> list[str]:
    """Return the objects of a page of records."""
    answer = reader.get(PATH, params=query)
    assert answer.status_code == 200, answer.text
    return [each["object_uri"] for each in answer.json()["records"]]


def test_units_are_found_by_name_and_by_how_it_begins(console: Console, backend: Backend) -> None:
    """By hand, of the ten units: ids, addresses; pages follow each other; others find nothing."""
    reader = console.browser_of()
    wal_id = str(backend.sql("SELECT wal_id FROM wal_records WHERE object_uri = ?", uri(0))[0][0])
    assert found(reader, find=wal_id) == [uri(0)]
    assert found(reader, find=wal_id.upper()) == [uri(0)]
    assert uri(0) in found(reader, find=wal_id[:13])
    assert found(reader, find=uri(2)) == [uri(2)]
    three = [uri(number, "hrrr") for number in (10, 11, 12)]
    assert found(reader, find="s3://noaa-goes19/hrrr/") == three
    first = reader.get(PATH, params={"find": "s3://noaa-goes19/hrrr/0", "limit": 2})
    assert [each["object_uri"] for each in first.json()["records"]] == three[:2]
    rest = reader.get(first.links["next"]["url"]).json()
    assert [each["object_uri"] for each in rest["records"]] == three[2:]
    assert rest["next_cursor"] is None
    for nothing in ("s3://noaa-goes19/hrrr/%", "s3://noaa-goes19/hrr_", "ffffffff", "OR_GLM"):
        assert found(reader, find=nothing) == []
    assert len(found(reader, find=" ")) == 10


def test_a_name_stands_alone(console: Console) -> None:
    """A filter beside it would be passed over silently; it is refused."""
    answer = console.browser_of().get(PATH, params={"find": "s3://x", "status": "failed"})
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_input")


def test_units_are_found_by_their_items(backend: Backend) -> None:
    """An item's id, or how it begins, in any collection."""
    write_catalog(backend, [Known(id="OR_a"), Known(id="OR_b", collection="hrrr"), Known(id="Z")])
    with console_at(backend) as console:
        reader = console.browser_of()
        assert found(reader, find="OR_") == ["s3://noaa-goes19/OR_a.nc", "s3://noaa-goes19/OR_b.nc"]
        assert found(reader, find="OR_b") == ["s3://noaa-goes19/OR_b.nc"]
        page = reader.get("/records", params={"find": "OR_"}).text
        assert page.count('<th scope="row" class="object">') == 2
        led = reader.get("/records", params={"find": "s3://noaa-goes19/Z.nc"})
        assert led.status_code == 303
        assert "begins like that" in reader.get("/records", params={"find": "nothing"}).text


def test_intents_and_codes(console: Console) -> None:
    """By hand: unit 4 was tried again because its object is newer; codes are counted."""
    reader = console.browser_of()
    assert found(reader, intent="reingest") == [uri(4)]
    assert len(found(reader, intent="ingest")) == 8
    assert found(reader, intent="ingest", error_code="size_zero") == [uri(11, "hrrr")]
    assert found(reader, error_code="io_error") == [uri(4), uri(10, "hrrr")]
    codes = reader.get(PATH).json()["facets"]["error_code"]
    assert codes == {"governance_hard_fail": 1, "io_error": 1, "size_zero": 1}
    assert reader.get(PATH, params={"intent": "fun"}).status_code == 400
    page = reader.get("/records", params={"error_code": "size_zero", "intent": "ingest"}).text
    assert page.count('<th scope="row" class="object">') == 1
    assert '<option value="size_zero" selected>size_zero (1)</option>' in page
