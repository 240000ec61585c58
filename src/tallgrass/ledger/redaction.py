"""Error messages without secrets, persons or places."""

import re
from collections.abc import Callable

#: A message is a summary; what is longer is cut.
MESSAGE_CHARS_MAX = 500
#: Patterns do not run over megabytes.
_SCANNED_CHARS_MAX = 4 * MESSAGE_CHARS_MAX

_PATTERNS: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = (
    (re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*-----|\Z)", re.DOTALL), "[key]"),
    # user:password@ and everything after ? of an address: signatures, tokens, SAS, credentials.
    (re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*://)[^\s/@'\"]+@", re.IGNORECASE), r"\g<scheme>[redacted]@"),
    (re.compile(r"(?P<address>[a-z][a-z0-9+.-]*://[^\s?'\"<>]+)\?[^\s'\"<>]+", re.IGNORECASE), r"\g<address>?[redacted]"),
    (re.compile(r"\b(?:bearer|basic)\s+[A-Za-z0-9._~+/=-]{6,}", re.IGNORECASE), "[credential]"),
    (
        re.compile(
            r"(?P<name>[\w.-]*(?:passw(?:or)?d|passphrase|secret|token|api[_-]?key|access[_-]?key|"
            r"authorization|signature|credential|session[_-]?id|cookie)[\w.-]*)"
            r"(?P<sep>['\"]?\s*[=:]\s*['\"]?)[^\s'\",;&)}\]]+",
            re.IGNORECASE,
        ),
        r"\g<name>\g<sep>[redacted]",
    ),
    (re.compile(r"\b(?:AKIA|ASIA|AROA|AIDA)[A-Z0-9]{12,}\b"), "[credential]"),
    (re.compile(r"\b(?:gh[pousr]_|xox[abprs]-|whsec_|sk-|eyJ)[A-Za-z0-9._-]{8,}"), "[credential]"),
    (re.compile(r"\b[A-Za-z0-9._%+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+\b"), "[e-mail]"),
    (re.compile(r"\b(?:\d{1,3}\.){3}\d{1,3}\b"), "[address]"),
    (re.compile(r"\b\d{3}-\d{2}-\d{4}\b|\+?\b\d{1,2}[ .-]?\(?\d{3}\)?[ .-]\d{3}[ .-]\d{4}\b"), "[number]"),
    # A pair of decimal degrees, written "38.9, -95.2", "POINT(-95.2 38.9)" or "lat=38.9 lon=-95.2".
    (
        re.compile(
            r"(?:\b(?:lat(?:itude)?|lon(?:gitude)?|lng)\b['\"]?\s*[=:]\s*)?[-+]?\d{1,3}\.\d+\s*"
            r"(?:°?\s*[NSEW]\b)?[\s,;]+(?:(?:lat(?:itude)?|lon(?:gitude)?|lng)\b['\"]?\s*[=:]\s*)?"
            r"[-+]?\d{1,3}\.\d+(?:°?\s*[NSEW]\b)?",
            re.IGNORECASE,
        ),
        "[coordinates]",
    ),
    (re.compile(r"\b(?:lat(?:itude)?|lon(?:gitude)?|lng)\b['\"]?\s*[=:]\s*[-+]?\d{1,3}(?:\.\d+)?", re.IGNORECASE), "[coordinates]"),
)  # fmt: skip

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def redact(message: str) -> str:
    """Return the message as one short, printable line without what must not be kept."""
    text = message
    if len(text) > _SCANNED_CHARS_MAX:
        # At a blank, so that no half of a secret is left that a pattern would not know.
        text = text[:_SCANNED_CHARS_MAX].rsplit(maxsplit=1)[0]
    for pattern, replacement in _PATTERNS:
        text = pattern.sub(replacement, text)
    text = _CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
    if len(text) > MESSAGE_CHARS_MAX:
        text = text[: MESSAGE_CHARS_MAX - 1] + "…"
    return text
