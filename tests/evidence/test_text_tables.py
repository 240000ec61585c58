"""Text and tables of text: bytes that are none, and a last row that is cut."""

from __future__ import annotations

import bz2
import gzip

import pytest

from tallgrass.evidence.formats import HEAD_BYTES, TAIL_BYTES
from tallgrass.evidence.header import Seen
from tallgrass.evidence.kinds import issue_of
from tests.datasets.noaa_data import noaa_data
from tests.evidence.test_unread_kinds import KEYS, OTHER, SHORT, issues_of

ROW = b"USW00094728,20000101,TMAX,100,,,0,2400\n"
LONG = ROW * 400


def judged(name: str, data: bytes) -> str | None:
    """Return what is said of an object of which head and tail can be seen."""
    return issue_of(name, Seen(data[:HEAD_BYTES], data[-TAIL_BYTES:], len(data)))


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.csv", ROW),
        ("a.csv", LONG),
        ("a.csv", LONG[:-1]),
        ("a.csv", LONG.replace(b"\n", b"\r\n")),
        ("a.csv", b"\xef\xbb\xbfa,b\n1,2\n"),
        ("a.csv", "name,value\nCañón,1\n".encode()),
        ("a.csv", "name,value\nCañón,1\n".encode("latin-1")),
        ("a.csv", b"one\ntwo\nthree"),
        ("a.csv", b"a;b\n1,5;2\n3,5;4\n"),
        ("a.csv", b'a,b\n"x, y",1\n"two\nlines",2\n'),
        ("a.csv", b'a,b\n1,"two\nlines"'),
        ("a.csv", b"# Monthly means\nTitle\n\na,b,c\n1,2,3\n"),
        ("a.csv", b"a,b,c\n1,2,3\n\nd,e\n4,5\nEnd of the list"),
        ("a.csv", b"a,b\n" + b"1,2\n" * 1100 + b"3," + b"x" * 2000),
        ("a.tsv", b"a\tb\n1\t2\n"),
        ("a.txt", b"\x01\r\r\n000 \r\r\nFXUS63 KTOP 011200\r\r\nTEXT\x1e\r\r\n\x03"),
        ("a.txt", b"Anything, at all\n1,2,3,4\n"),
        ("a.CSV.gz", gzip.compress(LONG, mtime=0)),
        ("a.csv.bz2", bz2.compress(LONG)),
        # A character of two bytes lies across the end of what is seen of the head.
        ("a.csv", b"a,b\n" + b"1,2\n" * 1022 + "123é,4\n".encode() + b"5,6\n" * 999),
    ],
)
def test_text_is_sound(name: str, data: bytes) -> None:
    """Whatever its characters, ends of lines, separators, titles and notes are."""
    assert judged(name, data) is None


@pytest.mark.parametrize(
    ("name", "data", "issue"),
    [
        ("a.csv", bytes(range(256)), OTHER),
        ("a.txt", b"\x89HDF\r\n\x1a\n" + bytes(99), OTHER),
        ("a.csv.gz", gzip.compress(bytes(range(256)), mtime=0), OTHER),
        ("a.csv", b"a,b,c\n1,2,3\n4,5", SHORT),
        ("a.csv", LONG[:-12], SHORT),
        ("a.csv", b"# Monthly means\na,b,c\n1,2,3\n4,5", SHORT),
        ("a.csv.bz2", bz2.compress(LONG[:-12]), SHORT),
    ],
)
def test_what_is_no_table_is_never_sound(name: str, data: bytes, issue: str) -> None:
    """Other bytes, and a row that breaks off."""
    assert judged(name, data) == issue


def test_the_reader_of_objects_looks_at_tables() -> None:
    """An object of a dataset of tables is judged, whole, cut, or in the place of another file."""
    key = KEYS["ghcn-d"]
    assert issues_of(key, LONG) == ()
    assert issues_of(key, LONG[:-12]) == (SHORT,)
    assert issues_of(key, b"\x89HDF\r\n\x1a\n" + bytes(99)) == (OTHER,)
    assert issues_of(KEYS["ghcn-d.gz"], gzip.compress(bytes(range(256)), mtime=0)) == (OTHER,)


def test_a_real_table_that_is_cut_is_seen() -> None:
    """Of NOAA's own file every row has 17 columns."""
    data = noaa_data("ghcn-d", "1763-1764.csv").read_bytes()
    assert judged("1763.csv", data) is None
    assert judged("1763.csv", data[: data.index(b"\n", 20_000) - 60]) == SHORT
