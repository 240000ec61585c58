"""Replay and governance in a real browser: two people, live progress."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.browser import signed_in
from tests.support.console import console_process
from tests.support.governance import set_up

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from tests.support.backends import Backend

AGAIN = "/replay/plan?dataset=goes-glm&since=2026-01-01&include_succeeded=true&force=true"


def test_two_people_replay_in_browsers(ingested: Backend, browser: Browser) -> None:
    """Plan, request, approval by the other, run with live progress, the log sealed and checked."""
    folder = ingested.path.parent
    set_up(ingested).stores.close()
    env = {
        "TALLGRASS_OBJECTS_URL": f"file:{folder / 'objects'}",
        "TALLGRASS_QUEUE_URL": f"sqlite:///{folder / 'queue.db'}",
        "TALLGRASS_CONSOLE_PLANS_FOLDER": str(folder / "plans"),
        "TALLGRASS_AUDIT_ANCHOR_FILE": str(folder / "anchors.jsonl"),
    }
    units = ingested.sql(
        "SELECT count(*) FROM wal_records WHERE status = 'succeeded' AND dataset = 'goes-glm'"
    )[0][0]
    with (
        console_process(ingested.url, **env) as served,
        browser.new_context() as first,
        browser.new_context() as second,
    ):
        otto, complaints = signed_in(first, served.url, "otto")
        ann, more = signed_in(second, served.url, "ann")
        otto.goto(f"{served.url}/governance/incidents")
        otto.get_by_label("Reference").fill("INC-7")
        otto.get_by_label("Title").fill("Again")
        otto.keyboard.press("Enter")
        otto.get_by_text("INC-7 is open").wait_for()

        otto.goto(f"{served.url}{AGAIN}&reason=incident&incident=INC-7")
        otto.get_by_text("approval_missing").wait_for()
        otto.get_by_label("Why, for whoever approves").fill("INC-7: again")
        otto.get_by_role("button", name="Ask for approval").click()
        otto.get_by_text("somebody else decides").wait_for()
        approval = otto.url.partition("?")[0]

        ann.goto(f"{served.url}/governance")
        ann.get_by_role("link", name="otto asks for a replay: INC-7: again").click()
        ann.get_by_role("button", name="Approve").click()
        ann.get_by_text("It is approved now").wait_for()

        otto.goto(approval)
        otto.get_by_role("button", name="Run it").click()
        # No reload: the page renews itself until the run has ended.
        otto.get_by_text("the same to the byte").wait_for()
        assert ingested.sql("SELECT count(*) FROM replay_run_records WHERE outcome = 'done'") == [
            (units,)
        ]

        otto.goto(f"{served.url}/governance/audit")
        otto.get_by_role("button", name="Seal what is new").click()
        otto.get_by_text("Sealed up to").wait_for()
        otto.get_by_role("button", name="Check the chain").click()
        otto.get_by_text("It holds").wait_for()

        assert (complaints, more) == ([], [])
        for context in (first, second):
            context.close()
