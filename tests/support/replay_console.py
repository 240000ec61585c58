"""The console over a pipeline whose units can really be replayed, and the people who do it."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.api.jobs import JobState
from tallgrass.api.service import open_service
from tallgrass.console.app import create_console
from tests.replay.scene import Replays
from tests.support.console import Console

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tallgrass.config import Config
    from tests.support.backends import Backend
    from tests.support.console import Client

API = "/api/v1"
LONG_S = 120.0


@contextmanager
def console_of(config: Config) -> Iterator[Console]:
    """Open the console with a configuration of its own."""
    service = open_service(config, figures_age_s=0.0)
    console = Console(service, create_console(service))
    try:
        yield console
    finally:
        console.close()


@pytest.fixture
def replays(backend: Backend, tmp_path: Path) -> Replays:
    """A pipeline of the test's own, with people; plans are kept in its folder."""
    return Replays(backend, tmp_path, console__plans_folder=str(tmp_path / "plans"))


@pytest.fixture
def console(replays: Replays) -> Iterator[Console]:
    """The console over it."""
    with console_of(replays.config) as made:
        yield made


def etag(client: Client, path: str) -> str:
    """Return the ETag of a document as it is now."""
    answer = client.get(f"{API}{path}")
    assert answer.status_code == 200, answer.text
    found: str = answer.headers["etag"]
    return found


def kept(client: Client, **wish: Any) -> str:
    """Make a plan and have it kept; return its hash."""
    answer = client.post(f"{API}/replay/plans", json={"reason": "backfill", **wish})
    assert answer.status_code == 201, answer.text
    found: str = answer.json()["plan_sha256"]
    return found


def requested(client: Client, sha256: str) -> str:
    """Ask for the approval of a kept plan; return its id."""
    body = {"plan_sha256": sha256, "reason": "CHG-2041"}
    answer = client.post(f"{API}/approvals", json=body)
    assert answer.status_code == 201, answer.text
    found: str = answer.json()["approval"]["approval_id"]
    return found


def decided(client: Client, approval: str, verdict: str = "approve") -> Any:
    """Decide on a request as it is now; return the answer."""
    path = f"/approvals/{approval}"
    headers = {"If-Match": etag(client, path)}
    return client.post(f"{API}{path}/decision", json={"verdict": verdict}, headers=headers)


def ended(console: Console, answer: Any) -> Any:
    """Wait until the job of an answer has ended; return it."""
    assert answer.status_code == 202, answer.text
    job = console.service.jobs.wait(answer.json()["job"]["job_id"], LONG_S)
    assert job.state is not JobState.RUNNING
    return job
