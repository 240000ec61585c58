"""Replay by the API: plans, approvals, runs in the background, differences; on both databases."""

from __future__ import annotations

import hashlib
import time
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.api.jobs import JobState
from tallgrass.bootstrap import plan_making
from tests.cli.command import here
from tests.pipeline.scene import thing, things
from tests.replay.scene import Replays
from tests.support import replay_console
from tests.support.governance import state_of_tables, token_of
from tests.support.replay_console import (
    API,
    LONG_S,
    console_of,
    decided,
    ended,
    etag,
    kept,
    requested,
)

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.backends import Backend
    from tests.support.console import Client, Console

#: The pipeline and the console over it, as fixtures of these tests.
replays, console = replay_console.replays, replay_console.console

RUN_ID = "r-1"
FIRST_ID = "3a000000-0000-8000-8000-000000000000"


@pytest.fixture
def otto(console: Console) -> Client:
    """A program of the operator."""
    return console.program("otto")


def start(client: Client, sha256: str, **wish: Any) -> Any:
    """Run a kept plan; return the answer."""
    return client.post(f"{API}/replay/runs", json={"plan_sha256": sha256, **wish})


class TestPlans:
    """What a run would do, before anything is done."""

    @pytest.mark.parametrize(
        ("flags", "wish"),
        [
            (["--dataset", "hrrr", "--since", "2026-01-01", "--include-succeeded"],
             {"dataset": "hrrr", "since": "2026-01-01", "include_succeeded": True}),
            (["--since", "2026-01-01", "--until", "2026-06-01T12:05:00Z", "--dataset", "goes-glm"],
             {"since": "2026-01-01", "until": "2026-06-01T12:05:00Z", "dataset": "goes-glm"}),
            (["--bucket-prefix", "s3://noaa-goes19/", "--created-since", "2020-01-01",
              "--created-until", "2100-01-01"],
             {"bucket_prefix": "s3://noaa-goes19/", "created_since": "2020-01-01",
              "created_until": "2100-01-01"}),
            (["--event-since", "2020-01-01", "--event-until", "2100-01-01",
              "--dataset", "nexrad-l2"],
             {"event_since": "2020-01-01", "event_until": "2100-01-01", "dataset": "nexrad-l2"}),
            (["--wal-id-range", f"{FIRST_ID}..", "--dataset", "hrrr"],
             {"wal_id_range": f"{FIRST_ID}..", "dataset": "hrrr"}),
            (["--dataset", "hrrr", "--since", "2026-01-01", "--error-code", "io_error", "--status",
              "failed", "--attempts-min", "1", "--attempts-max", "9", "--max-events", "1",
              "--reason", "test", "--force", "--expect-changes",
              "/properties/datetime", "--change", "CHG-1", "--incident", "INC-1", "--policy-ref",
              "p-1", "--env", "dev"],
             {"dataset": "hrrr", "since": "2026-01-01", "error_code": "io_error",
              "status": "failed", "attempts_min": 1, "attempts_max": 9, "max_events": 1,
              "reason": "test", "force": True,
              "expect_changes": "/properties/datetime", "change": "CHG-1", "incident": "INC-1",
              "policy_ref": "p-1", "env": "dev"}),
        ],
    )  # fmt: skip
    @pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
    def test_each_condition_means_what_it_means_to_the_command(
        self, replays: Replays, otto: Client, flags: list[str], wish: dict[str, Any]
    ) -> None:
        """The same selection, references, counts and guards; and nothing is changed."""
        replays.failed(*things(4))
        before = state_of_tables(replays.backend)
        told = here(
            "replay", "--dry-run", *flags, "--replay-run-id", RUN_ID, "--output", "json",
            at=replays.backend,
        ).json  # fmt: skip
        answer = otto.get(f"{API}/replay/plan", params={**wish, "replay_run_id": RUN_ID})
        assert answer.status_code == 200, answer.text
        plan = answer.json()
        # The pipeline of this test has caps of its own.
        ours, theirs = (
            {name: each for name, each in header.items() if name not in {"caps", "config_version"}}
            for header in (plan["header"], told["header"])
        )
        assert ours == theirs
        for part in ("summary", "guards", "scope"):
            assert plan[part] == told[part]
        assert state_of_tables(replays.backend) == before

    def test_what_is_kept_is_what_was_planned(self, replays: Replays, otto: Client) -> None:
        """The lines that the server keeps have the hash that it tells, and a row a unit."""
        failed = replays.failed(*things(3))
        sha256 = kept(otto, wal_id=failed)
        answer = otto.get(f"{API}/replay/plans/{sha256}")
        assert hashlib.sha256(answer.content).hexdigest() == sha256
        assert len(answer.content.splitlines()) == 4
        logged = replays.backend.sql(
            "SELECT actor, subject FROM audit_log WHERE action = 'plan_keep'"
        )
        assert logged == [("otto", f"plan:{sha256}")]

    def test_a_plan_that_is_not_as_it_was_seen_is_refused(
        self, replays: Replays, otto: Client
    ) -> None:
        """A unit that moved since makes another plan: 412, with what it comes to now."""
        failed = replays.failed(thing(0), thing(1))
        wish = {"wal_id": failed, "replay_run_id": RUN_ID, "reason": "backfill"}
        seen = otto.get(f"{API}/replay/plan", params=wish).headers["etag"]
        replays.run(replays.select(failed[:1]))
        answer = otto.post(f"{API}/replay/plans", json=wish, headers={"If-Match": seen})
        assert (answer.status_code, answer.json()["code"]) == (412, "version_conflict")
        assert answer.json()["changed"]["summary"]["by_status"] == {"failed": 1, "succeeded": 1}

    @pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
    def test_a_plan_can_be_brought_and_nothing_else(
        self, replays: Replays, otto: Client, tmp_path: Path
    ) -> None:
        """A plan of the command line is kept under its hash; what is none is not."""
        failed = replays.failed(thing(0))
        path = replays.plan_file(replays.select(failed))
        answer = otto.post(f"{API}/replay/plans", json={"plan": path.read_text()})
        assert answer.status_code == 201, answer.text
        assert answer.json()["plan_sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
        answer = otto.post(f"{API}/replay/plans", json={"plan": '{"no": "plan"}\n'})
        assert (answer.status_code, answer.json()["code"]) == (400, "plan_invalid")
        assert len(list((tmp_path / "plans").iterdir())) == 1

    @pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
    def test_a_selection_that_is_saved_means_the_same(self, replays: Replays, otto: Client) -> None:
        """The file alone, brought back, makes the plan of the conditions that it came from."""
        replays.failed(*things(4))
        wish = {"dataset": "hrrr", "since": "2026-01-01", "reason": "backfill"}
        saved = otto.get(f"{API}/replay/selection", params=wish).text
        ours, theirs = (
            otto.get(f"{API}/replay/plan", params={**asked, "replay_run_id": RUN_ID}).json()
            for asked in (wish, {"selection_file": saved})
        )
        assert ours == theirs
        assert ours["summary"]["events"] == 1

    @pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
    def test_what_would_take_too_long_is_refused_by_its_guard(
        self, replays: Replays, otto: Client, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        """A plan is made of so many candidates here, and compared of fewer; nothing is kept."""
        done = replays.succeeded(thing(0), thing(1), thing(2))
        wish: dict[str, Any] = {"wal_id": done, "include_succeeded": True, "reason": "backfill"}
        monkeypatch.setattr(plan_making, "COMPARED_MAX", 2)
        answer = otto.get(f"{API}/replay/plan", params={**wish, "compare": True})
        assert (answer.status_code, answer.json()["guard"]) == (409, "selection_too_large")
        assert otto.get(f"{API}/replay/plan", params=wish).status_code == 200
        monkeypatch.setattr(plan_making, "CANDIDATES_MAX", 2)
        answer = otto.post(f"{API}/replay/plans", json=wish)
        assert (answer.status_code, answer.json()["guard"]) == (409, "selection_too_large")
        assert not list((tmp_path / "plans").iterdir())

    @pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
    @pytest.mark.parametrize("name", ["0" * 64, "nothing", "..", "%2e%2e%2fledger"])
    def test_no_other_file_is_ever_given(self, replays: Replays, otto: Client, name: str) -> None:
        """Only what is named by a hash, and is kept, is read."""
        answer = otto.get(f"{API}/replay/plans/{name}")
        assert answer.status_code == 404


class TestApproval:
    """A plan that runs succeeded units again."""

    def test_without_it_the_run_is_refused_and_nothing_is_done(
        self, replays: Replays, otto: Client
    ) -> None:
        """The answer names the rule; all that stays is the refusal in the log."""
        sha256 = kept(otto, wal_id=replays.succeeded(thing(0)), include_succeeded=True)
        before = state_of_tables(replays.backend)
        answer = start(otto, sha256)
        assert (answer.status_code, answer.json()["guard"]) == (409, "approval_missing")
        approval = requested(otto, sha256)
        mine = replays.backend.rows("SELECT * FROM approvals")
        answer = start(otto, sha256, approval_id=approval)
        assert answer.status_code == 409
        assert "requested" in answer.json()["detail"]
        assert state_of_tables(replays.backend) == {**before, "approvals": mine}
        log = "SELECT actor FROM audit_log WHERE action = 'replay_run_refused'"
        assert ("otto",) in replays.backend.sql(log)

    def test_whoever_asks_does_not_approve(self, replays: Replays, console: Console) -> None:
        """An approver who asked is refused; another one is not."""
        ann, bob = console.program("ann"), console.program("bob")
        sha256 = kept(ann, wal_id=replays.succeeded(thing(0)), include_succeeded=True)
        approval = requested(ann, sha256)
        answer = decided(ann, approval)
        assert (answer.status_code, answer.json()["code"]) == (409, "self_approval")
        assert decided(bob, approval).json()["approval"]["state"] == "approved"
        logged = replays.backend.sql(
            "SELECT actor, action FROM audit_log WHERE subject = ? ORDER BY entry_id",
            f"approval:{approval}",
        )
        assert logged == [
            ("ann", "approval_request"),
            ("ann", "approval_approve_refused"),
            ("bob", "approval_approve"),
        ]

    def test_an_approved_plan_runs_once(self, replays: Replays, console: Console) -> None:
        """It uses the approval up, runs the units again and tells that nothing changed."""
        otto, ann = console.program("otto"), console.program("ann")
        again = replays.succeeded(thing(0), thing(1))
        sha256 = kept(otto, wal_id=again, include_succeeded=True, force=True, replay_run_id=RUN_ID)
        approval = requested(otto, sha256)
        assert decided(ann, approval).status_code == 200
        job = ended(console, start(otto, sha256, approval_id=approval))
        assert (job.state, job.result["state"], job.result["done"]) == (
            JobState.DONE,
            "finished",
            2,
        )
        assert [row["outcome"] for row in replays.rows(RUN_ID)] == ["done", "done"]
        run = otto.get(f"{API}/replay/runs/{RUN_ID}").json()["run"]
        assert (run["actor"], run["approval_id"], run["mismatches"]) == ("otto", approval, 0)
        assert otto.get(f"{API}/approvals/{approval}").json()["approval"]["state"] == "used"
        second = kept(otto, wal_id=again, include_succeeded=True, force=True)
        answer = start(otto, second, approval_id=approval)
        assert (answer.status_code, answer.json()["code"]) == (409, "plan_changed")

    def test_differences_are_told_field_by_field(self, replays: Replays, tmp_path: Path) -> None:
        """A policy changes items: foreseen by the plan, a mismatch of the run, told by unit."""
        (wal_id,) = replays.succeeded(thing(0))
        policies = {"goes-glm": {"policy_ref": "kfm-pol-2"}}
        config = replays.configured(policies, console__plans_folder=str(tmp_path / "plans"))
        pointer = "/properties/kfm:policy_ref"
        with console_of(config) as console:
            otto, ann = console.program("otto"), console.program("ann")
            wish: dict[str, Any] = {"wal_id": [wal_id], "include_succeeded": True}
            seen = otto.get(f"{API}/replay/plan", params={**wish, "compare": True}).json()
            assert seen["preview"]["fields"] == [{"pointer": pointer, "items": 1}]
            sha256 = kept(otto, **wish, replay_run_id=RUN_ID)
            approval = requested(otto, sha256)
            assert decided(ann, approval).status_code == 200
            job = ended(console, start(otto, sha256, approval_id=approval))
            assert (job.result["state"], job.result["mismatches"]) == ("mismatched", 1)
            for path in (f"runs/{RUN_ID}/changes?unexpected=true", f"units/{wal_id}/changes"):
                (record,) = otto.get(f"{API}/replay/{path}").json()["records"]
                (change,) = record["changes"]
                assert (change["pointer"], change["before"]) == (pointer, None)
                assert change["after"] == '"kfm-pol-2"'
            page = console.browser_of(replays.people.vera).get(f"/replay/runs/{RUN_ID}").text
            assert pointer in page
            assert "kfm-pol-2" in page


class TestRuns:
    """A run in the background of the server."""

    def slow(self, replays: Replays, client: Client, count: int = 4) -> Any:
        """Begin a run of one unit a batch that rests for minutes after its first batch."""
        failed = replays.failed(*things(count))
        sha256 = kept(client, wal_id=failed, replay_run_id=RUN_ID)
        answer = start(client, sha256, rate=0.01)
        assert answer.status_code == 202, answer.text
        deadline = time.monotonic() + LONG_S
        while not replays.rows(RUN_ID):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        return answer

    @pytest.fixture
    def replays(self, backend: Backend, tmp_path: Path) -> Replays:
        """A pipeline whose replays go unit by unit."""
        plans = str(tmp_path / "plans")
        return Replays(
            backend, tmp_path, console__plans_folder=plans, replay__batch=1, worker__batch=1
        )

    def test_failed_units_come_through(
        self, replays: Replays, console: Console, otto: Client
    ) -> None:
        """The request is answered at once; the job ends with all units succeeded."""
        failed = replays.failed(*things(3))
        sha256 = kept(otto, wal_id=failed, replay_run_id=RUN_ID)
        job = ended(console, start(otto, sha256))
        assert (job.result["done"], job.result["planned"]) == (3, 3)
        assert {replays.record(each)["status"] for each in failed} == {"succeeded"}
        log = "SELECT actor, subject FROM audit_log WHERE action = 'replay_run'"
        assert replays.backend.sql(log) == [("otto", f"replay:{RUN_ID}")]
        (run,) = otto.get(f"{API}/replay/runs").json()["runs"]
        assert (run["replay_run_id"], run["state"]) == (RUN_ID, "finished")

    def test_stopped_it_goes_on_behind_its_last_record(
        self, replays: Replays, console: Console, otto: Client
    ) -> None:
        """A stop ends it after its batch; a resume does the rest, and nothing twice."""
        answer = self.slow(replays, otto)
        path = f"{API}/jobs/{answer.json()['job']['job_id']}/stop"
        assert otto.post(path, json={}).status_code == 200
        job = ended(console, answer)
        assert job.state is JobState.STOPPED
        told = otto.get(f"{API}/replay/runs/{RUN_ID}").json()["run"]
        assert (told["state"], told["planned"]) == ("unfinished", 4)
        assert 0 < told["due"] < 4
        job = ended(console, otto.post(f"{API}/replay/runs/{RUN_ID}/resume", json={}))
        assert (job.result["state"], job.result["done"]) == ("finished", 4)
        applied = "SELECT count(*) FROM wal_attempts WHERE status = 'applied'"
        assert replays.backend.sql(applied) == [(4,)]
        actions = (
            "SELECT actor, action FROM audit_log WHERE action IN ('job_stop', 'replay_resume')"
        )
        assert replays.backend.sql(actions) == [("otto", "job_stop"), ("otto", "replay_resume")]

    def test_the_end_of_the_server_ends_it_in_good_order(
        self, replays: Replays, backend: Backend
    ) -> None:
        """No lease is left open; the next server goes on with the same run."""
        with console_of(replays.config) as first:
            self.slow(replays, first.program("otto"))
        leases = "SELECT count(*) FROM workers WHERE stopped_at IS NULL AND fenced_at IS NULL"
        before = backend.sql(leases)
        with console_of(replays.config) as second:
            resume = f"{API}/replay/runs/{RUN_ID}/resume"
            job = ended(second, second.program("otto").post(resume, json={}))
            assert (job.result["state"], job.result["done"]) == ("finished", 4)
        assert backend.sql(leases) == before

    @pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
    def test_one_runs_at_a_time(self, replays: Replays, otto: Client) -> None:
        """A second is refused while the first runs, and is not even registered."""
        self.slow(replays, otto)
        other = kept(otto, wal_id=replays.failed(thing(40)), replay_run_id="r-2")
        answer = start(otto, other)
        assert (answer.status_code, answer.json()["code"]) == (409, "job_running")
        assert replays.count("replay_runs") == 1

    @pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
    def test_without_its_objects_nothing_is_begun(self, replays: Replays, tmp_path: Path) -> None:
        """A server that could not work refuses before an approval would be used."""
        failed = replays.failed(thing(0))
        config = replays.configured(
            console__plans_folder=str(tmp_path / "plans"), objects__url=f"file:{tmp_path}/none"
        )
        with console_of(config) as console:
            otto = console.program("otto")
            answer = start(otto, kept(otto, wal_id=failed))
            assert (answer.status_code, answer.json()["code"]) == (500, "config_invalid")
        assert replays.count("replay_runs") == 0

    def test_pages_of_records_meet_without_gap_or_overlap(
        self, replays: Replays, console: Console, otto: Client
    ) -> None:
        """Each record of a run is on one page; runs are paged newest first."""
        failed = replays.failed(*things(5))
        ended(console, start(otto, kept(otto, wal_id=failed, replay_run_id=RUN_ID)))
        ended(console, start(otto, kept(otto, wal_id=failed, replay_run_id="r-2")))
        path, seen = f"{API}/replay/runs/{RUN_ID}/records?limit=2", []
        while path:
            answer = otto.get(path)
            seen += [each["wal_id"] for each in answer.json()["records"]]
            link = answer.headers.get("link", "")
            path = link.partition(">")[0].lstrip("<")
        assert seen == failed
        first = otto.get(f"{API}/replay/runs?limit=1").json()
        cursor = first["next_cursor"]
        second = otto.get(f"{API}/replay/runs", params={"limit": 1, "cursor": cursor}).json()
        found = [page["runs"][0]["replay_run_id"] for page in (first, second)]
        assert found == ["r-2", RUN_ID]
        assert second["next_cursor"] is None


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_a_stale_decision_is_refused_and_told_what_changed(
    replays: Replays, console: Console
) -> None:
    """Who decides on the ground of a page that was left behind gets 412; without a tag 428."""
    otto, ann, bob = (console.program(name) for name in ("otto", "ann", "bob"))
    approval = requested(otto, kept(otto, wal_id=replays.failed(thing(0))))
    path = f"{API}/approvals/{approval}/decision"
    before = etag(bob, f"/approvals/{approval}")
    assert decided(ann, approval, "reject").status_code == 200
    answer = bob.post(path, json={"verdict": "approve"}, headers={"If-Match": before})
    assert (answer.status_code, answer.json()["code"]) == (412, "version_conflict")
    assert answer.json()["changed"]["approval"]["state"] == "rejected"
    assert bob.post(path, json={"verdict": "approve"}).status_code == 428


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_verify_proves_the_catalog_in_the_background(replays: Replays, console: Console) -> None:
    """Every item is made again and compared; a sample takes so many; an edited item is found."""
    done = replays.succeeded(thing(0), thing(1), thing(2))
    otto = console.program("otto")
    job = ended(console, otto.post(f"{API}/verify", json={"dataset": ["goes-glm"]}))
    assert (job.result["holds"], job.result["identical"]) == (True, 3)
    job = ended(console, otto.post(f"{API}/verify", json={"sample": 2}))
    assert job.result["verified"] == 2
    replays.backend.sql("UPDATE stac_items SET sha256 = ? WHERE wal_id = ?", "0" * 64, done[0])
    job = ended(console, otto.post(f"{API}/verify", json={"wal_id": done}))
    assert (job.result["holds"], job.result["differs"]) == (False, 1)
    told = here("verify", "--output", "json", at=replays.backend,
                env={"TALLGRASS_TOKEN": token_of("otto")})  # fmt: skip
    assert told.json["differs"] == 1
