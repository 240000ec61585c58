"""Write `event_keys.json`: keys of events worked out by another way than the package's.

Bytes are put together by hand and hashed by the system's `sha256sum`; nothing of tallgrass. Run it
only when vectors are added: `python tests/vectors/make_event_keys.py`. The keys of vectors that
exist must never change.
"""

from __future__ import annotations

import json
import struct
import subprocess
from pathlib import Path

PARTS = ("pipeline_id", "event_name", "dataset_id", "object_ref", "content_hash")
CHECKSUM = "sha256:9393aa331" + "0" * 55

EVENTS: list[tuple[str, str, str, str, str]] = [
    # The specification's own flow: an artifact in one version, each part with its length.
    (
        "hydrology_flow_2025_v10.3.1",
        "artifact_published",
        "hydrology_flow_ks",
        "56:s3://kfm/artifacts/hydrology_flow/v10.3.1/output.parquet,7:v10.3.1,",
        CHECKSUM,
    ),
    # The same artifact with another content, and in another version.
    (
        "hydrology_flow_2025_v10.3.1",
        "artifact_published",
        "hydrology_flow_ks",
        "56:s3://kfm/artifacts/hydrology_flow/v10.3.1/output.parquet,7:v10.3.1,",
        "sha256:" + "0" * 64,
    ),
    (
        "hydrology_flow_2025_v10.3.1",
        "artifact_published",
        "hydrology_flow_ks",
        "56:s3://kfm/artifacts/hydrology_flow/v10.3.2/output.parquet,7:v10.3.2,",
        CHECKSUM,
    ),
    # Ingest: the object in the version that was announced, each part with its length.
    (
        "kfm-nodd-ingest",
        "nodd.item.created",
        "goes-glm",
        "21:s3://noaa-goes19/a.nc,-4:00A1,2:e1,",
        "f" * 64,
    ),
    # A change of an item: the attempt that made it behind the hash.
    (
        "kfm-nodd-ingest",
        "nodd.item.updated",
        "goes-glm",
        "21:s3://noaa-goes19/a.nc,-4:00A1,2:e1,",
        "f" * 64 + ":3",
    ),
    # Lineage: run id and event type instead of a hash.
    (
        "kfm-nodd-ingest",
        "openlineage.complete",
        "goes-glm",
        "21:s3://noaa-goes19/a.nc,---",
        "0196f3c1-4c4c-5f3e-8c1f-0d1f5f0a7b11:COMPLETE",
    ),
    # Parts that would be one text if they were simply joined.
    ("ab", "c", "d", "e", "f"),
    ("a", "bc", "d", "e", "f"),
    ("a|b", "c", "d", "e", "f"),
    ("a", "b|c", "d", "e", "f"),
    # Empty and not ASCII: lengths count bytes of UTF-8.
    ("", "", "", "", ""),
    ("größe", "wörd", "caf\u00e9", "s3://雷達/🌾", "x"),
    ("größe", "wörd", "cafe\u0301", "s3://雷達/🌾", "x"),
    # Longer than one byte of length.
    ("p" * 300, "e", "d", "o" * 1000, "c"),
]


def expected_key(parts: tuple[str, ...]) -> str:
    """Return the key, hashed by the system's own tool."""
    data = b"".join(struct.pack(">I", len(part.encode("utf-8"))) + part.encode() for part in parts)
    done = subprocess.run(["sha256sum"], input=data, stdout=subprocess.PIPE, check=True)
    return "sha256:" + done.stdout.split()[0].decode()


def vectors() -> list[dict[str, str]]:
    """Return all vectors."""
    return [
        {**dict(zip(PARTS, parts, strict=True)), "idempotency_key": expected_key(parts)}
        for parts in EVENTS
    ]


if __name__ == "__main__":
    target = Path(__file__).with_name("event_keys.json")
    target.write_text(json.dumps(vectors(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
