"""`tallgrass dlq` as a real process, on both databases: classify, plan, drain, report, close."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import time
from typing import TYPE_CHECKING

import pytest

from tests.cli.command import PROGRAM, Done, environment, here, tallgrass
from tests.pipeline.scene import message_of, thing, things
from tests.replay.letters import Letters, twice
from tests.replay.scene import DOWN, Unreadable
from tests.replay.tampering import tamper
from tests.support.governance import state_of_tables, token_of

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.backends import Backend

JSON = ("--output", "json")
NOBODY = {"TALLGRASS_TOKEN": "x"}
GROUNDS = ("--change-ref", "CHG-1", "--remediation", "the store answers again")


class Shell:
    """Dead letters, and command lines about them."""

    def __init__(self, backend: Backend, folder: Path) -> None:
        self.backend = backend
        self.folder = folder
        self.letters = Letters(backend, folder)
        config = self.letters.config
        self.env = {
            "TALLGRASS_QUEUE_URL": config.text("queue.url"),
            "TALLGRASS_OBJECTS_URL": config.text("objects.url"),
            "TALLGRASS_LEDGER_RETRY_BASE_S": "0.001",
            "TALLGRASS_TOKEN": token_of("otto"),
        }

    def __call__(self, *args: str, **env: str) -> Done:
        """Run `tallgrass dlq` as a process of its own."""
        return tallgrass("dlq", *args, at=self.backend, env={**self.env, **env})

    def here(self, *args: str, **env: str) -> Done:
        """Run `tallgrass dlq` in this process, for its JSON."""
        return here("dlq", *args, at=self.backend, env={**self.env, **env})

    def plan(self, *args: str, name: str = "drain.jsonl") -> str:
        """Write a plan; return its file."""
        path = self.folder / name
        done = self.here("plan", "--file", str(path), *args)
        assert done.code == 0, done.err
        return str(path)

    def ingest(self, *args: str) -> Done:
        """Work off a queue."""
        return here("ingest", "--drain", *args, at=self.backend, env=self.env)


@pytest.fixture
def shell(backend: Backend, tmp_path: Path) -> Shell:
    """A pipeline of the test's own."""
    return Shell(backend, tmp_path)


@pytest.mark.conformance("RP-5.2", "C-21")
def test_classify_tells_causes_and_takes_nothing(shell: Shell) -> None:
    """By cause, dataset, code and time; each flag narrows it; the letters stay as they are."""
    letters = shell.letters
    letters.fail(*things(3))
    letters.fail(thing(10), code="stac_validation_failed")
    letters.send(b"nonsense")
    before, tables = letters.dead(), state_of_tables(shell.backend)
    found = shell.here("classify").json
    assert (found["queue"], found["letters"]) == ("nodd-primary", 5)
    assert found["by_cause"] == {
        "schema": 1, "connectivity": 3, "governance": 0, "infra": 0, "integrity": 0,
        "unknown": 0, "unidentified": 1,
    }  # fmt: skip
    down = [each for each in found["classes"] if each["code"] == "transient_network_error"]
    assert [(each["dataset"], each["letters"]) for each in down] == [
        ("goes-glm", 1), ("hrrr", 1), ("nexrad-l2", 1),
    ]  # fmt: skip
    glm = next(each for each in down if each["dataset"] == "goes-glm")
    start = str(letters.pipeline.row(thing(0))["time_range_start"])[:10]
    assert glm["data_from"][:10] == glm["data_to"][:10] == start
    for flags, number in (
        (["--dataset", "hrrr"], 1),
        (["--cause", "schema"], 1),
        (["--cause", "schema", "--cause", "unidentified"], 2),
        (["--code", "transient_network_error"], 3),
        (["--since", "2027-01-01"], 0),
        (["--until", "2027-01-01"], 4),
    ):
        assert shell.here("classify", *flags).json["letters"] == number, flags
    mistyped = shell.here("classify", "--dataset", "goes-gml")
    assert (mistyped.code, mistyped.error["code"]) == (2, "selection_invalid")
    assert "did you mean 'goes-glm'?" in mistyped.error["message"]
    shown = shell("classify")
    assert "5 dead letters of nodd-primary" in shown.out
    assert "unidentified" in shown.out
    assert (letters.dead(), state_of_tables(shell.backend)) == (before, tables)


@pytest.mark.conformance("RP-4.2c", "RP-5.5", "RP-4.2f")
def test_letters_are_planned_drained_worked_off_and_reported(shell: Shell) -> None:
    """The whole way, as a person walks it; what each command tells is what the tables hold."""
    shell.letters.fail(*things(3))
    path = shell.folder / "drain.jsonl"
    told = shell("plan", "--file", str(path), "--replay-run-id", "drain-1", *JSON).json
    assert (told["letters"], told["by_action"]["replay"]) == (3, 3)
    assert told["header"]["purpose"] == "dlq-drain"
    summed = subprocess.run(["sha256sum", path], check=True, capture_output=True, text=True)
    assert told["plan_sha256"] == summed.stdout.split()[0]
    dry = shell("drain", "--plan", str(path), *GROUNDS, "--dry-run", *JSON).json
    assert (dry["planned"], dry["by_action"]["replay"]) == (3, 3)
    assert shell.backend.rows("SELECT * FROM replay_runs") == []
    done = shell("drain", "--plan", str(path), *GROUNDS, "--yes", *JSON)
    assert done.code == 0, done.err
    assert (done.json["replay_run_id"], done.json["sent"], done.json["left"]) == ("drain-1", 3, 0)
    assert shell.letters.dead() == []
    assert shell.ingest().json["by_verdict"] == {"succeeded": 3}
    report = shell("report", "drain-1", *JSON)
    assert report.code == 0, report.err
    assert report.json["units"]["done"] == 3
    assert [report.json[n] for n in ("duplicates", "lineage_regressions", "mismatches")] == [0] * 3
    said = shell("report", "drain-1").out
    assert "planned 3 = sent 3 + settled 0 + quarantined 0 + poison 0 + left 0" in said
    closed = shell("close", "drain-1", *JSON)
    assert closed.code == 0, closed.err
    assert closed.json["queue_removed"] is False
    (run,) = shell.backend.rows("SELECT finished_at FROM replay_runs")
    assert run["finished_at"] is not None
    shown = tallgrass("replay", "runs", "show", "drain-1", *JSON, at=shell.backend, env=shell.env)
    assert (shown.json["mode"], shown.json["planned"], shown.json["done"]) == ("dlq", 3, 3)
    # A drain is not gone on with as if it were a replay.
    again = tallgrass(
        "replay", "--replay-run-id", "drain-1", "--confirm", *JSON, at=shell.backend, env=shell.env
    )
    assert (again.code, again.error["code"]) == (3, "plan_changed")


@pytest.mark.conformance("RP-5.1", "RP-5.3", "RP-5.7")
def test_a_drain_without_grounds_is_refused(shell: Shell) -> None:
    """No plan, no reference, a blank one, a closed or unknown one, no remedy: exit 3, and named."""
    shell.letters.fail(thing(0))
    path = shell.plan()
    before = state_of_tables(shell.backend)
    remedy = ("--remediation", "mended")
    for args, guard in (
        (["--change-ref", "CHG-1", *remedy], "plan_missing"),
        (["--plan", path, *remedy], "reference_missing"),
        (["--plan", path, "--change-ref", "  ", *remedy], "reference_missing"),
        (["--plan", path, "--incident-ref", "INC-9", *remedy], "reference_not_open"),
        (["--plan", path, "--change-ref", "CHG-1"], "remediation_missing"),
        (["--plan", path, "--change-ref", "CHG-1", "--remediation", " "], "remediation_missing"),
    ):
        done = shell.here("drain", *args, "--yes")
        assert (done.code, done.error["guard"]) == (3, guard), done.err
    assert shell.here("drain", "--plan", path, *GROUNDS).code == 2  # nobody can be asked
    assert shell.here("drain", "--plan", path, *GROUNDS, "--yes", **NOBODY).code == 3
    assert state_of_tables(shell.backend) == before
    assert (len(shell.letters.dead()), shell.letters.waiting()) == (1, 0)


def test_each_flag_of_a_drain_changes_what_it_does(shell: Shell) -> None:
    """--max-events, --batch, --rate, --incident-ref; --cause, --code and --max-events of a plan."""
    letters = shell.letters
    letters.fail(*things(3))
    letters.fail(thing(10), code="stac_validation_failed")
    lines = (shell.folder / "named.jsonl", shell.folder / "capped.jsonl")
    named = shell.here("plan", "--cause", "schema", "--file", str(lines[0])).json
    assert (named["letters"], named["by_action"]["replay"]) == (1, 1)
    capped = shell.here("plan", "--max-events", "1", "--file", str(lines[1])).json
    assert capped["by_reason"] == {"beyond_max_events": 2, "code_not_replayed": 1}
    told = shell("plan", "--file", str(lines[1])).out
    assert "left, code_not_replayed: 1" in told
    assert "what to do: mend the cause, then name its code: dlq plan --code CODE" in told
    coded = shell.here("plan", "--code", "stac_validation_failed", "--file", str(lines[0])).json
    assert coded["by_action"]["replay"] == 1
    opened = here("incidents", "open", "INC-1", "--title", "x", at=shell.backend, env=shell.env)
    assert opened.code == 0, opened.err
    path = shell.plan("--dataset", "goes-glm", "--dataset", "hrrr", "--code", DOWN)
    incident = ("--incident-ref", "INC-1", "--remediation", "mended", "--yes")
    told = shell.here("drain", "--plan", path, *incident, "--max-events", "1", "--batch", "1").json
    assert (told["sent"], told["by_reason"]) == (1, {"beyond_max_events": 1})
    (run,) = shell.backend.rows("SELECT incident_ref, change_ref FROM replay_runs")
    assert run == {"incident_ref": "INC-1", "change_ref": None}
    began = time.monotonic()
    told = shell.here("drain", "--plan", path, *incident, "--rate", "2").json
    assert (told["sent"], told["left"]) == (2, 0)
    assert time.monotonic() - began > 0.4  # one letter at two a second
    shown = (shell.folder / "drain.jsonl").read_text(encoding="utf-8").splitlines()
    assert json.loads(shown[0])["selection"]["filters"]["datasets"] == ["goes-glm", "hrrr"]


def test_a_drain_may_need_an_approval(shell: Shell) -> None:
    """`approvals request` takes the plan of a drain; without its approval the drain is refused."""
    shell.letters.fail(thing(0))
    (shell.folder / "tallgrass.toml").write_text(
        '[governance.policies.goes-glm]\nreplay_modes = ["single"]\n', encoding="utf-8"
    )
    env = {**shell.env, "TALLGRASS_CONFIG": str(shell.folder / "tallgrass.toml")}
    path = str(shell.folder / "plan.jsonl")
    plan = shell.here("plan", "--file", path, **env)
    assert plan.json["header"]["approvals_needed"] == 1
    refused = shell.here("drain", "--plan", path, *GROUNDS, "--yes", **env)
    assert (refused.code, refused.error["guard"]) == (3, "approval_missing")
    asked = here(
        "approvals", "request", "--plan", path, "--reason", "CHG-1",
        at=shell.backend, env=env,
    )  # fmt: skip
    assert asked.code == 0, asked.err
    assert asked.json["purpose"] == "dlq-drain"
    assert asked.json["summary"]["actions"] == {"replay": 1}
    approval = asked.json["approval_id"]
    ann = {**env, "TALLGRASS_TOKEN": token_of("ann")}
    assert here("approvals", "approve", approval, at=shell.backend, env=ann).code == 0
    given = ("--approval-id", approval, "--yes")
    done = shell.here("drain", "--plan", path, *GROUNDS, *given, **env)
    assert (done.code, done.json["sent"]) == (0, 1)


@pytest.mark.conformance("RP-5.5")
def test_a_queue_of_the_run_is_worked_off_and_closed(shell: Shell) -> None:
    """`--to replay-queue` names it; `ingest --replay-run-id` works it off; `close` removes it."""
    letters = shell.letters
    letters.fail(thing(0))
    letters.pipeline.put(thing(1))
    letters.send(message_of(thing(1).event()))
    path = shell.plan("--replay-run-id", "drain-2")
    said = shell("drain", "--plan", path, *GROUNDS, "--to", "replay-queue", "--yes")
    assert said.code == 0, said.err
    url = f"sqlite:///{shell.folder / 'queue-replay-drain-2.db'}"
    assert f"tallgrass ingest --queue {url} --replay-run-id drain-2 --drain" in said.out
    early = shell.here("close", "drain-2")
    assert (early.code, early.error["guard"]) == (3, "queue_not_empty")
    wrong = shell.ingest("--replay-run-id", "drain-2")
    assert wrong.code == 2  # the main queue is not the run's
    assert shell.ingest("--queue", url, "--replay-run-id", "never").code == 1
    done = shell.ingest("--queue", url, "--replay-run-id", "drain-2", "--processes", "2")
    assert done.json["by_verdict"] == {"succeeded": 2}, done.err
    runs = shell.backend.sql(
        "SELECT DISTINCT replay_run_id FROM wal_attempts WHERE status = 'applied'"
    )
    assert runs == [("drain-2",)]
    closed = shell.here("close", "drain-2")
    assert (closed.json["queue_removed"], closed.json["units"]["done"]) == (True, 2)
    assert not (shell.folder / "queue-replay-drain-2.db").exists()
    assert shell.here("report", "never").error["code"] == "run_unknown"


def test_a_drain_asks_on_a_terminal(shell: Shell) -> None:
    """Whoever is asked and says no has drained nothing."""
    shell.letters.fail(thing(0))
    path = shell.plan()
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*PROGRAM, "--database", shell.backend.url, "dlq", "drain", "--plan", path, *GROUNDS],
        stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env=environment(**shell.env),
    )  # fmt: skip
    os.write(ours, b"n\n")
    _, err = process.communicate(timeout=60)
    os.close(ours)
    os.close(theirs)
    assert process.returncode == 130
    assert b"Begin the drain" in err
    assert b"1 replay" in err
    assert len(shell.letters.dead()) == 1


def begun(shell: Shell, path: str, *, rate: str, left: int) -> subprocess.Popen[bytes]:
    """Start a drain of single letters, and wait until so many are left."""
    command = [
        *PROGRAM, "--database", shell.backend.url, "dlq", "drain", "--plan", path, *GROUNDS,
        "--yes", "--batch", "1", "--rate", rate, "--output", "json",
    ]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment(**shell.env))
    deadline = time.monotonic() + 60
    while len(shell.letters.dead()) > left:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return process


def test_a_drain_does_not_rest_on_when_it_is_asked_to_stop(shell: Shell) -> None:
    """A rate of one letter in ten minutes: it ends now, not then, and tells what is left."""
    shell.letters.fail(*things(3))
    with begun(shell, shell.plan(), rate="0.0016", left=2) as process:
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
    assert json.loads(out)["sent"] == 1
    assert len(shell.letters.dead()) == 2


def test_a_drain_that_is_killed_goes_on(shell: Shell) -> None:
    """A real process is killed between its batches; the same command brings the rest through."""
    shell.letters.fail(*things(6))
    path = shell.plan()
    with begun(shell, path, rate="3", left=4) as process:
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=60)
    assert len(shell.letters.dead()) > 0
    shell.letters.in_queue("UPDATE dead_letters SET hidden_until = NULL, delivery_id = NULL")
    done = shell.here("drain", "--plan", path, *GROUNDS, "--yes")
    assert (done.json["sent"], done.json["left"], shell.letters.dead()) == (6, 0, [])
    worked = shell.ingest().json
    assert worked["by_verdict"] == {"succeeded": 6}


def test_a_report_over_its_threshold_ends_with_1(shell: Shell) -> None:
    """Each of the three has a flag that says how many are borne."""
    shell.letters.fail(thing(0))
    path = shell.plan("--replay-run-id", "drain-3")
    assert shell.here("drain", "--plan", path, *GROUNDS, "--yes").code == 0
    assert shell.ingest().code == 0
    tamper(
        shell.backend,
        "UPDATE replay_run_records SET mismatch = "
        + ("1" if shell.backend.name == "sqlite" else "true"),
    )
    tamper(shell.backend, "DELETE FROM provenance")
    twice(shell.backend, str(shell.backend.sql("SELECT wal_id FROM wal_records")[0][0]))
    failed = shell.here("report", "drain-3")
    assert failed.code == 1
    assert failed.json["exceeded"] == ["duplicates", "lineage_regressions", "mismatches"]
    flags = ("--max-duplicates", "1", "--max-lineage-regressions", "1", "--max-mismatches", "1")
    for number in range(3):
        kept = [flag for i, flag in enumerate(flags) if i // 2 != number]
        assert shell.here("report", "drain-3", *kept).code == 1
    assert shell.here("report", "drain-3", *flags).code == 0


def test_a_drain_whose_units_fail_again_ends_with_1(shell: Shell) -> None:
    """At the drain nothing has failed yet; its report tells of the unit, and so does the code."""
    shell.letters.fail(thing(0))
    path = shell.plan("--replay-run-id", "drain-4")
    assert shell.here("drain", "--plan", path, *GROUNDS, "--yes").code == 0
    shell.letters.pipeline.path(thing(0)).unlink()
    assert shell.ingest().code == 0
    failed = shell.here("report", "drain-4")
    assert (failed.code, failed.json["units"]["failed"], failed.json["exceeded"]) == (1, 1, [])


def test_a_drain_whose_units_succeed_after_one_more_failure_ends_with_0(shell: Shell) -> None:
    """Both of its report and of the drain itself, run again by the same plan."""
    letters, unit = shell.letters, thing(0)
    letters.fail(unit)
    path = shell.plan("--replay-run-id", "drain-5")
    again = ("drain", "--plan", path, *GROUNDS, "--yes")
    assert shell.here(*again).code == 0
    letters.work(reader=Unreadable())
    letters.in_queue("DELETE FROM dead_letters")
    assert [shell.here(*args).code for args in (("report", "drain-5"), again)] == [1, 1]
    letters.pipeline.announce(unit)
    assert shell.ingest().code == 0
    done = shell.here("report", "drain-5")
    told = (done.json["units"]["done"], done.json["units"]["failed"], done.json["succeeded_later"])
    assert (done.code, *told) == (0, 1, 0, 1)
    assert shell.here(*again).code == 0
    assert "succeeded after one more failure: 1\n" in shell("report", "drain-5").out


def test_a_queue_that_was_never_made_has_no_letters(shell: Shell) -> None:
    """Told, with 4, and nothing is made."""
    done = shell.here("classify", "--queue", f"sqlite:///{shell.folder / 'never.db'}")
    assert (done.code, done.error["code"]) == (4, "queue_missing")
    assert not (shell.folder / "never.db").exists()
