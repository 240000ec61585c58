"""A consumer in its own database: brings a STAC item and a DCAT dataset up to date, once an event.

    python consumer.py EVENTS DATABASE FOLDER

It reads CloudEvents as the file target writes them, all of them every time: what it has handled it
knows by its inbox, which is part of the transaction of its catalog.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from tallgrass.outbox.inbox import create_inbox, handled

CONSUMER = "catalog"

Document = dict[str, Any]


def stac_item(event: Document) -> Document:
    """Return the STAC item of a published artifact."""
    data = event["data"]
    west, south, east, north = data["bbox"]
    ring = [[west, south], [east, south], [east, north], [west, north], [west, south]]
    return {
        "type": "Feature",
        "stac_version": "1.1.0",
        "stac_extensions": ["https://stac-extensions.github.io/file/v2.1.0/schema.json"],
        "id": f"{event['datasetid']}-{event['dataversion']}",
        "geometry": {"type": "Polygon", "coordinates": [ring]},
        "bbox": data["bbox"],
        "properties": {
            "title": data["title"],
            "datetime": None,
            "start_datetime": data["start"],
            "end_datetime": data["end"],
            "updated": event["time"],
            "kfm:care_label": event["carelabel"],
        },
        "assets": {
            "data": {
                "href": f"../{data['artifact_uri']}",
                "type": data["media_type"],
                "roles": ["data"],
                # A multihash: 12 for SHA-256, 20 for its 32 bytes.
                "file:checksum": "1220" + data["checksum"].removeprefix("sha256:"),
            }
        },
        "links": [],
    }


def dcat_dataset(event: Document) -> Document:
    """Return the DCAT dataset of a published artifact, as JSON-LD."""
    data = event["data"]
    return {
        "@context": {
            "dcat": "http://www.w3.org/ns/dcat#",
            "dct": "http://purl.org/dc/terms/",
            "spdx": "http://spdx.org/rdf/terms#",
            "xsd": "http://www.w3.org/2001/XMLSchema#",
        },
        "@id": f"urn:kfm:dataset:{event['datasetid']}",
        "@type": "dcat:Dataset",
        "dct:identifier": event["datasetid"],
        "dct:title": data["title"],
        "dcat:version": event["dataversion"],
        "dct:modified": {"@type": "xsd:dateTime", "@value": event["time"]},
        "dcat:distribution": {
            "@id": f"urn:kfm:distribution:{data['checksum']}",
            "@type": "dcat:Distribution",
            "dcat:mediaType": data["media_type"],
            "dct:source": data["artifact_uri"],
            "spdx:checksum": {
                "@type": "spdx:Checksum",
                "spdx:checksumValue": data["checksum"].removeprefix("sha256:"),
            },
        },
    }


def handle(connection: sqlite3.Connection, event: Document) -> bool:
    """Bring the catalog up to date in one transaction; return whether the event was new."""
    connection.execute("BEGIN IMMEDIATE")
    with connection:
        if handled(connection, CONSUMER, event["idempotencykey"]):
            return False
        documents = {"item.json": stac_item(event), "dataset.jsonld": dcat_dataset(event)}
        for name, document in documents.items():
            connection.execute(
                "INSERT INTO catalog (name, body, changes) VALUES (?, ?, 1) ON CONFLICT (name)"
                " DO UPDATE SET body = excluded.body, changes = changes + 1",
                (name, json.dumps(document, indent=2)),
            )
        return True


def write_files(connection: sqlite3.Connection, folder: Path) -> None:
    """Write the catalog's documents, each whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, body in connection.execute("SELECT name, body FROM catalog ORDER BY name"):
        new = folder / f".{name}.new"
        new.write_text(body + "\n", encoding="utf-8")
        new.replace(folder / name)


def main(events: Path, database: Path, folder: Path) -> None:
    """Handle every event of the file."""
    with closing(sqlite3.connect(database, isolation_level=None, timeout=30)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        with connection:
            create_inbox(connection)
            connection.execute(
                "CREATE TABLE IF NOT EXISTS catalog"
                " (name TEXT PRIMARY KEY, body TEXT, changes INTEGER)"
            )
        lines = events.read_text(encoding="utf-8").splitlines()
        new = [handle(connection, json.loads(line)) for line in lines]
        write_files(connection, folder)
    print(f"consumer   {len(new)} deliveries, {sum(new)} new")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="A consumer of the hydrology flow's events.")
    parser.add_argument("events", type=Path, help="CloudEvents, as the file target writes them")
    parser.add_argument("database", type=Path, help="the consumer's own SQLite file")
    parser.add_argument("folder", type=Path, help="where the catalog's documents go")
    main(**vars(parser.parse_args()))
