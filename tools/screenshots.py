"""Pictures of the console's main pages, from a store that was really ingested.

    python -m tools.screenshots                 writes docs/images
    python -m tools.screenshots --only map      only one page

Each page is taken light and dark, at a desk and on a phone. A worker ingests meanwhile, so that the
figures are alive.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tallgrass.bootstrap.queues import open_queue
from tallgrass.config import load_config
from tallgrass.simulate.demo_folder import OBJECTS_NAME
from tallgrass.simulate.feed import FeedObject
from tools.console_stage import APPROVER, Stage, set_the_stage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Page

IMAGES = Path(__file__).parents[1] / "docs" / "images"
UNITS = 2400
#: Width and height in CSS pixels.
SIZES = {"desktop": (1280, 960), "phone": (390, 844)}
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
#: Looks at the figures before the first picture: a line needs points.
LOOKS = 12
_PATIENCE_MS = 60_000


@dataclass(frozen=True, slots=True)
class Shot:
    """A page, and the name of its pictures."""

    name: str
    path: str


def shots_of(stage: Stage) -> list[Shot]:
    """Return the main pages, with the unit and the run that have most to show."""
    (run,) = [
        each["replay_run_id"]
        for each in stage.command("replay", "runs", "list")["runs"]
        if each["reason"] == "backfill"
    ]
    # A run's rows are in the order of their ids, so that the unit is always the same.
    unit = stage.command("replay", "diff", run)["records"][0]["wal_id"]
    return [
        Shot("overview", "/"),
        Shot("records", "/records?status=failed&status=quarantined"),
        Shot("unit", f"/records/{unit}"),
        Shot("map", "/map?window=found"),
        Shot("replay", f"/replay/runs/{run}"),
        Shot("dead-letters", "/dead-letters"),
        Shot("governance", "/governance"),
        Shot("outbox", "/outbox"),
        Shot("nodes", "/nodes"),
    ]


@contextlib.contextmanager
def process(stage: Stage, *words: str, **env: str) -> Iterator[subprocess.Popen[str]]:
    """Run a command that goes on until it is told to stop."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith("TALLGRASS_")}
    started = subprocess.Popen(
        [sys.executable, "-m", "tallgrass", "--config", str(stage.config), *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=kept | env,
    )
    try:
        yield started
    finally:
        started.send_signal(signal.SIGTERM)
        started.communicate(timeout=60)


@contextlib.contextmanager
def life(stage: Stage) -> Iterator[None]:
    """Let a feed come in at the pace of its own clock while pictures are taken."""
    over = threading.Event()
    thread = threading.Thread(target=_send, args=(stage, over))
    with process(stage, "ingest", "--dispatch"):
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()


def _send(stage: Stage, over: threading.Event) -> None:
    """Go on with the feed where the stage stopped, each message when its time has come."""
    config = load_config(file=stage.config, environment={})
    with contextlib.closing(open_queue(config)) as queue:
        for step in stage.rest():
            if isinstance(step, FeedObject):
                step.write(stage.folder / OBJECTS_NAME)
                continue
            if over.wait(max(0.0, (step.at - datetime.now(UTC)).total_seconds())):
                return
            queue.send([step.body])


def take(stage: Stage, folder: Path, only: str | None) -> None:
    """Take the pictures."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - only where it is used

    browser_at = shutil.which("chromium") or shutil.which("chromium-browser")
    token = {"TALLGRASS_TOKEN": stage.tokens[APPROVER]}
    with (
        life(stage),
        process(stage, "console", "--port", "0", **token) as console,
        sync_playwright() as playwright,
    ):
        link = next(iter(console.stdout or ())).split()[-1]
        browser = playwright.chromium.launch(
            executable_path=browser_at, args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_context(reduced_motion="reduce").new_page()
        page.set_default_timeout(_PATIENCE_MS)
        page.goto(link)
        page.wait_for_function(
            "n => Number(document.querySelector('[data-live]').dataset.renewed || 0) >= n",
            arg=LOOKS,
        )
        for shot in shots_of(stage):
            if only in {None, shot.name}:
                _picture(page, link.partition("/sign-in")[0] + shot.path, folder / shot.name)
        browser.close()


def _picture(page: Page, address: str, file: Path) -> None:
    for size, (width, height) in SIZES.items():
        page.set_viewport_size({"width": width, "height": height})
        for scheme in SCHEMES:
            page.emulate_media(color_scheme=scheme)
            page.goto(address)
            path = file.with_name(f"{file.name}-{size}-{scheme}.png")
            page.screenshot(path=path)
            print(path.name)


def main() -> None:
    """Set the stage and take the pictures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", metavar="PAGE", help="only this page, such as map")
    parser.add_argument("--folder", type=Path, default=IMAGES, help="where the pictures go")
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    # A short path: pages show it.
    with tempfile.TemporaryDirectory(prefix="tallgrass-") as folder:
        take(set_the_stage(Path(folder), units=UNITS), asked.folder, asked.only)


if __name__ == "__main__":
    main()
