"""What events say of objects and messages, as the ledger keeps it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.intake.notifications import parsed
from tests.intake.own_datasets import own_catalogue
from tests.intake.test_corpora import EVENTS

if TYPE_CHECKING:
    from tests.support.backends import Backend

#: One of each form, of four objects: with all that it can say, and with as little as it may say.
SAY_ALL = [
    "EventBridge with a version",
    "chunk by SNS",
    "Pub/Sub push",
    "blob, CloudEvents",
]
SAY_LITTLE = [
    "object with nothing but the key",
    "chunk with numbers",
    "Pub/Sub push, attributes alone",
    "blob of which nothing is said, Event Grid's schema",
]
CASES: dict[str, Any] = {str(case.id): case.values[0] for case in EVENTS}
SNS_ID = "191c04d9-d428-5417-b457-511b08af29c6"


@pytest.mark.conformance("RP-3.3", "RP-3.4", "C-29")
@pytest.mark.parametrize("names", [SAY_ALL, SAY_LITTLE], ids=["all", "little"])
def test_an_attempt_keeps_what_its_event_said(backend: Backend, names: list[str]) -> None:
    """Provider, ids and reference are on the attempt's row; what was not said is null."""
    units = [
        unit
        for name in names
        for unit in parsed(
            json.dumps(CASES[name]["message"]), message_id=name, catalogue=own_catalogue()
        ).units
    ]
    stores = backend.open()
    worker = stores.leases.register("w", ingest_run_id="run", lease_s=3600)
    stores.ledger.record_and_claim(worker, units)
    stores.close()
    rows = backend.sql(
        "SELECT a.sqs_message_id, r.object_uri, r.provider, r.dataset, a.sns_message_id,"
        " a.object_etag, a.object_size, a.object_sequencer, a.object_version_id"
        " FROM wal_attempts AS a JOIN wal_records AS r ON r.wal_id = a.wal_id"
    )
    assert {tuple(row) for row in rows} == {expected(name) for name in names}


def expected(name: str) -> tuple[Any, ...]:
    """Return the row of a case, by its line in the corpus."""
    case = CASES[name]
    (uri,) = case["units"]
    (reference,) = case.get("references", [dict.fromkeys(("etag", "size", "seq", "version"))])
    provider = {"s3": "aws", "gs": "gcp", "az": "azure"}[uri[:2]]
    dataset = "free" if "free" in uri else "timed"
    sns_id = SNS_ID if "SNS" in name else None
    return (name, uri, provider, dataset, sns_id, *reference.values())
