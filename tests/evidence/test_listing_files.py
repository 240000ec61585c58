"""Files that list objects: each form is read as S3 Inventory and people write it."""

from __future__ import annotations

import gzip
import hashlib
import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tallgrass.errors import InvalidInput
from tallgrass.evidence.listing_files import read_listing_file
from tallgrass.inventory.listed import ListedObject

if TYPE_CHECKING:
    from pathlib import Path

TIME = datetime(2026, 6, 1, 12, 30, tzinfo=UTC)
FIRST = ListedObject("s3://noaa-goes19/a/1 é.nc", 12, "e1", TIME)
SECOND = ListedObject("s3://noaa-goes19/a/2+%41.nc", 0, "e2-3", TIME)
SCHEMA = "Bucket, Key, VersionId, IsLatest, IsDeleteMarker, Size, LastModifiedDate, ETag"
#: Keys as S3 writes them: percent signs, and a plus for a blank.
ROWS = [
    '"noaa-goes19","a/1+%C3%A9.nc","v","true","false","12","2026-06-01T12:30:00.000Z","e1"',
    '"noaa-goes19","a/2%2B%2541.nc","v","true","false","0","2026-06-01T12:30:00.000Z","e2-3"',
    '"noaa-goes19","a/old.nc","u","false","false","9","2026-05-01T12:30:00.000Z","e0"',
    '"noaa-goes19","a/gone.nc","w","true","true","","2026-06-01T12:30:00.000Z",""',
]


def read(file: Path, bucket: str | None = None) -> list[ListedObject]:
    """Return all objects of a file."""
    return [listed for page in read_listing_file(file, bucket=bucket) for listed in page]


def inventory(folder: Path, place: str, data: bytes, form: str = "CSV", **changes: object) -> Path:
    """Write a manifest and its data file; return the manifest."""
    (folder / place).mkdir(parents=True, exist_ok=True)
    (folder / place / "d1.gz").write_bytes(data)
    checksum = hashlib.md5(data, usedforsecurity=False).hexdigest()
    files = [{"key": "inv/x/data/d1.gz", "size": len(data), "MD5checksum": checksum, **changes}]
    manifest = folder / "2026-06-02T00-00Z" / "manifest.json"
    manifest.parent.mkdir(exist_ok=True)
    manifest.write_text(json.dumps({"fileFormat": form, "fileSchema": SCHEMA, "files": files}))
    return manifest


@pytest.mark.parametrize("place", ["2026-06-02T00-00Z", "2026-06-02T00-00Z/data", "data"])
def test_an_inventory_is_read_with_its_data_files(tmp_path: Path, place: str) -> None:
    """Beside the manifest, in data/ or where S3 puts it; old versions and deletions are none."""
    manifest = inventory(tmp_path, place, gzip.compress("\n".join(ROWS).encode()))
    assert read(manifest) == [FIRST, SECOND]


def test_an_inventory_of_parquet_is_read_alike(tmp_path: Path) -> None:
    """Keys stand as they are; times are UTC without saying so."""
    table = pa.table(
        {
            "bucket": ["noaa-goes19"] * 3,
            "key": ["a/1 é.nc", "a/2+%41.nc", "a/old.nc"],
            "is_latest": [True, True, False],
            "is_delete_marker": [False, False, False],
            "size": [12, 0, 9],
            "last_modified_date": pa.array([TIME.replace(tzinfo=None)] * 3, pa.timestamp("ms")),
            "e_tag": ["e1", "e2-3", "e0"],
        }
    )
    file = tmp_path / "one.parquet"
    pq.write_table(table, file)
    assert read(file) == [FIRST, SECOND]
    manifest = inventory(tmp_path, "data", file.read_bytes(), form="Parquet")
    assert read(manifest) == [FIRST, SECOND]


@pytest.mark.parametrize("name", ["list.csv", "list.csv.gz"])
def test_a_csv_of_ones_own_names_its_columns(tmp_path: Path, name: str) -> None:
    """Keys stand as they are: nobody encoded them."""
    text = 'Bucket,Key,Size,ETag\nnoaa-goes19,"a/1 é.nc",12,e1\nnoaa-goes19,a/2+%41.nc,,\n'
    file = tmp_path / name
    file.write_bytes(gzip.compress(text.encode()) if name.endswith("gz") else text.encode())
    assert read(file) == [
        FIRST._replace(modified=None),
        SECOND._replace(modified=None, size=None, etag=None),
    ]


def test_lines_may_be_json_uris_or_keys(tmp_path: Path) -> None:
    """All in one file; blank lines are none."""
    file = tmp_path / "missing.jsonl"
    file.write_text(
        '{"etag":"e1","modified":"2026-06-01T12:30:00Z","size":12,'
        '"uri":"s3://noaa-goes19/a/1 é.nc"}\n'
        "\n"
        "s3://noaa-goes18/b.nc\r\n"
        "a/2+%41.nc"
    )
    assert read(file, "s3://noaa-goes19") == [
        FIRST,
        ListedObject("s3://noaa-goes18/b.nc", None, None, None),
        ListedObject("s3://noaa-goes19/a/2+%41.nc", None, None, None),
    ]


def test_a_long_list_comes_in_pages(tmp_path: Path) -> None:
    """A thousand at once, whatever the size of the file."""
    file = tmp_path / "keys.txt"
    file.write_text("\n".join(f"k{number}" for number in range(2001)))
    assert [len(page) for page in read_listing_file(file, bucket="s3://b")] == [1000, 1000, 1]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("k.txt", b"a/key\n", "line 1: a key without its bucket"),
        ("k.txt", b's3://b/k\n{"uri":\n', "line 2 is damaged"),
        ("k.txt", b'{"key":"x"}\n', "line 1: a listed object needs a uri"),
        ("k.txt", b"s3://b/\xff\n", "line 1 is damaged"),
        ("k.txt", b"x" * 20_000, "more than 16,384 bytes"),
        ("k.csv", b"Key,Size\nx,1\n", "no column bucket"),
        ("k.csv", b"", "no column bucket"),
        ("k.csv", b"Bucket,Key\nb\n", "row 1 has 1 columns, not 2"),
        ("k.csv", b"Bucket,Key,Size\nb,k,many\n", "row 1: invalid literal"),
        ("k.csv", b"Bucket,Key,LastModifiedDate\nb,k,today\n", "row 1: not an RFC 3339"),
        ("k.csv", b"Bucket,Key\nb,\xff\n", "cannot be read"),
        ("k.csv.gz", b"no gzip", "cannot be read"),
        ("k.csv.gz", gzip.compress(b"Bucket,Key\nb,k\n", mtime=0)[:-12], "cannot be read"),
        ("k.parquet", b"no parquet", "it is no Parquet"),
        ("manifest.json", b"[]", "names no files"),
        ("manifest.json", b"{", "it is no JSON"),
        ("manifest.json", b'{"fileFormat":"ORC","files":[]}', "its files are orc"),
        ("manifest.json", b'{"fileFormat":"CSV","files":[{"key":"a/x.gz"}]}', "x.gz is not beside"),
        ("manifest.json", b'{"fileFormat":"CSV","files":[{"key":"a/.."}]}', "names no file"),
    ],
)
def test_a_list_that_cannot_be_read_is_refused_with_its_place(
    tmp_path: Path, name: str, content: bytes, said: str
) -> None:
    """File, line or row, and what is wrong; never a traceback, never a guess."""
    file = tmp_path / name
    file.write_bytes(content)
    with pytest.raises(InvalidInput, match=said) as raised:
        read(file)
    assert raised.value.code == "listing_invalid"
    assert str(raised.value).startswith(name.partition("/")[2] or name)


def test_a_data_file_that_is_not_the_one_that_was_meant_is_refused(tmp_path: Path) -> None:
    """A download that broke off has another checksum."""
    data = gzip.compress("\n".join(ROWS).encode())
    manifest = inventory(tmp_path, "data", data, MD5checksum="0" * 32)
    with pytest.raises(InvalidInput, match=r"d1\.gz: its checksum is not that of the manifest"):
        read(manifest)


def test_a_data_file_without_a_checksum_is_refused(tmp_path: Path) -> None:
    """Any file of its name would do: who approved the manifest has not approved what it lists."""
    data = gzip.compress("\n".join(ROWS).encode())
    manifest = inventory(tmp_path, "data", data, MD5checksum=None)
    with pytest.raises(InvalidInput, match=r"manifest\.json: it gives no MD5checksum of d1\.gz"):
        read(manifest)


def test_a_key_of_an_inventory_that_is_no_utf8_is_refused(tmp_path: Path) -> None:
    """Replaced, it would name another object."""
    row = '"b","a/%FF.nc","v","true","false","1","2026-06-01T12:30:00.000Z","e"'
    with pytest.raises(InvalidInput, match="cannot be read"):
        read(inventory(tmp_path, "data", gzip.compress(row.encode())))


@pytest.mark.parametrize("size", ["1" * 26, "-1", "x"])
def test_a_size_that_no_object_has_is_refused_with_its_row(tmp_path: Path, size: str) -> None:
    """Neither database could keep it."""
    file = tmp_path / "list.csv"
    file.write_text(f"Bucket,Key,Size\nnoaa-goes19,a,1\nnoaa-goes19,b,{size}\n")
    with pytest.raises(InvalidInput, match=r"list\.csv: row 2: "):
        read(file)
    file = tmp_path / "list.jsonl"
    file.write_text(json.dumps({"uri": "s3://noaa-goes19/a", "size": 2**63}))
    with pytest.raises(InvalidInput, match=r"list\.jsonl: line 1: a size"):
        read(file)


def test_a_damaged_compressed_list_is_refused(tmp_path: Path) -> None:
    """Bytes in the middle of the stream that nothing can expand."""
    whole = gzip.compress("\n".join(["Bucket,Key", *("noaa-goes19,a",) * 9]).encode())
    file = tmp_path / "list.csv.gz"
    file.write_bytes(whole[:10] + b"\xff" * 20 + whole[30:])
    with pytest.raises(InvalidInput, match=r"list\.csv\.gz cannot be read: "):
        read(file)
