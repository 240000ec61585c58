"""What the pipeline wrote, served from its copy by stac-fastapi-pgstac, found by a client."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, quote, urlsplit

from pystac_client import Client

from tests.cli.command import tallgrass
from tests.cli.pipeline import make_feed, shares
from tests.projection.scene import change, copied, stored

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.backends import Backend

START_S_MAX = 120
SERVER = (
    sys.executable, "-m", "uvicorn", "--factory", "stac_fastapi.pgstac.app:create_app",
    "--host", "127.0.0.1", "--log-level", "warning",
)  # fmt: skip


def server_environment(url: str) -> dict[str, str]:
    """Return the variables by which the server finds the database."""
    parts = urlsplit(url)
    return {
        "PGHOST": quote(parse_qs(parts.query)["host"][0], safe=""),
        "PGPORT": "5432",
        "PGUSER": parts.username or "",
        "PGPASSWORD": "unused",
        "PGDATABASE": parts.path.removeprefix("/"),
    }


@contextmanager
def stock_server(backend: Backend, folder: Path) -> Iterator[str]:
    """Run the server at a free port until the end of the block; yield its address."""
    with socket.create_server(("127.0.0.1", 0)) as listener, (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [*SERVER, "--fd", str(listener.fileno())],
            env={**os.environ, **server_environment(backend.url)},
            pass_fds=[listener.fileno()],
            cwd=folder,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        try:
            _wait_for(process, f"{address}/_mgmt/ping", folder / "log")
            yield address
        finally:
            process.terminate()
            process.wait(60)


def _wait_for(process: subprocess.Popen[bytes], address: str, log: Path) -> None:
    ends = time.monotonic() + START_S_MAX
    while time.monotonic() < ends and process.poll() is None:
        try:
            with urllib.request.urlopen(address, timeout=START_S_MAX) as answer:  # noqa: S310
                assert answer.status == 200
                return
        except urllib.error.URLError:
            time.sleep(0.1)
    raise AssertionError(log.read_text())


def test_the_stock_server_serves_what_was_ingested(catalog: Backend, tmp_path: Path) -> None:
    """Each item is found by id, by collection, by place and by time; an update shows as one."""
    feed = make_feed(tmp_path, 60, *shares(overwritten="0.3"), "--seed", "5")
    assert feed.ingest(catalog, "--drain").code == 0
    done = tallgrass("stac", "project", "--output", "json", at=catalog).json
    ours = stored(catalog)
    assert done["items"] == len(ours) > 40
    assert copied(catalog) == ours
    nulls = "properties' @> '{\"proj:code\": null}'"
    assert catalog.sql(
        f"SELECT count(*) FROM pgstac.items WHERE content -> '{nulls}"
    ) == catalog.sql(
        f"SELECT count(*) FROM stac_items WHERE convert_from(body, 'UTF8')::jsonb -> '{nulls}"
    )
    with stock_server(catalog, tmp_path) as address:
        client = Client.open(address)
        served = list(client.search(max_items=1000).items_as_dicts())
        found = {(item["collection"], item["id"]): item for item in served}
        assert found.keys() == ours.keys()
        assert len(found) == len(served)
        for key, item in found.items():
            for part in ("properties", "geometry", "bbox", "assets", "stac_extensions"):
                assert item[part] == ours[key][part], (key, part)
        collection, name = min(ours)
        of_one = client.search(collections=[collection], max_items=1000).items()
        assert {i.id for i in of_one} == {n for c, n in ours if c == collection}
        kept = ours[collection, name]
        near = client.search(ids=[name], bbox=kept["bbox"], datetime=_day_of(kept)).items()
        assert [i.id for i in near] == [name]
        assert not list(client.search(ids=[name], datetime="1990-01-01/1990-01-02").items())
        change(catalog, name, version=2)
        assert tallgrass("stac", "project", at=catalog).code == 0
        (updated,) = client.search(ids=[name]).items_as_dicts()
        assert updated["properties"] == kept["properties"] | {"version": 2}
        served_collection = client.get_collection(collection)
        assert served_collection is not None
        title = served_collection.title
    ((expected,),) = catalog.sql(
        "SELECT convert_from(body, 'UTF8')::json ->> 'title' FROM stac_collections"
        " WHERE collection_id = ?", collection,
    )  # fmt: skip
    assert title == expected != ""


def _day_of(item: dict[str, dict[str, str]]) -> str:
    properties = item["properties"]
    start = properties.get("start_datetime") or properties["datetime"]
    return datetime.fromisoformat(start).astimezone(UTC).strftime("%Y-%m-%d")
