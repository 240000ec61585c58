"""What the specifications refer to and do not supply is written here."""

from __future__ import annotations

import json
import re

import pytest

from tallgrass.telemetry.slo import SLOS
from tests.documents.markdown import DOCS, ROOT, read, rows, section, words

#: Documents that a specification names, and where ours lies.
SUPPLIED = {
    "wal-record-model": "replay/wal/wal-record-model.md",
    "wal-storage-backends": "replay/wal/wal-storage-backends.md",
    "key_spec": "idempotency/key_spec.md",
    "retries": "idempotency/retries.md",
    "state_store": "idempotency/state_store.md",
}
SCHEMAS = (
    "nodd-sns-sqs-v1",
    "pipelines-idempotency-outbox-v1",
    "reliability-execution-engine-v11",
    "energy-v2",
    "carbon-v2",
)


@pytest.mark.conformance("C-50")
@pytest.mark.parametrize("name", SUPPLIED)
def test_each_document_that_is_referred_to_is_there(name: str) -> None:
    """A page of its own with a purpose, reached from the list of all documents' folders."""
    path = DOCS / SUPPLIED[name]
    text = read(path)
    assert len(section(text, "Purpose").strip()) > 80
    assert len(text) > 1_500
    assert path.name in read(path.parent / "README.md")


@pytest.mark.conformance("C-50")
@pytest.mark.parametrize("name", SCHEMAS)
def test_each_telemetry_schema_is_shipped(name: str) -> None:
    """A JSON Schema that closes its objects, named by the page that tells of the files."""
    path = ROOT / "src" / "tallgrass" / "telemetry" / "schemas" / f"{name}.json"
    schema = json.loads(read(path))
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["type"] == "object"
    assert set(schema["required"]) <= set(schema["properties"])
    assert schema["additionalProperties"] is False
    assert f"`{name}`" in read(DOCS / "how-to" / "telemetry-files.md")


@pytest.mark.conformance("C-50")
def test_each_objective_is_written_down() -> None:
    """The page has a line for each promise that is judged, with its figure, and for no other."""
    table = rows(section(read(DOCS / "how-to" / "monitoring.md"), "Promises and error budgets"))
    written = {words(row[0])[0]: " ".join(row) for row in table}
    assert written.keys() == {slo.name for slo in SLOS}
    assert "P90" in written["queue_age"]
    assert "90 s" in written["queue_age"]
    assert "300 s" in written["latency"]
    assert "0.05 %" in written["dead_letters"]
    assert "100 %" in written["replay_identity"]


@pytest.mark.conformance("C-50")
def test_the_contract_of_the_outbox_names_its_source() -> None:
    """That specification asks for attribution: its name, its version and its licence."""
    text = re.sub(r"\s+", " ", read(DOCS / "idempotency" / "outbox.md"))
    assert re.search(r"transactional outbox specification v10\.3\.1 \(CC-BY 4\.0\)", text)
    assert "MIT License" in read(ROOT / "LICENSE")
