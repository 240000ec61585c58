from __future__ import annotations

import html
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from tallgrass.ledger.unit import EventMetadata
from tests.cli.command import tallgrass, uri
from tests.support.builders import failure, unit
from tests.support.console import console_at

if TYPE_CHECKING:
    from tests.support.backends import Backend
    from tests.support.console import Console

MARKUP = "<script>alert(1)</script>"


def words(page: str) -> str:
    """Return the text of a page, without its markup."""
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page)))


def test_the_overview_says_what_to_look_at(console: Console) -> None:
    """By hand, of the ten units: 2 failed, 1 quarantined, 1 stale, a switch; each is a link."""
    page = console.browser_of().get("/").text
    text = words(page)
    for said in ("2 units failed", "1 unit quarantined", "1 unit stale", "nexrad-l2 is switched"):
        assert said in text
    for link in ("/records?status=failed", "/records?status=quarantined", "/governance"):
        assert f'href="{link}"' in page
    assert "Data flows" not in text


def test_an_empty_ledger_says_so(backend: Backend) -> None:
    """Nothing is wrong where nothing is, and the page says how to begin."""
    with console_at(backend) as console:
        text = words(console.browser_of().get("/").text)
    assert "Data flows. Nothing asks for a person." in text
    assert "The ledger is empty." in text


def test_a_dataset_whose_units_all_fail_is_an_alarm(backend: Backend) -> None:
    """Page, API, status and its line say so, though the last announcement is seconds old."""
    stores = backend.open()
    worker = stores.leases.register("w", ingest_run_id="run", lease_s=3600)
    now = EventMetadata(event_time=datetime.now(UTC), sqs_message_id="m")
    receipts = stores.ledger.record_and_claim(worker, [unit(1, dataset="hrrr", event=now)])
    stores.ledger.commit(worker, [failure(r.claim) for r in receipts if r.claim])
    stores.close()
    with console_at(backend) as console:
        browser = console.browser_of()
        page = browser.get("/").text
        assert browser.get("/api/v1/status").json()["freshness"] == {"hrrr": "failing"}
    said = "news come and none of them reaches the catalog: hrrr"
    assert f"alarm {said}" in words(page)
    assert '<span class="tag tag-failing">failing</span>' in page
    nowhere = ("--queue", "sqlite:////nowhere/queue.db")
    assert "failing hrrr" in " ".join(tallgrass("status", *nowhere, at=backend).out.split())
    lines = tallgrass("status", *nowhere, "--watch", "--frames", "1", at=backend).out.splitlines()
    assert lines[0].endswith("failing hrrr")


def test_what_is_live_is_a_part_of_the_page(console: Console) -> None:
    """The fragment is what the page holds, so that both are one template's."""
    browser = console.browser_of()
    fragment = browser.get("/fragments/overview").text
    assert "<html" not in fragment
    assert 'aria-labelledby="h-units"' in fragment
    assert 'data-live="/fragments/overview"' in browser.get("/").text


def test_records_are_found_by_filters_and_by_address(console: Console) -> None:
    """Filters narrow the list; an object's address leads to its unit."""
    browser = console.browser_of()
    page = browser.get("/records", params={"status": "failed", "dataset": ["hrrr"]}).text
    assert page.count('<th scope="row" class="object">') == 2
    assert "size_zero" in page
    assert "io_error" in page
    led = browser.get("/records", params={"find": uri(0)})
    assert led.status_code == 303
    unit_page = browser.get(led.headers["location"]).text
    assert "000000.nc" in unit_page
    assert "Attempt 1" in unit_page


def test_records_page_on_without_losing_filters(
    console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next page asks the same question, further on."""
    monkeypatch.setattr("tallgrass.console.records.LIMIT_DEFAULT", 2)
    browser = console.browser_of()
    path, found = "/records?dataset=goes-glm&order=oldest", []
    for _ in range(4):
        page = browser.get(path).text
        found += re.findall(r'class="object"><a href="/records/([0-9a-f-]+)"', page)
        following = re.search(r'rel="next" href="([^"]+)"', page)
        if following is None:
            break
        path = html.unescape(following[1])
    assert len(found) == len(set(found)) == 6


def test_one_unit_shows_attempts_verdicts_and_history(console: Console) -> None:
    """The unit whose re-run failed: both attempts, the last first, and that it is stale."""
    browser = console.browser_of()
    page = browser.get("/records", params={"find": uri(4)}, follow_redirects=True).text
    text = words(page)
    assert text.index("Attempt 2") < text.index("Attempt 1")
    assert "stale" in text
    assert "Integrity" in text
    assert "io_error" in text


def test_what_others_wrote_never_becomes_markup(backend: Backend) -> None:
    """Markup in an object's name, an error and a filter is shown as the text that it is."""
    stores = backend.open()
    worker = stores.leases.register("w", ingest_run_id="run", lease_s=3600)
    hostile = unit(1, object_uri=f"s3://noaa-goes19/{MARKUP}/x.nc")
    claims = [r.claim for r in stores.ledger.record_and_claim(worker, [hostile]) if r.claim]
    stores.ledger.commit(worker, [failure(each, message=MARKUP) for each in claims])
    with console_at(backend) as console:
        browser = console.browser_of()
        wal_id = claims[0].wal_id
        for path in (
            "/records",
            f"/records/{wal_id}",
            f"/records?error_code={MARKUP}",
            f"/{MARKUP}",
        ):
            page = browser.get(path).text
            assert MARKUP not in page, path
        assert html.escape(MARKUP) in browser.get(f"/records/{wal_id}").text


def test_an_error_is_a_page_with_a_remedy(console: Console) -> None:
    """An unknown unit is a page that says what happened, what to do, and its code."""
    answer = console.browser_of().get("/records/00000000-0000-8000-8000-000000000000")
    assert answer.status_code == 404
    assert "record_unknown" in answer.text
    assert "What to do" in answer.text


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_a_database_that_is_away_is_said_and_comes_back(console: Console, backend: Backend) -> None:
    """Pages are 503 with the words and the time to come again; once it is back they are there."""
    browser = console.browser_of()
    assert browser.get("/records").status_code == 200
    console.service.reading._close_idle()
    away = backend.path.rename(backend.path.with_name("elsewhere.db"))
    answer = browser.get("/records?status=failed")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
    assert "The database does not answer" in answer.text
    assert 'data-reload="/records?status=failed"' in answer.text
    told = browser.get("/api/v1/records")
    assert (told.status_code, told.json()["code"]) == (503, "database_unreachable")
    away.rename(backend.path)
    assert browser.get("/records?status=failed").status_code == 200


def test_no_page_has_inline_script_or_style(console: Console) -> None:
    """The policy would refuse it, so none may be there."""
    browser = console.browser_of()
    led = browser.get("/records", params={"find": uri(0)}).headers["location"]
    for path in ("/", "/records", led, "/sign-in", "/nope"):
        page = browser.get(path).text
        assert not re.search(
            r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son[a-z]+=|javascript:", page
        ), path
