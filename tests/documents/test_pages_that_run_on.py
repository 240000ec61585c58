"""Pages whose commands run until they are told to stop, and programs that talk to them."""

from __future__ import annotations

import json
import shutil
import sys
import time
from typing import TYPE_CHECKING

from tests.documents.markdown import ROOT
from tests.documents.page_commands import played
from tests.documents.running import LONG_S
from tests.support.backends import prepare

if TYPE_CHECKING:
    from pathlib import Path

    from tests.documents.demo_world import DemoWorld

ADDRESS = "postgresql://tallgrass@db.example/ledger"


def own_curl(folder: Path) -> Path:
    """Return a folder with a curl of the tests' own."""
    place = folder / "curl"
    place.mkdir(exist_ok=True)
    script = f'#!/bin/sh\ncd {ROOT} && exec {sys.executable} -m tests.documents.curl "$@"\n'
    (place / "curl").write_text(script, encoding="utf-8")
    (place / "curl").chmod(0o755)
    return place


def test_the_console_and_its_api(world: DemoWorld, postgres_url: str, tmp_path: Path) -> None:
    """console.md, held-back.md, replay-in-the-console.md: read, drain and replay by programs."""
    prepare("postgres", postgres_url).close()
    world.replaced |= {
        "tallgrass console": "tallgrass console --port 0", " --port 8090": "",
        ADDRESS: postgres_url,
    }  # fmt: skip
    if shutil.which("curl") is None:
        world.programs.append(own_curl(tmp_path))
    world.command("operator", "changes", "open", "CHG-2041", "--title", "cut-off objects")
    status, records = world.play("how-to/console.md")[3:]
    told = [status, records, *world.play("how-to/held-back.md")]
    _until_empty(world)
    told += world.play("how-to/replay-in-the-console.md")
    answers = [json.loads(each) for each in told]
    assert len(answers) == 8
    # A refusal is a problem document, which says what to do.
    assert [each for each in answers if "remedy" in each] == []
    assert answers[1]["records"]
    # The curl of our own gives what another one gives.
    world.programs[:] = [own_curl(tmp_path)]
    again = world.type_in(played("how-to/console.md")[-1])
    assert json.loads(again.out).keys() == answers[1].keys()
    assert len(world.stop()) == 3


def _until_empty(world: DemoWorld) -> None:
    """Wait until the letters that the page drains have left."""
    deadline = time.monotonic() + LONG_S
    while "0 dead letters" not in world.command("operator", "dlq", "classify").out:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_events_are_delivered(world: DemoWorld) -> None:
    """dispatch.md: until a signal, until nothing is due, and beside workers."""
    running, drained, beside = (world.type_in(line) for line in played("how-to/dispatch.md"))
    assert (running.code, drained.code, beside.code) == (0, 0, 0)
    world.stop()
    done = world.command("operator", "outbox", "status", "--output", "json")
    (target,) = done.json["targets"]
    assert (target["pending"], target["dispatched"] > 0) == (0, True)


def test_the_pipeline_is_watched(world: DemoWorld) -> None:
    """monitoring.md: pages, promises, ports for Prometheus, and a collector that is down."""
    world.replaced |= {
        "metrics serve": "metrics serve --port 0",
        "--metrics-port 9470": "--metrics-port 0",
        "http://collector:4318": "http://127.0.0.1:9",
    }
    printed = world.play("how-to/monitoring.md")
    assert len(printed) == 7
    assert "goes-glm" in printed[0]
    assert "every replay gives the same bytes" in printed[2]
    assert "metrics_served port=" in printed[3]
    world.stop()
