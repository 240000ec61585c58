"""Records, a unit and the map in a real browser, on a really ingested store."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from playwright.sync_api import expect

from tests.support.browser import opened, width_of
from tests.support.console import console_process

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext

    from tests.support.backends import Backend

#: The narrowest phone that counts.
PHONE = {"width": 360, "height": 740}


def test_a_unit_is_found_read_and_copied_by_keyboard_on_a_phone(
    ingested: Backend, context: BrowserContext
) -> None:
    """No page is wider than the phone or tells the browser of an error; a document is copied."""
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    sql = "SELECT wal_id, object_uri FROM wal_records WHERE status = ? LIMIT 1"
    ((wal_id, address),) = ingested.sql(sql, "succeeded")
    with console_process(ingested.url) as served:
        page, troubles = opened(context)
        page.set_viewport_size(PHONE)  # type: ignore[arg-type]
        page.goto(served.link)
        for path in ("/records", "/records?status=failed", "/map", "/map?window=found"):
            page.goto(f"{served.url}{path}")
            assert width_of(page) <= PHONE["width"], path
        page.goto(f"{served.url}/records")
        page.get_by_label("Find a unit").fill(address)
        page.keyboard.press("Enter")
        expect(page).to_have_url(f"{served.url}/records/{wal_id}")
        assert width_of(page) <= PHONE["width"]
        page.get_by_text("STAC item", exact=True).focus()
        page.keyboard.press("Enter")
        button = page.locator("[data-copy=item]")
        button.click()
        expect(button).to_have_text("Copied")
        copied = json.loads(page.evaluate("navigator.clipboard.readText()"))
        ((body,),) = ingested.sql("SELECT body FROM stac_items WHERE wal_id = ?", wal_id)
        assert copied == json.loads(body)
        page.goto("about:blank")
    assert troubles == []
