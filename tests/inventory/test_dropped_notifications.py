"""Notifications are lost: the reconciliation names every object, and the backfill restores it."""

from __future__ import annotations

import random
import shlex
from datetime import timedelta
from typing import TYPE_CHECKING

from tallgrass.clock import format_instant
from tests.cli.command import tallgrass
from tests.pipeline.scene import FIRST, Pipeline, thing
from tests.support.backends import prepare

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.backends import Backend

#: Two satellites, an object each 20 seconds.
OBJECTS = 1300
DROPPED = 1000
WINDOW = (
    "--since", format_instant(FIRST),
    "--until", format_instant(FIRST + timedelta(seconds=20 * OBJECTS // 2)),
)  # fmt: skip


def test_a_thousand_dropped_notifications_are_named_and_restored(
    backend: Backend, tmp_path: Path
) -> None:
    """What was never announced is found one by one; the backfill makes the same items of it."""
    given = [thing(number) for number in range(OBJECTS)]
    dropped = set(random.Random(8).sample(range(OBJECTS), DROPPED))
    pipeline = Pipeline(backend, tmp_path, batch=500)
    pipeline.put(*given)
    pipeline.announce(*(each for n, each in enumerate(given) if n not in dropped))
    pipeline.drain()
    assert pipeline.statuses() == {"succeeded": OBJECTS - DROPPED}

    flags = (*WINDOW, "--objects", f"file:{pipeline.objects}", "--grace", "0", "--output", "json")
    reconcile = ("reconcile", "--dataset", "goes-glm", *flags)
    found = tallgrass(*reconcile, "--plan-dir", str(tmp_path / "mend"), at=backend)
    assert found.code == 1
    assert {each["object_uri"] for each in found.json["findings"]} == {
        given[number].uri for number in dropped
    }
    (command,) = found.json["commands"]
    done = tallgrass(*shlex.split(command)[1:], "--actor", "ann", "--output", "json", at=backend)
    assert (done.code, done.json["recorded"], done.json["known"]) == (0, DROPPED, 0)
    pipeline.drain()

    agreed = tallgrass(*reconcile, at=backend)
    assert (agreed.code, agreed.json["findings"]) == (0, [])
    (tmp_path / "whole").mkdir()
    whole = Pipeline(
        prepare("sqlite", f"sqlite:///{tmp_path / 'whole.db'}"), tmp_path / "whole", batch=500
    )
    whole.feed(*given)
    whole.drain()
    for table in ("items", "provenance", "records"):
        assert pipeline.stored()[table] == whole.stored()[table], table
    whole.backend.close()
