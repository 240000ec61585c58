"""One shift at the console, in real browsers: a worker ingests while two people look and act."""

from __future__ import annotations

import re
import signal
import time
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from importlib import resources
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tallgrass.bootstrap.queues import open_queue
from tallgrass.config import load_config
from tallgrass.simulate.feed import Feed
from tallgrass.simulate.feed_plan import FEED_START, FeedFaults
from tests.cli.pipeline import FeedFolder, make_feed, shares
from tests.support.backends import prepare
from tests.support.browser import PATIENCE_MS, signed_in
from tests.support.console import console_process
from tests.support.governance import set_up

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Page

    from tests.support.backends import Backend

#: The feed: so many units, by this seed.
SEED, UNITS = 11, 60
DATASET = "goes-glm"
#: The mistake of the day: whole files are longer than this, but not all of them.
WRONG_LIMIT = ("min_size_bytes = 512", "min_size_bytes = 1000")
FAULT = "size_too_small"
#: What the policy of today writes into each item that is made from now on.
POLICY = "POL-2031"
FIELD = "/properties/kfm:policy_ref"
CONFIG = f"""
[governance.policies.{DATASET}]
replay_modes = ["dlq"]
policy_ref = "{POLICY}"
"""


@dataclass
class Shift:
    """A store, the console over it, and the pages of an operator and an approver."""

    store: Backend
    url: str
    otto: Page
    ann: Page
    #: What the consoles of their browsers said.
    complaints: list[str]

    @property
    def folder(self) -> Path:
        """Where ledger, queue and objects are."""
        return self.store.path.parent

    def count(self, sql: str, *params: object) -> int:
        """Return the one number of a query."""
        return int(self.store.sql(sql, *params)[0][0])

    def with_status(self, status: str, dataset: str = "%") -> int:
        """Count records."""
        sql = "SELECT count(*) FROM wal_records WHERE status = ? AND dataset LIKE ?"
        return self.count(sql, status, dataset)

    def status_of(self, unit: str) -> str:
        """Return the state of a unit."""
        return str(self.store.sql("SELECT status FROM wal_records WHERE wal_id = ?", unit)[0][0])

    def announce(self, units: int, day: int) -> dict[str, int]:
        """Write whole objects of another day and announce them; return units by dataset."""
        start = FEED_START + timedelta(days=day)
        feed = Feed(SEED, units, FeedFaults.none(), start=start)
        feed.write(self.folder / "objects")
        config = load_config(environment={}, flags={"queue.url": FeedFolder(self.folder, {}).queue})
        with closing(open_queue(config)) as queue:
            queue.send(list(feed.bodies()))
        datasets = [each.dataset for each in feed.manifest().units]
        return {name: datasets.count(name) for name in datasets}


def wait_for(condition: Callable[[], bool], what: str) -> None:
    """Wait until something holds; a busy machine is no error."""
    deadline = time.monotonic() + PATIENCE_MS / 1000
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


@contextmanager
def worker(feed: FeedFolder, store: Backend, **env: str) -> Iterator[None]:
    """Run a worker that takes whatever arrives; it must end well."""
    process = feed.start(store, **env)
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=120)
    assert process.returncode == 0, out + err


@pytest.fixture
def store(tmp_path: Path) -> Backend:
    """A store that `tallgrass ingest` filled while a limit of a dataset was wrong."""
    feed = make_feed(tmp_path, UNITS, "--seed", str(SEED), *shares())
    files = tmp_path / "datasets"
    files.mkdir()
    told = resources.files("tallgrass.datasets").joinpath("files", f"{DATASET}.toml").read_text()
    assert WRONG_LIMIT[0] in told
    (files / f"{DATASET}.toml").write_text(told.replace(*WRONG_LIMIT), encoding="utf-8")
    made = prepare("sqlite", f"sqlite:///{tmp_path / 'ledger.db'}")
    made.close()
    done = feed.ingest(made, "--drain", TALLGRASS_DATASETS_FOLDER=str(files))
    assert done.code == 0, done.err
    return made


@contextmanager
def shift(store: Backend, browser: Browser) -> Iterator[Shift]:
    """Begin a shift over the store, with the limit mended and a worker that goes on."""
    folder = store.path.parent
    set_up(store).stores.close()
    (folder / "tallgrass.toml").write_text(CONFIG, encoding="utf-8")
    feed = FeedFolder(folder, {})
    env = {
        "TALLGRASS_CONFIG": str(folder / "tallgrass.toml"),
        "TALLGRASS_OBJECTS_URL": feed.objects,
        "TALLGRASS_QUEUE_URL": feed.queue,
        "TALLGRASS_CONSOLE_PLANS_FOLDER": str(folder / "plans"),
    }
    with (
        console_process(store.url, **env) as served,
        worker(feed, store, TALLGRASS_CONFIG=env["TALLGRASS_CONFIG"]),
        browser.new_context() as first,
        browser.new_context() as second,
    ):
        (otto, told), (ann, more) = (
            signed_in(context, served.url, name)
            for context, name in ((first, "otto"), (second, "ann"))
        )
        made = Shift(store, served.url, otto, ann, told)
        yield made
        told += more
        for context in (first, second):
            context.close()


def test_a_shift(store: Backend, browser: Browser) -> None:
    """What is ingested shows by itself; a failed unit is mended; a switch stops; letters go."""
    with shift(store, browser) as at_work:
        the_overview_is_alive(at_work)
        unit = a_failed_unit_is_found(at_work)
        a_replay_is_planned_and_refused_without_approval(at_work, unit)
        approved_by_the_other_it_runs(at_work, "CHG-7: the limit is mended")
        the_unit_has_succeeded(at_work, unit)
        a_re_run_shows_what_it_changed(at_work)
        a_switch_stops_ingest(at_work)
        the_dead_letters_are_drained(at_work)
    assert at_work.complaints == []


def the_overview_is_alive(at_work: Shift) -> None:
    """A worker ingests while the page is open: its figure follows, without a reload."""
    page = at_work.otto
    page.get_by_role("link", name="Overview").click()
    units = page.locator("[data-figure=units]")
    expect(units).to_have_text(str(UNITS))
    page.evaluate("window.sameDocument = true")
    at_work.announce(20, day=1)
    expect(units).to_have_text(str(UNITS + 20))
    assert page.evaluate("window.sameDocument") is True


def a_failed_unit_is_found(at_work: Shift) -> str:
    """From the overview by the records to a unit that says what is wrong; return its id."""
    page = at_work.otto
    page.get_by_role("link", name=re.compile("units failed")).click()
    page.get_by_label(DATASET).check()
    page.get_by_label("Error code").select_option(FAULT)
    page.get_by_role("button", name="Show").click()
    page.locator("th.object a").first.click()
    expect(page.get_by_role("region", name="Last error")).to_contain_text(FAULT)
    expect(page.get_by_role("heading", name=re.compile("Attempt 1"))).to_be_visible()
    unit = page.url.rsplit("/", 1)[-1]
    assert at_work.status_of(unit) == "failed"
    return unit


def a_replay_is_planned_and_refused_without_approval(at_work: Shift, unit: str) -> None:
    """The unit's own page leads to its plan; who asks for the run at once is refused."""
    page = at_work.otto
    page.get_by_role("link", name="Plan a replay").click()
    page.get_by_label("Only these error codes").fill(FAULT)
    page.get_by_label("Reason").select_option("backfill")
    page.get_by_role("button", name="See the plan").click()
    expect(page.get_by_role("region", name="Guards")).to_contain_text("approval_missing")
    expect(page.get_by_role("link", name=unit)).to_be_visible()
    assert page.get_by_role("button", name="Run it").count() == 0
    # The one thing that a console may say: that it was refused.
    with page.expect_console_message(lambda told: "status of 409" in told.text):
        page.evaluate(RUN_AT_ONCE)
    assert "status of 409" in at_work.complaints.pop()
    expect(page.get_by_role("main")).to_contain_text("approval_missing")
    assert at_work.count("SELECT count(*) FROM replay_runs") == 0
    assert at_work.status_of(unit) == "failed"
    page.go_back()


#: Press the button that asks for an approval as if it were the one that runs the plan.
RUN_AT_ONCE = """() => {
  const form = document.querySelector('form[action="/replay/request"]');
  form.action = "/replay/run";
  form.noValidate = true;
  form.requestSubmit();
}"""


def approved_by_the_other_it_runs(at_work: Shift, why: str) -> None:
    """Asked for on the plan's page, approved by another in another browser, run, watched."""
    otto, ann = at_work.otto, at_work.ann
    otto.get_by_label("Why, for whoever approves").fill(why)
    otto.get_by_role("button", name="Ask for approval").click()
    otto.get_by_text("somebody else decides").wait_for()
    assert otto.get_by_role("button", name="Approve").count() == 0
    approval = otto.url.partition("?")[0]
    ann.get_by_role("link", name="Governance").click()
    ann.get_by_role("link", name=f"otto asks for a replay: {why}").click()
    expect(ann).to_have_url(approval)
    ann.get_by_role("button", name="Approve").click()
    ann.get_by_text("It is approved now").wait_for()
    otto.goto(approval)
    otto.get_by_role("button", name="Run it").click()
    # No reload: the page renews itself until the run has ended.
    expect(otto.locator(".tag-finished").first).to_be_visible(timeout=PATIENCE_MS)


def the_unit_has_succeeded(at_work: Shift, unit: str) -> None:
    """The run's page leads to the unit, which is in the catalog now."""
    page = at_work.otto
    page.get_by_role("link", name=unit).first.click()
    expect(page.locator(".page-head")).to_contain_text("succeeded")
    expect(page.get_by_role("heading", name=re.compile("applied"))).to_be_visible()
    assert at_work.status_of(unit) == "succeeded"
    assert at_work.count("SELECT count(*) FROM stac_items WHERE wal_id = ?", unit) == 1


def a_re_run_shows_what_it_changed(at_work: Shift) -> None:
    """Items of yesterday's policy are made again: each change is there, and was announced."""
    page = at_work.otto
    page.goto(f"{at_work.url}/replay/new")
    page.get_by_label(DATASET).check()
    page.get_by_label("Data from").fill("2026-06-01")
    page.get_by_label("Data before").fill("2026-06-02")
    page.get_by_label(re.compile("also run succeeded")).check()
    page.get_by_label("Reason").select_option("backfill")
    page.get_by_text("More conditions").click()
    page.get_by_label("Fields that may change").fill(FIELD)
    page.get_by_role("button", name="See the plan").click()
    approved_by_the_other_it_runs(at_work, "CHG-8: the new policy")
    changed = page.locator("table.diff tr", has_text=FIELD)
    expect(changed.first).to_contain_text(POLICY)
    expect(changed.first).to_contain_text("announced")
    assert page.locator(".tag-mismatch").count() == 0


def a_switch_stops_ingest(at_work: Shift) -> None:
    """With the switch of a dataset on the worker parks its units; off, it takes them up."""
    page = at_work.otto
    page.get_by_role("link", name="Governance").click()
    page.get_by_label("Of which dataset").select_option("goes-glm")
    page.get_by_label("Why", exact=True).fill("INC-7: bad calibration")
    page.get_by_role("button", name="Stop it").click()
    expect(page.get_by_role("table", name="")).to_contain_text("INC-7: bad calibration")
    before = {name: at_work.with_status("succeeded", name) for name in ("goes-glm", "hrrr")}
    sent = at_work.announce(20, day=2)
    wait_for(
        lambda: (
            at_work.with_status("succeeded", "hrrr") == before["hrrr"] + sent["hrrr"]
            and at_work.with_status("pending", "goes-glm") == sent["goes-glm"]
        ),
        "the worker did not get round",
    )
    assert at_work.with_status("succeeded", "goes-glm") == before["goes-glm"]
    parked = "SELECT sum(attempts) FROM wal_records WHERE status = 'pending'"
    assert at_work.count(parked) == 0
    page.get_by_label("Why ingest of goes-glm goes on").fill("INC-7 is over")
    page.get_by_role("button", name="Go on").click()
    page.get_by_text("Nothing is stopped").wait_for()
    wait_for(
        lambda: (
            at_work.with_status("succeeded", "goes-glm") == before["goes-glm"] + sent["goes-glm"]
        ),
        "what was parked was not taken up",
    )


def the_dead_letters_are_drained(at_work: Shift) -> None:
    """Opened, planned, drained: none is left, and the worker makes items of what came back."""
    page = at_work.otto
    feed = FeedFolder(at_work.folder, {})
    assert feed.in_queue("dead_letters") > 0, "the feed has no dead letter"
    page.goto(f"{at_work.url}/governance/changes")
    page.get_by_label("Reference").fill("CHG-7")
    page.get_by_label("Title").fill("The limit is mended")
    page.keyboard.press("Enter")
    page.get_by_text("CHG-7 is open").wait_for()
    page.get_by_role("link", name="Dead letters").click()
    page.get_by_role("row", name=FAULT).get_by_role("link").first.click()
    drain(page, "the limit of the dataset")
    # The letter of the unit that was replayed is left: nothing of it needs to be sent.
    page.get_by_role("link", name="Dead letters").first.click()
    drain(page, "the unit was replayed")
    assert feed.in_queue("dead_letters") == 0
    whole = UNITS + 40
    wait_for(lambda: at_work.with_status("succeeded") == whole, "what came back was not ingested")
    page.get_by_role("link", name="Overview").click()
    expect(page.get_by_label("What to look at")).not_to_contain_text("dead letters")


def drain(page: Page, mended: str) -> None:
    """Make a plan of the letters that are shown, and drain by it."""
    page.get_by_role("button", name="Make a plan").click()
    page.get_by_label("Open change").fill("CHG-7")
    page.get_by_label("What was mended").fill(mended)
    page.get_by_role("button", name=re.compile("^Drain")).click()
    expect(page.get_by_role("status")).to_contain_text("done")
