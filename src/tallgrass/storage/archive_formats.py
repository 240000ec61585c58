"""Archive files from inside: JSON Lines compressed by gzip, or Parquet.

A row is a flat object; the attempts of an event are a list in it (in Parquet its JSON). Times and
ids are text as SQLite holds them, from either database: the same rows give the same bytes.
"""

import gzip
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from itertools import islice
from typing import Any, BinaryIO, Protocol

import orjson

from tallgrass.canonical_json import canonical_bytes
from tallgrass.errors import DatabaseUnusable
from tallgrass.inventory.retention import ArchiveFormat, ArchiveKind

FORMAT_NAME = "tallgrass-archive"
FORMAT_VERSION = 1

#: Quick: the files are written while ingest runs.
_GZIP_LEVEL = 3
_PARQUET_ROWS = 10_000
_NUMBERS = frozenset(
    {
        "attempt", "attempt_no", "budget_from", "claimed_version", "closed_version", "entry_id",
        "object_size", "position",
    }
)  # fmt: skip
#: What Parquet holds as JSON.
_NESTED = "attempts"

ENDINGS = {ArchiveFormat.NDJSON: "ndjson.gz", ArchiveFormat.PARQUET: "parquet"}


class RowWriter(Protocol):
    """Takes rows, one after the other."""

    def write(self, row: Mapping[str, Any]) -> None:
        """Write a row."""


def writing(
    file: BinaryIO,
    format: ArchiveFormat,  # noqa: A002 - the file's own word
    kind: ArchiveKind,
) -> AbstractContextManager[RowWriter]:
    """Begin an archive; leaving it ends the file's content, not the file."""
    if format is ArchiveFormat.NDJSON:
        return _writing_lines(file, kind)
    return _writing_parquet(file, kind)


def reading(file: BinaryIO, format: ArchiveFormat) -> Iterator[dict[str, Any]]:  # noqa: A002
    """Yield the rows of an archive in their order."""
    return _read_lines(file) if format is ArchiveFormat.NDJSON else _read_parquet(file)


class _Lines:
    def __init__(self, file: gzip.GzipFile) -> None:
        self._file = file

    def write(self, row: Mapping[str, Any]) -> None:
        self._file.write(canonical_bytes(row) + b"\n")


@contextmanager
def _writing_lines(file: BinaryIO, kind: ArchiveKind) -> Iterator[_Lines]:
    # Without name and time the same rows are the same bytes.
    with gzip.GzipFile("", "wb", _GZIP_LEVEL, file, mtime=0) as packed:
        lines = _Lines(packed)
        lines.write({"format": FORMAT_NAME, "kind": kind.value, "version": FORMAT_VERSION})
        yield lines


def _read_lines(file: BinaryIO) -> Iterator[dict[str, Any]]:
    with gzip.GzipFile(fileobj=file) as packed:
        yield from map(orjson.loads, islice(packed, 1, None))


class _Table:
    def __init__(self, file: BinaryIO, kind: ArchiveKind) -> None:
        self._file = file
        self._about = {"format": FORMAT_NAME, "kind": kind.value, "version": str(FORMAT_VERSION)}
        self._rows: list[Mapping[str, Any]] = []
        self._writer: Any = None

    def write(self, row: Mapping[str, Any]) -> None:
        self._rows.append(row)
        if len(self._rows) >= _PARQUET_ROWS:
            self.flush()

    def flush(self) -> None:
        if not self._rows:
            return
        pa, parquet = _parquet()
        if self._writer is None:
            schema = pa.schema(
                [(n, pa.int64() if n in _NUMBERS else pa.string()) for n in self._rows[0]],
                metadata=self._about,
            )
            self._writer = parquet.ParquetWriter(self._file, schema, compression="zstd")
        schema = self._writer.schema
        columns = [[_in_parquet(row[name]) for row in self._rows] for name in schema.names]
        arrays = [pa.array(c, field.type) for c, field in zip(columns, schema, strict=True)]
        self._writer.write_batch(pa.record_batch(arrays, schema=schema))
        self._rows = []

    def close(self) -> None:
        self.flush()
        if self._writer is not None:
            self._writer.close()


@contextmanager
def _writing_parquet(file: BinaryIO, kind: ArchiveKind) -> Iterator[_Table]:
    _parquet()  # before anything is written
    table = _Table(file, kind)
    yield table
    table.close()


def _read_parquet(file: BinaryIO) -> Iterator[dict[str, Any]]:
    _, parquet = _parquet()
    with parquet.ParquetFile(file) as table:
        for batch in table.iter_batches(_PARQUET_ROWS):
            for row in batch.to_pylist():
                if isinstance(row.get(_NESTED), str):
                    row[_NESTED] = orjson.loads(row[_NESTED])
                yield row


def _in_parquet(value: object) -> object:
    return canonical_bytes(value).decode() if isinstance(value, list) else value


def _parquet() -> tuple[Any, Any]:
    try:
        import pyarrow as pa  # noqa: PLC0415 - optional extra
        from pyarrow import parquet  # noqa: PLC0415
    except ModuleNotFoundError as exc:
        raise DatabaseUnusable(
            "Parquet needs pyarrow, which is not installed", code="stac_missing"
        ) from exc
    return pa, parquet


def rows_written(rows: Iterable[Mapping[str, Any]]) -> int:
    """Return how many bytes rows take as lines, before compression."""
    return sum(len(canonical_bytes(row)) + 1 for row in rows)
