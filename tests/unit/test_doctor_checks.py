"""What each check of `tallgrass doctor` decides, fact by fact."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.config import load_config
from tallgrass.doctor.diagnosis import CHECKS, diagnose, is_healthy, unusable_configuration
from tallgrass.doctor.finding import (
    DatabaseFacts,
    EmbeddedQueue,
    Facts,
    Folder,
    LedgerFacts,
    NotAsked,
    Trouble,
    Verdict,
)
from tallgrass.queues.queue_facts import SqsFacts, may_send, read_policy

if TYPE_CHECKING:
    from pathlib import Path

    from tallgrass.setting_form import Value

TOPIC = "arn:aws:sns:us-east-1:123901341784:NewHRRRObject"
QUEUE = "arn:aws:sqs:us-east-1:123456789012:nodd-primary"
BUCKET = "arn:aws:s3:*:*:my-bucket"
MIB = 1024 * 1024
DAY_S = 86_400

#: A set-up without fault: PostgreSQL and SQS, signatures asked for.
GOOD_FLAGS: dict[str, Value] = {
    "database.url": "postgresql://db/tallgrass",
    "queue.url": QUEUE,
    "queue.signatures": "required",
    "queue.topics": TOPIC,
}
PACKAGES = {"boto3": True, "cryptography": True, "h5py": True, "psycopg": True}


def policy(**changes: Any) -> str:
    """Return a queue policy of one statement: the right one, but for the changes."""
    statement = {
        "Effect": "Allow",
        "Principal": {"Service": "sns.amazonaws.com"},
        "Action": "sqs:SendMessage",
        "Resource": QUEUE,
        "Condition": {"ArnEquals": {"aws:SourceArn": TOPIC}},
    }
    return json.dumps({"Statement": [{**statement, **changes}]})


SQS = SqsFacts(
    arn=QUEUE,
    visibility_s=300,
    retention_s=4 * DAY_S,
    max_receive_count=5,
    dead_letter_arn=f"{QUEUE}-dlq",
    dead_letter_retention_s=14 * DAY_S,
    dead_letter_trouble=None,
    policy=policy(),
    encryption="sqs",
    clock_ahead_s=0.4,
)
DATABASE = DatabaseFacts(
    place="db/tallgrass",
    version="PostgreSQL 18.4",
    schema="current",
    problem=None,
    writable=True,
    file_system=None,
    clock_ahead_s=0.01,
)
LEDGER = LedgerFacts(switches=(), poison_open=0, audit_entries=True, anchors=3)
FOLDER = Folder(
    setting="objects.url",
    path="/data",
    exists=True,
    written=False,
    usable=True,
    free_bytes=50_000 * MIB,
)


def facts(flags: dict[str, Value] | None = None, **changes: Any) -> Facts:
    """Return the facts of a faultless set-up, but for the changes."""
    return replace(
        Facts(
            config=load_config(environment={}, flags={**GOOD_FLAGS, **(flags or {})}),
            config_version="0123456789abcdef",
            datasets=100,
            with_attributes=("goes-abi", "goes-glm", "jpss-viirs"),
            packages=PACKAGES,
            folders=(FOLDER,),
            database=DATABASE,
            ledger=LEDGER,
            queue=SQS,
            credentials="env",
        ),
        **changes,
    )


def embedded(flags: dict[str, Value] | None = None, **changes: Any) -> Facts:
    """Return the facts of a faultless set-up on one machine, but for the changes."""
    local: dict[str, Value] = {
        "database.url": "sqlite:///t.db",
        "queue.url": "sqlite:///q.db",
        "queue.signatures": "off",
    }
    return facts(
        {**local, **(flags or {})},
        **{
            "database": replace(DATABASE, file_system="ext4 at /", clock_ahead_s=None),
            "queue": EmbeddedQueue(waiting=0, dead=0),
            "credentials": NotAsked(reason="the queue is embedded"),
            **changes,
        },
    )


def sqs(**changes: Any) -> Facts:
    """Return a faultless set-up with another queue."""
    return facts(queue=replace(SQS, **changes))


def disk(mib: int) -> Facts:
    """Return a set-up with two folders, one with that much free."""
    return facts(folders=(FOLDER, replace(FOLDER, free_bytes=mib * MIB)))


def folder(**changes: Any) -> Facts:
    """Return a set-up with one folder that is not as it should be."""
    return facts(folders=(replace(FOLDER, setting="database.url", written=True, **changes),))


def clock(database: float | None, queue: float | None) -> Facts:
    """Return a set-up with clocks that run so far ahead."""
    return facts(
        database=replace(DATABASE, clock_ahead_s=database),
        queue=replace(SQS, clock_ahead_s=queue),
    )


def trouble(code: str, message: str = "said so") -> Trouble:
    """Return an error as a fact."""
    return Trouble(code=code, message=message)


def test_a_faultless_set_up_has_no_finding_to_mend() -> None:
    """Everything is ok on PostgreSQL and SQS, but for what only SQLite has."""
    findings = diagnose(facts())
    assert {one.name for one in findings if one.verdict is not Verdict.OK} == {"file-system"}
    assert [one.name for one in findings] == list(CHECKS)
    assert all(one.fix is None for one in findings)
    assert is_healthy(findings)


def test_on_one_machine_what_does_not_apply_is_skipped() -> None:
    """No AWS, no second clock: skipped with a reason, and healthy."""
    findings = diagnose(embedded())
    assert {one.name for one in findings if one.verdict is Verdict.SKIPPED} == {
        "clock", "credentials", "queue-policy", "encryption", "signatures",
    }  # fmt: skip
    assert all(one.verdict in (Verdict.OK, Verdict.SKIPPED) for one in findings)
    assert all(one.seen for one in findings)


#: Name of the check, facts, verdict, words that are seen, words of the fix.
CASES: list[tuple[str, Facts, str, str, str]] = [
    ("datasets", facts(datasets=trouble("config_invalid", "x.toml: no")),
     "problem", "x.toml: no", "tallgrass datasets check FILE"),
    ("datasets", facts({"datasets.folder": "own"}), "ok", "100, those of own included", ""),
    ("extras", facts(packages={**PACKAGES, "boto3": False}),
     "problem", "not installed: boto3", "pip install 'tallgrass[aws]'"),
    ("extras", facts(packages={"boto3": True}),
     "problem", "psycopg, cryptography", "pip install 'tallgrass[aws,postgres]'"),
    ("extras", embedded(packages={}, with_attributes=()), "ok", "none is needed", ""),
    ("extras", embedded({"objects.url": "event"}, packages={}), "ok", "none is needed", ""),
    ("extras", embedded(packages={}), "warning",
     "not installed: h5py; HDF5 files of goes-abi and 2 other datasets tell",
     "on every worker: pip install 'tallgrass[formats]'"),
    ("extras", embedded(packages={}, with_attributes=("own",)), "warning",
     "HDF5 files of own tell", "tallgrass[formats]"),
    ("folders", folder(exists=False), "problem", "/data is not there", "make the folder"),
    ("folders", folder(usable=False), "problem", "/data cannot be written", "the rights"),
    ("folders", facts(folders=(replace(FOLDER, usable=False),)),
     "problem", "/data cannot be read", "the rights"),
    ("folders", facts(folders=()), "ok", "nothing is kept", ""),
    ("disk-space", disk(255), "problem", "255 MiB free", "free disk space"),
    ("disk-space", disk(256), "warning", "256 MiB free", "free disk space"),
    ("disk-space", disk(2047), "warning", "2,047 MiB free", "larger disk"),
    ("disk-space", disk(2048), "ok", "2,048 MiB free", ""),
    ("disk-space", facts(folders=()), "skipped", "nothing is kept", ""),
    ("file-system", embedded(), "ok", "ext4 at /", ""),
    ("file-system", embedded(database=trouble("database_on_network_filesystem", "on nfs4")),
     "problem", "on nfs4", "local disk"),
    ("file-system", embedded(queue=trouble("database_on_network_filesystem", "on cifs")),
     "problem", "on cifs", "local disk"),
    ("database", facts(database=trouble("database_unreachable")),
     "problem", "said so", "make it (`tallgrass db migrate`) or correct its address (database.url"),
    ("database", embedded(database=trouble("database_unreachable")),
     "problem", "said so", "tallgrass db migrate"),
    ("database", facts(database=replace(DATABASE, schema="schema_outdated", problem="lacks 0003")),
     "problem", "lacks 0003", "tallgrass db migrate"),
    ("database", facts(database=NotAsked(reason="left out")), "skipped", "left out", ""),
    ("database-rights", facts(database=replace(DATABASE, writable=False)),
     "problem", "can only be read", "account with write rights"),
    ("database-rights", facts(database=trouble("database_unreachable")), "skipped", "opened", ""),
    ("clock", clock(0.0, -4.9), "ok", "SQS -4.9 s", ""),
    ("clock", clock(5.0, 0.0), "warning", "database +5.0 s", "NTP"),
    ("clock", clock(None, -60.0), "problem", "SQS -60.0 s", "NTP"),
    ("clock", clock(None, None), "skipped", "no other clock", ""),
    ("lease", facts({"worker.lease_s": 60.0, "worker.job_deadline_s": 59.0}),
     "problem", "lease 60 s, job deadline 59 s", "worker.job_deadline_s must be at least 60"),
    ("lease", facts({"worker.lease_s": 14.0}), "warning", "lease 14 s", "worker.lease_s"),
    ("lease", facts({"worker.lease_s": 15.0}), "ok", "heartbeat 5 s, lease 15 s", ""),
    ("visibility", facts({"worker.lease_s": 60.0, "queue.visibility_s": 119.0}),
     "problem", "119 s", "queue.visibility_s must be at least 120"),
    ("visibility", facts({"worker.lease_s": 60.0, "queue.visibility_s": 120.0}), "ok", "120 s", ""),
    ("visibility", sqs(visibility_s=119),
     "warning", "the queue's own 119 s", "VisibilityTimeout to 300"),
    ("visibility", sqs(visibility_s=120), "ok", "the queue's own 120 s", ""),
    ("attempts", facts({"ledger.max_attempts": 5}),
     "problem", "max_attempts 5", "ledger.max_attempts must be above 5"),
    ("attempts", facts({"ledger.max_attempts": 6}), "ok", "maxReceiveCount 5", ""),
    ("attempts", sqs(max_receive_count=8), "problem", "maxReceiveCount 8", "must be above 8"),
    ("attempts", sqs(max_receive_count=7),
     "warning", "queue.max_receive_count says 5", "set queue.max_receive_count to 7"),
    ("attempts", sqs(max_receive_count=None), "skipped", "no dead-letter queue", ""),
    ("attempts", embedded({"queue.max_receive_count": 8}), "problem", "8", "must be above 8"),
    ("credentials", facts(credentials=None), "problem", "finds none", "AWS_PROFILE"),
    ("credentials", facts(credentials=trouble("queue_denied")), "problem", "said so", "role"),
    ("credentials", facts(), "ok", "found by env", ""),
    ("queue", facts(queue=trouble("queue_missing")), "problem", "said so", ""),
    ("queue", facts(queue=NotAsked(reason="left out")), "skipped", "left out", ""),
    ("queue", embedded(queue=EmbeddedQueue(waiting=None, dead=None)), "ok", "uses it first", ""),
    ("queue", embedded(queue=EmbeddedQueue(waiting=7, dead=2)), "ok", "7 waiting, 2 dead", ""),
    ("dead-letters", sqs(dead_letter_arn=None), "problem", "no dead-letter", "RedrivePolicy"),
    ("dead-letters", sqs(dead_letter_retention_s=4 * DAY_S),
     "warning", "keeps 4 days, the queue 4 days", "1209600"),
    ("dead-letters", sqs(dead_letter_retention_s=4 * DAY_S + 60), "ok", "the queue 4 days", ""),
    ("dead-letters", sqs(dead_letter_retention_s=None, dead_letter_trouble="denied"),
     "warning", "denied", "sqs:GetQueueAttributes"),
    ("dead-letters", facts(queue=trouble("queue_missing")), "skipped", "looked at", ""),
    ("queue-policy", sqs(policy=""), "warning", "SNS cannot deliver", "aws:SourceArn"),
    ("queue-policy", sqs(policy=policy(Condition={})),
     "problem", "any topic of any account", "aws:SourceArn"),
    ("queue-policy", facts({"queue.topics": f"{TOPIC} {TOPIC}2"}),
     "warning", f"may not send: {TOPIC}2", "queue.topics"),
    ("queue-policy", facts(), "ok", TOPIC, ""),
    ("queue-policy", facts(queue=trouble("queue_missing")), "skipped", "looked at", ""),
    ("encryption", sqs(encryption=None), "warning", "none", "SqsManagedSseEnabled"),
    ("encryption", sqs(encryption="alias/aws/sqs"), "problem", "SNS may not use", "KMS key"),
    ("encryption", sqs(encryption="alias/mine"), "ok", "by alias/mine", ""),
    ("signatures", facts({"queue.signatures": "off"}),
     "warning", "queue policy alone", "queue.signatures = 'required'"),
    ("signatures", facts({"queue.topics": ""}), "warning", "of any topic", "queue.topics"),
    ("signatures", facts(), "ok", "raw delivery must be off", ""),
    ("switches", facts(ledger=replace(LEDGER, switches=("ingest:hrrr",))),
     "warning", "on: ingest:hrrr", "tallgrass status"),
    ("poison", facts(ledger=replace(LEDGER, poison_open=1200)),
     "warning", "1,200 messages", "tallgrass poison list"),
    ("poison", facts(ledger=trouble("database_locked")), "skipped", "said so", ""),
    ("audit-anchors", facts(ledger=replace(LEDGER, anchors=None)),
     "warning", "holds none", "tallgrass audit seal"),
    ("audit-anchors", facts(ledger=replace(LEDGER, anchors=0)),
     "warning", "holds none", "tallgrass audit seal"),
    ("audit-anchors", facts(ledger=replace(LEDGER, anchors=None, audit_entries=False)),
     "ok", "the audit log is empty", ""),
    ("audit-anchors", facts(ledger=replace(LEDGER, anchors=trouble("anchor_invalid"))),
     "problem", "said so", "tallgrass audit seal"),
    ("projection", facts(), "ok", "not copied", ""),
    ("projection", facts(ledger=replace(LEDGER, unprojected=(1200, 60.0))), "ok", "1,200", ""),
    ("projection", facts(ledger=replace(LEDGER, unprojected=(1200, 3601.0))),
     "warning", "1,200 changes wait, the oldest for 3,601 s", "stac project --follow"),
    ("projection", facts(ledger=trouble("database_locked")), "skipped", "said so", ""),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "given", "verdict", "seen", "fix"),
    CASES,
    ids=[f"{name}-{verdict}-{number}" for number, (name, _, verdict, _, _) in enumerate(CASES)],
)
def test_each_check_decides_by_the_facts(
    name: str, given: Facts, verdict: str, seen: str, fix: str
) -> None:
    """The verdict, what was seen, and a fix where there is something to mend."""
    found = CHECKS[name](given)
    assert (found.name, found.verdict) == (name, verdict)
    assert seen in found.seen
    if verdict in ("warning", "problem"):
        assert found.fix
        assert fix in found.fix
    else:
        assert found.fix is None
    assert is_healthy([found]) is (verdict != "problem")


def test_every_check_can_find_something_to_mend() -> None:
    """No check is for show: the table above makes each of them complain."""
    complaining = {name for name, _, verdict, _, _ in CASES if verdict in ("warning", "problem")}
    assert set(CHECKS) - complaining == {"configuration"}


def test_an_exception_of_a_dataset_counts_too(tmp_path: Path) -> None:
    """A dataset with fewer attempts than the queue has deliveries would never reach the DLQ."""
    file = tmp_path / "t.toml"
    file.write_text("[ledger.exceptions.hrrr]\napproval_ref = 'CHG-1'\nmax_attempts = 5\n")
    config = load_config(file=file, environment={}, flags=GOOD_FLAGS)
    found = CHECKS["attempts"](facts(config=config))
    assert found.verdict is Verdict.PROBLEM
    assert found.fix == "ledger.exceptions.hrrr must be above 5"


def test_without_a_configuration_all_else_is_skipped() -> None:
    """One problem with its remedy; every other check says why it was not made."""
    first, *rest = unusable_configuration(trouble("config_invalid", "t.toml: no"))
    assert (first.name, first.verdict, first.seen) == ("configuration", "problem", "t.toml: no")
    assert first.fix
    assert [one.name for one in rest] == list(CHECKS)[1:]
    assert {one.verdict for one in rest} == {Verdict.SKIPPED}


# --- the queue's policy ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "is_open"),
    [
        ({}, False),
        ({"Condition": {}}, True),
        ({"Principal": "*"}, False),
        ({"Principal": "*", "Condition": {}}, True),
        ({"Principal": {"AWS": "*"}, "Condition": {}}, True),
        ({"Principal": {"AWS": ["*"]}, "Action": ["sqs:*"], "Condition": {}}, True),
        ({"Principal": {"AWS": "arn:aws:iam::123456789012:root"}, "Condition": {}}, False),
        ({"Principal": "*", "Condition": {}, "Effect": "Deny"}, False),
        ({"Principal": "*", "Condition": {}, "Action": "sqs:ReceiveMessage"}, False),
        ({"Principal": "*", "Condition": {"Bool": {"aws:SecureTransport": "true"}}}, True),
        ({"Condition": {"ArnEqualsIfExists": {"aws:SourceArn": TOPIC}}}, True),
        ({"Condition": {"ForAllValues:ArnEquals": {"aws:SourceArn": TOPIC}}}, True),
        ({"Condition": {"ArnNotEquals": {"aws:SourceArn": TOPIC}}}, True),
        ({"Condition": {"StringLike": {"AWS:SourceArn": [TOPIC]}}}, False),
        ({"Condition": {"ArnLike": {"aws:SourceArn": "*"}}}, True),
        ({"Condition": {"ArnLike": {"aws:SourceArn": "arn:aws:sns:*:*:NewHRRRObject"}}}, True),
        ({"Condition": {"ArnLike": {"aws:SourceArn": "arn:aws:sns:*:123901341784:*"}}}, False),
        ({"Condition": {"StringEquals": {"aws:SourceAccount": "123901341784"}}}, False),
        ({"Principal": "*", "Condition": {"ArnLike": {"aws:SourceArn": BUCKET}}}, False),
        ({"Principal": "*", "Condition": {"ArnLike": {"aws:SourceArn": "arn:aws:s3:::*"}}}, True),
        ({"Principal": "*", "Condition": {}, "Action": "sqs:S*"}, True),
    ],
)  # fmt: skip
def test_an_open_policy_is_seen(changes: dict[str, Any], *, is_open: bool) -> None:
    """Open: anybody, or anybody's topic, may send; a source in a known account ties it."""
    assert bool(read_policy(policy(**changes)).open_doors) is is_open


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"Statement": [{}]}', '{"Statement": [1]}'])
def test_a_policy_that_cannot_be_read_counts_as_open(text: str) -> None:
    """What nobody understands is not called safe."""
    assert read_policy(text).open_doors == ("the policy cannot be read",)


def test_all_actions_but_some_is_open_too() -> None:
    """`NotAction` lets sending in."""
    statement = {"Effect": "Allow", "Principal": "*", "NotAction": "sqs:DeleteQueue"}
    assert read_policy(json.dumps({"Statement": statement})).open_doors == ("anybody may send",)


@pytest.mark.parametrize(
    ("sources", "allowed"),
    [
        ([TOPIC], True),
        (["arn:aws:sns:us-east-1:123901341784:*"], True),
        (["123901341784"], True),
        (["arn:aws:sns:us-east-1:123901341784:NewHRRR"], False),
        (["arn:aws:sns:us-west-2:123901341784:*"], False),
        ([], False),
    ],
)
def test_a_topic_is_let_in_by_its_arn_or_account(sources: list[str], *, allowed: bool) -> None:
    """A star stands for any text; a part of a name is not the name."""
    assert may_send(TOPIC, sources) is allowed
