"""The catalog as one GeoParquet file, in the form of stac-geoparquet 1.0.

A row is an item: its properties are columns, its geometry is WKB (null for an item without a
place), its box a struct that readers skip rows by. The columns are found in a first reading of all
items, so that items of different collections fit into one file.
"""

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from itertools import islice
from typing import Any, BinaryIO

import orjson
import pyarrow as pa
from pyarrow import parquet
from shapely import to_wkb
from shapely.geometry import shape

from tallgrass.canonical_json import canonical_text
from tallgrass.errors import InvalidInput
from tallgrass.stac.search import StoredItem

_BATCH = 5000
_INSTANT = pa.timestamp("us", tz="UTC")
_TIMES = ("datetime", "start_datetime", "end_datetime")
_BOX = pa.struct([(side, pa.float64()) for side in ("xmin", "ymin", "xmax", "ymax")])
#: Columns that every file has, in this order; the others follow in order of their names.
_FIXED: tuple[tuple[str, pa.DataType], ...] = (
    ("id", pa.string()),
    ("collection", pa.string()),
    ("type", pa.string()),
    ("stac_version", pa.string()),
    ("stac_extensions", pa.list_(pa.string())),
    ("geometry", pa.binary()),
    ("bbox", _BOX),
    *((name, _INSTANT) for name in _TIMES),
)
_FIXED_NAMES = frozenset(name for name, _ in _FIXED)


def write_geoparquet(
    items: Callable[[], Iterator[StoredItem]],
    file: BinaryIO,
    *,
    collections: Mapping[str, bytes],
    advance: Callable[[int], None] = lambda _: None,
) -> int:
    """Write items; `items` is called twice and yields the same both times."""
    schema = _schema_of(items())
    names: set[str] = set()
    kinds: set[str] = set()
    count = 0
    with parquet.ParquetWriter(file, schema, compression="zstd", version="2.6") as writer:
        for rows in _row_batches(items()):
            kinds.update(row.pop("_kind") for row in rows)
            names.update(row["collection"] for row in rows)
            writer.write_batch(_batch(rows, schema))
            count += len(rows)
            advance(len(rows))
        writer.add_key_value_metadata(
            {
                "geo": canonical_text(_geo_metadata(kinds - {""})),
                "stac-geoparquet": canonical_text(_stac_metadata(collections, names)),
            }
        )
    return count


def _batch(rows: list[dict[str, Any]], schema: pa.Schema) -> pa.RecordBatch:
    columns = []
    for column in schema:
        try:
            columns.append(pa.array([row.get(column.name) for row in rows], column.type))
        except (pa.ArrowTypeError, pa.ArrowInvalid) as exc:
            raise _two_types(column.name, exc) from exc
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _two_types(name: str, exc: Exception) -> InvalidInput:
    return InvalidInput(f"items differ in the type of {name!r}: {exc}")


def _row_batches(items: Iterator[StoredItem]) -> Iterator[list[dict[str, Any]]]:
    while batch := list(islice(items, _BATCH)):
        yield [_row(item) for item in batch]


def _row(item: StoredItem) -> dict[str, Any]:
    """Return an item as the values of its columns."""
    document = orjson.loads(item.body)
    properties = document.pop("properties")
    clash = properties.keys() & (_FIXED_NAMES - set(_TIMES) | document.keys())
    if clash:
        raise InvalidInput(
            f"the item {item.key.collection}/{item.key.id} has a property {min(clash)!r}, "
            "which GeoParquet cannot hold beside the item's own field"
        )
    geometry, box = document["geometry"], document.get("bbox")
    times = {name: _instant(properties.pop(name, None)) for name in _TIMES}
    return {
        **properties,
        **document,
        **times,
        "geometry": None if geometry is None else to_wkb(shape(geometry)),
        "bbox": None if box is None else dict(zip(_BOX.names, box, strict=True)),
        "_kind": "" if geometry is None else geometry["type"],
    }


def _instant(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def _schema_of(items: Iterator[StoredItem]) -> pa.Schema:
    """Return the columns that hold every item."""
    found = pa.schema([])
    for rows in _row_batches(items):
        for row in rows:
            for name in (*_FIXED_NAMES, "_kind"):
                row.pop(name, None)
        # All names: a batch is else judged by its first row alone.
        names = sorted({name for row in rows for name in row})
        part = pa.schema(
            [(name, _type_of(name, [row.get(name) for row in rows])) for name in names]
        )
        try:
            found = pa.unify_schemas([found, part], promote_options="permissive")
        except (pa.ArrowTypeError, pa.ArrowInvalid) as exc:
            raise InvalidInput(f"items differ in the type of a property: {exc}") from exc
    rest = sorted(found, key=lambda column: column.name)
    return pa.schema([*(pa.field(name, kind) for name, kind in _FIXED), *rest])


def _type_of(name: str, values: list[object]) -> pa.DataType:
    try:
        return pa.infer_type(values)
    except (pa.ArrowTypeError, pa.ArrowInvalid) as exc:
        raise _two_types(name, exc) from exc


def _geo_metadata(kinds: set[str]) -> dict[str, Any]:
    sides = {side: ["bbox", side] for side in _BOX.names}
    column = {
        "encoding": "WKB",
        "geometry_types": sorted(kinds),
        "covering": {"bbox": sides},
    }
    return {"version": "1.1.0", "primary_column": "geometry", "columns": {"geometry": column}}


def _stac_metadata(collections: Mapping[str, bytes], names: set[str]) -> dict[str, Any]:
    documents = {name: orjson.loads(collections[name]) for name in names & collections.keys()}
    return {"version": "1.0.0", "collections": documents}
