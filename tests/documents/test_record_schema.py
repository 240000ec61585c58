from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError

from tallgrass.bootstrap.stores import export_ledger
from tallgrass.cli.main import cli
from tallgrass.governance.switches import SwitchScope
from tallgrass.ledger.rules import LedgerRules
from tests.documents.markdown import DOCS, WAL_DOCS, code_block, read, section
from tests.support.backends import NO_BACKOFF
from tests.support.builders import failure, overwritten, success, unit, units

if TYPE_CHECKING:
    from tests.support.backends import Backend

SCHEMAS = DOCS / "reference" / "schemas"
RULES = LedgerRules(
    max_attempts=2, backoff=NO_BACKOFF, extensions={"goes-glm": frozenset({"ext_slot"})}
)


def validator(name: str) -> Draft202012Validator:
    """Return the validator of a shipped schema, which must be one itself."""
    schema = json.loads(read(SCHEMAS / f"wal-{name}.schema.json"))
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema, format_checker=Draft202012Validator.FORMAT_CHECKER)


def example() -> dict[str, Any]:
    """Return the record that the record model shows."""
    text = section(read(WAL_DOCS / "wal-record-model.md"), "Examples")
    record: dict[str, Any] = json.loads(code_block(text, "json"))
    return record


def fill(backend: Backend) -> None:
    """Bring units into every status, with retries, re-runs, parking and a lost worker."""
    stores = backend.open(RULES)
    worker = stores.leases.register("w", ingest_run_id="run", lease_s=60)
    batch = [*units(5), unit(5, extensions={"ext_slot": {"east": 75.2}})]
    claims = [r.claim for r in stores.ledger.record_and_claim(worker, batch) if r.claim]
    stores.ledger.commit(
        worker,
        [
            success(claims[0]),
            success(claims[1]),
            failure(claims[2]),
            failure(claims[3], "governance_hard_fail"),
            success(claims[5], evidence=b'{"caf\xc3\xa9":1}'),
        ],
    )
    # Unit 4 stays in progress. Unit 1's object was overwritten, its re-run fails: stale.
    again = stores.ledger.record_and_claim(worker, [overwritten(1)])[0].claim
    assert again
    stores.ledger.commit(worker, [failure(again, message="no such object")])
    stores.switches.set(SwitchScope.INGEST, "*", is_on=True, actor="a", reason="r")
    stores.ledger.record_and_claim(worker, [overwritten(0), unit(6)])
    lost = stores.leases.register("lost", ingest_run_id="run", lease_s=60)
    stores.switches.set(SwitchScope.INGEST, "*", is_on=False, actor="a", reason="r")
    stores.ledger.record_and_claim(lost, [unit(7)])
    backend.expire(lost)
    stores.leases.recover()


def exported(backend: Backend) -> dict[str, list[dict[str, Any]]]:
    """Return the lines of an export by their kind."""
    stores = backend.open(RULES)
    found: dict[str, list[dict[str, Any]]] = {"record": [], "attempt": []}
    for line in io.BytesIO(b"".join(export_ledger(stores))):
        for kind, row in json.loads(line).items():
            if kind in found:
                found[kind].append(row)
    return found


def test_records_of_the_real_ledger_are_valid(backend: Backend) -> None:
    """Records and attempts in every status, as an export writes them, fit their schemas."""
    fill(backend)
    found = exported(backend)
    statuses = backend.sql("SELECT DISTINCT status FROM wal_records ORDER BY status")
    assert [status for (status,) in statuses] == [
        "failed", "in_progress", "pending", "quarantined", "succeeded",
    ]  # fmt: skip
    statuses = backend.sql("SELECT DISTINCT status FROM wal_attempts ORDER BY status")
    assert [status for (status,) in statuses] == ["applied", "failed", "pending", "rolled_back"]
    assert len(found["record"]) == 8
    for record in found["record"]:
        validator("record").validate(record)
    assert [r["extensions"] for r in found["record"] if r["extensions"]] == [
        {"ext_slot": {"east": 75.2}}
    ]
    assert len([r for r in found["record"] if r["next_object"]]) == 2
    for attempt in found["attempt"]:
        validator("attempt").validate(attempt)


def test_what_the_command_line_shows_is_valid(backend: Backend) -> None:
    """Records and attempts in every status, as `wal show` prints them in JSON, fit as well."""
    fill(backend)
    ids = [wal_id for (wal_id,) in backend.sql("SELECT wal_id FROM wal_records")]
    assert len(ids) == 8
    for wal_id in ids:
        arguments = ["--database", backend.url, "wal", "show", wal_id, "--output", "json"]
        shown = json.loads(CliRunner().invoke(cli, arguments, catch_exceptions=False).stdout)
        validator("record").validate(shown["record"])
        for attempt in shown["attempts"]:
            validator("attempt").validate(attempt)


def test_the_documented_example_is_valid() -> None:
    """The record that the record model shows fits the schema."""
    validator("record").validate(example())


@pytest.mark.parametrize(
    "change",
    [
        {"status": "done"},
        {"status": None},
        {"wal_id": "3a1e8907-8000-7bbb-9d7d-24097bf476d7"},
        {"wal_id": "not an id"},
        {"object_uri": "noaa-goes19/key"},
        {"event_time": "2026-01-01T00:00:22"},
        {"event_time": "2026-01-01T00:00:22+00:00"},
        {"event_time": "2026-01-01T00:00:22Z"},
        {"attempts": -1},
        {"attempts": "1"},
        {"version": 0},
        {"last_error_code": "It broke!", "status": "failed"},
        {"last_error_message": "x" * 501},
        {"integrity_status": "fine"},
        {"stac_status": "noop"},
        {"provenance_status": "suspect"},
        {"replay_reason": None},
        {"replay_reason": "Because"},
        {"rerun_intent": "ingest"},
        {"extensions": {"colour": 1}},
        {"next_object": "text"},
        {"colour": "red"},
        # What the success of a unit asks for.
        {"stac_status": "failed"},
        {"provenance_status": "failed"},
        {"integrity_status": "unknown"},
        {"metadata_status": "failed"},
        {"stac_item_id": None},
        {"applied_attempt": None},
        # A failure has a code; only a success is run again.
        {"status": "failed"},
        {"status": "quarantined"},
        {"status": "pending", "rerun_intent": "reingest"},
    ],
    ids=str,
)
def test_a_bad_record_is_not_valid(change: dict[str, object]) -> None:
    """A record with one thing wrong does not fit the schema."""
    with pytest.raises(ValidationError):
        validator("record").validate({**example(), **change})


@pytest.mark.parametrize("name", sorted(example()))
def test_no_field_may_be_missing(name: str) -> None:
    """A record without one of its fields does not fit the schema."""
    record = example()
    del record[name]
    with pytest.raises(ValidationError, match="required"):
        validator("record").validate(record)


@pytest.mark.parametrize(
    "change",
    [
        {"status": "succeeded"},
        {"attempt_no": 0},
        {"intent": "retry"},
        {"claimed_from": "failed"},
        {"closed_at": None},
        {"commit_id": None},
        {"error_code": "io_error"},
        {"status": "failed"},
        {"status": "pending"},
        {"worker_incarnation": "host-7"},
        {"object_size": -1},
    ],
    ids=str,
)
def test_a_bad_attempt_is_not_valid(change: dict[str, object]) -> None:
    """An applied attempt with one thing wrong does not fit the schema."""
    uuid = "11111111-2222-4333-8444-555555555555"
    good = dict.fromkeys(json.loads(read(SCHEMAS / "wal-attempt.schema.json"))["properties"])
    record = example()
    good |= {name: record[name] for name in good if name in record}
    good |= {
        "attempt_no": 1,
        "status": "applied",
        "intent": "ingest",
        "code_version": "0.1.0",
        "config_version": "0123456789abcdef",
        "worker_incarnation": uuid,
        "claim_id": uuid,
        "commit_id": uuid,
        "claimed_at": record["created_at"],
        "closed_at": record["updated_at"],
        "claimed_from": "pending",
        "claimed_version": 2,
        "closed_version": 3,
    }
    validator("attempt").validate(good)
    with pytest.raises(ValidationError):
        validator("attempt").validate({**good, **change})
