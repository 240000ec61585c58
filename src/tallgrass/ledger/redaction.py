r"""Error messages without secrets, persons or places.

Rather a word too many hidden than a secret kept: a pattern takes all that may belong to a value.
"""

import re
from typing import NamedTuple

#: A message is a summary; what is longer is cut.
MESSAGE_CHARS_MAX = 500
#: Patterns do not run over megabytes.
_SCANNED_CHARS_MAX = 4 * MESSAGE_CHARS_MAX
#: An escape or a cut can make a new match of what is left; a few passes settle it.
_PASSES_MAX = 8

#: Names whose value is a secret, alone or as part of a longer name.
_SENSITIVE = r"""(?:
    passw(?:or)?d | passphrase | pwd | secret | token | signature | credential | cookie | session
    | authorization
    | (?:api|access|account|shared|private|encryption|signing|client)[_-]?key
    | (?<![^\W_]) (?:sig|pass|pw|pin|auth|ssn) (?![^\W_])
)"""
_NAME = rf"[\w.-]{{0,64}} {_SENSITIVE} [\w.-]{{0,64}}"
#: In quotes, in escaped quotes, or up to the next blank; the closing quote may have been cut off.
_VALUE = r"""(?:
    \[redacted\]
    | \\" (?:(?!\\").)* (?:\\")? | \\' (?:(?!\\').)* (?:\\')?
    | "(?:[^"\\]|\\.)*"? | '(?:[^'\\]|\\.)*'?
    | \S+
)"""
_SIGN = r"[-+\u2212]?"
#: Where a word begins and ends in the key of an object, too: an underscore is no letter there.
_BEGIN, _END = r"(?<![^\W_])", r"(?![^\W_])"
_AXIS = rf"{_BEGIN} (?:[a-z]+_)? (?:lat(?:itude)?|lon(?:gitude)?|lng)s? (?:_[a-z]+)? (?![^\W\d_])"
_LABEL = rf"""{_AXIS} ['"]? (?: \s*[=:]\s* | \s+(?:(?:of|is|was)\s+)? | _?(?={_SIGN}\d) )"""
_COMPASS = rf"(?-i:[NSEW]){_END}"
_DEGREES = rf"{_SIGN} \d{{1,3}}\.\d+ (?:\s*°?\s*{_COMPASS})?"
_NUMBERS = r"[-+\u2212\d.,\s\[\](){}]"


#: One of these is in every name whose value is a secret.
_NAME_SIGNS = (
    "passw", "passphrase", "pwd", "secret", "token", "signature", "credential", "cookie", "session",
    "authorization", "key", "sig", "pass", "pw", "pin", "auth", "ssn",
)  # fmt: skip
#: Patterns take two letters of Turkish for an i: one has no dot, one leaves its dot behind.
_ALSO_I = {0x131: "i", 0x307: None}


class _Rule(NamedTuple):
    pattern: re.Pattern[str]
    replacement: str
    #: In small letters. It can match only where one of these stands: to look for them first spares
    #: the address of an object, which every trace tells, 1.8 of 1.9 ms.
    signs: tuple[str, ...] = ()
    #: Whether it can match only where the name of a secret stands. It takes long to find that out.
    needs_name: bool = False
    #: A part of each match that is quickly looked for: a quarter of the time of an address.
    part: re.Pattern[str] | None = None


def _pattern(
    expression: str, replacement: str, *signs: str, part: re.Pattern[str] | None = None
) -> _Rule:
    flags = re.IGNORECASE | re.VERBOSE | re.DOTALL
    needs_name = _SENSITIVE in expression
    signs = _NAME_SIGNS if needs_name else signs
    return _Rule(re.compile(expression, flags), replacement, signs, needs_name, part)


_FRACTION = re.compile(r"\d\.\d")
_BEHIND_A_COLON = re.compile(r":[0-9a-f:]", re.IGNORECASE)


_SECRETS = (
    _pattern(
        r"-----BEGIN\ [A-Z ]*PRIVATE\ KEY[A-Z ]*-----.*?(?:-----END\ [A-Z ]*-----|\Z)",
        "[key]",
        "-----",
    ),
    # A whole header line: it holds several values.
    _pattern(
        r"""\b(?P<name>(?:proxy-)?authorization|(?:set-)?cookie)\s*:\s*
            (?!\s|\[redacted\]) [^\r\n'"]+""",
        r"\g<name>: [redacted]",
        "authorization",
        "cookie",
    ),
    # user:password@ up to the last @ of an address, and everything after its question mark.
    _pattern(
        r"(?P<scheme>\b[a-z][a-z0-9+.-]{0,20}://)[^\s'\"<>?]*@", r"\g<scheme>[redacted]@", "@"
    ),
    _pattern(
        r"(?P<address>\b[a-z][a-z0-9+.-]{0,20}://[^\s?'\"<>]+)\?[^\s'\"<>]+",
        r"\g<address>?[redacted]",
        "?",
    ),
    _pattern(r"\b(?:bearer|basic)\s+[A-Za-z0-9._~+/=-]{6,}", "[credential]", "bearer", "basic"),
    # <Password>…, name=value and its like, --name value, name "value".
    _pattern(rf"<(?P<name>{_NAME})>[^<]+", r"<\g<name>>[redacted]"),
    _pattern(
        rf"""(?P<name>{_NAME}) (?P<sep>\\?['"]?\]? \s* (?:[=:]+>?|->|%3[AD]) \s*) {_VALUE}""",
        r"\g<name>\g<sep>[redacted]",
    ),
    _pattern(rf"(?P<name>(?<!\S)--?{_NAME})\s+{_VALUE}", r"\g<name> [redacted]"),
    _pattern(
        rf"""(?P<name>{_SENSITIVE}) \s+ (?:is\s+)? (?:'[^']+'|"[^"]+")""", r"\g<name> [redacted]"
    ),
    # Keys that show what they are by their form.
    # In capitals only: one checksum of 65,536 begins with acca.
    _pattern(
        r"\b(?-i:(?:AKIA|ASIA|AROA|AIDA|ABIA|ACCA)[A-Z0-9]{12,})\b",
        "[credential]",
        *("akia", "asia", "aroa", "aida", "abia", "acca"),
    ),
    _pattern(
        r"""\b(?: gh[pousr]_ | github_pat_ | glpat- | npm_ | pypi- | hf_ | dop_v1_ | xox[abeprs]-
            | whsec_ | sk- | [spr]k_(?:live|test)_ | ya29\. | AIza | eyJ | SG\. )
            [A-Za-z0-9._-]{8,}""",
        "[credential]",
        *("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "npm_", "pypi-", "hf_"),
        *("dop_v1_", "xox", "whsec_", "sk-", "k_live_", "k_test_", "ya29.", "aiza", "eyj", "sg."),
    ),
    # 40 characters with capitals, small letters and digits: an AWS secret key.
    _pattern(
        r"""(?<![A-Za-z0-9/+=]) (?=[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+=]))
            (?=\S{0,39}(?-i:[a-z])) (?=\S{0,39}(?-i:[A-Z])) (?=\S{0,39}\d) [A-Za-z0-9/+]{40}""",
        "[credential]",
    ),
)

_PERSONS_AND_MACHINES = (
    _pattern(
        r"""(?:"[^"]{1,64}"|[\w.%+'-]{1,64}) (?:@|%40) [\w-]{1,63}(?:\.[\w-]{1,63})*""",
        "[e-mail]",
        "@",
        "%40",
    ),
    _pattern(
        r"(?P<folder>[/\\](?:home|users)[/\\])[^/\\\s'\":]+", r"\g<folder>[user]", "home", "users"
    ),
    # IPv4, MAC, IPv6 in full and shortened.
    _pattern(r"\b(?:\d{1,3}\.){3}\d{1,3}\b", "[address]", part=_FRACTION),
    _pattern(r"\b(?:[0-9a-f]{2}[:-]){5}[0-9a-f]{2}\b", "[address]"),
    _pattern(
        r"""(?<![\w:]) (?: (?:[0-9a-f]{1,4}:){7}[0-9a-f]{1,4}
            | (?:[0-9a-f]{1,4}(?::[0-9a-f]{1,4}){0,6})? :: [0-9a-f]{1,4}(?::[0-9a-f]{1,4}){0,6}
            ) (?![\w:])""",
        "[address]",
        part=_BEHIND_A_COLON,
    ),
    # Social security and card numbers, then telephones.
    _pattern(
        r"""(?<![\w.-]) (?: \d{3}-\d{2}-\d{4} | \d{4}([ -])\d{4}\1\d{4}\1\d{1,4} | [3-6]\d{15} )
            (?![\w-])""",
        "[number]",
    ),
    _pattern(
        r"""(?<![\w.-]) (?:\+?\d{1,3}[ .-]?)? (?:\(\d{3}\)[ ]?|\d{3}[ .-]) \d{3}[ .-]\d{4}
            (?![\w-])""",
        "[number]",
    ),
    _pattern(r"(?<!\w)\+\d{1,3}[ .-]?(?:\(?\d{2,5}\)?[ .-]?){1,4}\d{3,}(?!\w)", "[number]", "+"),
)

_PLACES = (
    # coordinates: [-95, 38] and bbox=-95,38,-94,39; then POINT(-95 38).
    _pattern(
        rf"""\b(?P<name>coordinates|bbox|bounds|extent) (?P<sep>['"]?\s*[=:]\s*)
             {_NUMBERS}* \d {_NUMBERS}*""",
        r"\g<name>\g<sep>[coordinates] ",
        *("coordinates", "bbox", "bounds", "extent"),
    ),
    _pattern(
        rf"\b(?:multi)?(?:point|linestring|polygon) \s* z?m? \s* \( {_NUMBERS}+",
        "[coordinates] ",
        *("point", "linestring", "polygon"),
    ),
    # "lats": [38.9, null, 39.1], to the end of the list.
    _pattern(
        rf"""{_AXIS} ['"]? \s*[=:]\s* [\[(] (?:{_NUMBERS}|null|none|nan)* \d
             (?:{_NUMBERS}|null|none|nan)*""",
        "[coordinates] ",
        "[",
        "(",
    ),
    # 38.9, -95.2 and lat=38.9 lon=-95.2; obs_38.9_-95.2; one of them alone; N38.9; 38°58'18"N.
    _pattern(
        rf"(?:{_LABEL})? {_DEGREES} [\s,;/_]+ (?:{_LABEL})? {_DEGREES}",
        "[coordinates]",
        part=_FRACTION,
    ),
    _pattern(rf"{_LABEL} {_SIGN} \d{{1,3}}(?:\.\d+)? {_END}", "[coordinates]", "lat", "lon", "lng"),
    _pattern(rf"{_BEGIN}(?-i:[NSEW])\s?\d{{1,3}}\.\d+", "[coordinates]", part=_FRACTION),
    _pattern(
        rf"""{_SIGN} \d{{1,3}}(?:\.\d+)?\s*°
             (?: \s*\d{{1,2}}(?:\.\d+)?\s*['\u2032\u2019]
                 (?:\s*\d{{1,2}}(?:\.\d+)?\s*(?:["\u2033]|''))? )?
             (?:\s*{_COMPASS})?""",
        "[coordinates]",
        "°",
    ),
)

_PATTERNS = (*_SECRETS, *_PERSONS_AND_MACHINES, *_PLACES)

_SENSITIVE_NAME = re.compile(_SENSITIVE, re.IGNORECASE | re.VERBOSE)

#: What opens doors and shows it by its form: keys, tokens, a password in an address. No word before
#: it is needed, so a payload is searched for it, too.
CREDENTIALS_BY_FORM = (
    *(each.pattern for each in _SECRETS if each.replacement in {"[key]", "[credential]"}),
    # Before the host alone: s3://bucket/x@2x.png names no user.
    re.compile(r"\b[a-z][a-z0-9+.-]{0,20}://[^\s'\"<>?/#]*@", re.IGNORECASE),
)


def redact(message: str) -> str:
    """Return the message as one short, printable line without what must not be kept."""
    text = message
    if len(text) > _SCANNED_CHARS_MAX:
        # At a blank, so that no half of a secret is left that a pattern would not know.
        words = text[:_SCANNED_CHARS_MAX].rsplit(maxsplit=1)
        text = words[0] if words else ""
    for _ in range(_PASSES_MAX):
        redacted = _redact_once(text)
        if redacted == text:
            break
        text = redacted
    return text


def _redact_once(text: str) -> str:
    # They follow one another, so where the first finds no name, the others find none.
    nameless = False
    small = small_letters(text)
    for pattern, replacement, signs, needs_name, part in _PATTERNS:
        if signs and not any(sign in small for sign in signs):
            continue
        if part is not None and part.search(text) is None:
            continue
        if needs_name:
            nameless = nameless or _SENSITIVE_NAME.search(text) is None
            if nameless:
                continue
        text, replaced = pattern.subn(replacement, text)
        if replaced:
            small = small_letters(text)
    text = printable(text)
    if len(text) > MESSAGE_CHARS_MAX:
        text = text[: MESSAGE_CHARS_MAX - 1] + "…"
    return text


def small_letters(text: str) -> str:
    """Return the text so that each letter is the small one that a pattern takes it for."""
    return text.lower() if text.isascii() else text.casefold().translate(_ALSO_I)


def printable(text: str) -> str:
    """Return the text with whatever begins a line or steers a terminal written as escapes.

    That is every control and format character, line and paragraph separators, and halves of pairs.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _escaped(char) for char in text)


def _escaped(char: str) -> str:
    """Write a control, format or broken character by the number of its code point."""
    return f"\\u{ord(char):04x}"
