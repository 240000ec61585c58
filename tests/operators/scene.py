"""Datasets, claims and readings for tests of the chain, made by hand."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tallgrass.datasets.definition import (
    Dataset,
    FileFormat,
    IntegrityRules,
    ItemRules,
    KeyGrammar,
    TimeRule,
)
from tallgrass.datasets.key_grammar import KeyMatch
from tallgrass.evidence.reading import Evidence, ReadFailure
from tallgrass.governance.policy import GovernanceDefaults
from tallgrass.ledger.claim import Claim
from tallgrass.ledger.unit import EventMetadata, IngestUnit, ObjectReference
from tallgrass.ledger.vocabulary import Intent, Status
from tallgrass.operators.chain import chain_of, run_together
from tallgrass.operators.context import ChainContext
from tallgrass.outbox.routing import parse_routing

if TYPE_CHECKING:
    from tallgrass.operators.effects import ChainResult, OwnedItem

GLM_KEY = (
    "GLM-L2-LCFA/2025/097/13/OR_GLM-L2-LCFA_G19_s20250971300200_e20250971300400_c20250971300420.nc"
)
NEXRAD_KEY = "2025/01/01/KDMX/KDMX20250101_225441_V06"
HRRR_KEY = "hrrr.20240510/conus/hrrr.t12z.wrfsfcf02.grib2"

MD5 = "9e107d9d372bb6826bd81d3542a419d6"
EVENT_TIME = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
STARTED = datetime(2026, 1, 2, 3, 5, 0, tzinfo=UTC)
ENDED = datetime(2026, 1, 2, 3, 5, 1, tzinfo=UTC)


def dataset(**changes: Any) -> Dataset:
    """Return the lightning dataset, with changes of its parts by name."""
    item = {
        "collection": "goes-glm",
        "media_type": "application/netcdf",
        "bbox": None,
        "place_group": "satellite",
        "places": {
            "18": (156.44, -66.56, -70.44, 66.56),
            "19": (-141.56, -66.56, -8.44, 66.56),
        },
        "properties": {
            "mission": "GOES",
            "instruments": ["glm"],
            "gsd": 8000,
            "processing:level": "L2",
        },
        "from_key": {"platform": "satellite", "goes:system_environment": "environment"},
        "vocabulary": {"platform": {"18": "GOES-18", "19": "GOES-19"}},
        "sidecars": {},
        "region": "us-east-1",
        **changes.pop("item", {}),
    }
    values: dict[str, Any] = {
        "id": "goes-glm",
        "title": "GOES GLM L2 lightning detections",
        "description": "Lightning events, groups and flashes.",
        "provider": "aws",
        "buckets": ("noaa-goes19",),
        "topics": (),
        "format": FileFormat.NETCDF4,
        "cadence_s": 20.0,
        "priority": "high",
        "key": grammar(),
        "item": ItemRules(**item),
        "integrity": IntegrityRules(min_size_bytes=512, max_size_bytes=33_554_432),
        "governance": GovernanceDefaults(care_label="public", sensitivity="low"),
    }
    return Dataset(**{**values, **changes})


def grammar() -> KeyGrammar:
    """Return a grammar that is not used: matches are made by hand."""
    return KeyGrammar(
        pattern=re.compile(".*"),
        start=TimeRule(groups=(), form="none"),
        end=None,
        reference=None,
        ignore=(),
    )


def glm(**changes: Any) -> KeyMatch:
    """Return what the key of a lightning file says."""
    values: dict[str, Any] = {
        "dataset": dataset(),
        "groups": {"satellite": "19", "environment": "OR"},
        "start": datetime(2025, 4, 7, 13, 0, 20, tzinfo=UTC),
        "end": datetime(2025, 4, 7, 13, 0, 40, tzinfo=UTC),
        "reference": None,
    }
    return KeyMatch(**{**values, **changes})


def nexrad() -> KeyMatch:
    """Return what the key of a radar volume says."""
    return KeyMatch(
        dataset=dataset(
            id="nexrad-l2",
            title="NEXRAD Level II volume scans",
            format=FileFormat.NEXRAD_LEVEL2,
            buckets=("unidata-nexrad-level2",),
            integrity=IntegrityRules(min_size_bytes=28),
            item={
                "collection": "nexrad-l2",
                "media_type": "application/octet-stream",
                "place_group": "site",
                "places": {"KDMX": (-99.27, 37.59, -88.17, 45.87)},
                "properties": {"mission": "NEXRAD", "processing:level": "L2"},
                "from_key": {"platform": "site", "nexrad:archive_version": "version"},
                "vocabulary": {},
            },
        ),
        groups={"site": "KDMX", "version": "06"},
        start=datetime(2025, 1, 1, 22, 54, 41, tzinfo=UTC),
        end=None,
        reference=None,
    )


def hrrr() -> KeyMatch:
    """Return what the key of a forecast says."""
    valid = datetime(2024, 5, 10, 14, tzinfo=UTC)
    return KeyMatch(
        dataset=dataset(
            id="hrrr",
            title="NOAA High-Resolution Rapid Refresh (HRRR)",
            format=FileFormat.GRIB2,
            buckets=("noaa-hrrr-bdp-pds",),
            item={
                "collection": "hrrr",
                "media_type": "application/wmo-GRIB2",
                "place_group": "region",
                "places": {"conus": (-134.13, 21.12, -60.89, 52.63)},
                "properties": {"gsd": 3000},
                "from_key": {"hrrr:region": "region", "hrrr:product": "product"},
                "vocabulary": {"hrrr:product": {"sfc": "surface"}},
                "sidecars": {".idx": "index"},
            },
        ),
        groups={"region": "conus", "product": "sfc"},
        start=valid,
        end=valid,
        reference=datetime(2024, 5, 10, 12, tzinfo=UTC),
    )


MATCHES = {"goes-glm": (glm, GLM_KEY), "nexrad-l2": (nexrad, NEXRAD_KEY), "hrrr": (hrrr, HRRR_KEY)}


def claim(match: KeyMatch | None = None, key: str = GLM_KEY, **changes: Any) -> Claim:
    """Return a first claim of the unit that a key names."""
    match = match or glm()
    unit = IngestUnit.of(
        dataset=match.dataset.id,
        object_uri=f"s3://{match.dataset.buckets[0]}/{key}",
        provider="aws",
        queue=changes.pop("queue", "nodd-primary"),
        time_range_start=match.start,
        time_range_end=match.end,
        event=changes.pop(
            "event",
            EventMetadata(event_time=EVENT_TIME, sns_message_id="sns-1", sqs_message_id="sqs-1"),
        ),
        object_ref=changes.pop(
            "object_ref", ObjectReference(etag=MD5, size=343_897, sequencer="0055AED6DCD90281E5")
        ),
    )
    values: dict[str, Any] = {
        "unit": unit,
        "attempt_no": 1,
        "version": 2,
        "intent": Intent.INGEST,
        "claimed_from": Status.PENDING,
        "budget_from": 0,
        "replay_run_id": None,
        "has_message": True,
    }
    return Claim(**{**values, **changes})


def evidence(**changes: Any) -> Evidence:
    """Return what reading a whole object yields."""
    values: dict[str, Any] = {
        "etag": MD5,
        "size": 343_897,
        "source": "object",
        "header": {"format": "netcdf4", "complete": True},
    }
    return Evidence(**{**values, **changes})


def context(*, lineage_target: str = "", **changes: Any) -> ChainContext:
    """Return the context of one batch."""
    values: dict[str, Any] = {
        "code_version": "0.1.0",
        "config_version": "cfg-1",
        "worker_id": "worker-a",
        "ingest_run_id": "run-1",
        "started_at": STARTED,
        "ended_at": ENDED,
        "routing": parse_routing({}, [], lineage_target=lineage_target),
    }
    return ChainContext(**{**values, **changes})


def run_chain(
    held: Claim,
    match: KeyMatch,
    reading: Evidence | ReadFailure,
    owned: OwnedItem | None,
    surroundings: ChainContext,
) -> ChainResult:
    """Run all operators on one unit, whatever the catalogue says of its key."""
    return run_together([chain_of(held, match, reading, owned, surroundings)])[0]
