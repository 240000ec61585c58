"""`tallgrass doctor` as a process: each fault provoked for real, each finding with its fix."""

from __future__ import annotations

import json
import sqlite3
import threading
import uuid
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.bootstrap.audit_anchors import read_anchors
from tallgrass.cli.text import plain
from tallgrass.config import load_config
from tallgrass.doctor.diagnosis import diagnose
from tallgrass.doctor.gathering import gather
from tallgrass.intake.message import PoisonMessage
from tests.cli import test_read_only
from tests.cli.command import Done, tallgrass
from tests.support.aws import ENVIRONMENT
from tests.support.backends import prepare
from tests.support.file_modes import obey_file_modes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.aws import AwsServer
    from tests.support.backends import Backend

read_only_folder = test_read_only.read_only_folder
read_only_role = test_read_only.read_only_role

HIDDEN = "wJalrXUtnFEMI-K7MDENG-bPxRfiCYEXAMPLEKEY"
TOPIC = "arn:aws:sns:us-east-1:123901341784:NewHRRRObject"


def doctor(*args: str, **options: Any) -> Done:
    """Run the command; the folder of objects is there unless the test says otherwise."""
    env = {"TALLGRASS_OBJECTS_URL": "event", **options.pop("env", {})}
    return tallgrass("doctor", *args, env=env, **options)


def findings(done: Done) -> dict[str, dict[str, str]]:
    """Return what was found, by name; the exit code must fit."""
    found: list[dict[str, str]] = done.json["findings"]
    problems = [one["name"] for one in found if one["verdict"] == "problem"]
    assert done.json["ok"] is (problems == [])
    assert done.code == (1 if problems else 0)
    for one in found:
        assert set(one) == {"name", "verdict", "seen", "fix"}
        assert bool(one["fix"]) is (one["verdict"] in ("warning", "problem")), one
    return {one["name"]: one for one in found}


def examine(*args: str, **options: Any) -> dict[str, dict[str, str]]:
    """Run the command for its findings."""
    return findings(doctor(*args, "--output", "json", **options))


def verdicts(found: dict[str, dict[str, str]], verdict: str) -> set[str]:
    """Return the names of the findings with a verdict."""
    return {name for name, one in found.items() if one["verdict"] == verdict}


def files_of(folder: Path) -> set[str]:
    """Return the names in a folder, without what SQLite makes in order to read."""
    return {path.name for path in folder.iterdir() if not path.name.endswith(("-shm", "-wal"))}


# --- one machine, or a server for the database ----------------------------------------------------


def test_a_fresh_database_is_healthy(backend: Backend, tmp_path: Path) -> None:
    """Exit code 0, nothing to mend, nothing written; what does not apply is skipped."""
    before = files_of(tmp_path)
    done = doctor("--output", "json", at=backend, cwd=tmp_path)
    found = findings(done)
    assert done.code == 0
    assert verdicts(found, "problem") | verdicts(found, "warning") <= {"clock"}
    clock_and_files = {"file-system"} if backend.name == "postgres" else {"clock"}
    assert verdicts(found, "skipped") == clock_and_files | {
        "credentials", "queue-policy", "encryption", "signatures",
    }  # fmt: skip
    assert files_of(tmp_path) == before


def test_the_table_is_for_people(backend: Backend, tmp_path: Path) -> None:
    """Each check with its verdict; then what to do, or that there is nothing."""
    done = doctor(at=backend, cwd=tmp_path)
    assert done.code == 0
    assert "Nothing to mend." in done.out
    env = {"TALLGRASS_LEDGER_MAX_ATTEMPTS": "5"}
    done = doctor(at=backend, cwd=tmp_path, env=env)
    assert done.code == 1
    assert "attempts         problem" in done.out
    assert "ledger.max_attempts must be above 5" in done.out


def test_a_missing_database_is_told_and_not_made(tmp_path: Path) -> None:
    """The fix is the command that makes it; what the ledger holds is skipped."""
    found = examine(cwd=tmp_path)
    assert verdicts(found, "problem") == {"database"}
    assert "tallgrass db migrate" in found["database"]["fix"]
    assert {"switches", "poison", "audit-anchors"} <= verdicts(found, "skipped")
    assert list(tmp_path.iterdir()) == []


def test_a_database_without_tables_is_told(tmp_path: Path) -> None:
    """The schema's own remedy."""
    sqlite3.connect(tmp_path / "tallgrass.db").close()
    (tmp_path / "tallgrass.db").touch()
    found = examine(cwd=tmp_path)["database"]
    assert (found["verdict"], found["fix"]) == ("problem", "tallgrass db migrate")


def test_a_server_that_is_down_is_told_without_its_password(tmp_path: Path) -> None:
    """Nothing listens on port 1; the address is shown without who and what."""
    url = "postgresql://someone:hush-hush@127.0.0.1:1/ledger"
    done = doctor("--output", "json", at=url, cwd=tmp_path)
    assert findings(done)["database"]["verdict"] == "problem"
    assert "hush-hush" not in done.out + done.err
    skipped = doctor("--skip-network", "--output", "json", at=url, cwd=tmp_path)
    assert findings(skipped)["database"]["seen"] == "left out by --skip-network"
    assert skipped.code == 0


def test_a_folder_that_nobody_may_write_is_told(read_only_folder: Backend) -> None:
    """Folder and database both say so: every write would fail."""
    found = examine(at=read_only_folder, preexec_fn=obey_file_modes)
    assert verdicts(found, "problem") == {"folders", "database-rights"}
    assert "cannot be written" in found["folders"]["seen"]
    assert "write rights" in found["database-rights"]["fix"]


def test_a_role_that_may_only_select_is_told(read_only_role: str, tmp_path: Path) -> None:
    """A worker could not work with it."""
    found = examine(at=read_only_role, cwd=tmp_path)
    assert verdicts(found, "problem") == {"database-rights"}


def test_a_folder_of_objects_that_is_not_there(backend: Backend, tmp_path: Path) -> None:
    """The setting and the path are named."""
    env = {"TALLGRASS_OBJECTS_URL": f"file:{tmp_path / 'objects'}"}
    found = examine(at=backend, cwd=tmp_path, env=env)
    assert verdicts(found, "problem") == {"folders"}
    assert f"objects.url: {tmp_path / 'objects'} is not there" in found["folders"]["seen"]
    (tmp_path / "objects").mkdir()
    assert verdicts(examine(at=backend, cwd=tmp_path, env=env), "problem") == set()


def test_a_configuration_that_cannot_be_used_is_a_finding(tmp_path: Path) -> None:
    """It is told with its place; all else is skipped; exit code 1, as for any problem."""
    file = tmp_path / "tallgrass.toml"
    file.write_text("[worker]\nbatsch = 7\n")
    found = examine(cwd=tmp_path)
    assert verdicts(found, "problem") == {"configuration"}
    assert "did you mean 'worker.batch'" in found["configuration"]["seen"]
    assert verdicts(found, "skipped") == set(found) - {"configuration"}


def test_addresses_are_shown_without_credentials(tmp_path: Path) -> None:
    """An address that cannot be used is told, and its password is not."""
    done = doctor("--output", "json", at="mysql://someone:hush-hush@host/db", cwd=tmp_path)
    assert verdicts(findings(done), "problem") == {"configuration"}
    assert "mysql://***@host/db" in done.out
    assert "hush-hush" not in done.out + done.err


def test_a_dataset_file_that_cannot_be_used_is_told(backend: Backend, tmp_path: Path) -> None:
    """The file is named; all else is checked."""
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "mine.toml").write_text("id = 7\n")
    env = {"TALLGRASS_DATASETS_FOLDER": "own"}
    found = examine(at=backend, cwd=tmp_path, env=env)
    assert verdicts(found, "problem") == {"datasets"}
    assert "mine.toml" in found["datasets"]["seen"]


def test_limits_that_contradict_each_other(backend: Backend, tmp_path: Path) -> None:
    """Lease, deadline, visibility and attempts are compared with each other."""
    env = {
        "TALLGRASS_WORKER_LEASE_S": "300",
        "TALLGRASS_WORKER_JOB_DEADLINE_S": "200",
        "TALLGRASS_QUEUE_MAX_RECEIVE_COUNT": "8",
    }
    found = examine(at=backend, cwd=tmp_path, env=env)
    assert verdicts(found, "problem") == {"lease", "visibility", "attempts"}
    assert found["lease"]["fix"] == "worker.job_deadline_s must be at least 300"
    assert found["visibility"]["fix"] == "queue.visibility_s must be at least 360"
    assert found["attempts"]["fix"] == "ledger.max_attempts must be above 8"


def test_the_queue_s_file_is_looked_at(backend: Backend, tmp_path: Path) -> None:
    """`--queue` names another; one that is no queue is told."""
    other = tmp_path / "other.db"
    other.write_text("something else, long enough to be looked at" * 10)
    found = examine("--queue", f"sqlite:///{other}", at=backend, cwd=tmp_path)
    assert verdicts(found, "problem") == {"queue"}
    assert "queue.url" in examine(at=backend, cwd=tmp_path)["folders"]["seen"]


def test_what_waits_for_somebody_is_a_warning(filled: Backend, tmp_path: Path) -> None:
    """A switch that is on, an open poison message, a log without anchors: exit code 0."""
    stores = filled.open()
    stores.poison.put(
        [PoisonMessage(queue="q", body=b"?", message_id="1", error_code="message_invalid",
                       error_message="no JSON")]
    )  # fmt: skip
    stores.close()
    found = examine(at=filled, cwd=tmp_path)
    assert verdicts(found, "warning") == {"switches", "poison", "audit-anchors"}
    assert found["switches"]["seen"] == "on: ingest:nexrad-l2"
    assert found["poison"]["seen"] == "1 messages are open"
    assert "tallgrass audit seal" in found["audit-anchors"]["fix"]
    assert tallgrass("audit", "seal", at=filled, cwd=tmp_path).code == 0
    found = examine(at=filled, cwd=tmp_path)
    assert found["audit-anchors"]["seen"] == "1 in tallgrass-audit-anchors.jsonl"
    (tmp_path / "tallgrass-audit-anchors.jsonl").write_text("nonsense\n")
    found = examine(at=filled, cwd=tmp_path)
    assert verdicts(found, "problem") == {"audit-anchors"}


# --- SQS ------------------------------------------------------------------------------------------


def on_queue(url: str, endpoint: str, **more: str) -> dict[str, str]:
    """Return the settings for a queue, as variables."""
    return {
        "TALLGRASS_OBJECTS_URL": "event",
        "TALLGRASS_QUEUE_URL": url,
        "TALLGRASS_QUEUE_ENDPOINT_URL": endpoint,
        "TALLGRASS_QUEUE_SIGNATURES": "required",
        "TALLGRASS_QUEUE_TOPICS": TOPIC,
        **more,
    }


def look(ledger: str, settings: dict[str, str]) -> dict[str, dict[str, str]]:
    """Do what the command does, in this process: boto3 takes long to import."""
    config = load_config(environment=settings, flags={"database.url": ledger})
    facts = gather(
        config,
        skip_network=False,
        clock=lambda: datetime.now(UTC),
        read_anchors=read_anchors,
    )
    return {one.name: plain(one) for one in diagnose(facts)}


def sns_policy(arn: str, **condition: Any) -> str:
    """Return a policy that lets SNS send on a condition."""
    statement = {
        "Effect": "Allow",
        "Principal": {"Service": "sns.amazonaws.com"},
        "Action": "sqs:SendMessage",
        "Resource": arn,
        "Condition": condition,
    }
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


def set_queue(server: AwsServer, url: str, **attributes: str) -> None:
    """Change settings of a queue."""
    server.client("sqs").set_queue_attributes(QueueUrl=url, Attributes=attributes)


@pytest.fixture
def ledger(tmp_path: Path, aws_environment: None) -> str:
    """The address of a migrated SQLite ledger, with made-up credentials in the environment."""
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    prepare("sqlite", url).close()
    return url


@pytest.mark.parametrize("kind", ["moto", "ministack"])
def test_a_queue_as_planned_is_healthy(
    kind: str, ledger: str, tmp_path: Path, request: Any
) -> None:
    """By address and by ARN; credentials are found and never shown."""
    server: AwsServer = request.getfixturevalue(kind)
    made = server.make_queue(visibility_s=300, attributes={"SqsManagedSseEnabled": "true"})
    set_queue(server, made.dead_url, MessageRetentionPeriod="1209600")
    policy = sns_policy(made.arn, ArnEquals={"aws:SourceArn": TOPIC})
    set_queue(server, made.url, Policy=policy)
    env = {**on_queue(made.arn, server.url), "AWS_SECRET_ACCESS_KEY": HIDDEN}
    done = doctor("--output", "json", at=ledger, env=env, cwd=tmp_path)
    found = findings(done)
    # A machine that stands still for ten seconds is told as a clock that differs.
    assert (verdicts(found, "problem") | verdicts(found, "warning")) <= {"clock"}, done.out
    assert found["credentials"]["seen"] == "found by env"
    assert made.arn in found["queue"]["seen"]
    assert HIDDEN not in done.out + done.err
    assert ENVIRONMENT["AWS_ACCESS_KEY_ID"] not in done.out + done.err
    by_address = look(ledger, on_queue(made.url, server.url))
    assert by_address["queue"]["seen"] == found["queue"]["seen"]


def test_a_queue_with_wrong_settings(moto: AwsServer, ledger: str) -> None:
    """Each setting that endangers messages is told with the value that mends it."""
    made = moto.make_queue(visibility_s=30, max_receive_count=8)
    set_queue(moto, made.url, Policy=sns_policy(made.arn), MessageRetentionPeriod="1209600")
    found = look(ledger, on_queue(made.url, moto.url))
    assert verdicts(found, "problem") == {"attempts", "queue-policy"}
    assert verdicts(found, "warning") >= {"visibility", "dead-letters"}
    assert found["attempts"]["fix"] == "ledger.max_attempts must be above 8"
    assert "no aws:SourceArn" in found["queue-policy"]["seen"]
    assert "aws:SourceArn = your topics" in found["queue-policy"]["fix"]
    assert "VisibilityTimeout to 300" in found["visibility"]["fix"]
    assert "1209600" in found["dead-letters"]["fix"]
    assert "keeps 4 days, the queue 14 days" in found["dead-letters"]["seen"]


def test_a_queue_that_anybody_may_fill_and_nobody_rescues(moto: AwsServer, ledger: str) -> None:
    """No dead-letter queue, an open policy, a key that SNS may not use: three problems."""
    url = moto.client("sqs").create_queue(
        QueueName=f"bare-{uuid.uuid4().hex}", Attributes={"KmsMasterKeyId": "alias/aws/sqs"}
    )["QueueUrl"]
    everybody = {"Effect": "Allow", "Principal": "*", "Action": "sqs:*", "Resource": "*"}
    set_queue(moto, url, Policy=json.dumps({"Version": "2012-10-17", "Statement": [everybody]}))
    found = look(ledger, on_queue(url, moto.url, TALLGRASS_QUEUE_SIGNATURES="off"))
    assert verdicts(found, "problem") == {"dead-letters", "queue-policy", "encryption"}
    assert found["queue-policy"]["seen"] == "anybody may send"
    assert "RedrivePolicy" in found["dead-letters"]["fix"]
    assert "SqsManagedSseEnabled" in found["encryption"]["fix"]
    assert "signatures" in verdicts(found, "warning")
    assert "attempts" in verdicts(found, "skipped")


def test_a_queue_that_is_not_there(moto: AwsServer, ledger: str) -> None:
    """The queue is a problem; what could be read of it is skipped."""
    arn = "arn:aws:sqs:us-east-1:123456789012:no-such-queue"
    found = look(ledger, on_queue(arn, moto.url))
    assert verdicts(found, "problem") == {"queue"}
    assert "no-such-queue" in found["queue"]["seen"]
    assert {"dead-letters", "queue-policy", "encryption"} <= verdicts(found, "skipped")


def test_no_credentials_and_no_network(ledger: str, tmp_path: Path) -> None:
    """Without credentials nothing is asked; `--skip-network` does not even look for them."""
    arn = "arn:aws:sqs:us-east-1:123456789012:q"
    env = on_queue(arn, "http://127.0.0.1:1")
    assert verdicts(look(ledger, env), "problem") == {"queue"}
    without = {**env, "AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}
    found = examine(at=ledger, env=without, cwd=tmp_path)
    assert verdicts(found, "problem") == {"credentials", "queue"}
    assert "AWS_PROFILE" in found["credentials"]["fix"]
    found = examine("--skip-network", at=ledger, env=without, cwd=tmp_path)
    assert verdicts(found, "problem") == set()
    assert found["queue"]["seen"] == found["credentials"]["seen"] == "left out by --skip-network"


class Denying(BaseHTTPRequestHandler):
    """SQS as it answers one who may look at the queue, or at nothing; its clock is wrong."""

    allowed: tuple[str, ...] = ()
    ahead = timedelta()

    def do_POST(self) -> None:
        """Answer GetQueueAttributes for allowed queues; deny everything else."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if body["QueueUrl"].endswith(self.allowed):
            self._answer(200, {"Attributes": self._attributes()})
        else:
            self._answer(403, {"__type": "AccessDeniedException", "message": "not for you"})

    def _attributes(self) -> dict[str, str]:
        target = "arn:aws:sqs:us-east-1:123456789012:q-dlq"
        return {
            "QueueArn": "arn:aws:sqs:us-east-1:123456789012:q",
            "VisibilityTimeout": "300",
            "MessageRetentionPeriod": "345600",
            "RedrivePolicy": json.dumps({"deadLetterTargetArn": target, "maxReceiveCount": "5"}),
        }

    def _answer(self, status: int, answer: dict[str, Any]) -> None:
        text = json.dumps(answer).encode()
        self.send_response_only(status)
        date = datetime.now(UTC) + self.ahead
        self.send_header("Date", date.strftime("%a, %d %b %Y %H:%M:%S GMT"))
        self.send_header("Content-Type", "application/x-amz-json-1.0")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def denying(*allowed: str, ahead: timedelta = timedelta()) -> Iterator[str]:
    """Serve such an SQS on loopback; yield its address."""
    handler = type("Handler", (Denying,), {"allowed": allowed, "ahead": ahead})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def test_rights_that_are_lacking_are_told(ledger: str) -> None:
    """No right to the queue is a problem; none to its dead letters alone is a warning."""
    arn = "arn:aws:sqs:us-east-1:123456789012:q"
    with denying() as url:
        found = look(ledger, on_queue(arn, url))
    assert verdicts(found, "problem") == {"queue"}
    assert "not for you" in found["queue"]["seen"]
    assert "sqs:GetQueueAttributes" in found["queue"]["fix"]
    with denying("/q") as url:
        found = look(ledger, on_queue(arn, url))
    assert verdicts(found, "problem") == set()
    assert "dead-letters" in verdicts(found, "warning")
    assert "not for you" in found["dead-letters"]["seen"]
    assert "sqs:GetQueueAttributes" in found["dead-letters"]["fix"]


@pytest.mark.parametrize(
    ("ahead", "wrong"),
    [(timedelta(minutes=30), True), (timedelta(minutes=-30), True), (timedelta(), False)],
)
def test_aws_s_clock_is_compared_with_ours(ahead: timedelta, ledger: str, *, wrong: bool) -> None:
    """The Date of an answer tells it; half an hour is far beyond what a slow machine explains."""
    with denying("/q", ahead=ahead) as url:
        found = look(ledger, on_queue("arn:aws:sqs:us-east-1:123456789012:q", url))["clock"]
    assert (found["verdict"] == "problem") is wrong, found["seen"]
