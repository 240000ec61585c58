"""`tallgrass ingest` on SQS as a real process: it drains, it stops soon, it tells what is wrong."""

from __future__ import annotations

import signal
import subprocess
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from tests.cli.command import PROGRAM, environment, tallgrass
from tests.cli.pipeline import shares
from tests.pipeline.scene import Pipeline, things
from tests.support.aws import ACCOUNT, REGION
from tests.support.faulty_endpoint import FaultyEndpoint, answers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.pipeline.scene import Thing
    from tests.support.aws import AwsServer
    from tests.support.backends import Backend

ENDPOINT = "TALLGRASS_QUEUE_ENDPOINT_URL"
WAITED_S_MAX = 60.0


def wait_until(holds: Callable[[], bool]) -> None:
    """Wait for a condition."""
    deadline = time.monotonic() + WAITED_S_MAX
    while not holds():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


@pytest.mark.usefixtures("aws_environment")
def test_drain_empties_a_queue_of_sqs(
    backend: Backend, tmp_path: Path, ministack: AwsServer
) -> None:
    """Sent by `simulate`, drained by two processes, with settings by flags and variables."""
    made = ministack.make_queue()
    env = {ENDPOINT: ministack.url}
    sent = tallgrass(
        "simulate", "--units", "40", "--dir", str(tmp_path), "--queue", made.arn,
        *shares(poison="0.05"), "--output", "json", env=env,
    )  # fmt: skip
    assert sent.code == 0, sent.err
    done = tallgrass(
        "ingest", "--queue", made.arn, "--store", backend.url, "--drain", "--processes", "2",
        "--objects", f"file:{tmp_path / 'objects'}", "--output", "json", env=env,
    )  # fmt: skip
    assert done.code == 0, done.err
    assert done.json["by_verdict"] == {"succeeded": 40}
    assert backend.sql("SELECT status, count(*) FROM wal_records GROUP BY status") == [
        ("succeeded", 40)
    ]
    assert backend.sql("SELECT DISTINCT queue FROM wal_records") == [("nodd-primary",)]
    status = tallgrass("status", "--output", "json", at=backend, env={**env, **queue_is(made.arn)})
    assert status.code == 0, status.err
    assert status.json["queue"]["visible"] == status.json["queue"]["in_flight"] == 0


def queue_is(arn: str) -> dict[str, str]:
    """Return the variable that names the queue."""
    return {"TALLGRASS_QUEUE_URL": arn}


@contextmanager
def running(backend: Backend, tmp_path: Path, **env: str) -> Iterator[subprocess.Popen[str]]:
    """Run `tallgrass ingest` without an end of its own."""
    (tmp_path / "objects").mkdir(exist_ok=True)
    process = subprocess.Popen(
        [*PROGRAM, "ingest", "--store", backend.url, "--objects", f"file:{tmp_path / 'objects'}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment() | env,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.usefixtures("aws_environment")
def test_a_stop_does_not_wait_for_the_poll_to_end(
    backend: Backend, tmp_path: Path, ministack: AwsServer
) -> None:
    """Told to stop in the middle of a wait of 20 s, the worker asks at most once more and ends."""
    made = ministack.make_queue()
    with FaultyEndpoint(ministack.url) as endpoint:
        env = {ENDPOINT: endpoint.url, **queue_is(made.arn), "TALLGRASS_QUEUE_WAIT_S": "20"}
        with running(backend, tmp_path, **env) as process:
            wait_until(lambda: endpoint.count("ReceiveMessage") > 0)
            process.send_signal(signal.SIGTERM)
            asked = endpoint.count("ReceiveMessage")
            _, said = process.communicate(timeout=WAITED_S_MAX)
        assert process.returncode == 0
        assert "worker_stopped" in said
        assert endpoint.count("ReceiveMessage") <= asked + 1
        waits = [
            body["WaitTimeSeconds"] for action, body, _ in endpoint.requests if "Rec" in action
        ]
        assert set(waits) == {2}


def park(pipeline: Pipeline, *given: Thing) -> None:
    """Let units become due in the ledger that no message will bring again."""
    pipeline.switch(is_on=True)
    pipeline.feed(*given)
    pipeline.worker.run_messages()
    pipeline.switch(is_on=False)


@pytest.mark.usefixtures("aws_environment")
def test_due_units_do_not_wait_for_the_polls_of_an_empty_queue(
    backend: Backend, tmp_path: Path, ministack: AwsServer
) -> None:
    """Six batches are worked off between polls that do not wait; a unit that comes due, soon."""
    pipeline = Pipeline(backend, tmp_path)
    given = things(31)
    park(pipeline, *given[:30])
    made = ministack.make_queue()
    with FaultyEndpoint(ministack.url) as endpoint:
        env = {
            ENDPOINT: endpoint.url,
            **queue_is(made.arn),
            "TALLGRASS_QUEUE_WAIT_S": "20",
            "TALLGRASS_WORKER_BATCH": "5",
        }
        with running(backend, tmp_path, **env) as process:
            wait_until(lambda: pipeline.statuses().get("succeeded") == 30)
            # One poll more after the last batch tells that nothing is left, and then it waits.
            wait_until(lambda: endpoint.count("ReceiveMessage") >= 8)
            before = endpoint.count("ReceiveMessage")
            park(pipeline, given[30])
            wait_until(lambda: pipeline.statuses().get("succeeded") == 31)
            after = endpoint.count("ReceiveMessage")
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=WAITED_S_MAX)
        polls = [
            body["WaitTimeSeconds"] for action, body, _ in endpoint.requests if "Rec" in action
        ]
        # Each wait of 20 s is ten polls of two; the first of them ends when something is due.
        assert polls[:8] == [2, 0, 0, 0, 0, 0, 0, 2]
        assert after <= before + 3


@pytest.mark.usefixtures("aws_environment")
def test_a_queue_that_fails_while_it_runs_is_told_once(
    backend: Backend, tmp_path: Path, ministack: AwsServer
) -> None:
    """A right that is taken away and given back ends no process: one line, and it goes on."""
    made = ministack.make_queue()
    with FaultyEndpoint(ministack.url) as endpoint:
        env = {ENDPOINT: endpoint.url, **queue_is(made.arn), "TALLGRASS_QUEUE_WAIT_S": "0"}
        with running(backend, tmp_path, **env) as process:
            wait_until(lambda: endpoint.count("ReceiveMessage") > 0)
            endpoint.plan("ReceiveMessage", answers("AccessDenied", 403))
            denied = endpoint.count("ReceiveMessage")
            wait_until(lambda: endpoint.count("ReceiveMessage") > denied + 2)
            endpoint.heal()
            healed = endpoint.count("ReceiveMessage")
            wait_until(lambda: endpoint.count("ReceiveMessage") > healed)
            process.send_signal(signal.SIGTERM)
            _, said = process.communicate(timeout=WAITED_S_MAX)
        assert process.returncode == 0
        assert said.count("store_waited_for") == 1
        assert "error_code=queue_denied" in said


@pytest.mark.usefixtures("aws_environment")
@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (None, "queue_missing"),
        (answers("AccessDenied", 403), "queue_denied"),
        (answers("ServiceUnavailable", 503), "queue_unreachable"),
    ],
    ids=["missing", "denied", "down"],
)
def test_a_queue_that_cannot_be_used_is_told_at_the_start(
    backend: Backend, ministack: AwsServer, fault: object, code: str
) -> None:
    """The command ends with 4, the code and what to do, before a worker registers."""
    arn = f"arn:aws:sqs:{REGION}:{ACCOUNT}:never-made"
    with FaultyEndpoint(ministack.url) as endpoint:
        if fault is not None:
            endpoint.plan("GetQueueAttributes", fault)
        done = tallgrass(
            "ingest", "--queue", arn, "--store", backend.url, "--drain", "--output", "json",
            env={ENDPOINT: endpoint.url},
        )  # fmt: skip
    assert done.code == 4
    assert done.error["code"] == code
    assert "nodd-primary" in done.error["message"]
    assert done.error["remedy"]
    assert backend.sql("SELECT count(*) FROM workers") == [(0,)]
