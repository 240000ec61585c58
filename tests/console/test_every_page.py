"""Every page of the console in a real browser, with something on it: open to everybody, and calm.

The pages are those of the application's own table of routes, so that a new one is looked at as soon
as it is there; their addresses are found by following links, as people do.
"""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING, Any, Literal

import pytest
from fastapi.routing import APIRoute

from tallgrass.console.app import ROUTERS
from tests.support.browser import SHOWN, opened, violations, width_of
from tests.support.console import console_process
from tools.console_stage import APPROVER, DATASET, NODE_RUNS, Stage, set_the_stage

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import BrowserContext, Page

UNITS = 120
#: No link leads to the plan of a replay, but a form.
BY_FORM = (
    f"/replay/plan?dataset={DATASET}&since=2026-01-01&include_succeeded=true&force=true"
    "&reason=backfill&compare=true"
)
_LINK = re.compile(r'<a\b[^>]*?\bhref="(/[^"#]*)')
_ELSEWHERE = ("/api/", "/stac", "/static/", "/sign-out")


def page_routes() -> list[APIRoute]:
    """Return the routes of all pages; a fragment is a part of one."""
    routes = [each for router in ROUTERS for each in router.routes if isinstance(each, APIRoute)]
    return [
        each
        for each in routes
        if each.methods and "GET" in each.methods and not each.path.startswith("/fragments")
    ]


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    """A pipeline that really ran, with something on every page."""
    folder: Path = tmp_path_factory.mktemp("stage")
    return set_the_stage(folder, units=UNITS, runs=NODE_RUNS[:1])


def found_by_links(page: Page, url: str, plan: str) -> dict[str, str]:
    """Follow links, once a page; return an address of each page by its route."""
    routes = page_routes()
    found: dict[str, str] = {}
    waiting = [plan, BY_FORM, "/"]
    while waiting:
        path = waiting.pop(0)
        if path.startswith(_ELSEWHERE):
            continue
        route = next((r for r in routes if r.path_regex.fullmatch(path.partition("?")[0])), None)
        assert route is not None, f"a link to {path}, which is no page"
        if route.path not in found:
            found[route.path] = path
            waiting += [html.unescape(link) for link in _LINK.findall(text_of(page, url + path))]
    # Nobody who is signed in is led there.
    found.setdefault("/sign-in", "/sign-in")
    return found


def text_of(page: Page, address: str) -> str:
    """Return a page's text, which must be there."""
    answer = page.request.get(address)
    assert answer.ok, (address, answer.status)
    return answer.text()


def made_plan(page: Page, url: str) -> str:
    """Let the console make the plan of a drain; return its address."""
    page.goto(f"{url}/dead-letters")
    page.get_by_role("button", name="Make a plan").click()
    page.get_by_role("heading", name="Plan of a drain").wait_for()
    return page.url.removeprefix(url).partition("?")[0]


def test_every_page_is_open_to_everybody(
    stage: Stage, context: BrowserContext, *, full_counts: bool
) -> None:
    """No violation of WCAG 2.1 AA, nothing wider than the window, no word in the console."""
    given = {
        "TALLGRASS_CONFIG": str(stage.config),
        "TALLGRASS_TOKEN": stage.tokens[APPROVER],
    }
    told: dict[str, Any] = {}
    with console_process(f"sqlite:///{stage.folder / 'ledger.db'}", **given) as served:
        page, complaints = opened(context)
        page.goto(served.link)
        plan = made_plan(page, served.url)
        pages = found_by_links(page, served.url, plan)
        assert {each.path for each in page_routes()} == set(pages)
        for address in pages.values():
            told |= looked_at(page, served.url + address, full=full_counts)
        assert complaints == []
        told |= looked_at(page, f"{served.url}/nothing-here", full=full_counts)
        page.set_content("<img src='data:,'>")
        assert violations(page), "axe must be able to find something"
        page.goto("about:blank")
    assert {place: found for place, found in told.items() if found} == {}


def looked_at(page: Page, address: str, *, full: bool) -> dict[str, list[str]]:
    """Look at a page in every way; return what is wrong with it."""
    ways: set[tuple[Literal["light", "dark"], int]] = set(SHOWN)
    if full:
        ways = {(colours, width) for colours, _ in SHOWN for width in (1280, 390, 320)}
    found: dict[str, list[str]] = {}
    for colours, width in sorted(ways):
        page.emulate_media(color_scheme=colours)
        page.set_viewport_size({"width": width, "height": 800})
        page.goto(address)
        wide = [] if width_of(page) <= width else [f"{width_of(page)} pixels wide"]
        found[f"{address} {colours} {width}"] = violations(page) + wide
    return found
