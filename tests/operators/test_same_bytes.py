from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallgrass.ledger.unit import EventMetadata
from tallgrass.ledger.vocabulary import Intent
from tallgrass.operators.effects import ChainResult, OwnedItem
from tallgrass.provenance.prov import RUN_FIELDS, RUN_KEY
from tallgrass.stac.comparison import differences
from tests.operators import scene
from tests.operators.scene import run_chain

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden"
ZONES = ("UTC", "Asia/Kathmandu", "America/Chicago")


def outputs(name: str) -> dict[str, bytes]:
    """Return the stored bytes of a dataset's unit, by the name of their golden file."""
    make, key = scene.MATCHES[name]
    match = make()
    result = run_chain(scene.claim(match, key), match, scene.evidence(), None, scene.context())
    assert result.effects.item is not None
    assert result.effects.provenance is not None
    return {
        f"{name}.item.json": result.effects.item.body,
        f"{name}.prov.jsonld": result.effects.provenance.body,
        f"{name}.event.json": result.effects.events[0].payload,
    }


@pytest.mark.parametrize("name", list(scene.MATCHES))
def test_the_bytes_are_the_committed_ones(name: str) -> None:
    """Item, provenance and event of a unit never change unseen."""
    for file, body in outputs(name).items():
        # The file ends with a line break, as text files do.
        assert body + b"\n" == (GOLDEN / file).read_bytes(), file


@pytest.mark.parametrize("name", list(scene.MATCHES))
def test_the_committed_bytes_belong_together(name: str) -> None:
    """Provenance and event name the SHA-256 of the committed item, as a hash tool computes it."""
    item = (GOLDEN / f"{name}.item.json").read_bytes().removesuffix(b"\n")
    provenance = json.loads((GOLDEN / f"{name}.prov.jsonld").read_bytes())
    event = json.loads((GOLDEN / f"{name}.event.json").read_bytes())
    digest = hashlib.sha256(item).hexdigest()
    activity, _, source, made = provenance["@graph"]
    assert made["kfm:sha256"] == event["item_sha256"] == digest
    assert activity["@id"] == event["prov_activity_id"]
    assert activity["generated"] == made["@id"] == f"urn:prov:entity:stac-item:{digest}"
    assert made["kfm:stacItemId"] == event["item_id"] == json.loads(item)["id"]
    assert source["kfm:objectUri"] == json.loads(item)["assets"]["data"]["href"]


@pytest.mark.parametrize("number", range(len(ZONES)))
def test_other_processes_make_the_same_bytes(number: int) -> None:
    """Neither the hash seed, nor the time zone, nor the locale enters the bytes."""
    script = (
        "import sys\n"
        "from tests.operators.test_same_bytes import outputs\n"
        "from tests.operators.scene import MATCHES\n"
        "for name in MATCHES:\n"
        "    for body in outputs(name).values():\n"
        "        sys.stdout.buffer.write(body + b'\\n')\n"
    )
    environment = {
        **os.environ,
        "PYTHONHASHSEED": str(number * 77),
        "TZ": ZONES[number],
        "LC_ALL": ("C", "C.UTF-8", "POSIX")[number],
    }
    made = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, env=environment, capture_output=True, check=True
    ).stdout
    kinds = ("item.json", "prov.jsonld", "event.json")
    expected = [
        (GOLDEN / f"{name}.{kind}").read_bytes() for name in scene.MATCHES for kind in kinds
    ]
    assert made == b"".join(expected)


def run(**facts: Any) -> ChainResult:
    """Run the chain under other circumstances of the same unit, object and program."""
    match = scene.glm()
    event = EventMetadata(
        event_time=scene.EVENT_TIME + timedelta(seconds=facts["seconds"]),
        sns_message_id=facts["sns"],
        sqs_message_id=facts["sqs"],
    )
    claim = scene.claim(
        match,
        attempt_no=facts["attempt"],
        intent=facts["intent"],
        replay_run_id=facts["replay"],
        version=facts["attempt"] * 2,
        queue=facts["queue"],
        has_message=facts["sqs"] is not None,
        event=event,
    )
    started = scene.STARTED + timedelta(seconds=facts["seconds"])
    context = scene.context(worker_id=facts["worker"], ingest_run_id=facts["worker"] + "-run")
    return run_chain(
        claim,
        match,
        scene.evidence(),
        facts["owned"],
        context.at(started, started + timedelta(seconds=facts["seconds"] + 1)),
    )


PLAIN: dict[str, Any] = {
    "seconds": 0,
    "sns": None,
    "sqs": None,
    "attempt": 1,
    "intent": Intent.INGEST,
    "replay": None,
    "worker": "worker-a",
    "queue": "nodd-primary",
    "owned": None,
}
FACTS = st.fixed_dictionaries(
    {
        "seconds": st.integers(0, 10**9),
        "sns": st.none() | st.text(st.characters(codec="ascii"), max_size=5),
        "sqs": st.none() | st.text(st.characters(codec="ascii"), max_size=5),
        "attempt": st.integers(1, 99),
        "intent": st.sampled_from(Intent),
        "replay": st.none() | st.uuids().map(str),
        "worker": st.sampled_from(["worker-a", "worker-b"]),
        "queue": st.sampled_from(["nodd-primary", "nodd-replay"]),
        "owned": st.none() | st.just("old"),
    }
)


@pytest.mark.conformance("RP-4.1d")
@given(FACTS)
def test_the_declared_fields_are_the_only_ones_that_differ(facts: dict[str, Any]) -> None:
    """Over any clock, worker, message, attempt and replay, only the declared run fields change."""
    first = run(**PLAIN)
    assert first.effects.item is not None
    assert first.effects.provenance is not None
    if facts["owned"]:
        item = first.effects.item
        facts["owned"] = OwnedItem(
            collection_id=item.collection_id, item_id=item.item_id, sha256="0" * 64
        )
    other = run(**facts)
    assert other.effects.item is not None
    assert other.effects.provenance is not None
    assert other.effects.item == first.effects.item
    assert other.effects.provenance.body == first.effects.provenance.body
    assert other.effects.provenance.activity_id == first.effects.provenance.activity_id
    changed = differences(first.effects.provenance.run, other.effects.provenance.run)
    allowed = {f"/{RUN_KEY}/{field}" for field in RUN_FIELDS}
    assert {each.pointer for each in changed} <= allowed


@pytest.mark.conformance("RP-4.1d")
def test_each_declared_field_can_differ() -> None:
    """The declared list holds nothing that is in truth the same in every run."""
    first = run(**PLAIN)
    assert first.effects.item is not None
    item = first.effects.item
    owned = OwnedItem(
        collection_id=item.collection_id,
        item_id=item.item_id,
        sha256="0" * 64,
        activity_id="urn:prov:activity:before",
    )
    other = run(
        seconds=5,
        sns="a",
        sqs="b",
        attempt=2,
        intent=Intent.REPAIR,
        replay="r",
        worker="worker-b",
        queue="nodd-replay",
        owned=owned,
    )
    assert first.effects.provenance is not None
    assert other.effects.provenance is not None
    changed = differences(first.effects.provenance.run, other.effects.provenance.run)
    fields = {each.pointer.rpartition("/")[2] for each in changed}
    assert fields == set(RUN_FIELDS)


@pytest.mark.conformance("WAL-9.4")
@pytest.mark.parametrize("name", list(scene.MATCHES))
def test_run_and_activity_lead_back_to_the_record(name: str) -> None:
    """Activity and run name the unit's wal_id, and their ids are found from it alone."""
    make, key = scene.MATCHES[name]
    match = make()
    claim = scene.claim(match, key)
    result = run_chain(
        claim, match, scene.evidence(), None, scene.context(lineage_target="marquez")
    )
    provenance, (_, start, complete) = result.effects.provenance, result.effects.events
    assert provenance is not None
    activity = json.loads(provenance.body)["@graph"][0]
    assert activity["kfm:walId"] == claim.wal_id
    assert activity["@id"] == result.outcome.prov_activity_id == provenance.activity_id
    for event in (start, complete):
        lineage = json.loads(event.payload)["run"]
        assert lineage["runId"] == result.outcome.openlineage_run_id
        assert lineage["facets"]["kfm_wal"]["walId"] == claim.wal_id
        assert lineage["facets"]["kfm_wal"]["provActivityId"] == activity["@id"]
