"""What is held back, in a real browser, on a really ingested store: letters are drained."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

from playwright.sync_api import expect

from tallgrass.governance.references import ReferenceKind
from tests.support.browser import PATIENCE_MS, opened
from tests.support.console import console_process
from tests.support.governance import set_up, token_of

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import BrowserContext

    from tests.support.backends import Backend


def in_queue(queue: Path, sql: str) -> int:
    """Count something in the queue's file, by plain SQL."""
    with closing(sqlite3.connect(queue)) as connection:
        return int(connection.execute(sql).fetchone()[0])


def test_dead_letters_are_drained_by_a_person(
    ingested: Backend, context: BrowserContext, tmp_path: Path
) -> None:
    """Look, choose by the code that is mended, plan, drain: the letters are in the queue again."""
    people = set_up(ingested)
    people.stores.changes.open(ReferenceKind.CHANGE, "CHG-1", title="resent", by=people.otto)
    people.stores.close()
    queue = ingested.path.with_name("queue.db")
    dead = in_queue(queue, "SELECT count(*) FROM dead_letters")
    assert dead > 0, "the feed has no dead letter"
    env = {
        "TALLGRASS_TOKEN": token_of("otto"),
        "TALLGRASS_CONSOLE_PLANS_FOLDER": str(tmp_path / "plans"),
    }
    with console_process(ingested.url, "--queue", f"sqlite:///{queue}", **env) as served:
        page, troubles = opened(context)
        page.goto(served.link)
        page.get_by_role("link", name="Dead letters", exact=True).first.click()
        page.locator("tbody th a").first.click()
        page.get_by_role("button", name="Make a plan").click()
        planned = page.get_by_role("button", name="Drain")
        expect(planned).to_be_visible(timeout=PATIENCE_MS)
        page.get_by_label("Open change").fill("CHG-1")
        page.get_by_label("What was mended").fill("the files were sent again")
        planned.click()
        expect(page.get_by_role("status")).to_contain_text("done")
        page.goto("about:blank")
    assert troubles == []
    left = in_queue(queue, "SELECT count(*) FROM dead_letters")
    assert left < dead
    assert in_queue(queue, "SELECT count(*) FROM messages") == dead - left
