"""Verification finds what was changed behind the ledger's back, and names it; it writes nothing."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

import tallgrass
from tallgrass.bootstrap.datasets import open_catalogue
from tallgrass.bootstrap.stores import open_stores
from tallgrass.bootstrap.verifying import VerifyRequest, verify
from tallgrass.datasets.catalogue import Catalogue, default_catalogue
from tallgrass.errors import InvalidInput, UnknownRecord
from tallgrass.evidence.reading import Evidence, ReadFailure
from tallgrass.replay.selection import Purpose, Selection, Span
from tallgrass.replay.verify import (
    FIELDS_MAX,
    LISTED_MAX,
    Judgement,
    StoredUnit,
    Verdict,
    VerifyReport,
    judge_source,
)
from tests.pipeline.scene import Pipeline, Thing, thing, things
from tests.replay.tampering import tamper
from tests.replay.test_recompute import applied
from tests.support.builders import unit

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.backends import Backend


def verified(
    pipeline: Pipeline, catalogue: Catalogue | None = None, **request: Any
) -> VerifyReport:
    """Verify through a connection that only reads."""
    wanted = VerifyRequest(selection=request.pop("selection", Selection()), **request)
    stores = open_stores(pipeline.config, read_only=True)
    try:
        return verify(pipeline.config, stores, wanted, catalogue=catalogue)
    finally:
        stores.close()


def counts(report: VerifyReport) -> dict[str, int]:
    """Return the verdicts that occurred."""
    return {verdict.value: number for verdict, number in report.counts.items() if number}


def fields_of(report: VerifyReport, wal_id: str) -> dict[str, tuple[str | None, str | None]]:
    """Return what a report says of a unit, by part and field."""
    (found,) = (each for each in report.listed if each.unit.wal_id == wal_id)
    return {f"{each.part.value} {each.field}": (each.stored, each.found) for each in found.fields}


def filled(backend: Backend, folder: Path, count: int) -> tuple[Pipeline, list[Thing]]:
    """Ingest objects of three datasets."""
    pipeline, given = Pipeline(backend, folder), things(count)
    pipeline.feed(*given)
    pipeline.drain()
    assert pipeline.statuses() == {"succeeded": count}
    return pipeline, given


def changed_catalogue(dataset_id: str, **properties: object) -> Catalogue:
    """Return the shipped datasets, one of them with other properties of its items."""
    datasets = []
    for each in default_catalogue().datasets:
        item = each.item
        if each.id == dataset_id:
            item = replace(item, properties={**item.properties, **properties})
        datasets.append(replace(each, item=item))
    return Catalogue(datasets)


@pytest.mark.conformance("RP-1.2", "RP-4.1a", "RP-4.1b")
def test_what_ingest_wrote_is_identical(backend: Backend, tmp_path: Path) -> None:
    """First runs, retries, overwritten objects and failed re-runs: all are made again alike."""
    pipeline, given = filled(backend, tmp_path, 6)
    late, failing = thing(20), thing(21)
    pipeline.announce(late)
    pipeline.worker.run_messages()  # not there yet: a failed attempt comes first
    pipeline.put(late)
    newer = thing(0, version=2)
    pipeline.feed(newer)
    stale = thing(3, version=2)
    pipeline.put(stale, content=b"")
    pipeline.announce(stale)
    pipeline.put(failing, content=b"")
    pipeline.announce(failing)
    pipeline.drain()
    assert pipeline.row(given[3])["last_error_code"] is not None
    before = pipeline.stored()
    report = verified(pipeline)
    assert counts(report) == {"identical": 7}
    assert (report.holds, report.without_item, report.other_versions) == (True, 1, 0)
    assert pipeline.stored() == before


#: What is done to unit 0, 1, 2 …, and the fields that must be named for it.
TAMPERINGS: list[tuple[str, set[str]]] = [
    (
        "UPDATE stac_items SET body = ? WHERE wal_id = ?",
        {"item /properties/gsd", "ledger stac_items.sha256", "ledger wal_attempts.item_sha256"},
    ),
    (
        "UPDATE provenance SET body = ? WHERE wal_id = ?",
        {
            "provenance /@graph/0/kfm:codeVersion",
            "ledger provenance.sha256",
            "ledger wal_attempts.provenance_sha256",
        },
    ),
    ("UPDATE stac_items SET sha256 = ? WHERE wal_id = ?", {"ledger stac_items.sha256"}),
    (
        "UPDATE wal_attempts SET item_sha256 = ? WHERE wal_id = ?",
        {"ledger wal_attempts.item_sha256"},
    ),
    (
        "UPDATE wal_records SET stac_item_id = ? WHERE wal_id = ?",
        {"ledger wal_records.stac_item_id"},
    ),
    (
        "DELETE FROM stac_items WHERE ? <> '' AND wal_id = ?",
        {"item ", "ledger wal_attempts.item_sha256"},
    ),
    (
        "DELETE FROM provenance WHERE ? <> '' AND wal_id = ?",
        {"provenance ", "ledger wal_attempts.provenance_sha256"},
    ),
    (
        "UPDATE wal_attempts SET code_version = ? WHERE wal_id = ?",
        # The activity's id is made of it, and whatever names the activity.
        {
            "provenance /@graph/0/@id",
            "provenance /@graph/0/kfm:codeVersion",
            "provenance /@graph/3/wasGeneratedBy",
        },
    ),
    (
        "UPDATE wal_attempts SET object_version_id = ? WHERE wal_id = ?",
        {
            "provenance /@graph/0/@id",
            "provenance /@graph/0/used",
            "provenance /@graph/2/@id",
            "provenance /@graph/2/kfm:versionId",
            "provenance /@graph/3/wasDerivedFrom",
            "provenance /@graph/3/wasGeneratedBy",
        },
    ),
]


@pytest.mark.conformance("C-24")
def test_every_tampering_is_found_and_named(backend: Backend, tmp_path: Path) -> None:
    """Whatever of a success is edited or removed by raw SQL, the unit differs, field by field."""
    pipeline, given = filled(backend, tmp_path, len(TAMPERINGS) + 1)
    rows = [pipeline.row(each) for each in given]
    item, document = (
        body_of(backend, "stac_items", rows[0]),
        body_of(backend, "provenance", rows[1]),
    )
    item["properties"]["gsd"] = 1
    document["@graph"][0]["kfm:codeVersion"] = "9.9.9"
    values = [dumped(item), dumped(document), "0" * 64, "0" * 64, "x", "x", "x", "9.9.9", "v2"]
    for (statement, _), row, value in zip(TAMPERINGS, rows, values, strict=False):
        tamper(backend, statement, value, row["wal_id"])
    report = verified(pipeline)
    assert counts(report) == {"differs": len(TAMPERINGS), "identical": 1}
    assert not report.holds
    for (statement, fields), row in zip(TAMPERINGS, rows, strict=False):
        assert set(fields_of(report, row["wal_id"])) == fields, statement
    assert fields_of(report, rows[0]["wal_id"])["item /properties/gsd"] == ("1", "8000")


def body_of(backend: Backend, table: str, row: dict[str, Any]) -> Any:
    """Return a stored document as a value."""
    ((body,),) = backend.sql(f"SELECT body FROM {table} WHERE wal_id = ?", row["wal_id"])
    return json.loads(bytes(body))


def dumped(value: object) -> bytes:
    """Return a value in the form that documents are stored in."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.encode()


@pytest.mark.conformance("C-24")
def test_an_edit_with_all_its_hashes_is_found(backend: Backend, tmp_path: Path) -> None:
    """Whoever edits an item and every hash of it is found by the bytes that its evidence gives."""
    pipeline, (one, _) = filled(backend, tmp_path, 2)
    row = pipeline.row(one)
    item = body_of(backend, "stac_items", row)
    item["properties"]["mission"] = "Apollo"
    body = dumped(item)
    digest = hashlib.sha256(body).hexdigest()
    tamper(
        backend,
        "UPDATE stac_items SET body = ?, sha256 = ? WHERE wal_id = ?",
        body, digest, row["wal_id"],
    )  # fmt: skip
    tamper(
        backend, "UPDATE wal_attempts SET item_sha256 = ? WHERE wal_id = ?", digest, row["wal_id"]
    )
    report = verified(pipeline)
    assert counts(report) == {"differs": 1, "identical": 1}
    assert fields_of(report, row["wal_id"]) == {
        "item /properties/mission": ('"Apollo"', '"GOES"'),
    }


def test_odd_bytes_and_forged_items_are_found(backend: Backend, tmp_path: Path) -> None:
    """Blanks, bytes that are no JSON, odd evidence, an item that no attempt made: all differ."""
    pipeline, given = filled(backend, tmp_path, 4)
    rows = [pipeline.row(each) for each in given]
    pipeline.announce(thing(30))
    pipeline.worker.run_messages()
    failed = pipeline.row(thing(30))
    blanks = json.dumps(body_of(backend, "stac_items", rows[0])).encode()
    tamper(backend, "UPDATE stac_items SET body = ? WHERE wal_id = ?", blanks, rows[0]["wal_id"])
    tamper(backend, "UPDATE provenance SET body = ? WHERE wal_id = ?", b"{", rows[1]["wal_id"])
    tamper(
        backend, "UPDATE wal_attempts SET evidence = ? WHERE wal_id = ?", b"{ }", rows[2]["wal_id"]
    )
    tamper(
        backend,
        "UPDATE stac_items SET wal_id = ? WHERE wal_id = ?",
        failed["wal_id"], rows[3]["wal_id"],
    )  # fmt: skip
    report = verified(pipeline)
    assert counts(report) == {"differs": 5}
    assert fields_of(report, rows[0]["wal_id"])["item "] == ("the same values in other bytes", None)
    assert fields_of(report, rows[1]["wal_id"])["provenance "] == ("not JSON", None)
    failures = {each.unit.wal_id: each.failure for each in report.listed if each.failure}
    assert {name: code for name, (code, _) in failures.items()} == {
        rows[2]["wal_id"]: "evidence_unreadable",
        failed["wal_id"]: "never_applied",
    }


def test_a_changed_dataset_file_is_told_by_its_fields(backend: Backend, tmp_path: Path) -> None:
    """Items that the present datasets would make otherwise differ, in the fields that would change.

    The hash of the item stands in its provenance; nothing else of that may change.
    """
    pipeline, given = filled(backend, tmp_path, 3)
    glm = pipeline.row(given[0])["wal_id"]
    report = verified(pipeline, changed_catalogue("goes-glm", gsd=9000, mission="GOES-R"))
    assert counts(report) == {"differs": 1, "identical": 2}
    assert report.other_versions == 3
    assert set(fields_of(report, glm)) == {
        "item /properties/gsd",
        "item /properties/mission",
        "provenance /@graph/0/generated",
        "provenance /@graph/3/@id",
        "provenance /@graph/3/kfm:sha256",
    }
    without = Catalogue([each for each in default_catalogue().datasets if each.id != "hrrr"])
    report = verified(pipeline, without)
    assert counts(report) == {"differs": 1, "identical": 2}
    assert report.listed[0].failure is not None
    assert report.listed[0].failure[0] == "missing_dataset"


@pytest.mark.conformance("C-24")
def test_fields_that_name_versions_may_differ(
    backend: Backend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Made by an older code and configuration, units are identical, and counted as such."""
    with monkeypatch.context() as then:
        then.setattr(tallgrass, "__version__", "0.0.1")
        pipeline, given = filled(backend, tmp_path, 3)
    assert pipeline.attempts(given[0])[0]["code_version"] == "0.0.1"
    report = verified(pipeline)
    assert counts(report) == {"identical": 3}
    assert report.other_versions == 3


def test_objects_that_changed_or_went_are_told_apart(backend: Backend, tmp_path: Path) -> None:
    """Read again, an object may be another or gone; only what is stored can be a mismatch."""
    pipeline, given = filled(backend, tmp_path, 5)
    pipeline.put(thing(0, version=2))
    pipeline.path(given[1]).unlink()
    tampered = pipeline.row(given[2])["wal_id"]
    pipeline.path(given[2]).unlink()
    tamper(backend, "UPDATE stac_items SET sha256 = ? WHERE wal_id = ?", "0" * 64, tampered)
    assert counts(verified(pipeline)) == {"differs": 1, "identical": 4}
    report = verified(pipeline, reread=True)
    assert counts(report) == {
        "differs": 1, "identical": 2, "source_changed": 1, "source_gone": 1,
    }  # fmt: skip
    changed, gone = (pipeline.row(each)["wal_id"] for each in given[:2])
    etags = [hashlib.md5(each.content, usedforsecurity=False).hexdigest()
             for each in (given[0], thing(0, version=2))]  # fmt: skip
    assert fields_of(report, changed)["source /etag"] == tuple(etags)
    assert next(e for e in report.listed if e.unit.wal_id == gone).failure is not None


def test_only_what_was_read_can_be_read_again(backend: Backend, tmp_path: Path) -> None:
    """Where events are believed, there is nothing to read."""
    pipeline, _ = filled(backend, tmp_path, 1)
    values = {**pipeline.config.values, "objects.url": "event"}
    pipeline.config = replace(pipeline.config, values=values)
    with pytest.raises(InvalidInput, match=r"objects\.url"):
        verified(pipeline, reread=True)


def test_a_selection_and_a_sample_narrow_it(backend: Backend, tmp_path: Path) -> None:
    """Datasets, times and ids choose; a sample is the same for the same seed, and no other."""
    pipeline, given = filled(backend, tmp_path, 12)
    rows = [pipeline.row(each) for each in given]
    assert counts(verified(pipeline, selection=Selection(datasets=("hrrr",)))) == {"identical": 4}
    named = tuple(row["wal_id"] for row in rows[:2])
    assert counts(verified(pipeline, selection=Selection(wal_ids=named))) == {"identical": 2}
    start = given[0].place.start
    early = Selection(data_time=Span(None, start), datasets=("goes-glm",))
    assert counts(verified(pipeline, selection=early)) == {}
    # What a replay's selection says of failures does not count.
    saved = Selection(datasets=("hrrr",), error_codes=("io_error",), purpose=Purpose.FAILED_ONLY)
    assert counts(verified(pipeline, selection=saved)) == {"identical": 4}

    def sampled(seed: int) -> list[str]:
        catalogue = changed_catalogue("goes-glm", gsd=1)
        glm = Selection(datasets=("goes-glm",))
        report = verified(pipeline, catalogue, selection=glm, sample=2, seed=seed)
        assert report.verified == 2
        return [each.unit.wal_id for each in report.listed]

    samples = [sampled(seed) for seed in range(8)]
    assert samples[0] == sampled(0) == sorted(samples[0])
    assert len({tuple(each) for each in samples}) > 1
    assert verified(pipeline, sample=100).verified == 12


def test_an_unknown_unit_or_dataset_is_refused(backend: Backend, tmp_path: Path) -> None:
    """Whoever names something that is not there hears of it: nothing verified is no proof."""
    pipeline, _ = filled(backend, tmp_path, 1)
    with pytest.raises(UnknownRecord):
        verified(pipeline, selection=Selection(wal_ids=("0" * 8 + "-0000-8000-8000-" + "0" * 12,)))
    with pytest.raises(InvalidInput, match="goes-glm"):
        verified(pipeline, selection=Selection(datasets=("goes-gml",)))


# --- an object read again, by rules alone ---------------------------------------------------------

MD5, OTHER_MD5 = "0" * 32, "1" * 32


def stored_unit(evidence: Evidence) -> StoredUnit:
    """Return a unit whose outputs were found identical."""
    one = unit(0)
    return StoredUnit(
        wal_id=one.wal_id,
        dataset=one.dataset,
        object_uri=one.object_uri,
        applied=applied(one, evidence.to_bytes()),
        named_item=("c", "i"),
        item=("c", "i"),
        item_body=b"{}",
        item_sha256="",
        provenance_body=b"{}",
        provenance_sha256="",
        made_item_sha256="",
        made_provenance_sha256="",
    )


def seen(
    etag: str | None, size: int | None = 5, source: str = "object", **header: object
) -> Evidence:
    """Return what a read gave."""
    return Evidence(etag=etag, size=size, source=source, header=header)


@pytest.mark.parametrize(
    ("kept", "read", "verdict"),
    [
        (seen(MD5, a=1), seen(f'"{MD5}"', a=1), Verdict.IDENTICAL),
        (seen(MD5, a=1), seen(OTHER_MD5, a=1), Verdict.SOURCE_CHANGED),
        (seen(MD5, a=1), seen(MD5, size=6, a=1), Verdict.SOURCE_CHANGED),
        # The same bytes, read otherwise: not the source's doing.
        (seen(MD5, a=1), seen(MD5, a=2), Verdict.DIFFERS),
        # A copy has another kind of etag: its size and header decide.
        (seen(f"{MD5}-3", a=1), seen(MD5, a=1), Verdict.IDENTICAL),
        (seen(f"{MD5}-3", a=1), seen(MD5, a=2), Verdict.SOURCE_CHANGED),
        (seen(None, a=1), seen(None, a=1), Verdict.IDENTICAL),
        (seen(None, a=1), seen(None, a=2), Verdict.SOURCE_CHANGED),
        # Nothing was read then.
        (seen(MD5, source="event"), seen(MD5, a=1), Verdict.IDENTICAL),
        (seen(MD5, source="event"), seen(OTHER_MD5, a=1), Verdict.SOURCE_CHANGED),
        (seen(None, None, source="event"), seen(MD5, a=1), Verdict.IDENTICAL),
        (seen(MD5), ReadFailure(code="missing_object", message=""), Verdict.SOURCE_GONE),
        (seen(MD5), ReadFailure(code="access_denied", message=""), Verdict.UNREAD),
        (seen(MD5), ReadFailure(code="transient_network_error", message=""), Verdict.UNREAD),
    ],
)
def test_what_a_second_reading_says(
    kept: Evidence, read: Evidence | ReadFailure, verdict: Verdict
) -> None:
    """Etags of one kind, the size, then what the reader found tell whether it is the same."""
    assert judge_source(stored_unit(kept), read).verdict is verdict


def test_a_report_is_bounded(tmp_path: Path, backend: Backend) -> None:
    """However much differs, a report names so many units and fields, and counts the others."""
    pipeline, given = filled(backend, tmp_path, 1)
    row = pipeline.row(given[0])
    item = body_of(backend, "stac_items", row)
    item["properties"] |= {f"x{number}": "y" * 1000 for number in range(FIELDS_MAX + 10)}
    tamper(backend, "UPDATE stac_items SET body = ? WHERE wal_id = ?", dumped(item), row["wal_id"])
    (found,) = verified(pipeline).listed
    assert len(found.fields) == FIELDS_MAX
    assert found.fields_left_out == 10 + 2  # the two hashes come first
    assert max(len(each.stored or "") for each in found.fields) < 300
    report = VerifyReport()
    for _ in range(LISTED_MAX + 7):
        report.count(found, ("a", "b"))
    document = report.document()
    assert (len(document["units"]), document["units_left_out"]) == (LISTED_MAX, 7)
    assert document["differs"] == LISTED_MAX + 7


def test_an_unread_object_is_no_proof() -> None:
    """A report with objects that could not be read does not hold; one with changed ones does."""
    known = stored_unit(seen(MD5))
    for verdict, holds in (
        (Verdict.IDENTICAL, True),
        (Verdict.SOURCE_CHANGED, True),
        (Verdict.SOURCE_GONE, True),
        (Verdict.UNREAD, False),
        (Verdict.DIFFERS, False),
    ):
        report = VerifyReport()
        report.count(Judgement(unit=known, verdict=verdict), ("a", "b"))
        assert report.holds is holds


def test_the_configured_policies_count(backend: Backend, tmp_path: Path) -> None:
    """A policy that hides places now makes items that were told exactly differ."""
    pipeline, given = filled(backend, tmp_path, 1)
    table = {"goes-glm": {"care_label": "sensitive"}}
    config = replace(pipeline.config, policies=table)
    report = verified(pipeline, open_catalogue(config))
    assert counts(report) == {"differs": 1}
    names = fields_of(report, pipeline.row(given[0])["wal_id"])
    assert "item /properties/anon:size" in names
