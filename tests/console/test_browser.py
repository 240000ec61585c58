"""The console in a real browser, on a really ingested store."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from playwright.sync_api import expect

from tests.support.browser import PATIENCE_MS, opened
from tests.support.builders import unit
from tests.support.console import console_process

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext

    from tests.support.backends import Backend


def test_the_overview_follows_the_ledger(ingested: Backend, context: BrowserContext) -> None:
    """Signed in by the link, one sees a unit that was recorded meanwhile, without loading again."""
    queue = f"sqlite:///{ingested.path.with_name('queue.db')}"
    with console_process(ingested.url, "--queue", queue) as served:
        page, troubles = opened(context)
        page.goto(served.link)
        expect(page).to_have_url(f"{served.url}/")
        units = page.locator("[data-figure=units]")
        expect(units).to_have_text("60")
        page.evaluate("window.sameDocument = true")
        record(ingested)
        expect(units).to_have_text("61")
        assert page.evaluate("window.sameDocument") is True
        page.get_by_role("link", name=re.compile("units failed")).first.click()
        page.locator("th.object a").first.click()
        expect(page.get_by_role("heading", name="Attempts")).to_be_visible(timeout=PATIENCE_MS)
        page.goto("about:blank")
    assert troubles == []


def test_a_database_that_is_away_is_said_and_pages_come_back_by_themselves(
    ingested: Backend, context: BrowserContext
) -> None:
    """A page that is open says so, a new one too; both go on once it is there, without a hand."""
    context.set_default_timeout(PATIENCE_MS)
    with console_process(ingested.url) as served:
        live, other = context.new_page(), context.new_page()
        live.goto(served.link)
        expect(live.locator("[data-renewed]")).to_have_count(1)
        away = ingested.path.rename(ingested.path.with_name("elsewhere.db"))
        trouble = live.locator("[data-trouble]")
        expect(trouble).to_contain_text("The database does not answer")
        other.goto(f"{served.url}/records?status=failed")
        heading = other.get_by_role("heading", level=1)
        expect(heading).to_have_text("The database does not answer")
        away.rename(ingested.path)
        expect(heading).to_have_text("Records")
        expect(other).to_have_url(f"{served.url}/records?status=failed")
        expect(trouble).to_be_hidden(timeout=PATIENCE_MS)
        for page in (live, other):
            page.goto("about:blank")


def test_a_page_ends_at_the_sign_in_when_its_session_is_gone(
    ingested: Backend, context: BrowserContext
) -> None:
    """The console is started again and knows the session no more: an open page does not freeze."""
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    with console_process(ingested.url) as served:
        page.goto(served.link)
        expect(page.locator("[data-renewed]")).to_have_count(1)
    expect(page.locator("[data-trouble]")).to_contain_text("it is tried again")
    with console_process(ingested.url, "--port", served.url.rpartition(":")[2]):
        expect(page).to_have_url(f"{served.url}/sign-in?next=%2F")
        page.goto("about:blank")


def test_the_theme_follows_the_system_and_the_switch(
    ingested: Backend, context: BrowserContext
) -> None:
    """The switch goes from the system's colours to light and dark, and is kept."""
    context.set_default_timeout(PATIENCE_MS)
    with console_process(ingested.url) as served:
        page = context.new_page()
        page.goto(served.link)
        paper = "getComputedStyle(document.documentElement).backgroundColor"
        light = page.evaluate(paper)
        page.emulate_media(color_scheme="dark")
        dark = page.evaluate(paper)
        assert light != dark
        page.get_by_role("button", name="Theme: system").click()
        assert page.evaluate(paper) == light
        page.reload()
        assert page.evaluate(paper) == light
        page.get_by_role("button", name="Theme: light").click()
        assert page.evaluate(paper) == dark
        page.goto("about:blank")


def record(backend: Backend) -> None:
    """Record one more unit, as a worker would."""
    stores = backend.open()
    worker = stores.leases.register("w", ingest_run_id="run", lease_s=3600)
    stores.ledger.record_and_claim(worker, [unit(1)])
    stores.close()
