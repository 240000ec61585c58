"""What commands that replay tell of themselves: called, refused by a guard, failed, executed."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.bootstrap import replay_reporting
from tests.cli.command import here
from tests.pipeline.scene import things
from tests.replay.scene import Replays
from tests.support.governance import token_of
from tests.support.recording import MemoryRecorder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.backends import Backend

P = "nodd_sns."


class Calls:
    """Commands in this process, whose recorder is one in memory; the port is never theirs."""

    def __init__(self, backend: Backend, folder: Path) -> None:
        self.replays = Replays(backend, folder)
        self.recorder = MemoryRecorder(env="dev")
        self.ports: list[Any] = []
        self.commands: list[str] = []
        config = self.replays.config.values
        self.env = {
            "TALLGRASS_TOKEN": token_of("otto"),
            "TALLGRASS_QUEUE_URL": str(config["queue.url"]),
            "TALLGRASS_OBJECTS_URL": str(config["objects.url"]),
            "TALLGRASS_TELEMETRY_METRICS_PORT": "9464",
        }

    @contextmanager
    def opened(self, config: Any, write: Any, *, command: str) -> Iterator[MemoryRecorder]:
        """Stand for what opens the recorder of a process."""
        assert write is None
        self.commands.append(command)
        self.ports.append(config.values["telemetry.metrics_port"])
        yield self.recorder

    def __call__(self, *args: str) -> Any:
        """Run a command line."""
        return here(*args, at=self.replays.backend, env=self.env)

    def counts(self, name: str) -> dict[tuple[str, ...], float]:
        """Return a counter by its labels."""
        return self.recorder.by_labels(P + name)


@pytest.fixture
def calls(backend: Backend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Calls:
    """A pipeline of the test's own."""
    made = Calls(backend, tmp_path)
    monkeypatch.setattr(replay_reporting, "open_recorder", made.opened)
    return made


@pytest.mark.conformance("RP-8.1", "RP-4.2f")
def test_a_replay_tells_what_it_did_and_what_refused_it(calls: Calls) -> None:
    """A dry run, a run, and one that is too broad: three calls, one violation, one replay."""
    (failed,) = calls.replays.failed(*things(1))
    named = ("--wal-id", failed, "--reason", "backfill")
    assert calls("replay", "--dry-run", *named).code == 0
    assert calls.recorder.reports == 1  # called, and nothing else
    done = calls("replay", *named, "--confirm")
    assert (done.code, done.json["done"]) == (0, 1), done.err
    broad = calls("replay", "--dataset", "goes-glm", "--reason", "backfill", "--confirm")
    assert (broad.code, broad.error["guard"]) == (3, "scope_too_broad")
    assert calls.counts("replay_cli_invocations_total") == {("replay", "dev"): 3.0}
    assert calls.counts("replay_cli_failures_total") == {("replay", "guard_refused", "dev"): 1.0}
    assert calls.counts("replay_guardrail_violations_total") == {("scope_too_broad", "dev"): 1.0}
    assert calls.counts("replays_total") == {("goes-glm", "backfill", "dev"): 1.0}
    assert calls.counts("wal_replays_total") == {("goes-glm", "backfill"): 1.0}
    assert set(calls.ports) == {0}
    assert calls.commands == ["replay"] * 3


def test_a_drain_without_a_plan_is_a_violation(calls: Calls) -> None:
    """It is counted under its own command; a dry run of the same is only a call."""
    refused = calls("dlq", "drain", "--yes")
    assert refused.code == 3, refused.err
    guard = refused.error["guard"]
    assert calls.counts("replay_guardrail_violations_total") == {(guard, "dev"): 1.0}
    assert calls("dlq", "drain", "--dry-run").code == 3
    assert calls.counts("replay_cli_invocations_total") == {("dlq drain", "dev"): 2.0}
    assert calls.counts("replay_cli_failures_total") == {("dlq drain", "guard_refused", "dev"): 1.0}
