from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from tallgrass.api.jobs import KEPT_MAX, JobKind, Jobs, JobSide, JobState
from tallgrass.clock import system_clock
from tallgrass.errors import InvalidInput, Refused, UnknownRecord

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.backends import Backend
    from tests.support.console import Console
    from tests.support.governance import People

LONG_S = 60.0


@pytest.fixture
def jobs() -> Iterator[Jobs]:
    """The jobs of a server that has just begun."""
    made = Jobs(clock=system_clock)
    yield made
    made.close()


def until_stopped(side: JobSide) -> dict[str, int]:
    """Work that goes on until somebody says stop."""
    rounds = 0
    while not side.stop():
        rounds += 1
        side.tell({"rounds": rounds})
        side.sleep(0.01)
    return {"rounds": rounds}


def test_a_job_tells_what_it_came_to(jobs: Jobs) -> None:
    """Progress while it runs, the result afterwards."""
    told, go = threading.Event(), threading.Event()

    def work(side: JobSide) -> dict[str, int]:
        side.tell({"done": 3})
        told.set()
        go.wait(LONG_S)
        return {"done": 7}

    job = jobs.start(JobKind.VERIFY, "all of hrrr", work, by="ann")
    assert told.wait(LONG_S)
    seen = jobs.find(job.job_id)
    assert (seen.state, seen.progress, seen.result) == (JobState.RUNNING, {"done": 3}, None)
    go.set()
    ended = jobs.wait(job.job_id, LONG_S)
    assert (ended.state, ended.result, ended.started_by) == (JobState.DONE, {"done": 7}, "ann")
    assert ended.ended_at is not None


def test_one_job_of_a_kind_runs_at_a_time(jobs: Jobs) -> None:
    """A second of the kind is refused while the first runs; one of another kind is not."""
    first = jobs.start(JobKind.DRAIN, "a", until_stopped, by="ann")
    with pytest.raises(Refused, match=first.job_id) as refused:
        jobs.start(JobKind.DRAIN, "b", until_stopped, by="bob")
    assert refused.value.code == "job_running"
    other = jobs.start(JobKind.BACKFILL, "c", until_stopped, by="bob")
    for each in (first, other):
        jobs.stop(each.job_id)
        assert jobs.wait(each.job_id, LONG_S).state is JobState.STOPPED
    assert jobs.start(JobKind.DRAIN, "d", until_stopped, by="bob").job_id != first.job_id


def test_a_job_that_fails_says_why_and_no_more(
    jobs: Jobs, caplog: pytest.LogCaptureFixture
) -> None:
    """Our own errors are told as problems; of any other only the log has the details."""

    def refused(_side: JobSide) -> dict[str, int]:
        raise InvalidInput("since is after until")

    def broken(_side: JobSide) -> dict[str, int]:
        raise RuntimeError("the secret is 12345")

    known = jobs.start(JobKind.VERIFY, "a", refused, by="ann")
    problem = jobs.wait(known.job_id, LONG_S).problem
    assert problem is not None
    assert (problem["code"], problem["detail"]) == ("invalid_input", "since is after until")
    unknown = jobs.start(JobKind.VERIFY, "b", broken, by="ann")
    ended = jobs.wait(unknown.job_id, LONG_S)
    assert ended.state is JobState.FAILED
    assert "12345" not in str(ended)
    assert "12345" in caplog.text


def test_the_end_of_the_server_stops_jobs_and_waits_for_them() -> None:
    """After `close` nothing runs, and nothing can be begun."""
    jobs = Jobs(clock=system_clock)
    job = jobs.start(JobKind.REPLAY, "a", until_stopped, by="ann")
    jobs.close(grace_s=LONG_S)
    assert jobs.find(job.job_id).state is JobState.STOPPED
    with pytest.raises(Refused):
        jobs.start(JobKind.REPLAY, "b", until_stopped, by="ann")


def test_old_jobs_are_forgotten_but_never_one_that_runs(jobs: Jobs) -> None:
    """At most so many are kept, the latest."""
    running = jobs.start(JobKind.REPLAY, "runs", until_stopped, by="ann")
    made = []
    for number in range(KEPT_MAX + 3):
        job = jobs.start(JobKind.VERIFY, str(number), lambda _side: {}, by="ann")
        jobs.wait(job.job_id, LONG_S)
        made.append(job)
    kept = jobs.all()
    assert len(kept) == KEPT_MAX
    assert kept[0].job_id == made[-1].job_id
    assert running.job_id in {each.job_id for each in kept}
    with pytest.raises(UnknownRecord):
        jobs.find(made[0].job_id)


def test_jobs_are_seen_and_stopped_by_the_api(
    console: Console, people: People, backend: Backend
) -> None:
    """A viewer looks, an operator stops, and the log has who it was."""
    job = console.service.jobs.start(JobKind.DRAIN, "DLQ", until_stopped, by="otto")
    path = f"/api/v1/jobs/{job.job_id}"
    vera, otto = console.program("vera"), console.program("otto")
    assert vera.get(path).json()["job"]["state"] == "running"
    assert [each["job_id"] for each in vera.get("/api/v1/jobs?kind=drain").json()["jobs"]] == [
        job.job_id
    ]
    assert vera.get("/api/v1/jobs?kind=verify").json() == {"jobs": []}
    assert vera.post(f"{path}/stop", json={}).status_code == 403
    assert console.service.jobs.find(job.job_id).state is JobState.RUNNING
    assert otto.post(f"{path}/stop", json={}).status_code == 200
    assert console.service.jobs.wait(job.job_id, LONG_S).state is JobState.STOPPED
    logged = backend.sql("SELECT actor, subject FROM audit_log WHERE action = 'job_stop'")
    assert logged == [("otto", f"job:{job.job_id}")]


def test_a_job_that_nobody_knows_is_not_found(console: Console, people: People) -> None:
    """404 with the code of it."""
    answer = console.program("otto").get("/api/v1/jobs/none")
    assert (answer.status_code, answer.json()["code"]) == (404, "job_unknown")
