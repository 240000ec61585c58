from __future__ import annotations

from dataclasses import fields, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.datasets.definition import FileFormat, Severity
from tallgrass.datasets.key_times import UNKNOWN_START
from tallgrass.ledger.outcome import Outcome
from tallgrass.ledger.vocabulary import CheckStatus
from tallgrass.operators import metadata_extract as module
from tallgrass.operators.metadata_extract import MetadataReport, metadata_extract
from tests.operators import scene
from tests.operators.scene import run_chain

if TYPE_CHECKING:
    from tallgrass.stac.item import Description


def header(**values: Any) -> Any:
    """Return evidence with these fields in its header."""
    return scene.evidence(header={"format": "netcdf4", **values})


def described(report: MetadataReport) -> Description:
    """Return the description of a report that has one."""
    assert report.description is not None
    return report.description


def code_of(report: MetadataReport) -> list[tuple[str, str]]:
    """Return each issue's code and severity."""
    return [(each.code, each.severity.value) for each in report.report.issues]


def test_key_and_dataset_answer_where_the_file_is_silent() -> None:
    """Times and product come from the key, the place from the dataset's table."""
    found = described(metadata_extract(scene.glm(), header()))
    assert found.box == (-141.56, -66.56, -8.44, 66.56)
    assert found.instant == datetime(2025, 4, 7, 13, 0, 30, tzinfo=UTC)
    assert found.properties == {"platform": "GOES-19", "goes:system_environment": "OR"}


def test_the_file_is_preferred() -> None:
    """Times, box and properties of the header replace those of key and dataset."""
    evidence = header(
        start="2025-04-07T13:00:20.2Z",
        end="2025-04-07T13:00:40.4Z",
        bbox=[-150.0, -60, -10.25, 60.5],
        properties={"platform": "GOES-20", "goes:event_count": 7},
    )
    found = described(metadata_extract(scene.glm(), evidence))
    assert found.start == datetime(2025, 4, 7, 13, 0, 20, 200_000, tzinfo=UTC)
    assert found.end == datetime(2025, 4, 7, 13, 0, 40, 400_000, tzinfo=UTC)
    assert found.instant == datetime(2025, 4, 7, 13, 0, 30, 300_000, tzinfo=UTC)
    assert found.box == (-150.0, -60.0, -10.25, 60.5)
    assert found.properties["platform"] == "GOES-20"
    assert found.properties["goes:event_count"] == 7


def test_an_end_that_only_the_file_knows_is_used() -> None:
    """A radar's key tells the start alone."""
    found = described(metadata_extract(scene.nexrad(), header(end="2025-01-01T22:58:41Z")))
    assert found.instant == datetime(2025, 1, 1, 22, 56, 41, tzinfo=UTC)
    silent = described(metadata_extract(scene.nexrad(), header()))
    assert silent.start == silent.end == silent.instant


def test_a_radar_volume_starts_when_its_header_says() -> None:
    """The time of the volume header is finer than that of the key."""
    evidence = header(volume_time="2025-01-01T22:54:41.250000Z", site="KDMX")
    report = metadata_extract(scene.nexrad(), evidence)
    assert report.report.status is CheckStatus.OK
    assert described(report).start == datetime(2025, 1, 1, 22, 54, 41, 250_000, tzinfo=UTC)


def test_the_key_is_believed_where_it_has_more_digits() -> None:
    """A file that cuts its times to whole seconds does not move those of the key."""
    match = scene.glm(
        start=datetime(2025, 4, 7, 13, 0, 20, 900_000, tzinfo=UTC),
        end=datetime(2025, 4, 7, 13, 0, 40, 600_000, tzinfo=UTC),
    )
    report = metadata_extract(
        match, header(start="2025-04-07T13:00:20Z", end="2025-04-07T13:00:40Z")
    )
    found = described(report)
    assert report.report.status is CheckStatus.OK
    assert (found.start, found.end) == (match.start, match.end)


def test_a_forecast_is_for_its_valid_time() -> None:
    """The one time of a forecast is not the middle of what it accumulates."""
    evidence = header(start="2024-05-10T12:00:00Z", end="2024-05-10T14:00:00Z")
    found = described(metadata_extract(scene.hrrr(), evidence))
    assert found.instant == datetime(2024, 5, 10, 14, tzinfo=UTC)
    assert found.properties["forecast:reference_datetime"] == "2024-05-10T12:00:00.000000Z"
    assert found.properties["forecast:horizon"] == "PT2H"


def test_a_key_that_names_the_issue_is_no_contradiction() -> None:
    """A forecast for days ahead may be named by its issue; one of another week may not."""
    grids = scene.dataset(format=FileFormat.GRIB2_GRID)
    match = replace(scene.glm(end=None), dataset=grids, start=scene.nexrad().start)
    times = {"start": "2025-01-05T00:00:00Z", "end": "2025-01-07T00:00:00Z"}
    evidence = header(reference_time="2025-01-01T22:00:00Z", **times)
    report = metadata_extract(match, evidence)
    assert report.report.status is CheckStatus.OK
    assert described(report).start == datetime(2025, 1, 5, tzinfo=UTC)
    late = header(reference_time="2025-01-04T22:00:00Z", **times)
    assert code_of(metadata_extract(match, late)) == [("invalid_time_range", "suspect")]


def test_a_group_that_took_no_part_gives_no_property() -> None:
    """An optional part of the key that is absent is no fault."""
    match = scene.glm(groups={"satellite": "19", "environment": None})
    report = metadata_extract(match, header())
    assert report.report.status is CheckStatus.OK
    assert described(report).properties == {"platform": "GOES-19"}


@pytest.mark.parametrize(
    ("match", "evidence", "expected"),
    [
        (
            scene.glm(start=UNKNOWN_START, end=None),
            header(),
            [("invalid_time_range", "suspect")],
        ),
        (scene.glm(), header(start="2025-04-09T13:00:21Z"), [("invalid_time_range", "suspect")]),
        (scene.nexrad(), header(site="KTLX"), [("incomplete_product_metadata", "suspect")]),
        (
            scene.hrrr(),
            header(reference_time="2024-05-10T06:00:00Z"),
            [("invalid_time_range", "suspect")],
        ),
        (scene.glm(), header(start="yesterday"), [("invalid_time_range", "failed")]),
        (scene.glm(), header(end="2025-04-07T13:00:19Z"), [("invalid_time_range", "failed")]),
        (
            scene.glm(groups={"satellite": "42", "environment": "OR"}),
            header(),
            [("missing_geolocation", "failed")],
        ),
        (scene.glm(), header(bbox=[0, 10, 1, -10]), [("invalid_geometry", "failed")]),
        (scene.glm(), header(bbox="here"), [("invalid_geometry", "failed")]),
        (
            scene.glm(groups={"satellite": "19"}),
            header(),
            [("incomplete_product_metadata", "suspect")],
        ),
    ],
)
def test_each_fault_has_its_code(match: Any, evidence: Any, expected: list[Any]) -> None:
    """What cannot be told, or contradicts itself, is an issue of a known gravity."""
    report = metadata_extract(match, evidence)
    assert code_of(report) == expected
    assert (report.description is None) == (expected[0][1] == "failed")


def test_no_severity_makes_an_item_without_a_place() -> None:
    """A dataset may soften an issue, but not register data that lie nowhere."""
    dataset = scene.dataset(severities={"missing_geolocation": Severity.SUSPECT})
    match = scene.glm(dataset=dataset, groups={"satellite": "42", "environment": "OR"})
    report = metadata_extract(match, header())
    assert (report.report.status, report.description) == (CheckStatus.FAILED, None)


def test_an_end_before_the_start_never_reaches_an_item() -> None:
    """Where a dataset lets it pass as suspect, the unit ends where it starts."""
    dataset = scene.dataset(severities={"invalid_time_range": Severity.SUSPECT})
    report = metadata_extract(scene.glm(dataset=dataset), header(end="2025-04-07T13:00:19Z"))
    found = described(report)
    assert report.report.status is CheckStatus.SUSPECT
    assert found.end == found.start


def _outcome(evidence: Any) -> Outcome:
    return run_chain(scene.claim(), scene.glm(), evidence, None, scene.context()).outcome


@pytest.mark.conformance("WAL-6.5")
@pytest.mark.parametrize(
    ("values", "status", "code"),
    [
        ({}, CheckStatus.OK, None),
        ({"start": "2025-04-09T13:00:21Z"}, CheckStatus.SUSPECT, None),
        ({"bbox": [0, 10, 1, -10]}, CheckStatus.FAILED, "invalid_geometry"),
    ],
)
def test_the_outcome_tells_the_metadata_status(
    values: dict[str, Any], status: CheckStatus, code: str | None
) -> None:
    """Each of ok, suspect and failed stands in metadata_status; later ones stay unknown."""
    outcome = _outcome(header(**values))
    assert (outcome.metadata_status, outcome.error_code) == (status, code)
    assert outcome.integrity_status is CheckStatus.OK
    if code is not None:
        assert (outcome.stac_status, outcome.provenance_status) == ("unknown", "unknown")
        assert outcome.error_message is not None
        assert outcome.error_message.startswith("metadata-extract: ")


@pytest.mark.conformance("WAL-6.5")
def test_an_exception_is_a_failure_of_the_operator_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The metadata_status is failed, the code says operator_error, nothing else is touched."""

    def broken(*_: object) -> None:
        raise RuntimeError("odd file \0 \udc80")

    monkeypatch.setattr(module, "metadata_extract", broken)
    outcome = _outcome(header())
    told = {
        each.name: getattr(outcome, each.name)
        for each in fields(Outcome)
        if getattr(outcome, each.name) not in (None, "unknown", ())
    }
    message = told.pop("error_message")
    assert message.startswith("metadata-extract: RuntimeError: odd file \\0 \\udc80. ")
    assert told == {
        "wal_id": scene.claim().wal_id,
        "attempt_no": 1,
        "error_code": "operator_error",
        "integrity_status": CheckStatus.OK,
        "metadata_status": CheckStatus.FAILED,
        "read_etag": scene.MD5,
        "evidence": header().to_bytes(),
    }


def test_a_place_or_time_that_only_an_extra_would_read_names_the_extra() -> None:
    """Whoever looks at the unit learns what to install; of a file that was read nothing is said."""
    nowhere = scene.glm(start=UNKNOWN_START, end=None, groups={"satellite": "16"})
    for header, says_so in (({"format": "hdf5", "unread": "attributes"}, True), ({}, False)):
        found = metadata_extract(nowhere, scene.evidence(header=header)).report.issues
        codes = {each.code for each in found if "lacks the extra `formats`" in each.message}
        assert codes == ({"invalid_time_range", "missing_geolocation"} if says_so else set())
