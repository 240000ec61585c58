"""`tallgrass replay --dry-run`: the plan, and nothing but the plan."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import uuid
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

from tallgrass.bootstrap.queues import open_queue
from tallgrass.cli.main import run
from tallgrass.config import load_config
from tests.cli.command import environment, fill, tallgrass
from tests.support.backends import Backend, prepare

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

DRY = ("replay", "--dry-run")
Rows = dict[str, tuple[str, str | None]]

FILE = """
apiVersion: kfm.nodd.replay/v1alpha1
kind: ReplaySelection
metadata: {env: dev, labels: {replay_reason: incident, incident_id: INC-7}}
spec:
  filters: {datasets: [hrrr, goes-glm], data_time: {start: 2026-01-01}, status: [failed]}
  limits: {max_records: 40, batch_size: 10, max_batches: 3}
"""


@pytest.fixture
def plan(filled: Backend, capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """Make a plan by the command's own code; return its JSON document."""

    def make(*flags: str) -> Any:
        assert run(["--database", filled.url, *DRY, *flags, "--output", "json"]) == 0
        return json.loads(capsys.readouterr().out)

    return make


def ids(backend: Backend) -> dict[str, str]:
    """Return the short name of each unit by its id: `hrrr 10`."""
    rows = backend.sql("SELECT wal_id, object_uri FROM wal_records")
    parts = {wal_id: name.rsplit("/", 2) for wal_id, name in rows}
    return {w: f"{dataset} {int(file[:6])}" for w, (_, dataset, file) in parts.items()}


def said(backend: Backend, document: Any) -> Rows:
    """Return action and reason of each unit in a plan, by its short name."""
    names = ids(backend)
    return {names[row["wal_id"]]: (row["action"], row.get("reason")) for row in document["rows"]}


SUCCEEDED = {f"goes-glm {number}": ("rerun", None) for number in range(4)}


@pytest.mark.conformance("RP-6.3", "RP-4.2b", "SM-2.3b")
def test_each_flag_selects(filled: Backend, plan: Callable[..., Any]) -> None:
    """All conditions hold together; what they leave is exactly this."""
    by_name = {name: wal_id for wal_id, name in ids(filled).items()}
    failed = {"hrrr 10": ("replay", None), "hrrr 11": ("skip", "code_not_replayed")}
    only_10, only_11 = ({name: failed[name]} for name in ("hrrr 10", "hrrr 11"))
    # Unit n starts 20·n seconds into the year 2026.
    expected: list[tuple[list[str], Rows]] = [
        (["--dataset", "hrrr"], failed),
        (["--dataset", "hrrr", "--dataset", "goes-glm"], failed),
        (["--dataset", "goes-glm"], {}),
        (["--bucket-prefix", "s3://noaa-goes19/hrrr/"], failed),
        (["--bucket-prefix", "s3://noaa-goes19/goes-glm/"], {}),
        (["--since", "2026-01-01T00:03:21Z"], only_11),
        (["--until", "2026-01-01T00:03:40Z"], only_10),
        (["--since", "2026-01-01T00:03:40Z", "--until", "2026-01-01T00:03:40.000001Z"], only_11),
        (["--dataset", "hrrr", "--event-since", "2026-01-01T00:01:00Z"], failed),
        (["--dataset", "hrrr", "--event-until", "2026-01-01T00:01:00Z"], {}),
        (["--dataset", "hrrr", "--created-until", "2026-01-01"], {}),
        (["--dataset", "hrrr", "--created-since", "2026-01-01"], failed),
        (["--wal-id", by_name["hrrr 10"].upper()], only_10),
        (["--wal-id", by_name["hrrr 12"]], {"hrrr 12": ("skip", "quarantined")}),
        (["--wal-id-range", f"{by_name['hrrr 10']}..{by_name['hrrr 11']}"], only_10),
        (["--wal-id-range", f"{by_name['hrrr 11']}.."], only_11),
        (["--message-id", "sqs-10"], only_10),
        (["--message-id", "sns-30"], {"goes-glm 30": ("skip", "in_progress")}),
        (["--status", "pending"], {"nexrad-l2 20": ("skip", "pending")}),
        (["--dataset", "hrrr", "--error-code", "io_error"], only_10),
        (["--error-code", "size_zero"], {"hrrr 11": ("replay", None)}),
        (["--dataset", "hrrr", "--attempts-min", "2"], {}),
        (["--dataset", "hrrr", "--attempts-max", "0"], {}),
        (["--dataset", "hrrr", "--attempts-max", "1"], failed),
        (
            ["--dataset", "goes-glm", "--include-succeeded"],
            {**SUCCEEDED, "goes-glm 4": ("skip", "rerun_pending")},
        ),
    ]
    for flags, rows in expected:
        assert said(filled, plan(*flags)) == rows, flags


@pytest.mark.conformance("RP-6.3", "C-23")
def test_each_other_flag_has_its_effect(
    filled: Backend, plan: Callable[..., Any], tmp_path: Path
) -> None:
    """Cap, reason, run id, ids from a file, environment and a saved selection."""
    asked = ["--dataset", "goes-glm", "--include-succeeded"]
    capped = plan(*asked, "--max-events", "2")
    reasons = [row.get("reason") for row in capped["rows"]]
    assert reasons == [None, None, "beyond_max_events", "beyond_max_events", "rerun_pending"]
    assert capped["header"]["caps"]["max_events"] == 2
    assert plan(*asked, "--max-events", "90000")["header"]["caps"]["max_events"] == 5000
    assert plan(*asked, "--reason", "backfill")["header"]["reason"] == "backfill"
    assert plan(*asked, "--replay-run-id", "june-1")["header"]["replay_run_id"] == "june-1"
    wrong = plan(*asked, "--since", "2026-01-01", "--env", "prod")["guards"]
    assert [guard["guard"] for guard in wrong] == ["env_mismatch", "approval_missing"]
    listed = tmp_path / "ids.txt"
    wanted = sorted(ids(filled))[:3]
    listed.write_text("# three\n\n" + "\n".join(wanted) + "\n")
    found = plan("--wal-id-file", str(listed))
    assert [row["wal_id"] for row in found["rows"]] == wanted
    saved = tmp_path / "saved.yaml"
    first = plan(*asked, "--since", "2026-01-01T00:00:20Z", "--save-selection", str(saved))
    again = plan("--selection-file", str(saved))
    assert again["rows"] == first["rows"]
    assert again["header"]["selection"] == first["header"]["selection"]
    assert len(again["rows"]) == 4


@pytest.mark.conformance("RP-6.4")
def test_the_document_lists_candidates_and_sums_up(
    filled: Backend, plan: Callable[..., Any]
) -> None:
    """Header, rows in order of id, counts, guards, what lies beside, and the hash of the stream."""
    found = plan("--dataset", "hrrr", "--replay-run-id", "r1", "--reason", "test")
    assert list(found) == ["header", "rows", "summary", "guards", "scope", "plan_sha256"]
    assert (found["header"]["mode"], found["header"]["intent"]) == ("range", "ingest")
    assert found["header"]["approvals_needed"] == 0
    assert [row["wal_id"] for row in found["rows"]] == sorted(r["wal_id"] for r in found["rows"])
    assert found["summary"]["by_action"] == {"replay": 1, "rerun": 0, "hit": 0, "skip": 1}
    assert found["summary"]["by_dataset"] == {"hrrr": found["summary"]["by_action"]}
    assert found["summary"]["by_error_code"] == {"io_error": 1, "size_zero": 1}
    assert [guard["guard"] for guard in found["guards"]] == ["scope_too_broad"]
    assert found["scope"] == {
        "pending": 0, "in_progress": 0, "succeeded": 0, "failed": 2, "quarantined": 1,
    }  # fmt: skip
    lines = [found["header"], *found["rows"]]
    stream = "".join(
        json.dumps(line, sort_keys=True, separators=(",", ":")) + "\n" for line in lines
    )
    assert hashlib.sha256(stream.encode()).hexdigest() == found["plan_sha256"]
    again = plan("--dataset", "hrrr", "--replay-run-id", "r1", "--reason", "test")
    assert again["plan_sha256"] == found["plan_sha256"]


def test_re_runs_need_an_approval(plan: Callable[..., Any]) -> None:
    """The header says how many approvers; the guard's name is told."""
    found = plan("--dataset", "goes-glm", "--since", "2026-01-01", "--include-succeeded")
    assert (found["header"]["approvals_needed"], found["header"]["intent"]) == (1, "repair")
    assert [guard["guard"] for guard in found["guards"]] == ["approval_missing"]


@pytest.mark.conformance("RP-6.3", "RP-4.2a")
def test_what_cannot_be_planned_is_refused(
    filled: Backend, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Exit 2 for bad arguments, 1 for an unknown id; the code and a word say which."""
    unknown = "3a1e8907-8000-8500-9e97-000000000001"
    empty, broken = tmp_path / "empty.txt", tmp_path / "broken.yaml"
    empty.write_text("\n")
    broken.write_text(FILE.replace("datasets:", "dataset:"))
    file = tmp_path / "file.yaml"
    file.write_text(FILE)
    bad = "selection_invalid"
    cases: list[tuple[list[str], int, str, str]] = [
        ([], 2, bad, "nothing is selected"),
        (["--since", "2026-06-02", "--until", "2026-06-01"], 2, bad, "--since must be before"),
        (["--event-since", "2026-06-02", "--event-until", "2026-06-02"], 2, bad, "--event-since"),
        (["--wal-id", unknown], 1, "record_unknown", unknown),
        (["--message-id", "nobody"], 1, "record_unknown", "nobody"),
        (["--wal-id", "xyz"], 2, bad, "xyz"),
        (["--wal-id-range", unknown], 2, bad, "FROM..TO"),
        (["--wal-id-range", f"{unknown}..{unknown}"], 2, bad, "not before"),
        (["--wal-id-file", str(empty)], 2, bad, "lists no id"),
        (["--dataset", "hrr"], 2, bad, "did you mean 'hrrr'"),
        (["--status", "done"], 2, "unknown_status", "done"),
        (["--error-code", "io_eror"], 2, bad, "io_error"),
        (["--since", "yesterday"], 2, "invalid_time", "yesterday"),
        (["--attempts-min", "3", "--attempts-max", "2"], 2, bad, "attempts"),
        (["--max-events", "0", "--dataset", "hrrr"], 2, "invalid_input", "--max-events"),
        (["--dataset", "hrrr", "--reason", "because"], 2, "unknown_replay_reason", "because"),
        (["--dataset", "hrrr", "--reason", "none"], 2, "unknown_replay_reason", "none"),
        (["--dataset", "hrrr", "--replay-run-id", "a b"], 2, "invalid_input", "a b"),
        (["--include-succeeded", "--status", "failed"], 2, bad, "succeeded"),
        (["--selection-file", str(broken)], 2, bad, "did you mean 'datasets'"),
        (["--selection-file", str(file), "--dataset", "gfs"], 2, bad, "only narrow"),
    ]
    for flags, code, name, word in cases:
        done = run(["--database", filled.url, *DRY, *flags, "--output", "json"])
        told = capsys.readouterr()
        error = json.loads(told.err)["error"]
        assert (done, error["code"]) == (code, name), flags
        assert word in error["message"], flags
        assert told.out == "", flags


def test_a_saved_selection_as_a_real_process(filled: Backend, tmp_path: Path) -> None:
    """The file gives reason, incident, environment and caps; flags narrow it."""
    file, out = tmp_path / "june.yaml", tmp_path / "plan.jsonl"
    file.write_text(FILE)
    asked = (*DRY, "--selection-file", str(file), "--plan-out", str(out), "--output", "json")
    found = tallgrass(*asked, at=filled).json
    header = found["header"]
    assert (header["reason"], header["incident_ref"]) == ("incident", "INC-7")
    assert (header["caps"]["max_events"], header["caps"]["batch"]) == (30, 10)
    assert found["guards"] == []
    assert found["summary"]["candidates"] == 2
    elsewhere = tallgrass(*asked, at=filled, env={"TALLGRASS_ENV": "prod"}).json
    assert [guard["guard"] for guard in elsewhere["guards"]] == ["env_mismatch"]
    narrowed = tallgrass(*asked, "--error-code", "size_zero", at=filled).json
    assert narrowed["summary"]["by_action"]["replay"] == 1
    assert narrowed["plan_sha256"] == hashlib.sha256(out.read_bytes()).hexdigest()
    assert json.loads(out.read_bytes().splitlines()[0]) == narrowed["header"]


def test_the_plan_can_go_to_a_pipe(filled: Backend) -> None:
    """JSON Lines on stdout, the summary on stderr; without a target one line a candidate."""
    done = tallgrass(*DRY, "--dataset", "hrrr", "--plan-out", "-", at=filled)
    lines = [json.loads(line) for line in done.out.splitlines()]
    assert [line.get("action") for line in lines] == [None, "replay", "skip"]
    assert hashlib.sha256(done.out.encode()).hexdigest() in done.err
    shown = tallgrass(*DRY, "--dataset", "hrrr", at=filled).out
    rows = [" ".join(line.split()[1:]) for line in shown.splitlines()]
    assert "3 replay hrrr failed io_error" in rows
    assert "3 skip code_not_replayed hrrr failed size_zero" in rows
    for line in (
        "candidates: 2 (1 replay, 0 rerun, 0 hit, 1 skip)",
        "batches: 1 (of at most 500 units)",
        "guard scope_too_broad would refuse the run: the selection lacks a time from which on",
        "Dry run: nothing was changed.",
    ):
        assert line in shown.splitlines()
    assert "what to do: mend the cause, then name its code: --error-code CODE" in shown


def snapshot(backend: Backend) -> dict[str, str]:
    """Return a hash of every table, and of the file where there is one."""
    if backend.name == "sqlite":
        tables = backend.sql("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")
    else:
        tables = backend.sql(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'"
            " AND table_type = 'BASE TABLE' ORDER BY 1"
        )
    found = {
        name: hashlib.sha256(repr(sorted(map(repr, backend.sql(f"SELECT * FROM {name}")))).encode())
        for (name,) in tables
    }
    assert {"wal_records", "outbox", "replay_runs", "audit_log"} <= set(found)
    if backend.name == "sqlite":
        found["file"] = hashlib.sha256(backend.path.read_bytes())
    return {name: digest.hexdigest() for name, digest in found.items()}


@pytest.mark.conformance("RP-6.5", "C-27")
def test_a_dry_run_changes_nothing(filled: Backend, tmp_path: Path) -> None:
    """Every table, the database's file and the queue are byte for byte as before."""
    queue = tmp_path / "queue.db"
    opened = open_queue(load_config(environment={}, flags={"queue.url": f"sqlite:///{queue}"}))
    opened.send([b"waits"])
    opened.close()
    before, waiting = snapshot(filled), queue.read_bytes()
    env = {"TALLGRASS_QUEUE_URL": f"sqlite:///{queue}"}
    asked = (*DRY, "--dataset", "hrrr", "--dataset", "goes-glm", "--include-succeeded")
    out = tmp_path / "plan.jsonl"
    for flags in ([], ["--output", "json"], ["--plan-out", str(out)], ["--replay-run-id", "r1"]):
        done = tallgrass(*asked, *flags, at=filled, env=env, cwd=tmp_path)
        assert done.code == 0, done.err
    assert out.read_bytes().count(b"\n") == 8
    assert (snapshot(filled), queue.read_bytes()) == (before, waiting)


@pytest.mark.conformance("RP-6.5")
def test_a_selection_that_was_saved_for_a_dry_run_is_not_run(
    filled: Backend, tmp_path: Path
) -> None:
    """`spec.options.dry_run` shows the plan, with no word of it on the command line."""
    saved = tmp_path / "saved.yaml"
    asked = ("--dataset", "hrrr", "--reason", "backfill")
    done = tallgrass(*DRY, *asked, "--save-selection", str(saved), at=filled, cwd=tmp_path)
    assert done.code == 0, done.err
    saved.write_text(f"{saved.read_text()}  options: {{dry_run: true}}\n")
    before = snapshot(filled)
    run = ("replay", "--selection-file", str(saved))
    done = tallgrass(*run, "--output", "json", at=filled, cwd=tmp_path)
    assert done.code == 0, done.err
    assert [row["action"] for row in done.json["rows"]] == ["replay", "skip"]
    assert tallgrass(*run, "--yes", at=filled, cwd=tmp_path).code == 2
    assert snapshot(filled) == before


@pytest.fixture
def ledger_reader(request: pytest.FixtureRequest) -> Iterator[str]:
    """A filled PostgreSQL ledger, for a role that may read records, attempts and switches only."""
    databases = request.getfixturevalue("postgres_databases")
    template = databases.template("ledger", lambda url: prepare("postgres", url).close())
    backend = Backend("postgres", databases.create(template))
    fill(backend)
    role = f"tallgrass_planner_{uuid.uuid4().hex[:8]}"
    backend.sql(f"CREATE ROLE {role} LOGIN PASSWORD 'reader'")
    tables = "wal_records, wal_attempts, kill_switches, schema_migrations"
    backend.sql(f"GRANT SELECT ON {tables} TO {role}")
    parts = urlsplit(backend.url)
    yield urlunsplit(parts._replace(netloc=f"{role}:reader@{parts.netloc.rpartition('@')[2]}"))
    backend.close()
    databases.drop(backend.url)
    with psycopg.connect(databases.server_url, autocommit=True) as connection:
        connection.execute(f"DROP ROLE {role}".encode())


@pytest.mark.conformance("WAL-8.9", "RP-6.5")
def test_a_plan_needs_neither_catalog_nor_queue(ledger_reader: str, tmp_path: Path) -> None:
    """With the catalog's tables denied and no queue to be had, the plan is the same."""
    nowhere = {"TALLGRASS_QUEUE_URL": "arn:aws:sqs:us-east-1:123456789012:none"}
    done = tallgrass(
        *DRY, "--dataset", "hrrr", "--message-id", "sqs-10", "--output", "json",
        at=ledger_reader, env=nowhere, cwd=tmp_path,
    )  # fmt: skip
    assert done.code == 0, done.err
    assert [row["action"] for row in done.json["rows"]] == ["replay"]


def test_nodd_replay_is_another_name(tmp_path: Path) -> None:
    """`nodd-replay` takes the same words; those before a command's name may come first."""
    backend = prepare("sqlite", f"sqlite:///{tmp_path / 'ledger.db'}")
    fill(backend)
    backend.close()
    call = "from tallgrass.cli.main import replay_main; replay_main()"
    words = [sys.executable, "-c", call, "--database", backend.url, "--dry-run"]
    done = subprocess.run(
        [*words, "--dataset", "hrrr", "--output", "json"],
        check=True,
        capture_output=True,
        env=environment(),
    )
    assert json.loads(done.stdout)["summary"]["candidates"] == 2
