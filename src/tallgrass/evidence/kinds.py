"""Files without a reader of their own: whether their bytes are what the name says, and end so."""

import re

from tallgrass.evidence.header import NOT_THE_FORMAT, TOO_SHORT, Seen
from tallgrass.evidence.text_tables import issue_of_text
from tallgrass.evidence.wrapping import ends_a_block, inflated

#: How a name ends → how such a file begins.
_STARTS = (
    (re.compile(r"\.gz$"), b"\x1f\x8b\x08"),
    (re.compile(r"\.bz2$"), b"BZh"),
    (re.compile(r"\.xz$"), b"\xfd7zXZ\x00"),
    (re.compile(r"\.zst$"), b"\x28\xb5\x2f\xfd"),
    (re.compile(r"\.parquet$"), b"PAR1"),
    (re.compile(r"\.zip$"), b"PK"),
    (re.compile(r"\.png$"), b"\x89PNG"),
    (re.compile(r"\.jpe?g$"), b"\xff\xd8\xff"),
    (re.compile(r"\.pdf$"), b"%PDF"),
)
_MARKUP = re.compile(r"\.(?:xml|x?html?|kml|gml|svg|rss|atom|xsd|xslt?|ncml)$", re.IGNORECASE)
_SUFFIX = re.compile(r"\.[A-Za-z0-9]{1,8}$")
_JSON = re.compile(r"\.(?:json|geojson|zarr)$")
#: What a store or a web server answers in place of an object, saved as one.
_ERROR = re.compile(rb"(?:\xef\xbb\xbf)?\s*(?:<\?xml[^>]*>\s*)?<Error\b")
_PAGE = re.compile(rb"(?:\xef\xbb\xbf)?\s*(?:<!doctype html|<html)\b", re.IGNORECASE)
_CLOSING = {b"{": b"}", b"[": b"]"}
#: A gzip file is read to its end up to here, some 10 ms.
_GZIP_WHOLE_BYTES_MAX = 1024 * 1024


def issue_of(key: str, seen: Seen) -> str | None:
    """Return what is wrong with the bytes of an object of this name, as far as any file shows it.

    Zeros are no file, an error document is no data, a suffix that stands for a format is kept, and
    where such a format has an end, it is there. Text is text, and a table of text ends with a row.
    """
    name = key.rsplit("/", 1)[-1]
    if not seen.head:
        return None
    if not any(seen.head) or _is_an_answer(name, seen.head):
        return NOT_THE_FORMAT
    start = next((start for suffix, start in _STARTS if suffix.search(name)), None)
    if start is not None and not seen.head.startswith(start):
        return TOO_SHORT if start.startswith(seen.head) else NOT_THE_FORMAT
    return issue_of_text(name, seen) if _ends(name, start, seen) else TOO_SHORT


def _is_an_answer(name: str, head: bytes) -> bool:
    if _MARKUP.search(name):
        return False
    if _ERROR.match(head):
        return True
    return bool(_SUFFIX.search(name) and _PAGE.match(head))


def _ends(name: str, start: bytes | None, seen: Seen) -> bool:
    """Tell whether the end of a format is there, where it has one that can be seen."""
    if start == b"PAR1":
        return seen.size > 2 * len(start) and seen.tail.endswith(start)
    if start == b"BZh":
        return ends_a_block(seen.tail)
    if start == b"\x1f\x8b\x08" and seen.more is not None and seen.size <= _GZIP_WHOLE_BYTES_MAX:
        return inflated(seen)[1] != TOO_SHORT
    closing = _CLOSING.get(seen.head.lstrip()[:1]) if _JSON.search(name) else None
    return closing is None or seen.tail.rstrip().endswith(closing)
