"""Finds what must never stand in a payload: data of persons, and what opens doors.

Detection is by form: a name or the address of a house has none, and is not found.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from tallgrass.ledger.redaction import CREDENTIALS_BY_FORM
from tallgrass.outbox.sensitive_hints import hints_in

#: No top-level domain: x@2x.png and flow@1.2.csv are files.
_FILE = r"(?:png|jpe?g|gif|webp|svg|tiff?|jp2|csv|tsv|txt|xml|(?:geo)?json|parquet|grib2?|gz|pdf)\b"
_E_MAIL = re.compile(
    r"[\w.%+'-]{1,64}(?:@|%40)[\w-]{1,63}(?:\.[\w-]{1,63}){0,8}"
    rf"\.(?!(?i:{_FILE}))[A-Za-z]{{2,24}}\b"
)
_SOCIAL_SECURITY = re.compile(
    r"(?<![\w.-])(?!000|666|9\d\d)\d{3}([ -])(?!00)\d{2}\1(?!0000)\d{4}(?![\w-])"
)
_CARD = re.compile(r"(?<![\w.-])[3-6]\d{3}([ -]?)\d{4}\1\d{4}\1\d{3,4}(?![\w-])")
_TELEPHONE = re.compile(
    r"(?<![\w.-])(?:\+?1[ .-]?)?(?:\([2-9]\d{2}\)[ ]?|[2-9]\d{2}[ .-])[2-9]\d{2}[ .-]\d{4}(?![\w-])"
    r"|(?<![\w.])\+[1-9]\d{0,2}(?:[ -]?\(?\d{2,4}\)?){2,4}(?![\w.])"
)
_NAMES = re.compile(
    r"passw(?:or)?d|passphrase|pwd|secret(?!ar)|authorization|credential|cookie|signature"
    r"|(?:api|access|private|signing|encryption|shared|account)[_-]?key"
    r"|(?:^|access|refresh|auth|id|session|security|bearer|oauth|csrf|sas)[_-]?token"
    r"|(?:^|_)ssn(?:$|_)",
    re.IGNORECASE,
)
#: password=… and {"password": "…"} within a text; not what is hidden already.
_NAMED_IN_TEXT = re.compile(
    rf"(?:{_NAMES.pattern.replace('^|', '').replace('(?:^|_)ssn(?:$|_)', 'ssn')})[\w-]{{0,16}}"
    r"""(?:\\?["']?\s*[=:]\s*\\?["']?)(?![\s\[*"'\\&,}]|$)""",
    re.IGNORECASE,
)
#: A name may hold these and be none of a secret: where one is kept, how many there are.
_HARMLESS_NAME = re.compile(r"(?:_|-)(?:env|file|ref|name|count|type|algorithm)$", re.IGNORECASE)
#: A number under such a name counts or measures.
_MEASURE = re.compile(
    r"(?:_|-)(?:max|min|limit|total|used|length|size|bytes|version|days|ms|s)$|^tokens(?:_|$)",
    re.IGNORECASE,
)
#: Of all numbers only those of cards are known without blanks or dashes; they have 15 digits.
_SHORT = 10**14


def sensitive_kinds(document: Any) -> Iterator[str]:
    """Yield the kinds of content that a JSON document holds and must not."""
    texts: list[str] = []
    _collect(document, texts)
    text = "\n".join(texts)
    hints = hints_in(text.encode())
    if hints.addresses and _E_MAIL.search(text):
        yield "e-mail address"
    if hints.numbers:
        yield from _numbers(text)
    if hints.names_of_secrets and (_NAMED_IN_TEXT.search(text) or _names_a_secret(document)):
        yield "secret"
    asked = CREDENTIALS_BY_FORM if hints.addresses or hints.credentials else ()
    if any(pattern.search(text) for pattern in asked):
        yield "credential"


def _collect(value: Any, texts: list[str]) -> None:
    """Gather all texts, names of fields among them, and long numbers as they are written."""
    kind = value.__class__
    if kind is str:
        texts.append(value)
    elif kind is int or kind is float:
        if not -_SHORT < value < _SHORT:
            texts.append(f"{abs(value):.0f}")
    elif isinstance(value, Mapping):
        texts.extend(value)
        for each in value.values():
            _collect(each, texts)
    elif isinstance(value, list | tuple):
        for each in value:
            _collect(each, texts)
    elif isinstance(value, str):
        texts.append(value)


def _numbers(text: str) -> Iterator[str]:
    if _SOCIAL_SECURITY.search(text):
        yield "social security number"
    if any(_passes_luhn(match[0]) for match in _CARD.finditer(text)):
        yield "card number"
    if _TELEPHONE.search(text):
        yield "telephone number"


def _passes_luhn(number: str) -> bool:
    digits = [int(each) for each in number if each.isdigit()]
    doubled = [sum(divmod(2 * each, 10)) for each in digits[-2::-2]]
    return (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0


def _names_a_secret(value: Any) -> bool:
    """Tell whether a field, however deep, has the name of a secret and anything in it."""
    if isinstance(value, Mapping):
        return any(
            (_is_secret(name) and _is_filled(each, name)) or _names_a_secret(each)
            for name, each in value.items()
        )
    return isinstance(value, list | tuple) and any(_names_a_secret(each) for each in value)


def _is_secret(name: str) -> bool:
    return bool(_NAMES.search(name)) and not _HARMLESS_NAME.search(name)


def _is_filled(value: Any, name: str) -> bool:
    """Tell whether there is a value that is not hidden: a text or a number, however deep."""
    if value is None or isinstance(value, bool):
        return False
    if isinstance(value, str):
        return bool(value) and value[0] not in "[*"
    if isinstance(value, Mapping):
        return any(_is_filled(each, name) for each in value.values())
    if isinstance(value, list | tuple):
        return any(_is_filled(each, name) for each in value)
    return not _MEASURE.search(name)
