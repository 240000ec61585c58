"""A real browser at the console: signing in, what its console complains of, what axe finds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests.support.governance import token_of

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page

#: A slow machine is no error.
PATIENCE_MS = 60_000
expect.set_options(timeout=PATIENCE_MS)
#: In which colours and how wide a page is looked at.
SHOWN: tuple[tuple[Literal["light", "dark"], int], ...] = (("light", 1280), ("dark", 360))
_AA = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]}


def opened(context: BrowserContext) -> tuple[Page, list[str]]:
    """Open a page; return it, and what its console tells or throws from now on."""
    context.set_default_timeout(PATIENCE_MS)
    page, complaints = context.new_page(), list[str]()
    page.on("console", lambda told: complaints.append(f"{page.url}: {told.text}"))
    page.on("pageerror", lambda error: complaints.append(f"{page.url}: {error}"))
    return page, complaints


def signed_in(context: BrowserContext, url: str, name: str) -> tuple[Page, list[str]]:
    """Sign somebody in with their token; return their page, and what its console complains of."""
    page, complaints = opened(context)
    page.goto(f"{url}/sign-in?next=/replay")
    page.get_by_label("Your token").fill(token_of(name))
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("heading", name="Replay").wait_for()
    return page, complaints


def violations(page: Page) -> list[str]:
    """Return what axe has against a page."""
    told = Axe().run(page, options=_AA).response["violations"]
    return [f"{each['id']}: {[node['target'] for node in each['nodes']]}" for each in told]


def width_of(page: Page) -> int:
    """Return how wide a page is; wider than its window, it scrolls sideways."""
    found: int = page.evaluate("document.documentElement.scrollWidth")
    return found
