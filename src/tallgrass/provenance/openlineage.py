"""OpenLineage run events (schema 2-0-2) of one attempt, as bytes.

Written by hand: the official client takes 65–130 µs to build an event and 80–140 µs to write it,
this takes a tenth. The tests check each event and each facet against the official schemas.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from urllib.parse import quote

from tallgrass.canonical_json import canonical_bytes
from tallgrass.clock import format_instant
from tallgrass.stac.source_object import SourceObject

NAMESPACE = "kfm-nodd"

_SPEC = "https://openlineage.io/spec"
SCHEMA_URL = f"{_SPEC}/2-0-2/OpenLineage.json#/$defs/RunEvent"
#: Our own facet adds fields to the base facet, whose schema allows it.
BASE_RUN_FACET = f"{_SPEC}/2-0-2/OpenLineage.json#/$defs/RunFacet"


class EventType(StrEnum):
    """A START and one of the other two make a run."""

    START = "START"
    COMPLETE = "COMPLETE"
    FAIL = "FAIL"


class Change(StrEnum):
    """What a run did to the item."""

    CREATE = "CREATE"
    OVERWRITE = "OVERWRITE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """The item that a run made."""

    collection_id: str
    item_id: str
    sha256: str
    size: int
    #: None where it stayed as it was.
    change: Change | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LineageRun:
    """One attempt as OpenLineage sees it."""

    run_id: str
    wal_id: str
    attempt_no: int
    dataset: str
    activity_id: str
    code_version: str
    config_version: str
    replay_run_id: str | None
    nominal_start: datetime
    nominal_end: datetime
    source: SourceObject


def job_name(dataset: str) -> str:
    """Return the name of a dataset's job in `NAMESPACE`."""
    return f"kfm.nodd.ingest.{dataset}"


def build_event(
    event_type: EventType,
    event_time: datetime,
    run: LineageRun,
    *,
    output: Output | None = None,
) -> bytes:
    """Return the canonical bytes of one event; `output` goes with COMPLETE."""
    producer = f"urn:tallgrass:{quote(run.code_version, safe='')}"
    outputs = [] if output is None else [_output(producer, output)]
    return canonical_bytes(
        {
            "eventType": event_type.value,
            "eventTime": format_instant(event_time),
            "producer": producer,
            "schemaURL": SCHEMA_URL,
            "run": {"runId": run.run_id, "facets": _run_facets(producer, run)},
            "job": {
                "namespace": NAMESPACE,
                "name": job_name(run.dataset),
                "facets": {
                    "jobType": facet(
                        producer,
                        "2-0-4/JobTypeJobFacet",
                        processingType="BATCH",
                        integration="TALLGRASS",
                        jobType="TASK",
                    )
                },
            },
            "inputs": [_input(producer, run.source)],
            "outputs": outputs,
        }
    )


def _run_facets(producer: str, run: LineageRun) -> dict[str, object]:
    return {
        "nominalTime": facet(
            producer,
            "1-0-1/NominalTimeRunFacet",
            nominalStartTime=format_instant(run.nominal_start),
            nominalEndTime=format_instant(run.nominal_end),
        ),
        "processing_engine": facet(
            producer, "1-1-1/ProcessingEngineRunFacet", name="tallgrass", version=run.code_version
        ),
        "kfm_wal": {
            "_producer": producer,
            "_schemaURL": BASE_RUN_FACET,
            "walId": run.wal_id,
            "attempt": run.attempt_no,
            "provActivityId": run.activity_id,
            "configVersion": run.config_version,
            "replayRunId": run.replay_run_id,
        },
    }


def _input(producer: str, source: SourceObject) -> dict[str, object]:
    """Name the object as OpenLineage's naming rules do: the bucket, and the key in it."""
    described: dict[str, object] = {
        "namespace": source.uri[: len(source.uri) - len(source.key) - 1],
        "name": source.key,
    }
    version = source.version_id or source.etag
    if version is not None:
        described["facets"] = {
            "version": facet(producer, "1-0-1/DatasetVersionDatasetFacet", datasetVersion=version)
        }
    if source.size is not None:
        statistics = facet(
            producer, "1-0-0/InputStatisticsInputDatasetFacet", size=source.size, fileCount=1
        )
        described["inputFacets"] = {"inputStatistics": statistics}
    return described


def _output(producer: str, output: Output) -> dict[str, object]:
    facets: dict[str, object] = {
        "version": facet(producer, "1-0-1/DatasetVersionDatasetFacet", datasetVersion=output.sha256)
    }
    if output.change is not None:
        facets["lifecycleStateChange"] = facet(
            producer,
            "1-0-1/LifecycleStateChangeDatasetFacet",
            lifecycleStateChange=output.change.value,
        )
    return {
        "namespace": NAMESPACE,
        "name": f"{output.collection_id}/{output.item_id}",
        "facets": facets,
        "outputFacets": {
            "outputStatistics": facet(
                producer, "1-0-2/OutputStatisticsOutputDatasetFacet", size=output.size, fileCount=1
            )
        },
    }


def facet(producer: str, schema: str, **fields: object) -> dict[str, object]:
    """Return one of the published facets, `schema` being its version and name."""
    name = schema.partition("/")[2]
    return {
        "_producer": producer,
        "_schemaURL": f"{_SPEC}/facets/{schema}.json#/$defs/{name}",
        **fields,
    }
