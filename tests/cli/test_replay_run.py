"""`tallgrass replay` as a real process, on both databases: runs, refusals, reports, differences."""

from __future__ import annotations

import json
import os
import pty
import shlex
import signal
import subprocess
import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.command import PROGRAM, Done, environment, tallgrass
from tests.pipeline.scene import thing, things
from tests.replay.scene import DOWN, Replays
from tests.support.backends import prepare
from tests.support.catalog import spanned
from tests.support.governance import state_of_tables, token_of

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.backends import Backend

GLM = ("--dataset", "goes-glm", "--since", "2026-01-01")
REASON = ("--reason", "backfill", "--confirm", "--output", "json")


class Shell:
    """A pipeline whose replays are command lines."""

    def __init__(self, backend: Backend, folder: Path) -> None:
        self.backend = backend
        self.replays = Replays(backend, folder)
        config = self.replays.config
        self.env = {
            "TALLGRASS_QUEUE_URL": config.text("queue.url"),
            "TALLGRASS_OBJECTS_URL": config.text("objects.url"),
            "TALLGRASS_LEDGER_RETRY_BASE_S": "0.001",
            "TALLGRASS_WORKER_LEASE_S": "2",
            "TALLGRASS_TOKEN": token_of("otto"),
        }

    def __call__(self, *args: str, **env: str) -> Done:
        """Run `tallgrass replay`."""
        return tallgrass("replay", *args, at=self.backend, env={**self.env, **env})

    def plan(self, path: Path, *args: str) -> str:
        """Write a plan, have it requested and approved; return the approval's id."""
        done = self("--dry-run", "--plan-out", str(path), *args)
        assert done.code == 0, done.err
        done = tallgrass(
            "approvals", "request", "--plan", str(path), "--reason", "CHG-1", "--output", "json",
            at=self.backend, env=self.env,
        )  # fmt: skip
        assert done.code == 0, done.err
        approval: str = done.json["approval_id"]
        env = {**self.env, "TALLGRASS_TOKEN": token_of("ann")}
        done = tallgrass("approvals", "approve", approval, at=self.backend, env=env)
        assert done.code == 0, done.err
        return approval


@pytest.fixture
def shell(backend: Backend, tmp_path: Path) -> Shell:
    """A pipeline of the test's own."""
    return Shell(backend, tmp_path)


def names(wal_ids: list[str]) -> list[str]:
    """Return the options that name units."""
    return [word for wal_id in wal_ids for word in ("--wal-id", wal_id)]


@pytest.mark.conformance("RP-4.2a", "RP-4.2d", "RP-6.3", "RP-4.2f")
def test_failed_units_are_replayed_and_told(shell: Shell) -> None:
    """By id and by message; the report adds up; `runs` shows the run, under its own id."""
    failed = shell.replays.failed(*things(3))
    done = shell(*names(failed[:1]), *REASON)
    assert done.code == 0, done.err
    first = done.json
    assert (first["state"], first["planned"], first["done"]) == ("finished", 1, 1)
    assert len(spanned(shell.backend.sql)) == 1
    (message,) = shell.backend.sql(
        "SELECT sqs_message_id FROM wal_attempts WHERE wal_id = ?", failed[1]
    )[0]
    second = shell("--message-id", message, *REASON, "--replay-run-id", "by-message").json
    assert (second["replay_run_id"], second["done"]) == ("by-message", 1)
    assert first["replay_run_id"] != "by-message"
    listed = shell("runs", "list", "--output", "json").json["runs"]
    assert [run["replay_run_id"] for run in listed] == ["by-message", first["replay_run_id"]]
    shown = shell("runs", "show", "by-message", "--records", "--output", "json").json
    assert (shown["actor"], shown["reason"], shown["mode"]) == ("otto", "backfill", "single")
    assert [record["wal_id"] for record in shown["records"]] == [failed[1]]
    assert "planned 1 = done 1 + skipped 0 + failed 0" in shell("runs", "show", "by-message").out
    assert "by-message" in shell("runs", "list").out
    assert (
        shell("runs", "list", "--after", "by-message", "--output", "json").json["runs"]
        == listed[1:]
    )
    page = shell("runs", "list", "--limit", "1", "--output", "json").json
    assert page == {"runs": listed[:1], "next_cursor": "by-message"}
    assert "More: --after by-message" in shell("runs", "list", "--limit", "1").out
    assert shell("runs", "list", "--limit", "2", "--output", "json").json["next_cursor"] is None


def test_a_code_that_is_left_alone_is_told_with_the_flag_that_takes_it_up(shell: Shell) -> None:
    """Named, it is replayed; where nothing is left alone, no word is lost on it."""
    failed = shell.replays.failed(thing(0), code="size_zero")
    left = shell(*names(failed), "--reason", "backfill", "--confirm")
    assert "planned 1 = done 0 + skipped 1 + failed 0" in left.out
    assert "what to do: mend the cause, then name its code: --error-code CODE" in left.out
    done = shell(*names(failed), "--error-code", "size_zero", "--reason", "backfill", "--confirm")
    assert "planned 1 = done 1 + skipped 0 + failed 0" in done.out, done.err
    assert "what to do" not in done.out


def test_no_run_is_told_in_words(shell: Shell) -> None:
    """An empty list is no line of headings."""
    assert shell("runs", "list").out == "There are no runs.\n"


def test_each_flag_of_a_run_changes_what_it_does(shell: Shell) -> None:
    """--max-events, --no-work, --rate, --change and --incident each show in what is written."""
    failed = shell.replays.failed(*things(4))
    capped = shell(*names(failed[:2]), *REASON, "--max-events", "1").json
    assert capped["by_reason"] == {"beyond_max_events": 1}
    idle = shell(*names(failed[2:3]), *REASON, "--no-work").json
    assert (idle["state"], idle["due"]) == ("unfinished", 1)
    resumed = shell("--replay-run-id", idle["replay_run_id"], "--confirm", "--output", "json").json
    assert (resumed["state"], resumed["done"]) == ("finished", 1)
    for kind, ref in (("changes", "CHG-1"), ("incidents", "INC-1")):
        done = tallgrass(kind, "open", ref, "--title", "x", at=shell.backend, env=shell.env)
        assert done.code == 0, done.err
    began = time.monotonic()
    told = shell(
        *names(failed[3:]), "--reason", "incident", "--incident", "INC-1", "--change", "CHG-1",
        "--rate", "1", "--confirm", "--output", "json",
    )  # fmt: skip
    assert told.code == 0, told.err
    assert time.monotonic() - began >= 1.0
    run = shell("runs", "show", told.json["replay_run_id"], "--output", "json").json
    assert (run["change_ref"], run["incident_ref"]) == ("CHG-1", "INC-1")


def test_what_goes_on_is_told_by_a_command_that_does(shell: Shell, tmp_path: Path) -> None:
    """A run of one's own goes on by its id, an approved one by its plan: as its report says."""
    failed = shell.replays.failed(thing(0))
    idle = shell(*names(failed), "--reason", "backfill", "--confirm", "--no-work").out
    done = shell.replays.succeeded(thing(1))
    plan = tmp_path / "the plan.jsonl"
    again = [*names(done), "--include-succeeded", "--force", "--reason", "backfill"]
    approval = shell.plan(plan, *again)
    approved = shell("--plan", str(plan), "--approval", approval, "--confirm", "--no-work").out
    for printed in (idle, approved):
        (line,) = [line for line in printed.splitlines() if "go on:" in line]
        program, command, *args = shlex.split(line.partition("go on:")[2])
        assert (program, command) == ("tallgrass", "replay")
        finished = shell(*args, "--confirm", "--output", "json")
        assert finished.json["state"] == "finished", finished.err


@pytest.mark.conformance("RP-7.4", "RP-9.3", "WAL-8.8")
def test_an_approved_plan_runs_succeeded_units_again(shell: Shell, tmp_path: Path) -> None:
    """Hits first; forced the same; with a policy that changes items a mismatch, then announced."""
    done = shell.replays.succeeded(thing(0), thing(1))
    again = [*names(done), "--include-succeeded", "--reason", "backfill"]
    plan = tmp_path / "plan.jsonl"
    approval = shell.plan(plan, *again)
    run = ["--plan", str(plan), "--approval", approval, "--confirm", "--output", "json"]
    assert shell(*run).json["hits"] == 2
    approval = shell.plan(plan, *again, "--force")
    run[3] = approval
    forced = shell(*run).json
    assert (forced["hits"], forced["done"], forced["mismatches"]) == (0, 2, 0)
    assert shell("diff", forced["replay_run_id"], "--output", "json").json["records"] == []

    config = tmp_path / "policy.toml"
    config.write_text(
        '[governance.policies.goes-glm]\npolicy_ref = "kfm-pol-2"\n', encoding="utf-8"
    )
    env = {"TALLGRASS_CONFIG": str(config)}
    shell.env |= env
    seen = shell("--dry-run", "--compare", *again, "--output", "json").json["preview"]
    pointer = "/properties/kfm:policy_ref"
    assert (seen["compared"], seen["changed"]) == (2, 2)
    assert seen["fields"] == [{"pointer": pointer, "items": 2}]
    assert "2 of 2 items would change" in shell("--dry-run", "--compare", *again).out
    one = [*names(done[:1]), "--include-succeeded", "--reason", "backfill"]
    run[3] = shell.plan(plan, *one)
    ended = shell(*run)
    assert (ended.code, ended.json["state"], ended.json["mismatches"]) == (1, "mismatched", 1)
    (record,) = shell("diff", ended.json["replay_run_id"], "--output", "json").json["records"]
    (change,) = record["changes"]
    assert (change["pointer"], change["before"], change["after"]) == (pointer, None, '"kfm-pol-2"')
    text = shell("diff", done[0]).out
    assert f"item{pointer}" in text
    assert "1 of them a mismatch" in text
    other = [*names(done[1:]), "--include-succeeded", "--reason", "backfill"]
    run[3] = shell.plan(plan, *other, "--expect-changes", pointer, "--policy-ref", "kfm-pol-2")
    ended = shell(*run)
    assert (ended.code, ended.json["mismatches"]) == (0, 0)
    assert shell("diff", done[1], "--unexpected", "--output", "json").json["records"] == []
    assert len(shell("diff", done[1], "--output", "json").json["records"]) == 1
    run[3] = shell.plan(plan, *again, "--force")
    assert shell(*run, "--max-mismatches", "0").code == 0


class TestRefusals:
    """Whatever is refused changes nothing, says which rule fired, and ends with the right code."""

    @pytest.mark.parametrize(
        ("args", "code", "told"),
        [
            ([*GLM, "--confirm"], 2, "say why"),
            (["--dataset", "goes-glm", *REASON], 3, "scope_too_broad"),
            (["--since", "2026-01-01", *REASON], 3, "scope_too_broad"),
            ([*GLM, "--reason", "because", "--confirm"], 2, "unknown replay reason"),
            ([*GLM, "--reason", "none", "--confirm"], 2, "other than 'none'"),
            ([*GLM, "--reason", "backfill"], 2, "say --yes"),
            (["--reason", "backfill", "--confirm"], 2, "nothing is selected"),
            (["--replay-run-id", "nobody", "--confirm"], 1, "there is no run"),
            (["runs", "show", "nobody"], 1, "there is no run"),
            (["diff", "nobody"], 1, "neither a run nor a unit"),
            (["--dry-run", *GLM, "--confirm"], 2, "leave out --dry-run"),
            ([*GLM, "--compare", *REASON], 2, "go with --dry-run"),
            ([*GLM, "--expect-changes", "x", *REASON], 2, "JSON Pointer"),
            ([*GLM, "--env", "prod", *REASON], 3, "env_mismatch"),
            ([*GLM, "--include-succeeded", *REASON], 3, "approval_missing"),
            ([*GLM, "--reason", "incident", "--confirm"], 3, "--incident REF"),
        ],
    )  # fmt: skip
    def test_it_says_which_rule_and_writes_nothing(
        self, tmp_path: Path, args: list[str], code: int, told: str
    ) -> None:
        """Exit code 2 for arguments, 3 for guards, with the guard's name in the message."""
        # None of this depends on the database.
        backend = prepare("sqlite", f"sqlite:///{tmp_path / 'ledger.db'}")
        shell = Shell(backend, tmp_path)
        shell.replays.failed(thing(0))
        shell.replays.succeeded(thing(1))
        before = state_of_tables(shell.backend)
        done = shell(*args)
        assert (done.code, told in done.err) == (code, True), done.err
        assert state_of_tables(shell.backend) == before
        backend.close()

    def test_who_acts_is_proved(self, shell: Shell) -> None:
        """Without a token, with a viewer's, or with a name beside another's token: refused."""
        failed = shell.replays.failed(thing())
        before = state_of_tables(shell.backend)
        for env, extra in (
            ({"TALLGRASS_TOKEN": ""}, []),
            ({"TALLGRASS_TOKEN": token_of("vera")}, []),
            ({}, ["--actor", "ann"]),
        ):
            done = shell(*names(failed), *REASON, *extra, **env)
            assert done.code == 3, done.err
        assert state_of_tables(shell.backend) == before

    @pytest.mark.conformance("WAL-8.7")
    def test_a_switch_is_named_as_the_guard(self, shell: Shell) -> None:
        """Before the run nothing is left to do; the answer holds the guard by its name."""
        failed = shell.replays.failed(thing())
        shell.replays.switch(is_on=True, dataset="goes-glm")
        done = shell(*names(failed), *REASON)
        assert (done.code, done.error["guard"]) == (3, "kill_switch_active")


def test_a_person_is_asked_on_a_terminal(shell: Shell) -> None:
    """`n` leaves everything as it is, `y` runs it; the question names the run and the number."""
    failed = shell.replays.failed(thing())
    before = state_of_tables(shell.backend)
    for answer, code in (("n", 130), ("y", 0)):
        command = [*PROGRAM, "--database", shell.backend.url, "replay", *names(failed)]
        ours, theirs = pty.openpty()
        process = subprocess.Popen(
            [*command, "--reason", "backfill"],
            stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=environment(**shell.env),
        )  # fmt: skip
        os.close(theirs)
        os.write(ours, f"{answer}\n".encode())
        _, err = process.communicate(timeout=120)
        os.close(ours)
        assert process.returncode == code, err
        assert b"1 units to run" in err
        if answer == "n":
            assert state_of_tables(shell.backend) == before
    assert shell.replays.record(failed[0])["status"] == "succeeded"


class TestBrokenOff:
    """A replay that is killed or stopped in the middle."""

    def begin(
        self, shell: Shell, wal_ids: list[str], *, rate: str = "4", done: int = 2
    ) -> subprocess.Popen[bytes]:
        """Start a run of single units, slow enough to be met in the middle."""
        command = [*PROGRAM, "--database", shell.backend.url, "replay", *names(wal_ids)]
        env = {**shell.env, "TALLGRASS_REPLAY_BATCH": "1", "TALLGRASS_WORKER_BATCH": "1"}
        process = subprocess.Popen(
            [*command, *REASON, "--replay-run-id", "r-1", "--rate", rate],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(**env),
        )  # fmt: skip
        deadline = time.monotonic() + 100
        while shell.replays.count("replay_run_records") < done:
            assert time.monotonic() < deadline
            assert process.poll() is None, process.communicate()
            time.sleep(0.02)
        return process

    @pytest.mark.conformance("WAL-8.4", "RP-4.2d", "WAL-7.2")
    def test_killed_it_is_resumed_and_each_unit_is_run_once(self, shell: Shell) -> None:
        """In the middle: the same id takes it up, nothing is lost and nothing doubled."""
        failed = shell.replays.failed(*things(8))
        process = self.begin(shell, failed)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert shell.replays.count("replay_run_records") < 8
        done = shell("--replay-run-id", "r-1", "--confirm", "--output", "json")
        assert done.code == 0, done.err
        report = done.json
        assert (report["state"], report["planned"], report["done"]) == ("finished", 8, 8)
        backend = shell.backend
        assert backend.sql("SELECT DISTINCT status FROM wal_records") == [("succeeded",)]
        applied = "SELECT count(*) FROM wal_attempts WHERE status = 'applied'"
        assert backend.sql(applied) == [(8,)]
        edges = "SELECT count(*) FROM wal_transitions WHERE kind = 'replay'"
        assert backend.sql(edges) == [(8,)]
        assert shell.replays.count("wal_records") == 8

    def test_asked_to_stop_it_ends_in_good_order(self, shell: Shell) -> None:
        """SIGTERM: it tells how far it came, its lease is ended, and the id goes on."""
        failed = shell.replays.failed(*things(8))
        process = self.begin(shell, failed)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=100)
        assert process.returncode == 0, err
        report: dict[str, Any] = json.loads(out)
        assert report["state"] == "unfinished"
        assert report["planned"] == report["done"] + report["due"] == 8
        open_leases = "SELECT count(*) FROM workers WHERE stopped_at IS NULL AND fenced_at IS NULL"
        before = shell.backend.sql(open_leases)
        done = shell("--replay-run-id", "r-1", "--confirm", "--output", "json").json
        assert (done["state"], done["done"]) == ("finished", 8)
        assert shell.backend.sql(open_leases) == before

    def test_taken_up_again_it_goes_on_as_it_was_begun(self, shell: Shell) -> None:
        """What a run, or a plan, says already cannot be said otherwise, nor be passed over."""
        failed = shell.replays.failed(*things(3))
        process = self.begin(shell, failed, rate="0.0016", done=1)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=100)
        resumed = ("--replay-run-id", "r-1", "--confirm")
        for more in (
            ("--max-events", "1"), ("--include-succeeded",), ("--force",),
            ("--change", "CHG-1"), ("--incident", "INC-1"), ("--expect-changes", "/properties"),
        ):  # fmt: skip
            refused = shell(*resumed, *more)
            assert refused.code == 2, more
            assert "goes on as it was begun" in refused.err
        other = shell(*resumed, "--reason", "incident", "--output", "json")
        assert (other.code, other.error["code"]) == (3, "plan_changed")
        assert shell.replays.count("replay_run_records") == 1
        path = shell.replays.plan_file(shell.replays.select(failed))
        for more in (("--max-events", "1"), ("--include-succeeded",)):
            assert shell("--plan", str(path), "--yes", *more).code == 2, more
        done = shell(*resumed, *REASON)
        assert (done.json["state"], done.json["done"]) == ("finished", 3)

    def test_it_does_not_rest_on_when_it_is_asked_to_stop(self, shell: Shell) -> None:
        """A rate of one unit in ten minutes: it ends now, not then."""
        process = self.begin(shell, shell.replays.failed(*things(3)), rate="0.0016", done=1)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=100)
        assert process.returncode == 0, err
        assert json.loads(out)["state"] == "unfinished"

    def test_a_replay_that_fails_is_told_with_its_code(self, shell: Shell) -> None:
        """The object is still not to be had: it ends with 1, and the ledger retries the unit."""
        (wal_id,) = shell.replays.failed(thing())
        shell.replays.pipeline.path(thing()).unlink()
        done = shell("--wal-id", wal_id, *REASON, TALLGRASS_LEDGER_RETRY_BASE_S="3600")
        report = done.json
        assert done.code == 1
        assert (report["planned"], report["failed"], report["done"]) == (1, 1, 0)
        assert sum(report["by_reason"].values()) == 1
        assert DOWN not in report["by_reason"]

    def test_one_unit_that_fails_is_enough_to_end_with_1(self, shell: Shell) -> None:
        """Whoever looks at the exit code alone learns that not all went well, and where to look."""
        failed = shell.replays.failed(*things(3))
        shell.replays.pipeline.path(thing(0)).unlink()
        asked = ("--reason", "backfill", "--confirm", "--replay-run-id", "r-1")
        done = shell(*names(failed), *asked, TALLGRASS_LEDGER_RETRY_BASE_S="3600")
        assert done.code == 1
        assert "planned 3 = done 2 + skipped 0 + failed 1" in done.out
        assert "each of the failed: tallgrass replay runs show r-1 --records" in done.out
