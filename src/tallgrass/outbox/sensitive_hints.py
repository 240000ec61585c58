"""Quick looks at a text: only where one says that something may be there need patterns be asked.

Every payload is looked through while its publisher's transaction is open, and the patterns take
longer than all else that is done to it. A hint may be wrong; where there is none, no pattern would
find anything.
"""

import re
import string
from typing import NamedTuple

#: Digits of any script, as numbers of persons have them; dates do not.
_DIGITS = re.compile(r"\+\d|\d{3}(?:[ .)-]{1,2}\d{2,4}[ .-]\d{4}|\d{12})")
#: With each digit as 0 and each blank and point as a dash, a number of a person holds one of these,
#: most of them with the same end.
_SHAPE_OF = bytes.maketrans(b"123456789 .", b"000000000--")
_PARTED = "0-0000"
_SHAPES = ("000-00-0000", "000-000-0000", "000)000-0000", "000)-000-0000", "0000-0000-0000-000")
_UNPARTED = "0" * 15
#: What all names of secrets hold, in small letters and without dashes.
_SECRETS = (
    "pass", "pwd", "secret", "authoriz", "credential", "cookie", "signature", "token", "ssn",
)  # fmt: skip
#: And what stands before "key" in the names of those.
_KEYS = ("api", "access", "private", "signing", "encryption", "shared", "account")
#: What credentials begin with, in small letters: a word by itself, or the beginning of one. Without
#: digits there are half as many words to look at.
_DIGITS_OF_WORDS = string.digits.encode()
_LETTERS = string.ascii_lowercase.encode()
_WORDS_OF = bytes(each if each in _LETTERS else ord(" ") for each in range(256))
_WORDS = frozenset(word.encode() for word in (
    "private", "bearer", "basic", "ghp", "gho", "ghu", "ghs", "ghr", "github", "glpat", "npm",
    "pypi", "hf", "dop", "xoxa", "xoxb", "xoxe", "xoxp", "xoxr", "xoxs", "whsec", "sk", "rk", "pk",
    "ya", "sg",
))  # fmt: skip
_BEGINNINGS = ("aiza", "eyj")
#: The id of a key of AWS is a run of capitals and digits.
_OF_IDS = (string.ascii_uppercase + string.digits).encode()
_CAPITALS_OF = bytes(ord("A") if each in _OF_IDS else ord(" ") for each in range(256))
_CAPITALS = "A" * 16
_IDS = (b"AKIA", b"ASIA", b"AROA", b"AIDA", b"ABIA", b"ACCA")
#: A secret key of AWS has 40 of these characters, and nothing else to know it by.
_OF_KEYS = (string.ascii_letters + string.digits + "/+=").encode()
_RUN_OF = bytes(ord("a") if each in _OF_KEYS else ord(" ") for each in range(256))
_RUN = b" " + b"a" * 40 + b" "


class Hints(NamedTuple):
    """What a text may hold."""

    addresses: bool
    numbers: bool
    names_of_secrets: bool
    credentials: bool


def hints_in(text: bytes) -> Hints:
    """Look through a text, or through JSON that escapes no other scripts."""
    plain = text.isascii()
    lowered = text.lower() if plain else text.decode().casefold().encode()
    # Searched as text: bytes take twice as long.
    undashed = lowered.translate(None, b"_-").decode()
    return Hints(
        b"@" in text or (b"%" in text and b"%40" in text),
        _has_shape(text.translate(_SHAPE_OF).decode())
        or (not plain and _DIGITS.search(text.decode()) is not None),
        _has_one(undashed, _SECRETS) or _has_key(undashed),
        # An escape ends in a letter, which then seems to belong to what follows.
        b"\\" in text
        or _RUN in b" %b " % text.translate(_RUN_OF)
        or not _WORDS.isdisjoint(lowered.translate(_WORDS_OF, _DIGITS_OF_WORDS).split())
        or _has_one(undashed, _BEGINNINGS)
        or (
            _CAPITALS in text.translate(_CAPITALS_OF).decode() and any(one in text for one in _IDS)
        ),
    )


def _has_key(text: str) -> bool:
    for before in text.split("key")[:-1]:  # noqa: SIM110 - as in _has_one
        if before.endswith(_KEYS):
            return True
    return False


def _has_shape(shape: str) -> bool:
    return (
        ("+" in shape and "+0" in shape)
        or (_PARTED in shape and _has_one(shape, _SHAPES))
        or _UNPARTED in shape
    )


def _has_one(text: str, parts: tuple[str, ...]) -> bool:
    for part in parts:  # noqa: SIM110 - a generator takes twice as long
        if part in text:
            return True
    return False
