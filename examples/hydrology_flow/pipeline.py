"""A pipeline of somebody's own: river gauges in, daily flow out, and an event that tells of it.

    python pipeline.py DATABASE FOLDER

It uses a plain `sqlite3` connection. The state of the run, the artifact's version and the event are
one transaction: whatever happens, all three are there, or none. Run again with the same readings it
makes the same artifact and the same event, which the outbox knows already.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import io
import sqlite3
from collections import defaultdict
from contextlib import closing
from pathlib import Path
from statistics import mean

from tallgrass.bootstrap.publishing import open_publisher
from tallgrass.config import load_config
from tallgrass.outbox import Artifact, Event, Published

PIPELINE = "hydrology_flow_2025_v10.3.1"
DATASET = "hydrology_flow_ks"
VERSION = "v10.3.1"

#: Discharge of the Kansas River in cubic feet a second: gauge, hour, flow.
READINGS = """gauge,time,cfs
06889000,2025-11-12T06:00:00Z,1410
06889000,2025-11-12T18:00:00Z,1450
06889000,2025-11-13T06:00:00Z,1520
06891000,2025-11-12T06:00:00Z,1690
06891000,2025-11-13T06:00:00Z,1760
06891000,2025-11-13T18:00:00Z,1800
"""
#: West, south, east, north of the reach between the gauges.
REACH = [-95.72, 38.94, -95.2, 39.07]


def transform(readings: str) -> str:
    """Return the mean flow of each gauge and day as CSV."""
    flows: dict[tuple[str, str], list[float]] = defaultdict(list)
    for row in csv.DictReader(io.StringIO(readings)):
        flows[row["gauge"], row["time"][:10]].append(float(row["cfs"]))
    lines = [f"{gauge},{day},{mean(each):.1f}" for (gauge, day), each in sorted(flows.items())]
    return "\n".join(["gauge,day,mean_cfs", *lines]) + "\n"


def validate(output: str) -> int:
    """Refuse an output that cannot be right; return its rows."""
    rows = list(csv.DictReader(io.StringIO(output)))
    if not rows or any(float(row["mean_cfs"]) <= 0 for row in rows):
        raise SystemExit("a river without water: nothing is published")
    return len(rows)


def store(folder: Path, output: str) -> Artifact:
    """Write the artifact under the hash of its content; a file without an event is nothing yet."""
    checksum = hashlib.sha256(output.encode()).hexdigest()
    path = folder / "artifacts" / "hydrology_flow" / VERSION / f"{checksum[:16]}.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(output, encoding="utf-8")
    return Artifact(uri=path.relative_to(folder).as_posix(), checksum=f"sha256:{checksum}")


def finish(database: Path, artifact: Artifact, rows: int) -> Published:
    """Commit state, artifact version and event together."""
    publisher = open_publisher(load_config())
    with closing(sqlite3.connect(database, isolation_level=None, timeout=30)) as connection:
        connection.execute(
            "CREATE TABLE IF NOT EXISTS flow_runs (run TEXT PRIMARY KEY, state TEXT, rows INTEGER)"
        )
        connection.execute("BEGIN IMMEDIATE")
        with connection:
            connection.execute(
                "INSERT INTO flow_runs VALUES (?, 'done', ?) ON CONFLICT (run) DO UPDATE"
                " SET state = excluded.state, rows = excluded.rows",
                (PIPELINE, rows),
            )
            return publisher.publish(connection, event_of(artifact, rows))


def event_of(artifact: Artifact, rows: int) -> Event:
    """Return the event that tells of an artifact."""
    return Event(
        pipeline_id=PIPELINE,
        event_name="artifact_published",
        dataset_id=DATASET,
        version=VERSION,
        payload={
            "artifact_uri": artifact.uri,
            "checksum": artifact.checksum,
            "media_type": "text/csv",
            "rows": rows,
            "bbox": REACH,
            "start": "2025-11-12T00:00:00Z",
            "end": "2025-11-13T23:59:59Z",
            "title": "Daily mean flow of the Kansas River",
        },
        care_label="public",
        artifact=artifact,
    )


def main(database: Path, folder: Path) -> None:
    """Run the pipeline once."""
    output = transform(READINGS)
    rows = validate(output)
    published = finish(database, store(folder, output), rows)
    was = "known already" if published.duplicate else "recorded"
    print(f"pipeline   {rows} rows; event {published.idempotency_key[:18]}… {was}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="The pipeline of the hydrology flow, once.")
    parser.add_argument("database", type=Path, help="a SQLite file that `db migrate` prepared")
    parser.add_argument("folder", type=Path, help="where the artifact goes")
    main(**vars(parser.parse_args()))
