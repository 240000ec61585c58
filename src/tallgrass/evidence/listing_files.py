"""Files that list objects: S3 Inventory, lines of JSON, or plain keys.

=====================  ============================================================================
``manifest.json``      of S3 Inventory; its data files lie beside it, in ``data/`` or under their
                       whole key, and each must have the checksum that the manifest gives of it
``.csv``, ``.csv.gz``  with a first line that names the columns as S3 Inventory does
``.parquet``           with the columns of S3 Inventory
any other name         a line an object: JSON as `listed_line` writes it, an URI, or a key
=====================  ============================================================================

Read page by page, in the file's order: a file of any size takes the same memory.
"""

import csv
import gzip
import hashlib
import zlib
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, TextIO
from urllib.parse import unquote_plus

import orjson

from tallgrass.clock import parse_instant, to_utc
from tallgrass.errors import ConfigError, InvalidInput
from tallgrass.evidence.listing import PAGE_SIZE, Page
from tallgrass.inventory.listed import ListedObject, listed_of_line, require_size

_INVALID = "listing_invalid"
_PIECE_BYTES = 1 << 20
#: A key has 1,024 bytes at most, and JSON may write each as six characters.
_LINE_BYTES_MAX = 16 * 1024
#: Manifests name some hundred data files.
_MANIFEST_BYTES_MAX = 64 << 20
#: Columns as manifests and first lines name them, without case and underscores.
_COLUMNS = {
    "bucket": "bucket",
    "key": "key",
    "size": "size",
    "lastmodifieddate": "modified",
    "etag": "etag",
    "islatest": "latest",
    "isdeletemarker": "deleted",
}
_Values = Mapping[str, Any]


def read_listing_file(file: Path, *, bucket: str | None = None) -> Iterator[Page]:
    """Yield the objects that a file lists; `bucket`, as ``scheme://name``, is that of plain keys.

    A version that is not the latest, and the mark of a deletion, are no objects.
    """
    try:
        yield from _paged(_objects(file, bucket))
    except (OSError, EOFError, UnicodeDecodeError, csv.Error, zlib.error) as exc:
        reason = exc.strerror if isinstance(exc, OSError) and exc.strerror else str(exc)
        raise InvalidInput(f"{file.name} cannot be read: {reason}", code=_INVALID) from exc


def _objects(file: Path, bucket: str | None) -> Iterator[ListedObject]:
    name = file.name.lower()
    if name.endswith("manifest.json"):
        return _inventory(file)
    if name.endswith((".csv", ".csv.gz")):
        return _csv(file, None)
    if name.endswith(".parquet"):
        return _parquet(file)
    return _lines(file, bucket)


def _paged(objects: Iterable[ListedObject]) -> Iterator[Page]:
    page: list[ListedObject] = []
    for listed in objects:
        page.append(listed)
        if len(page) == PAGE_SIZE:
            yield page
            page = []
    if page:
        yield page


# --- lines ----------------------------------------------------------------------------------------


def _lines(file: Path, bucket: str | None) -> Iterator[ListedObject]:
    with file.open("rb") as opened:
        for number, line in enumerate(_bounded(opened, file), start=1):
            if not line.strip():
                continue
            try:
                yield _of_line(line.rstrip(b"\r\n"), bucket)
            except ValueError as exc:
                raise _invalid(file, f"line {number} is damaged: {exc}") from exc
            except InvalidInput as exc:
                raise _invalid(file, f"line {number}: {exc}") from exc


def _bounded(opened: BinaryIO, file: Path) -> Iterator[bytes]:
    while line := opened.readline(_LINE_BYTES_MAX + 1):
        if len(line) > _LINE_BYTES_MAX:
            raise _invalid(file, f"a line has more than {_LINE_BYTES_MAX:,} bytes")
        yield line


def _of_line(line: bytes, bucket: str | None) -> ListedObject:
    if line.lstrip().startswith(b"{"):
        return listed_of_line(orjson.loads(line))
    text = line.decode()
    if "://" in text:
        return ListedObject(text, None, None, None)
    if bucket is None:
        raise InvalidInput("a key without its bucket: say which it is", code=_INVALID)
    return ListedObject(f"{bucket}/{text}", None, None, None)


# --- S3 Inventory ---------------------------------------------------------------------------------


def _inventory(manifest: Path) -> Iterator[ListedObject]:
    described = _described(manifest)
    form, schema = str(described.get("fileFormat")).lower(), str(described.get("fileSchema", ""))
    if form not in {"csv", "parquet"}:
        raise _invalid(manifest, f"its files are {form}; CSV and Parquet are read")
    for each in described["files"]:
        data = _data_file(manifest, each)
        if form == "parquet":
            yield from _parquet(data)
        else:
            columns = [name.strip() for name in schema.split(",")]
            yield from _csv(data, columns)


def _described(manifest: Path) -> dict[str, Any]:
    if manifest.stat().st_size > _MANIFEST_BYTES_MAX:
        raise _invalid(manifest, "it is too large for a manifest")
    try:
        value = orjson.loads(manifest.read_bytes())
    except ValueError as exc:
        raise _invalid(manifest, f"it is no JSON: {exc}") from exc
    files = value.get("files") if isinstance(value, dict) else None
    if not isinstance(files, list) or not all(
        isinstance(each, dict) and isinstance(each.get("key"), str) for each in files
    ):
        raise _invalid(manifest, "it names no files with their keys, as S3 Inventory does")
    return value  # type: ignore[no-any-return]


def _data_file(manifest: Path, each: _Values) -> Path:
    """Find a data file near its manifest, and make sure that it is the one that was meant.

    S3 gives the checksum of each. Whoever approves a manifest approves its data files by them.
    """
    key = str(each["key"])
    name = key.rpartition("/")[2]
    if name in {"", ".", ".."}:
        raise _invalid(manifest, f"{key!r} names no file")
    folder = manifest.parent
    places = [folder / name, folder / "data" / name, folder.parent / "data" / name]
    found = next((place for place in places if place.is_file()), None)
    if found is None:
        raise _invalid(manifest, f"its data file {name} is not beside it, nor in data/")
    wanted = each.get("MD5checksum")
    if wanted is None:
        raise _invalid(manifest, f"it gives no MD5checksum of {name}, as S3 Inventory does")
    if _md5(found) != wanted:
        raise _invalid(found, "its checksum is not that of the manifest: fetch it again")
    return found


def _md5(file: Path) -> str:
    digest = hashlib.md5(usedforsecurity=False)
    with file.open("rb") as opened:
        while piece := opened.read(_PIECE_BYTES):
            digest.update(piece)
    return digest.hexdigest()


def _csv(file: Path, columns: list[str] | None) -> Iterator[ListedObject]:
    """Read rows of text; a first line names the columns where no manifest does.

    S3 writes keys URL-encoded into the files of a manifest.
    """
    with _text(file) as opened:
        rows = csv.reader(opened)
        names = columns if columns is not None else next(rows, [])
        places = _places(file, names)
        for number, row in enumerate(rows, start=1):
            if len(row) != len(names):
                raise _invalid(file, f"row {number} has {len(row)} columns, not {len(names)}")
            values = {name: row[place] for name, place in places.items()}
            if columns is not None:
                values["key"] = unquote_plus(values["key"], errors="strict")
            listed = _of_values(file, number, values)
            if listed is not None:
                yield listed


def _text(file: Path) -> TextIO:
    if file.name.lower().endswith(".gz"):
        return gzip.open(file, "rt", encoding="utf-8", newline="")
    return file.open(encoding="utf-8", newline="")


def _parquet(file: Path) -> Iterator[ListedObject]:
    try:
        import pyarrow as pa  # noqa: PLC0415 - optional extra
        import pyarrow.parquet as pq  # noqa: PLC0415
    except ModuleNotFoundError as exc:
        raise ConfigError(
            "Parquet needs pyarrow, which is not installed", code="stac_missing"
        ) from exc
    try:
        with pq.ParquetFile(file) as opened:
            places = _places(file, opened.schema_arrow.names)
            names = {opened.schema_arrow.names[place]: name for name, place in places.items()}
            number = 0
            for batch in opened.iter_batches(batch_size=PAGE_SIZE, columns=list(names)):
                for row in batch.to_pylist():
                    number += 1
                    values = {names[column]: value for column, value in row.items()}
                    listed = _of_values(file, number, values)
                    if listed is not None:
                        yield listed
    except pa.ArrowException as exc:
        raise _invalid(file, f"it is no Parquet: {str(exc).splitlines()[0]}") from exc


def _places(file: Path, names: list[str]) -> dict[str, int]:
    """Return where each column stands that is read."""
    places: dict[str, int] = {}
    for place, name in enumerate(names):
        known = _COLUMNS.get(name.strip().lower().replace("_", ""))
        if known is not None:
            places[known] = place
    for needed in ("bucket", "key"):
        if needed not in places:
            told = ", ".join(names[:8]) or "none"
            raise _invalid(file, f"it has no column {needed}: its columns are {told}")
    return places


def _of_values(file: Path, number: int, values: _Values) -> ListedObject | None:
    if str(values.get("latest", "true")).lower() == "false":
        return None
    if str(values.get("deleted", "false")).lower() == "true":
        return None
    bucket, key, size, etag = (values.get(name) for name in ("bucket", "key", "size", "etag"))
    try:
        size_bytes = None if size in {None, ""} else int(size)
        require_size(size_bytes)
        return ListedObject(
            uri=f"s3://{bucket}/{key}",
            size=size_bytes,
            etag=str(etag).strip('"') if etag else None,
            modified=_instant(values.get("modified")),
        )
    except (ValueError, TypeError, InvalidInput) as exc:
        raise _invalid(file, f"row {number}: {exc}") from exc


def _instant(value: object) -> datetime | None:
    if value is None or value == "":
        return None
    if isinstance(value, datetime):
        # Parquet's times of S3 Inventory are UTC, with or without saying so.
        return value.replace(tzinfo=UTC) if value.tzinfo is None else to_utc(value)
    return parse_instant(str(value))


def _invalid(file: Path, problem: str) -> InvalidInput:
    return InvalidInput(f"{file.name}: {problem}", code=_INVALID)
