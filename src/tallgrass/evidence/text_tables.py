"""Text, and tables written as text: whether the bytes are one, and whether its last row is whole.

Neither has a mark at its start or end. What can be seen is that the bytes are characters and, where
the rows of a table have the same number of columns, that the last one has as many. Rows that differ
are not held against a table: some have titles, sections or notes.
"""

import codecs
import csv
import re

from tallgrass.evidence.header import NOT_THE_FORMAT, TOO_SHORT, Seen
from tallgrass.evidence.wrapping import unwrap

_TEXT = re.compile(r"\.(?:csv|tsv|txt)(?:\.gz|\.bz2)?$", re.IGNORECASE)
_TABLE = re.compile(r"\.(?:csv|tsv)(?:\.gz|\.bz2)?$", re.IGNORECASE)
_SEPARATORS = ",;\t|"
#: No text has these. Weather bulletins are framed by the control characters 1 to 3, 30 and 31.
_NO_TEXT = re.compile(r"[\x00\x04-\x06\x0e-\x19\x1c\x1d\x7f]")
_QUOTE = '"'


def issue_of_text(name: str, seen: Seen) -> str | None:
    """Return what is wrong with an object whose name says that it is text; None of any other."""
    if not _TEXT.search(name):
        return None
    inside = unwrap(seen)
    plain = seen if inside is None else inside.seen
    if not plain.head:
        # Nothing of what is wrapped can be seen; its wrapping is judged elsewhere.
        return None
    text = _decoded(plain.head)
    if _NO_TEXT.search(text):
        return NOT_THE_FORMAT
    if not _TABLE.search(name):
        return None
    return None if _ends_with_a_row(text, _decoded(plain.tail)) else TOO_SHORT


def _decoded(data: bytes) -> str:
    """Return the bytes as UTF-8, of which the last character may be cut, else as Latin-1."""
    try:
        return codecs.getincrementaldecoder("utf-8-sig")().decode(data)
    except UnicodeDecodeError:
        return data.decode("latin-1")


def _ends_with_a_row(head: str, tail: str) -> bool:
    """Tell whether the last row has as many columns as the others; what cannot be told counts."""
    last = tail.rpartition("\n")[2]
    # A line's end inside of quotes ends no row; a row that is longer than the tail is not seen.
    if not last.strip() or _QUOTE in tail or "\n" not in tail:
        return True
    rows = head.rpartition("\n")[0]
    separator = max(_SEPARATORS, key=rows.count)
    widths = _widths(rows, separator)
    width = max(widths, default=0)
    # Titles may stand before the table, and have fewer columns.
    alike = bool(widths) and all(each == width for each in widths[widths.index(width) :])
    return not alike or last.count(separator) + 1 >= width


def _widths(text: str, separator: str) -> list[int]:
    """Return how many columns each row has; none where a field may go on beyond what is seen."""
    if text.count(_QUOTE) % 2:
        return []
    try:
        rows = list(csv.reader(text.splitlines(keepends=True), delimiter=separator))
    except csv.Error:
        return []
    return [len(row) for row in rows if row]
