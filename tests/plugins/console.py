"""Fixtures of the console's tests: the application, a store that was really filled, a browser."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from tests.cli.command import fill
from tests.cli.pipeline import make_feed, shares
from tests.support.backends import Backend, prepare
from tests.support.governance import People, set_up

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, BrowserContext

    from tests.cli.pipeline import FeedFolder
    from tests.support.console import Console

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.fixture
def console(backend: Backend) -> Iterator[Console]:
    """The console over ten units that are known by heart (`tests.cli.command.fill`)."""
    # Here, so that runs of other tests need not load what serves pages.
    from tests.support.console import console_at  # noqa: PLC0415

    fill(backend)
    with console_at(backend) as made:
        yield made


@pytest.fixture
def people(backend: Backend) -> People:
    """Two approvers, an operator and a viewer, in the database of `console`."""
    return set_up(backend)


@pytest.fixture(scope="session")
def ingested_feed(tmp_path_factory: pytest.TempPathFactory) -> FeedFolder:
    """A feed that was ingested once for all tests, with failed units; copy it, never change it."""
    folder = tmp_path_factory.mktemp("ingested")
    feed = make_feed(folder, 60, "--seed", "11", *shares(truncated="0.1", zero_bytes="0.05"))
    ledger = prepare("sqlite", f"sqlite:///{folder / 'ledger.db'}")
    ledger.close()
    done = feed.ingest(ledger, "--drain")
    assert done.code == 0, done.err
    return feed


@pytest.fixture
def ingested(ingested_feed: FeedFolder, tmp_path: Path) -> Backend:
    """A store of the test's own that `tallgrass ingest` filled: objects, queue, ledger, catalog.

    Everything is in one folder: `ledger.db`, `queue.db`, `objects/`.
    """
    folder = shutil.copytree(ingested_feed.folder, tmp_path / "feed")
    return Backend("sqlite", f"sqlite:///{folder / 'ledger.db'}")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Debian's Chromium; each test takes a context of its own.

    One a module: while it is there an event loop runs in this thread, and other tests want theirs.
    """
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed")
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - only where it is used

    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"]
        )
        yield launched
        launched.close()


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    """A browser without cookies or a past."""
    made = browser.new_context()
    yield made
    made.close()
