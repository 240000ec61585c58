from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallgrass.errors import InvalidInput
from tallgrass.intake.strict_json import StrictJsonError, load_strict
from tests.support.cpu_time import least_cpu_s

MIB = 1 << 20
CPU_S_MAX = 0.05


def nested(opening: bytes, closing: bytes, depth: int, core: bytes = b"") -> bytes:
    """Return `depth` containers, one in the other."""
    return opening * depth + core + closing * depth


HOSTILE: dict[str, bytes] = {
    # not JSON at all
    "nothing": b"",
    "a blank": b" ",
    "line breaks": b"\n\r\t ",
    "a NUL": b"\x00",
    "words": b"hello",
    "XML": b"<xml/>",
    "a comment": b"/* x */ 1",
    "a line comment": b"1 // x",
    "single quotes": b"{'a':1}",
    "a bare key": b"{a:1}",
    "a key that is a number": b"{1:1}",
    "Python's True": b"True",
    "Python's None": b"[None]",
    "half a word": b"nul",
    "a form feed": b"\x0c1",
    # cut off
    "an open object": b"{",
    "an open array": b"[1",
    "an open string": b'"abc',
    "an open escape": b'"\\',
    "an open hex escape": b'"\\u12',
    "a key without value": b'{"a"}',
    "a key without anything": b'{"a":',
    # something after, something between
    "two values": b"1 2",
    "two objects": b"{}{}",
    "a closing bracket": b"{}]",
    "a NUL at the end": b"{}\x00",
    "a trailing comma": b"[1,]",
    "a trailing comma of an object": b'{"a":1,}',
    "a leading comma": b"[,1]",
    "no comma": b"[1 2]",
    "the wrong bracket": b"[1}",
    # encodings
    "a byte order mark": b"\xef\xbb\xbf{}",
    "UTF-16": '{"a":1}'.encode("utf-16"),
    "UTF-32": '{"a":1}'.encode("utf-32"),
    "Latin-1": '"é"'.encode("latin-1"),
    "a lone continuation byte": b'"\x80"',
    "an overlong slash": b'"\xc0\xaf"',
    "a cut sequence": b'"\xe2\x82"',
    "beyond Unicode": b'"\xf4\x90\x80\x80"',
    "a surrogate in UTF-8": b'"\xed\xa0\x80"',
    "a lone high surrogate": b'"\\ud800"',
    "a lone low surrogate": b'"\\udc00"',
    "surrogates in the wrong order": b'"\\udc00\\ud800"',
    "a high surrogate and a letter": b'"\\ud800a"',
    "a lone surrogate as key": b'{"\\udfff":1}',
    # strings
    "a raw line break": b'"a\nb"',
    "a raw NUL": b'"a\x00b"',
    "an unknown escape": b'"\\x41"',
    "a bad hex escape": b'"\\u00g0"',
    # keys
    "a key twice": b'{"a":1,"a":1}',
    "a key twice, once escaped": b'{"a":1,"\\u0061":2}',
    "a key twice, deep": b'[{"x":{"a":1,"b":2,"a":3}}]',
    "an empty key twice": b'{"":1,"":2}',
    # numbers
    "NaN": b"NaN",
    "NaN inside": b'{"a":NaN}',
    "Infinity": b"Infinity",
    "minus Infinity": b"[-Infinity]",
    "a huge exponent": b"1e400",
    "a huge negative exponent's sign": b"-1e400",
    "a huge exponent inside": b'{"a":[1,{"b":1E999}]}',
    "a number of 400 digits with a point": b"9" * 400 + b".0",
    "2 to the 63rd": b"9223372036854775808",
    "below the least": b"-9223372036854775809",
    "2 to the 64th inside": b'{"size":18446744073709551616}',
    "5,000 digits": b"1" * 5000,
    "100,000 digits": b"[" + b"1" * 100_000 + b"]",
    "a leading zero": b"01",
    "a leading plus": b"+1",
    "no digit before the point": b".5",
    "no digit after the point": b"1.",
    "no digit in the exponent": b"1e",
    "a minus alone": b"-",
    "two minuses": b"--1",
    "hexadecimal": b"0x10",
    "an underscore": b"1_000",
    # depth
    "65 arrays": nested(b"[", b"]", 65),
    "65 objects": nested(b'{"a":', b"}", 65, b"1"),
    "100 arrays": nested(b"[", b"]", 100),
    "199 mixed": nested(b'[{"a":', b"}]", 99, b"[]"),
    "100,000 arrays": nested(b"[", b"]", 100_000),
    "1,000,000 open arrays": b"[" * 1_000_000,
    "200,000 open objects": b'{"a":' * 200_000,
    # size
    "one byte too many": b'"' + b"a" * (MIB - 1) + b'"',
    "ten times too many": b" " * (10 * MIB),
    "too many values": b"[" + b"0," * 500_000 + b"0]",
    "too many objects": b"[" + b"{}," * 330_000 + b"{}]",
    "one list too many": b"[" + b"[]," * 15_999 + b"[]]",
    "one value too many": b"[" + b"0," * 39_999 + b"0]",
    "too many keys": b"{" + b",".join(b'"%x":1' % i for i in range(90_000)) + b"}",
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_bytes_are_refused(data: bytes) -> None:
    """What is not strict JSON within bounds is refused as invalid input, with a short reason."""
    with pytest.raises(StrictJsonError) as refused:
        load_strict(data)
    assert isinstance(refused.value, InvalidInput)
    assert refused.value.code == "invalid_input"
    assert 0 < len(str(refused.value)) <= 300


def test_the_hostile_corpus_is_large_enough() -> None:
    """The corpus holds each kind of fault that Python's own reader lets through or dies of."""
    assert len(HOSTILE) >= 60


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b"{}", {}),
        (b" [ ] ", []),
        (b"null", None),
        (b"-0", 0),
        (b"9223372036854775807", 2**63 - 1),
        (b"-9223372036854775808", -(2**63)),
        (b"1.5e3", 1500.0),
        (b"1e-400", 0.0),
        (b"1.7976931348623157e308", 1.7976931348623157e308),
        (b'"\\ud83d\\ude00"', "\U0001f600"),
        (b'"\\u0000"', "\x00"),
        (b'{"a":{"a":1},"b":{"a":2}}', {"a": {"a": 1}, "b": {"a": 2}}),
        (nested(b"[", b"]", 64), json.loads(nested(b"[", b"]", 64))),
        (b'"' + b"a" * (MIB - 2) + b'"', "a" * (MIB - 2)),
        (b"[" + b"0," * 39_998 + b"0]", [0] * 39_999),
        (b"[" + b"[]," * 15_998 + b"[]]", [[]] * 15_999),
    ],
    ids=lambda value: str(value)[:30],
)
def test_what_is_within_bounds_is_read(data: bytes, value: object) -> None:
    """The bounds themselves are allowed: 64 levels, 64 bits, one mebibyte, 40,000 values."""
    assert load_strict(data) == value


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8")),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(codec="utf-8")), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(json_values)
def test_what_json_writes_is_read_back(value: object) -> None:
    """Every value that Python's own writer writes strictly is read back as it was."""
    for ascii_only in (True, False):
        assert load_strict(json.dumps(value, ensure_ascii=ascii_only).encode()) == value


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    """Whatever the bytes, they are read or refused, and what json refuses does not pass."""
    try:
        load_strict(data)
    except StrictJsonError:
        return
    json.loads(data)


@pytest.mark.parametrize(
    "data",
    [
        b"[" + b"0," * (MIB // 2 - 2) + b"0]",
        b"{" + b",".join(b'"%020x":1' % i for i in range(39_990)) + b"}",
        b"[" + b",".join(b'{"%010x":1}' % i for i in range(19_990)) + b"]",
        b"[" + b",".join([b"[" * 40 + b"]" * 40] * 970) + b"]",
        b'"' + b"\\u00e9" * 174_000 + b'"',
        b"[" + b",".join([b"9" * 4300] * 240) + b"]",
        b"[" + b",".join([b"0." + b"1" * 25_000] * 40) + b"]",
        b"\n" * (MIB - 1) + b"x",
        b'"' * MIB,
    ],
    ids=[
        "zeros",
        "keys",
        "objects",
        "chains",
        "escapes",
        "integers",
        "fractions",
        "lines",
        "quotes",
    ],
)
def test_the_worst_mebibyte_is_soon_answered(data: bytes) -> None:
    """No input of a mebibyte takes long."""
    assert len(data) <= MIB

    def read() -> None:
        with contextlib.suppress(StrictJsonError):
            load_strict(data)

    assert least_cpu_s(read, CPU_S_MAX) < CPU_S_MAX
