"""The outbox specification's flow as its example runs it: real processes, files and databases."""

from __future__ import annotations

import contextlib
import hashlib
import json
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import rdflib

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
# rdflib's own JSON-LD reader uses names that rdflib itself calls outdated.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:rdflib")

COMMAND = [sys.executable, str(ROOT / "examples" / "hydrology_flow" / "run.py")]
#: By hand: the mean of each gauge and day.
OUTPUT = """gauge,day,mean_cfs
06889000,2025-11-12,1430.0
06889000,2025-11-13,1520.0
06891000,2025-11-12,1690.0
06891000,2025-11-13,1780.0
"""


@contextlib.contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a database for reading."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        yield connection


def run(folder: Path) -> str:
    """Run the whole flow once."""
    done = subprocess.run([*COMMAND, str(folder)], check=True, capture_output=True, text=True)
    return done.stdout


def catalog(folder: Path) -> dict[str, Any]:
    """Return the consumer's documents, and how often each was changed."""
    with opened(folder / "catalog.db") as connection:
        changes = dict(connection.execute("SELECT name, changes FROM catalog"))
    files = {name: (folder / "catalog" / name).read_text(encoding="utf-8") for name in changes}
    return {"changes": changes, "files": files}


@pytest.mark.slow
@pytest.mark.conformance("OB-9.1", "OB-1.3", "OB-1.4", "OB-2.4", "OB-4.11", "C-51")
def test_the_flow_works_from_trigger_to_ledger(tmp_path: Path) -> None:
    """State, artifact, event; dispatch; catalogs; telemetry; ledger. A second run changes none."""
    assert "consumer   1 deliveries, 1 new" in run(tmp_path)
    checksum = hashlib.sha256(OUTPUT.encode()).hexdigest()
    with opened(tmp_path / "flow.db") as connection:
        state = connection.execute("SELECT state, rows FROM flow_runs").fetchall()
        (artifact,) = connection.execute("SELECT * FROM artifact_versions").fetchall()
        (stored,) = connection.execute(
            "SELECT o.outbox_id, o.payload, o.idempotency_key, d.status, d.attempt FROM outbox AS o"
            " JOIN outbox_delivery AS d ON d.outbox_id = o.outbox_id"
        ).fetchall()
    assert state == [("done", 4)]
    assert artifact[3] == f"sha256:{checksum}"
    assert (tmp_path / artifact[0]).read_text(encoding="utf-8") == OUTPUT
    assert stored[3:] == ("dispatched", 1)
    # The consumer got the stored bytes, under the stored key.
    line = (tmp_path / "bus.jsonl").read_bytes().rstrip(b"\n")
    assert line.endswith(b'"data":' + stored[1] + b"}")
    assert json.loads(line)["idempotencykey"] == stored[2] == artifact[4]

    first = catalog(tmp_path)
    item = json.loads(first["files"]["item.json"])
    assert item["assets"]["data"]["file:checksum"] == "1220" + checksum
    assert item["bbox"] == [-95.72, 38.94, -95.2, 39.07]
    assert item["properties"]["kfm:care_label"] == "public"
    check_dcat(first["files"]["dataset.jsonld"], checksum)
    check_exports(tmp_path, stored[0])

    again = run(tmp_path)
    assert "known already" in again
    assert "consumer   1 deliveries, 0 new" in again
    assert catalog(tmp_path) == first
    # The same event delivered four times more is still one.
    (tmp_path / "bus.jsonl").write_bytes((line + b"\n") * 5)
    assert "consumer   5 deliveries, 0 new" in run(tmp_path)
    assert catalog(tmp_path) == first


def check_dcat(document: str, checksum: str) -> None:
    """Read the DCAT dataset as a triple store would."""
    graph = rdflib.Graph().parse(data=document, format="json-ld")
    dataset = rdflib.URIRef("urn:kfm:dataset:hydrology_flow_ks")
    dcat = rdflib.Namespace("http://www.w3.org/ns/dcat#")
    spdx = rdflib.Namespace("http://spdx.org/rdf/terms#")
    assert (dataset, rdflib.RDF.type, dcat.Dataset) in graph
    assert str(graph.value(dataset, dcat.version)) == "v10.3.1"
    distribution = graph.value(dataset, dcat.distribution)
    found = graph.value(graph.value(distribution, spdx.checksum), spdx.checksumValue)
    assert str(found) == checksum


def check_exports(folder: Path, outbox_id: str) -> None:
    """The ledger and the telemetry tell of the one delivery, with every field."""
    path = folder / "docs" / "reports" / "audit" / "pipeline_outbox_ledger.json"
    (entry,) = json.loads(path.read_text(encoding="utf-8"))
    expected = {
        "outbox_id": outbox_id,
        "event_name": "artifact_published",
        "dataset_id": "hydrology_flow_ks",
        "care_label": "public",
        "status": "dispatched",
        "attempt": 1,
        "last_error": None,
    }
    assert {name: entry[name] for name in expected} == expected
    telemetry = folder / "releases" / "v10.3.1" / "focus-telemetry.json"
    (sent,) = map(json.loads, telemetry.read_text(encoding="utf-8").splitlines())
    assert sent["outbox_id"] == outbox_id
    assert sent["dispatch_status"] == "success"
    assert sent["duplicate_detected"] is False
    assert sent["latency_ms"] >= 0
