"""Long work by the API: backfill, reconcile, retention, validation; each a job of the server."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tallgrass.api.jobs import Job, JobState
from tests.cli.test_backfill import GIVEN
from tests.pipeline.scene import Pipeline
from tests.support.console import console_process
from tests.support.governance import set_up, token_of
from tests.support.replay_console import console_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.support.backends import Backend
    from tests.support.console import Client, Console

API = "/api/v1"
LONG_S = 120.0
ON_SQLITE = pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
HOUR = {"since": "2026-06-01T12:00:00Z", "until": "2026-06-01T13:00:00Z"}


@pytest.fixture
def pipeline(backend: Backend, tmp_path: Path) -> Pipeline:
    """Six objects in a folder, of which none was announced."""
    made = Pipeline(backend, tmp_path)
    made.put(*GIVEN)
    set_up(backend)
    return made


@pytest.fixture
def console(pipeline: Pipeline, tmp_path: Path) -> Iterator[Console]:
    """The console of that pipeline."""
    values = {
        **pipeline.config.values,
        "console.plans_folder": str(tmp_path / "plans"),
        "retention.folder": str(tmp_path / "archives"),
    }
    with console_of(replace(pipeline.config, values=values)) as made:
        yield made


def ended(console: Console, client: Client, path: str, body: dict[str, Any]) -> Job:
    """Start a job and wait for its end."""
    answer = client.post(f"{API}{path}", json=body)
    assert answer.status_code == 202, answer.text
    assert answer.headers["location"] == f"{API}/jobs/{answer.json()['job']['job_id']}"
    return console.service.jobs.wait(answer.json()["job"]["job_id"], LONG_S)


def result(console: Console, client: Client, path: str, body: dict[str, Any]) -> dict[str, Any]:
    """Start a job; return what it came to."""
    job = ended(console, client, path, body)
    assert job.state is JobState.DONE, job
    assert job.result is not None
    return dict(job.result)


def recorded(pipeline: Pipeline) -> int:
    """Count records by plain SQL."""
    return int(pipeline.backend.sql("SELECT count(*) FROM wal_records")[0][0])


def test_what_a_folder_holds_becomes_due(console: Console, pipeline: Pipeline) -> None:
    """A dry run tells and writes nothing; the run records; again it finds all known."""
    otto = console.program("otto")
    wish = {"dataset": "goes-glm", **HOUR}
    dry = result(console, otto, "/backfill", {**wish, "dry_run": True})
    assert (dry["dry_run"], dry["recorded"], recorded(pipeline)) == (True, 6, 0)
    capped = result(console, otto, "/backfill", {**wish, "max_events": 2})
    assert (capped["recorded"], recorded(pipeline)) == (2, 2)
    rest = result(console, otto, "/backfill", wish)
    assert (rest["known"], rest["recorded"], recorded(pipeline)) == (2, 4, 6)
    logged = pipeline.backend.sql(
        "SELECT DISTINCT actor FROM audit_log WHERE action LIKE ?", "backfill%"
    )
    assert logged == [("otto",)]


@ON_SQLITE
def test_a_backfill_that_cannot_be_is_refused_at_once(console: Console, pipeline: Pipeline) -> None:
    """No scope, a mistyped dataset, a viewer: nothing begins."""
    otto, vera = console.program("otto"), console.program("vera")
    wish = {"dataset": "goes-glm", **HOUR}
    assert otto.post(f"{API}/backfill", json={"dataset": "goes-glm"}).status_code == 400
    assert otto.post(f"{API}/backfill", json={**wish, "dataset": "goes-gml"}).status_code == 400
    assert otto.post(f"{API}/backfill", json={**wish, "listing": "/etc/passwd"}).status_code == 422
    assert vera.post(f"{API}/backfill", json=wish).status_code == 403
    assert console.service.jobs.all() == []
    unknown = ended(console, otto, "/backfill", {**wish, "change_ref": "CHG-7"})
    assert unknown.problem is not None
    assert (unknown.state, unknown.problem["code"]) == (JobState.FAILED, "reference_unknown")
    assert recorded(pipeline) == 0


@ON_SQLITE
def test_the_end_of_the_server_ends_its_jobs_in_good_order(
    pipeline: Pipeline, tmp_path: Path
) -> None:
    """Stopped in the midst of slow work: what was done stays, and the same call does the rest."""
    wish = {"dataset": "goes-glm", **HOUR, "rate": 0.05}
    env = {
        "TALLGRASS_OBJECTS_URL": f"file:{pipeline.objects}",
        "TALLGRASS_CONSOLE_PLANS_FOLDER": str(tmp_path / "plans"),
    }
    told = {"Authorization": f"Bearer {token_of('otto')}"}
    with console_process(pipeline.backend.url, **env) as served:
        answer = httpx.post(f"{served.url}{API}/backfill", json=wish, headers=told, timeout=LONG_S)
        assert answer.status_code == 202, answer.text
        until(lambda: recorded(pipeline) > 0)
    done = recorded(pipeline)
    assert 0 < done < len(GIVEN)
    with console_process(pipeline.backend.url, **env) as served:
        answer = httpx.post(
            f"{served.url}{API}/backfill", json={**wish, "rate": None}, headers=told, timeout=LONG_S
        )
        assert answer.status_code == 202, answer.text
        until(lambda: recorded(pipeline) == len(GIVEN))


def until(holds: Callable[[], bool]) -> None:
    """Wait until something holds."""
    end = time.monotonic() + LONG_S
    while not holds():
        assert time.monotonic() < end, "it never came to be"
        time.sleep(0.05)


@ON_SQLITE
def test_an_order_is_planned_for_an_approval(console: Console) -> None:
    """The plan is kept by its hash, which an approval can name."""
    otto = console.program("otto")
    plan = otto.post(f"{API}/backfill/plans", json={"dataset": "goes-glm", **HOUR}).json()
    assert plan["order"]["wanted"]["dataset"] == "goes-glm"
    wish = {"plan_sha256": plan["plan_sha256"], "reason": "gap"}
    assert otto.post(f"{API}/approvals", json=wish).is_success


@ON_SQLITE
def test_bucket_and_ledger_are_compared(console: Console, pipeline: Pipeline) -> None:
    """Six objects that nobody announced; none is missing once they are recorded."""
    otto = console.program("otto")
    wish = {"dataset": "goes-glm", "grace_s": 0, **HOUR}
    found = result(console, otto, "/reconcile", wish)
    assert (found["listed"], found["counts"]["never_notified"]) == (6, 6)
    assert [each["kind"] for each in found["findings"]].count("never_notified") == 6
    few = result(console, otto, "/reconcile", {**wish, "limit": 1})
    assert [each["kind"] for each in few["findings"]].count("never_notified") == 1
    assert few["counts"] == found["counts"]
    began = time.monotonic()
    assert result(console, otto, "/reconcile", {**wish, "rate": 6})["counts"] == found["counts"]
    assert time.monotonic() - began > 0.9
    assert otto.post(f"{API}/reconcile", json={**wish, "rate": 0}).status_code == 422
    alone = result(console, otto, "/reconcile", {**wish, "catalog_only": True})
    assert (alone["listed"], alone["counts"]["never_notified"]) == (None, 0)
    wrong = {**wish, "catalog_only": True, "prefix": "x"}
    assert otto.post(f"{API}/reconcile", json=wrong).status_code == 400
    backwards = {**wish, "since": HOUR["until"], "until": HOUR["since"]}
    assert otto.post(f"{API}/reconcile", json=backwards).status_code == 400
    assert recorded(pipeline) == 0


@ON_SQLITE
def test_the_catalog_is_validated_and_its_collections_renewed(
    console: Console, pipeline: Pipeline, backend: Backend
) -> None:
    """Every item of a real ingest is judged; the renewal is in the log with its actor."""
    pipeline.announce(*GIVEN)
    pipeline.start().run_messages()
    items = backend.sql("SELECT count(*) FROM stac_items")[0][0]
    otto = console.program("otto")
    renewed = otto.post(f"{API}/catalog/collections/refresh", json={})
    assert (renewed.status_code, renewed.json()["changed"] > 0) == (200, True), renewed.text
    found = result(console, otto, "/catalog/validations", {"collections": ["goes-glm"]})
    assert (found["checked"], found["invalid"]) == (items + 1, 0)
    mistyped = ended(console, otto, "/catalog/validations", {"collections": ["goes-gml"]})
    assert mistyped.state is JobState.FAILED
    logged = backend.sql("SELECT actor FROM audit_log WHERE action = 'collections_refresh'")
    assert logged == [("otto",)]


@ON_SQLITE
def test_retention_runs_in_the_background(console: Console, pipeline: Pipeline) -> None:
    """Nothing is old here: no archive is made, and nothing leaves."""
    otto, vera = console.program("otto"), console.program("vera")
    assert vera.post(f"{API}/retention/runs", json={}).status_code == 403
    done = result(console, otto, "/retention/runs", {"kinds": ["attempts"]})
    assert done == {"archives": [], "expired": {}}
    assert otto.get(f"{API}/retention/archives/7").status_code == 404
    assert otto.get(f"{API}/retention/search").status_code == 400
