"""Finds what must never stand in a payload: data of persons, and what opens doors.

Detection is by form: a name or the address of a house has none, and is not found. Every payload is
looked through while its publisher's transaction is open, so each pattern is asked only where a
word or a run of digits says that it could match: a usual payload costs microseconds.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from tallgrass.ledger.redaction import CREDENTIALS_BY_FORM

_E_MAIL = re.compile(r"[\w.%+'-]{1,64}(?:@|%40)[\w-]{1,63}(?:\.[\w-]{1,63}){0,8}\.[A-Za-z]{2,24}\b")
_SOCIAL_SECURITY = re.compile(
    r"(?<![\w.-])(?!000|666|9\d\d)\d{3}([ -])(?!00)\d{2}\1(?!0000)\d{4}(?![\w-])"
)
_CARD = re.compile(r"(?<![\w.-])[3-6]\d{3}([ -]?)\d{4}\1\d{4}\1\d{3,4}(?![\w-])")
_TELEPHONE = re.compile(
    r"(?<![\w.-])(?:\+?1[ .-]?)?(?:\([2-9]\d{2}\)[ ]?|[2-9]\d{2}[ .-])[2-9]\d{2}[ .-]\d{4}(?![\w-])"
    r"|(?<![\w.])\+[1-9]\d{0,2}(?:[ -]?\(?\d{2,4}\)?){2,4}(?![\w.])"
)
#: Numbers of persons begin like one of these; dates do not.
_DIGITS = re.compile(r"\d{3}(?:[ .)-]{1,2}\d{2,4}[ .-]\d{4}|\d{12})")

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
#: What all of those names hold.
_WORDS = (
    "passw", "passph", "pwd", "secret", "authoriz", "credential", "cookie", "signature", "token",
    "api_key", "apikey", "api-key", "access_key", "accesskey", "access-key", "private_key",
    "privatekey", "signing_key", "signingkey", "encryption_key", "shared_key", "sharedkey",
    "account_key", "accountkey", "ssn",
)  # fmt: skip
#: A name may hold these and be none of a secret: where one is kept, how many there are.
_HARMLESS_NAME = re.compile(r"(?:_|-)(?:env|file|ref|name|count|type|algorithm)$", re.IGNORECASE)
#: How the forms of credentials begin, in small letters.
_FORMS = (
    "private key", "earer", "asic ", "akia", "asia", "aroa", "aida", "abia", "acca", "ghp_", "gho_",
    "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "npm_", "pypi-", "hf_", "dop_v1_", "xox",
    "whsec_", "sk-", "sk_", "rk_", "pk_", "ya29.", "aiza", "eyj", "sg.",
)  # fmt: skip
#: A secret key of AWS has this length, and nothing else to know it by.
_LONG = 40


def sensitive_kinds(document: Any) -> Iterator[str]:
    """Yield the kinds of content that a JSON document holds and must not."""
    texts: list[str] = []
    named: list[str] = []
    _collect(document, texts, named)
    text = "\n".join(texts)
    lowered = text.lower()
    if ("@" in text or "%40" in text) and _E_MAIL.search(text):
        yield "e-mail address"
    if "+" in text or _DIGITS.search(text):
        yield from _numbers(text)
    if _are_secret_names(named) or _names_a_secret(text, lowered):
        yield "secret"
    if _holds_credential(text, lowered, texts):
        yield "credential"


def _collect(value: Any, texts: list[str], named: list[str]) -> None:
    """Gather all texts, and the names of fields that hold one."""
    if isinstance(value, str):
        texts.append(value)
    elif isinstance(value, Mapping):
        for key, each in value.items():
            if isinstance(each, str):
                texts.append(each)
                if each and each[0] not in "[*":
                    named.append(key)
            elif each.__class__ is not int and each is not None:
                _collect(each, texts, named)
    elif isinstance(value, list | tuple):
        for each in value:
            _collect(each, texts, named)


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


def _are_secret_names(names: list[str]) -> bool:
    return _has_one(" ".join(names).lower(), _WORDS) and any(
        _NAMES.search(name) and not _HARMLESS_NAME.search(name) for name in names
    )


def _names_a_secret(text: str, lowered: str) -> bool:
    if "=" not in text and ":" not in text:
        return False
    return _has_one(lowered, _WORDS) and bool(_NAMED_IN_TEXT.search(text))


def _has_one(lowered: str, words: tuple[str, ...]) -> bool:
    for word in words:  # noqa: SIM110 - a generator takes twice as long
        if word in lowered:
            return True
    return False


def _holds_credential(text: str, lowered: str, texts: list[str]) -> bool:
    has_capitals = text != lowered
    # All forms have a capital or one of these.
    possible = has_capitals or _has_one(text, ("_", "-", ".", " "))
    if ("://" in text and "@" in text) or (possible and _has_one(lowered, _FORMS)):
        return any(pattern.search(text) for pattern in CREDENTIALS_BY_FORM)
    if not has_capitals:  # a secret key of AWS has some
        return False
    return any(CREDENTIALS_BY_FORM[-1].search(each) for each in texts if len(each) >= _LONG)
