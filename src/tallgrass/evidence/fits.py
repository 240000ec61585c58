"""FITS: the cards of the first header, and whether the file is made of whole blocks.

Layout: FITS Standard 4.0. Header and data fill blocks of 2,880 bytes; a header is a row of cards of
80 characters that ends with `END`. Its numbers say how long the data behind it are.
"""

import re

from tallgrass.clock import format_instant, parse_instant
from tallgrass.errors import InvalidInput
from tallgrass.evidence.header import NOT_THE_FORMAT, TOO_SHORT, Seen, Verdict, wrong_start

MAGIC = b"SIMPLE  =                    T"

_BLOCK_BYTES = 2880
_CARD_BYTES = 80
_HEADER_BYTES_MAX = 40 * _BLOCK_BYTES
_BITS = ("8", "16", "32", "64", "-32", "-64")
_AXES_MAX = 999
_CARD = re.compile(r"([A-Z0-9_-]{1,8}) *= +('(?:[^']|'')*'|[^/ ]+)")
#: Card → key of the evidence.
_TIMES = {"DATE-BEG": "start", "DATE-OBS": "start", "DATE-END": "end"}
_TEXTS = {"TELESCOP": "telescope", "INSTRUME": "instrument"}


def read_header(seen: Seen) -> Verdict:
    """Return shape, times and instrument, and whether header and data fit into whole blocks."""
    if not seen.head.startswith(MAGIC):
        return {}, (wrong_start(seen.head, MAGIC),)
    cards, end = _cards(seen)
    length = _data_bytes(cards)
    if length is None:
        return {}, (TOO_SHORT if seen.size < _BLOCK_BYTES else NOT_THE_FORMAT,)
    header: dict[str, object] = {"format": "fits", **_told(cards)}
    complete: bool | None = None
    if end is not None or seen.size % _BLOCK_BYTES:
        least = (end or 0) + -(-length // _BLOCK_BYTES) * _BLOCK_BYTES
        complete = seen.size >= least and seen.size % _BLOCK_BYTES == 0
    header["complete"] = complete
    return header, (TOO_SHORT,) if complete is False else ()


def _cards(seen: Seen) -> tuple[dict[str, str], int | None]:
    """Return the cards that can be seen, and where the blocks of the header end, if it is seen."""
    cards: dict[str, str] = {}
    for start in range(0, min(seen.size, _HEADER_BYTES_MAX), _BLOCK_BYTES):
        block = seen.at(start, _BLOCK_BYTES)
        whole = block is not None and len(block) == _BLOCK_BYTES
        text = (seen.head[start:] if block is None else block).decode("ascii", "replace")
        for at in range(0, len(text), _CARD_BYTES):
            card = text[at : at + _CARD_BYTES]
            if card.rstrip() == "END":
                return cards, start + _BLOCK_BYTES
            match = _CARD.match(card)
            if match is not None:
                cards.setdefault(match[1], match[2].strip("'").strip())
        if not whole:
            break
    return cards, None


def _data_bytes(cards: dict[str, str]) -> int | None:
    """Return how many bytes of data follow the header, or None where it does not say."""
    bits, axes = cards.get("BITPIX"), _number(cards.get("NAXIS"))
    if bits not in _BITS or axes is None or axes > _AXES_MAX:
        return None
    length = abs(int(bits)) // 8 if axes else 0
    for axis in range(1, axes + 1):
        size = _number(cards.get(f"NAXIS{axis}"))
        if size is None:
            return None
        length *= size
    return length


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and re.fullmatch(r"\d{1,12}", text) else None


def _told(cards: dict[str, str]) -> dict[str, object]:
    axes = [cards[f"NAXIS{axis}"] for axis in range(1, int(cards["NAXIS"]) + 1)][:8]
    told: dict[str, object] = {"shape": [int(size) for size in reversed(axes)]}
    told |= {key: cards[card][:80] for card, key in _TEXTS.items() if cards.get(card)}
    for card, key in _TIMES.items():
        text = cards.get(card)
        if text and key not in told:
            try:
                told[key] = format_instant(parse_instant(text.removesuffix("Z") + "Z"))
            except InvalidInput:
                continue
    return told
