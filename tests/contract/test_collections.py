"""Collections are in the catalog before their items, and grow with them."""

from __future__ import annotations

import hashlib
import json
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from tallgrass.bootstrap.catalog import refresh_collections, widen_collections
from tallgrass.bootstrap.stores import record_collections
from tallgrass.datasets.catalogue import default_catalogue
from tallgrass.stac.span import span_of
from tests.pipeline.scene import Pipeline, things
from tests.stac.test_span import Item as Noted
from tests.support.catalog import HOUR, NOON, Known, text_of, write_catalog

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.backends import Backend


def test_every_dataset_has_its_collection_once(backend: Backend) -> None:
    """Recording them twice leaves one row each, whose hash is that of its bytes."""
    stores = backend.open()
    for _ in range(2):
        record_collections(stores, default_catalogue())
    rows = backend.sql("SELECT collection_id, body, sha256 FROM stac_collections")
    files_of_datasets = files("tallgrass.datasets").joinpath("files").iterdir()
    expected = sorted(file.name.removesuffix(".toml") for file in files_of_datasets)
    assert {"goes-glm", "hrrr", "nexrad-l2"} <= set(expected)
    assert sorted(name for name, _, _ in rows) == expected
    for name, body, sha256 in rows:
        assert hashlib.sha256(body).hexdigest() == sha256
        assert json.loads(body)["id"] == name


def collection(backend: Backend, name: str = "goes-glm") -> dict[str, Any]:
    """Return a collection as it is stored."""
    ((body,),) = backend.sql("SELECT body FROM stac_collections WHERE collection_id = ?", name)
    document: dict[str, Any] = json.loads(body)
    return document


def interval(backend: Backend, name: str = "goes-glm") -> list[Any]:
    """Return the time range that a collection tells."""
    (found,) = collection(backend, name)["extent"]["temporal"]["interval"]
    return list(found)


def test_a_collection_grows_by_what_commits_noted(backend: Backend) -> None:
    """Each batch widens it, in space and time, and only its own; a second look changes nothing."""
    stores = backend.open()
    write_catalog(backend, [Known(id="a", box=(0.0, 10.0, 5.0, 20.0), at=NOON)])
    assert interval(backend) == [None, None]
    assert widen_collections(stores, default_catalogue()) == 1
    assert interval(backend) == [text_of(NOON)] * 2
    assert collection(backend)["extent"]["spatial"]["bbox"] == [[0.0, 10.0, 5.0, 20.0]]
    write_catalog(
        backend,
        [
            Known(id="b", box=(-5.0, 12.0, 1.0, 25.0), at=NOON - HOUR),
            Known(id="c", box=None, at=NOON + HOUR),
            Known(id="d", collection="hrrr"),
        ],
    )
    assert widen_collections(stores, default_catalogue()) == 2
    assert interval(backend) == [text_of(NOON - HOUR), text_of(NOON + HOUR)]
    assert collection(backend)["extent"]["spatial"]["bbox"] == [[-5.0, 10.0, 5.0, 25.0]]
    assert interval(backend, "hrrr") == [text_of(NOON)] * 2
    assert widen_collections(stores, default_catalogue()) == 0
    spans = backend.sql("SELECT collection_id FROM stac_spans ORDER BY 1")
    assert spans == [("goes-glm",), ("hrrr",)]


def test_a_collection_says_the_same_gathered_and_read_anew(
    backend: Backend, tmp_path: Path
) -> None:
    """What three batches noted is what all items tell, byte for byte."""
    pipeline = Pipeline(backend, tmp_path)
    record_collections(pipeline.stores, default_catalogue())
    for first in (0, 10, 20):
        pipeline.feed(*things(10, first=first))
        pipeline.drain()
        widen_collections(pipeline.stores, default_catalogue())
    stored = "SELECT collection_id, body FROM stac_collections ORDER BY 1"
    before = backend.sql(stored)
    assert interval(backend, "nexrad-l2") != [None, None]
    assert collection(backend)["summaries"]["platform"]
    assert refresh_collections(pipeline.stores, default_catalogue())[1] == 0
    assert backend.sql(stored) == before


def test_a_batch_notes_no_more_than_a_collection_tells(backend: Backend, tmp_path: Path) -> None:
    """One row for each collection, and of an item's properties those of summaries alone."""
    pipeline = Pipeline(backend, tmp_path)
    pipeline.feed(*things(10))
    pipeline.drain()
    notes = backend.sql("SELECT collection_id, span FROM stac_spans ORDER BY 1")
    named = {name: sorted(json.loads(text)["values"]) for name, text in notes}
    assert len(notes) == len(named)
    # As the file of the dataset names them; lists, such as instruments, are told by it.
    assert named["goes-glm"] == [
        "constellation", "goes:system_environment", "gsd", "mission", "platform",
        "processing:level", "sat:orbit_state", "sat:platform_international_designator",
    ]  # fmt: skip


def test_items_that_nobody_noted_are_read_once(backend: Backend) -> None:
    """Where nothing was gathered yet, as after an upgrade, all items of the collection count."""
    stores = backend.open()
    write_catalog(backend, [Known(id="a", at=NOON)])
    backend.sql("DELETE FROM stac_spans")
    assert widen_collections(stores, default_catalogue()) == 0
    write_catalog(backend, [Known(id="b", at=NOON + HOUR)])
    assert widen_collections(stores, default_catalogue()) == 1
    assert interval(backend) == [text_of(NOON), text_of(NOON + HOUR)]


def test_values_that_became_too_many_do_not_come_back(backend: Backend) -> None:
    """Of sixty values none is listed, and not the next few as if they were all."""
    stores = backend.open()
    record_collections(stores, default_catalogue())
    told: list[Any] = []
    for values in (["G16"], [f"G{number}" for number in range(60)], ["G19"]):
        note = span_of([Noted(summarised={"platform": value}) for value in values])
        rows = [("goes-glm", note.text())]
        stores.runner.run(lambda tx, rows=rows: tx.write("insert_spans", rows))  # type: ignore[misc]
        if not told:  # as if some had been gathered before: nothing is read of the items
            stores.runner.run(
                lambda tx, rows=rows: tx.execute(  # type: ignore[misc]
                    "insert_gathered", collection_id=rows[0][0], span=rows[0][1]
                )
            )
        widen_collections(stores, default_catalogue())
        told.append(collection(backend)["summaries"].get("platform"))
    assert told == [["G16"], None, None]


def test_what_is_gathered_is_written_once_by_many(backend: Backend) -> None:
    """Several processes that gather at the same moment come to one row and one true document."""
    write_catalog(backend, [Known(id=str(number), at=NOON + number * HOUR) for number in range(8)])
    everybody = [backend.open() for _ in range(4)]
    with ThreadPoolExecutor(4) as threads:
        done = list(
            threads.map(lambda stores: widen_collections(stores, default_catalogue()), everybody)
        )
    assert sum(done) == 1
    assert interval(backend) == [text_of(NOON), text_of(NOON + 7 * HOUR)]
    assert backend.sql("SELECT count(*) FROM stac_spans") == [(1,)]
