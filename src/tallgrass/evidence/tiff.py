"""TIFF, and the cloud-optimised form of it: the first image, and whether its last tile is there.

Layout: TIFF 6.0, BigTIFF, GeoTIFF 1.1. Directories of fields point to tiles or strips; the file
must reach to the end of the farthest. In a cloud-optimised file the directories stand at the begin.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tallgrass.evidence.header import NOT_THE_FORMAT, TOO_SHORT, Seen, Verdict

MAGICS = (b"II*\x00", b"MM\x00*", b"II+\x00", b"MM\x00+")

_BIG = (b"II+\x00", b"MM\x00+")
_TYPE_BYTES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8, 13: 4}
_TYPE_BYTES |= {16: 8, 17: 8, 18: 8}
_FIELDS_MAX = 512
_DIRECTORIES_MAX = 32
_VALUES_BYTES_MAX = 8 * 1024 * 1024
_WIDTH, _HEIGHT, _BANDS = 256, 257, 277
#: Offsets and lengths of strips, and of tiles.
_PARTS = ((273, 279), (324, 325))
_GEO_KEYS = 34735
_PROJECTED, _GEOGRAPHIC = 3072, 2048
_EPSG_MAX = 32766
_LAYOUT = b"LAYOUT=IFDS_BEFORE_DATA"
_STRUCTURE = re.compile(rb"GDAL_STRUCTURAL_METADATA_SIZE=\d{6} bytes\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Form:
    order: str
    #: Bytes of an offset and of a count, of a field, and of a number of fields.
    word: int
    entry: int
    count: int


class _Unseen(Exception):
    """Bytes that are needed cannot be seen."""


class _Cut(Exception):
    """It ends before what it points to."""


class _Damaged(Exception):
    """It is not as the standard has it."""


def read_header(seen: Seen) -> Verdict:
    """Return size and reference system of the image, and whether all of its parts are there."""
    if not seen.head.startswith(MAGICS):
        cut = any(magic.startswith(seen.head) for magic in MAGICS)
        return {}, (TOO_SHORT if cut else NOT_THE_FORMAT,)
    form, first = _form_of(seen.head)
    if first is None:
        return {}, (TOO_SHORT if seen.size < form.word * 3 else NOT_THE_FORMAT,)
    header: dict[str, object] = {
        "format": "tiff",
        "cloud_optimised": _is_optimised(seen.head, form),
    }
    issue: str | None = None
    complete: bool | None = None
    try:
        end = _follow(seen, form, first, header)
        complete = end <= seen.size
        issue = None if complete else TOO_SHORT
    except _Damaged:
        complete, issue = False, NOT_THE_FORMAT
    except _Cut:
        complete, issue = False, TOO_SHORT
    except _Unseen:
        pass
    header["complete"] = complete
    return header, (issue,) if issue else ()


def _form_of(head: bytes) -> tuple[_Form, int | None]:
    order = "little" if head.startswith(b"II") else "big"
    if head.startswith(_BIG):
        form = _Form(order=order, word=8, entry=20, count=8)
        start, sound = 8, head[4:8] == (b"\x08\x00\x00\x00" if order == "little" else b"\0\x08\0\0")
    else:
        form = _Form(order=order, word=4, entry=12, count=2)
        start, sound = 4, True
    raw = head[start : start + form.word]
    if not sound or len(raw) < form.word:
        return form, None
    first = _number(raw, form)
    return form, first if first >= start + form.word else None


def _is_optimised(head: bytes, form: _Form) -> bool:
    start = 16 if form.word == 8 else 8  # noqa: PLR2004 - bytes of an offset in a BigTIFF
    return bool(_STRUCTURE.match(head, start)) and _LAYOUT in head[start : start + 256]


def _follow(seen: Seen, form: _Form, position: int, header: dict[str, object]) -> int:
    """Follow the directories; return where the farthest part ends."""
    end = 0
    for number in range(_DIRECTORIES_MAX):
        if position == 0:
            break
        fields, position, stop = _directory(seen, form, position)
        end = max(end, stop, _parts_end(seen, form, fields))
        if number == 0:
            header |= _told(seen, form, fields)
    return end


_Field = tuple[int, int, bytes]


def _directory(seen: Seen, form: _Form, position: int) -> tuple[dict[int, _Field], int, int]:
    """Return the fields of a directory, where the next one is, and where this one ends."""
    many = _number(_bytes(seen, position, form.count), form)
    if not 0 < many <= _FIELDS_MAX:
        raise _Damaged
    body = _bytes(seen, position + form.count, many * form.entry + form.word)
    fields: dict[int, _Field] = {}
    for at in range(0, many * form.entry, form.entry):
        tag, kind = _number(body[at : at + 2], form), _number(body[at + 2 : at + 4], form)
        count = _number(body[at + 4 : at + 4 + form.word], form)
        fields[tag] = (kind, count, body[at + 4 + form.word : at + form.entry])
    following = _number(body[-form.word :], form)
    return fields, following, position + form.count + len(body)


def _parts_end(seen: Seen, form: _Form, fields: dict[int, _Field]) -> int:
    end = 0
    for offsets_tag, lengths_tag in _PARTS:
        if offsets_tag not in fields or lengths_tag not in fields:
            continue
        offsets = _values(seen, form, fields[offsets_tag])
        lengths = _values(seen, form, fields[lengths_tag])
        if len(offsets) != len(lengths):
            raise _Damaged
        parts = zip(offsets, lengths, strict=True)
        end = max(end, *(start + length for start, length in parts))
    return end


def _told(seen: Seen, form: _Form, fields: dict[int, _Field]) -> dict[str, object]:
    told: dict[str, object] = {}
    for tag, key in ((_WIDTH, "width"), (_HEIGHT, "height"), (_BANDS, "bands")):
        if tag in fields:
            told[key] = _values(seen, form, fields[tag])[0]
    if not told.get("width") or not told.get("height"):
        raise _Damaged
    if _GEO_KEYS in fields:
        code = _epsg(_values(seen, form, fields[_GEO_KEYS]))
        if code is not None:
            told["epsg"] = code
    return told


def _epsg(keys: Sequence[int]) -> int | None:
    """Return the code of the reference system that the keys name, if they name one."""
    found = {keys[at]: keys[at + 3] for at in range(4, len(keys) - 3, 4) if keys[at + 1] == 0}
    code = found.get(_PROJECTED) or found.get(_GEOGRAPHIC)
    return code if code and code <= _EPSG_MAX else None


def _values(seen: Seen, form: _Form, field: _Field) -> list[int]:
    kind, count, raw = field
    width = _TYPE_BYTES.get(kind)
    if width is None or count == 0:
        raise _Damaged
    length = width * count
    if length > _VALUES_BYTES_MAX:
        raise _Unseen
    data = raw[:length] if length <= len(raw) else _bytes(seen, _number(raw, form), length)
    return [_number(data[at : at + width], form) for at in range(0, length, width)]


def _bytes(seen: Seen, position: int, length: int) -> bytes:
    if position + length > seen.size:
        raise _Cut
    data = seen.at(position, length)
    if data is None:
        raise _Unseen
    return data


def _number(raw: bytes, form: _Form) -> int:
    return int.from_bytes(raw, "little" if form.order == "little" else "big")
