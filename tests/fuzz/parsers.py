"""Everything that reads bytes from outside, with valid examples of what it reads.

Each takes any bytes and answers with a value or with an error of the package: never with another.
Text comes as it may come from a command line or a file: UTF-8 with whatever else was in it.
"""

from __future__ import annotations

import atexit
import bz2
import gzip
import hashlib
import json
import shutil
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
from cryptography.hazmat.primitives.serialization import Encoding

from tallgrass.bootstrap.audit_anchors import read_anchors
from tallgrass.cli.text import printable as cli_printable
from tallgrass.config import load_config
from tallgrass.datasets.catalogue import default_catalogue
from tallgrass.datasets.definition import FileFormat
from tallgrass.datasets.key_grammar import read_key
from tallgrass.errors import TallgrassError
from tallgrass.evidence import grib2_index
from tallgrass.evidence.formats import read_seen
from tallgrass.evidence.header import Seen
from tallgrass.evidence.listing_files import read_listing_file
from tallgrass.intake.sns_signature import (
    certificate_address,
    confirmation_address,
    read_certificate,
    text_to_sign,
)
from tallgrass.intake.strict_json import load_strict
from tallgrass.ledger.object_uri import canonical_object_uri, key_of_event
from tallgrass.ledger.redaction import redact
from tallgrass.nodes.entries import Entry
from tallgrass.nodes.identity import file_name_of, id_of_file_name
from tallgrass.queues.sqs_address import read_address
from tallgrass.replay import plan_file
from tallgrass.replay.selection import Purpose, Selection
from tallgrass.replay.selection_file import parse_selection, render_selection
from tallgrass.replay.strict_yaml import load_yaml
from tallgrass.sinks.address_guard import read_url
from tests.intake.notifications import event, parsed, record, sns
from tests.pipeline.scene import thing
from tests.support.governance import a_plan
from tests.support.sns import certificate, rsa_key

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: More of a head or tail is not looked at here.
SEEN = 4096


@dataclass(frozen=True, kw_only=True)
class Parser:
    """One reader of bytes from outside."""

    name: str
    read: Callable[[bytes], object]
    seeds: Sequence[bytes]


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _message(data: bytes) -> object:
    found = parsed(data)
    # Whatever was understood has to be something: units, or why there are none.
    assert found.units or found.ignored or found.faults or found.poison
    assert not any(fault.code == "internal_error" for fault in found.faults), found.faults
    return found


def _header(file_format: FileFormat, data: bytes) -> object:
    header, issues = read_seen(file_format, Seen(data[:SEEN], data[-SEEN:], len(data)))
    # It is kept as evidence, so it must be JSON.
    json.dumps([header, issues], allow_nan=False)
    return header


def _keys(data: bytes) -> None:
    text = _text(data)
    for dataset in _SOME_DATASETS:
        read_key(dataset, text)


def _file(read: Callable[[Path], object], name: str, data: bytes) -> object:
    path = _FOLDER / name
    path.write_bytes(data)
    return read(path)


def _listing(path: Path) -> list[object]:
    return list(read_listing_file(path, bucket="s3://noaa-goes19"))


def _configuration(path: Path) -> object:
    return load_config(environment={}, file=path)


def _redacted(data: bytes) -> None:
    for text in (redact(_text(data)), cli_printable(_text(data))):
        assert not any(char < " " or "\x7f" <= char < "\xa0" for char in text if char not in "\n\t")
        assert "\u2028" not in text


def _round_trip(data: bytes) -> None:
    text = _text(data)
    name = file_name_of(text)
    assert "/" not in name
    assert name not in {".", ".."}
    assert not name.startswith(".")
    assert id_of_file_name(name) == text


def _envelope(data: bytes) -> None:
    envelope = load_strict(data)
    if isinstance(envelope, dict):
        for read in (text_to_sign, certificate_address, confirmation_address):
            _quietly(partial(read, envelope))


def _quietly(read: Callable[[], object]) -> None:
    try:
        read()
    except TallgrassError:
        return


def _parquet() -> bytes:
    path = _FOLDER / "seed.parquet"
    columns = {"bucket": ["noaa-goes19"], "key": ["GLM/b.nc"], "size": [12]}
    pq.write_table(pa.table(columns), path)
    return path.read_bytes()


_FOLDER = Path(tempfile.mkdtemp(prefix="tallgrass-fuzz-"))
atexit.register(shutil.rmtree, _FOLDER, ignore_errors=True)
_THINGS = [thing(3, dataset=name) for name in ("goes-glm", "nexrad-l2", "hrrr")]
_FILES = [each.content[: 3 * SEEN] for each in _THINGS]
_ROWS = gzip.compress(b"noaa-goes19,GLM%2Fb.nc,12\n", mtime=0)
(_FOLDER / "rows.csv.gz").write_bytes(_ROWS)
_SOME_DATASETS = [
    dataset
    for dataset in default_catalogue().datasets
    if dataset.id in {"goes-glm", "goes-abi", "nexrad-l2", "hrrr", "mrms", "gfs", "nwm", "ghcn-d"}
]
_SNS = sns(event(record()))
_IDX = (
    b"1:0:d=2026060112:TMP:surface:anl:\n2:4711:d=2026060112:UGRD:10 m above ground:1 hour fcst:\n"
)
_TIFF = b"II*\x00\x08\x00\x00\x00\x02\x00" + bytes(
    [0, 1, 3, 0, 1, 0, 0, 0, 64, 0, 0, 0, 1, 1, 3, 0, 1, 0, 0, 0, 64, 0, 0, 0, 0, 0, 0, 0]
)
_FITS = b"".join(
    card.ljust(80)
    for card in (b"SIMPLE  =                    T", b"BITPIX  =                   16",
                 b"NAXIS   =                    0", b"END")
).ljust(2880)  # fmt: skip
_LEVEL3 = b"SDUS53 KDMX 011200\r\r\nN0QDMX\r\r\n" + bytes(range(256))
_SELECTION = render_selection(
    Selection(datasets=("goes-glm",), attempts_min=1, purpose=Purpose.FAILED_ONLY),
    env="dev",
    reason="incident",
).encode()
_PLAN, _ROW = a_plan(("0001d5a0-0000-8000-8000-000000000000", 3, "replay")).splitlines(
    keepends=True
)
_PEM = certificate("sns.amazonaws.com", rsa_key("fuzz")).public_bytes(Encoding.PEM)
_ENTRY = b'{"kind":"pre","at":"2026-06-01T12:00:00Z","node_id":"a","task_id":"b","body":{"x":1}}'
_ANCHOR = b'{"chain_hash":"%s","position":1,"sealed_at":"2026-06-01T12:00:00Z"}\n' % (b"a" * 64)
_LISTED = b"s3://noaa-goes19/a.nc\nGLM/b.nc\n"
_CSV = b"""Bucket,Key,Size,LastModifiedDate,ETag,IsLatest
noaa-goes19,GLM/b.nc,12,2026-06-01T12:00:00.000Z,"abc",true
"""
_MANIFEST = b"""{"fileFormat":"CSV","fileSchema":"Bucket, Key, Size",
  "files":[{"key":"data/rows.csv.gz","MD5checksum":"%s"}]}""" % (
    hashlib.md5(_ROWS, usedforsecurity=False).hexdigest().encode()
)
_TOML = b'[database]\nurl = "sqlite:///x.db"\n[worker]\nbatch = 5\n[queue]\nvisibility_s = 30.5\n'
_TEXTS = [
    b"s3://noaa-goes19/GLM-L2-LCFA/2026/152/12/a%20b+c.nc",
    b"https://user:pass@host.example:8443/a?token=abc#f",
    b"password=hunter2 Authorization: Bearer abc.def.ghi \x1b[31mred\x1b[0m \xe2\x80\xa8 next",
    b"arn:aws:sqs:us-east-1:123456789012:nodd",
    b"https://sqs.us-east-1.amazonaws.com/123456789012/nodd",
    b"../../etc/passwd",
    b"run-1",
]

PARSERS: dict[str, Parser] = {
    parser.name: parser
    for parser in (
        Parser(name="message", read=_message, seeds=[_SNS, event(record()).encode()]),
        Parser(name="strict JSON", read=load_strict, seeds=[_SNS, b'{"a":[1,2.5,null,"x"]}']),
        Parser(name="SNS envelope", read=_envelope, seeds=[_SNS]),
        Parser(name="certificate", read=read_certificate, seeds=[_PEM]),
        Parser(name="event key", read=lambda data: key_of_event(_text(data)), seeds=_TEXTS),
        Parser(
            name="object address", read=lambda data: canonical_object_uri(_text(data)), seeds=_TEXTS
        ),
        Parser(
            name="keys of datasets", read=_keys, seeds=[each.place.key.encode() for each in _THINGS]
        ),
        *(
            Parser(
                name=f"header {each.value}",
                read=partial(_header, each),
                seeds=[
                    *_FILES,
                    _TIFF,
                    _FITS,
                    _LEVEL3,
                    *(gzip.compress(content, 1, mtime=0) for content in _FILES),
                    bz2.compress(_FILES[0], 1),
                ],
            )
            for each in FileFormat
        ),
        Parser(name="GRIB2 index", read=grib2_index.read_header, seeds=[_IDX]),
        Parser(name="listing", read=partial(_file, _listing, "listing.txt"), seeds=[_LISTED]),
        Parser(name="listing CSV", read=partial(_file, _listing, "listing.csv"), seeds=[_CSV]),
        Parser(
            name="listing CSV, packed",
            read=partial(_file, _listing, "listing.csv.gz"),
            seeds=[gzip.compress(_CSV, mtime=0)],
        ),
        Parser(name="inventory", read=partial(_file, _listing, "manifest.json"), seeds=[_MANIFEST]),
        Parser(
            name="listing Parquet", read=partial(_file, _listing, "a.parquet"), seeds=[_parquet()]
        ),
        Parser(name="YAML", read=load_yaml, seeds=[_SELECTION]),
        Parser(name="selection", read=parse_selection, seeds=[_SELECTION]),
        Parser(name="plan header", read=plan_file.read_header, seeds=[_PLAN]),
        Parser(name="plan row", read=lambda data: plan_file.read_row(data, 1), seeds=[_ROW]),
        Parser(name="anchors", read=partial(_file, read_anchors, "anchors.jsonl"), seeds=[_ANCHOR]),
        Parser(
            name="settings", read=partial(_file, _configuration, "tallgrass.toml"), seeds=[_TOML]
        ),
        Parser(name="node entry", read=Entry.read, seeds=[_ENTRY]),
        Parser(name="node ids", read=_round_trip, seeds=_TEXTS),
        Parser(name="target URL", read=lambda data: read_url(_text(data)), seeds=_TEXTS),
        Parser(name="queue address", read=lambda data: read_address(_text(data)), seeds=_TEXTS),
        Parser(name="printed text", read=_redacted, seeds=_TEXTS),
    )
}

#: What breaks readers: structure, escapes, numbers, halves of characters.
PIECES: tuple[bytes, ...] = (
    *(bytes([one]) for one in b'{}[],:"\\\x00\xff\n\r\t %+&*!|>-'),
    b"\xed\xa0\x80", b"\xe2\x80\xa8", b"\xef\xbb\xbf", b"\\u0000", b"\\ud800", b"%00", b"%2e%2e%2f",
    b"null", b"NaN", b"1e400", b"-1", b"99999999999999999999", b"[" * 100, b"../", b"\x1b[31m",
    b"&a *a", b"!!python/object", b"\x80\x04\x95", b"\xff\xff\xff\xff", b"\x00\x00\x00\x00",
    b"\x7f\xff\xff\xff", b"9999-12-31T23:59:60Z", b"0000-00-00", b"A" * 300,
)  # fmt: skip


def mutated(seed: bytes, edits: Sequence[tuple[int, int, bytes]]) -> bytes:
    """Replace stretches of a valid example: (position, length, with what), each within its end."""
    data = seed
    for position, length, piece in edits:
        at = position % (len(data) + 1)
        data = data[:at] + piece + data[at + length :]
    return data


def read_one(parser: Parser, data: bytes) -> str:
    """Return how a parser answered: `value`, or the code of its error; anything else is raised."""
    try:
        parser.read(data)
    except TallgrassError as error:
        return error.code
    return "value"
