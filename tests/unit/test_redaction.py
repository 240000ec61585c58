"""A corpus of what must never be stored, in the forms in which errors bring it."""

from __future__ import annotations

import re
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallgrass.ledger import redaction
from tallgrass.ledger.redaction import MESSAGE_CHARS_MAX, redact, small_letters

AWS_SECRET = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"  # noqa: S105 - AWS's own documented example
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NSJ9.dBjftJeZ4CVPmB92K27uhbUJU1p1r"

#: message, and the parts of it that must not survive
CORPUS: list[tuple[str, list[str]]] = [
    # names with values
    ("login failed: password=hunter2", ["hunter2"]),
    ("PGPASSWORD=s3cr3t psql: error", ["s3cr3t"]),
    ("passwd: hunter2; retrying", ["hunter2"]),
    ("pwd=hunter2, host=db", ["hunter2"]),
    ("pass: hunter2", ["hunter2"]),
    ("connection user=bob password='two words' host=db", ["two", "words"]),
    ('{"password": "a\\"quoted\\" one", "etag": "x"}', ["quoted", "one"]),
    ("{'api_key': 'k-123 456', 'n': 1}", ["k-123", "456"]),
    ('body was "{\\"client_secret\\": \\"abc def\\"}"', ["abc", "def"]),
    ('password="never closed', ["never", "closed"]),
    ("DB_PASSWORD => hunter2", ["hunter2"]),
    ("config['secret_token'] = 'tok-99'", ["tok-99"]),
    ("aws_secret_access_key = " + AWS_SECRET, [AWS_SECRET]),
    ("private_key_id: 0123abcd", ["0123abcd"]),
    ("AccountName=noaa;AccountKey=abcd1234==;EndpointSuffix=x", ["abcd1234"]),
    ("passphrase: correct-horse,battery)staple", ["correct", "battery", "staple"]),
    ("session_id=deadbeef", ["deadbeef"]),
    ("password%3Dhunter2%26x", ["hunter2"]),
    ("<SecretAccessKey>abc123</SecretAccessKey>", ["abc123"]),
    ("tool --password hunter2 --verbose", ["hunter2"]),
    ("tool --api-key abc123", ["abc123"]),
    ('wrong password "hunter2"', ["hunter2"]),
    ("the password is 'hunter2'", ["hunter2"]),
    # headers
    ("Authorization: Bearer abc.def.ghi", ["abc.def.ghi"]),
    ("authorization: Basic Ym9iOmh1bnRlcjI=", ["Ym9iOmh1bnRlcjI"]),
    (
        "Authorization: AWS4-HMAC-SHA256 Credential=AKIAEXAMPLE/20260101, Signature=fe5f80",
        ["AKIAEXAMPLE", "fe5f80"],
    ),
    ("Cookie: a=first; sid=second\nGET /", ["first", "second"]),
    ("Set-Cookie: sid=xyzzy; Path=/; HttpOnly", ["xyzzy"]),
    ("{'Authorization': 'Token abc123def'}", ["abc123def"]),
    ("X-Api-Key: abc123", ["abc123"]),
    ("sent bearer abcdef123456", ["abcdef123456"]),
    # addresses with credentials, and signed ones
    ("cannot reach postgresql://bob:hunter2@db/ledger", ["bob", "hunter2"]),
    ("cannot reach postgresql://bob:p@ss/w0rd@db/ledger", ["bob", "p@ss", "w0rd"]),
    ("amqps://user:pw1@broker:5671/vhost closed", ["user", "pw1"]),
    (
        "403 for https://b.s3.amazonaws.com/k?X-Amz-Credential=AKIAX&X-Amz-Signature=beef01",
        ["AKIAX", "beef01"],
    ),
    ("GET /k?AWSAccessKeyId=AKIAY&Signature=c0ffee%3D&Expires=1", ["AKIAY", "c0ffee"]),
    ("https://x.blob.core.windows.net/c/k?sv=2022&sig=SaSsIg%2B", ["SaSsIg", "sv=2022"]),
    ("gs signed: x.example/k?X-Goog-Signature=0f0f0f", ["0f0f0f"]),
    ("https://hooks.example/services?token=T00/B00/XXX", ["T00", "XXX"]),
    ("redirect to https://x.example/cb#access_token=abc123", ["abc123"]),
    ("?sig=abc123&se=1", ["abc123"]),
    # keys that show what they are
    ("key AKIAIOSFODNN7EXAMPLE is inactive", ["AKIAIOSFODNN7EXAMPLE"]),
    ("assumed ASIAIOSFODNN7EXAMPLE", ["ASIAIOSFODNN7EXAMPLE"]),
    (f"got {AWS_SECRET} as secret", [AWS_SECRET]),
    (f"jwt {JWT} expired", [JWT, "dBjftJeZ4CVPmB92K27uhbUJU1p1r"]),
    ("ghp_0123456789abcdefghij0123456789abcdef", ["0123456789abcdefghij"]),
    ("github_pat_11ABCDEFG0123456789_abcdef", ["11ABCDEFG0123456789"]),
    ("xoxb-123456789012-abcdefghijkl", ["123456789012-abcdefghijkl"]),
    ("sk_live_abcdefghij0123456789", ["abcdefghij0123456789"]),
    ("sk-proj-abcdefghij0123456789", ["abcdefghij0123456789"]),
    ("AIzaSyA-0123456789abcdefghijklmnopqrstu", ["SyA-0123456789"]),
    ("glpat-abcdefghij0123456789", ["abcdefghij0123456789"]),
    ("whsec_abcdefghij0123456789", ["abcdefghij0123456789"]),
    (
        "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA\n-----END RSA PRIVATE KEY-----",
        ["MIIEpAIBAAKCAQEA"],
    ),
    ("-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBg", ["MIIEvQIBADANBg"]),
    ("-----BEGIN PGP PRIVATE KEY BLOCK-----\nlQOYBF\n-----END PGP", ["lQOYBF"]),
    # persons and machines
    ("mail to jane.doe@example.com bounced", ["jane.doe", "example.com"]),
    ("owner: Jörg.Müller+nodd@bücher.example", ["Jörg", "Müller", "bücher"]),
    ("o'neil@example.org and bob@localhost", ["neil@", "bob@"]),
    ("notify=jane.doe%40example.com", ["jane.doe"]),
    ("call 785-555-0123 or (785) 555-0199", ["555-0123", "555-0199"]),
    ("tel +1 785 555 0123, +49 30 12345678", ["555 0123", "12345678"]),
    ("SSN 078-05-1120", ["078-05-1120"]),
    ("card 4111 1111 1111 1111 / 4111111111111111", ["1111 1111", "4111111111111111"]),
    ("connect to 10.20.30.40:5432 timed out", ["10.20.30.40"]),
    ("peer 2001:db8::8a2e:370:7334 reset", ["2001:db8", "8a2e:370"]),
    ("peer fe80:0:0:0:202:b3ff:fe1e:8329", ["fe80:0", "fe1e:8329"]),
    ("nic 00:1B:44:11:3A:B7 down", ["00:1B:44:11:3A:B7"]),
    ("No such file: /home/jane/data/x.nc", ["jane"]),
    (r"No such file: C:\Users\jane\x.nc", ["jane"]),
    # places
    ("station at 38.9717, -95.2353 rejected", ["38.9717", "95.2353"]),
    ("lat=38.9717 lon=-95.2353", ["38.9717", "95.2353"]),
    ("latitude: 38.9717", ["38.9717"]),
    ("lat 38.97 lon -95.23", ["38.97", "95.23"]),
    ('{"lat_min": 38, "lon_min": -95}', ["38", "95"]),
    ("POINT(-95.2353 38.9717) outside", ["95.2353", "38.9717"]),
    ("POLYGON((-95 38, -94 38, -94 39, -95 38))", ["-95", "38", "-94", "39"]),
    ('"coordinates": [[-95.2, 38.9], [-95, 39]]', ["95.2", "38.9", "39"]),
    ("bbox=-95,38,-94,39", ["95", "38", "94", "39"]),
    ("38°58'18\"N 95°14'06\"W", ["58'18", "14'06", "95"]),
    ("38.97N 95.23W", ["38.97", "95.23"]),
    ("N38.9717 W95.2353", ["38.9717", "95.2353"]),
    ("at \u221295.2353/38.9717", ["95.2353", "38.9717"]),
    # lists of latitudes and of longitudes
    ('{"lat": [38.9717], "lon": [-95.2353]}', ["38.9717", "95.2353"]),
    ("lats=[38, 39, 40] lons=[-95, -96, -97]", ["38", "39", "40", "-9"]),
    ("{'latitudes': (38.9717, None, 39.0123), 'n': 3}", ["38.9717", "39.0123"]),
    ("site_lat: [[38.9717, 38.9718], [38.9719]]", ["38.97"]),
    # places in the keys of objects
    ("s3://nests/obs/38.9717_-95.2353/20260601_120000.csv is gone", ["38.9717", "95.2353"]),
    ("s3://nests/lat38.9717_lon-95.2353.csv is gone", ["38.9717", "95.2353"]),
    ("s3://nests/site_lat_38.9717/x.csv is gone", ["38.9717"]),
    ("s3://nests/obs_38.9717N_95.2353W.csv is gone", ["38.9717", "95.2353"]),
    ("s3://nests/obs_N38.9717W095.2353.csv is gone", ["38.9717", "95.2353"]),
]

#: What helps an operator and is no secret.
HARMLESS = [
    "it broke",
    "s3://noaa-goes19/GLM-L2-LCFA/2026/001/00/OR_GLM-L2-LCFA_G19_s20260010000000.nc not found",
    "etag 9b2cf535f27731c974343645a3985328 is not d41d8cd98f00b204e9800998ecf8427e",
    "object of 123456789 bytes, at most 104857600 allowed",
    "event of 2026-11-15T21:05:00.000000Z is older",
    "3292286c-4c00-8a02-9aaa-7d291f13721b: 2 of 8 attempts used",
    "operator metadata-extract raised KeyError: 'time_coverage_start'",
    "HTTP 503 from catalog after 3 tries, 2.5 s",
    "KTWX20260308_075959_V06: volume header says AR2V0006",
    "CONUS/RadarOnly_QPE_15M_00.00/MRMS_RadarOnly_QPE_15M_00.00_20240229-234500.grib2.gz is gone",
    "blendv5.0_conus_sky_2026-10-05T12:00_2026-10-05T13:00.tif is gone",
]


@pytest.mark.conformance("WAL-3.8")
@pytest.mark.parametrize(("message", "secrets"), CORPUS, ids=range(len(CORPUS)))
def test_no_secret_of_the_corpus_survives(message: str, secrets: list[str]) -> None:
    """Secrets, persons, machines and places are taken out, alone and inside a longer message."""
    for around in ("{}", "operator failed: {} (attempt 3)", "line above\n{}\nline below"):
        text = around.format(message) if "{" not in message else around.replace("{}", message)
        kept = redact(text)
        assert not [secret for secret in secrets if secret in kept]


def test_the_corpus_is_large() -> None:
    """At least sixty seeded messages are tried."""
    assert len(CORPUS) >= 60


@pytest.mark.parametrize("message", HARMLESS)
def test_what_helps_is_kept(message: str) -> None:
    """Keys, hashes, sizes, times, ids and codes stay readable."""
    assert redact(message) == message


@pytest.mark.conformance("WAL-3.8")
def test_control_characters_are_escaped() -> None:
    """Line breaks, terminal escapes, direction marks and broken Unicode become visible text."""
    kept = redact("a\nb\x1b[31m\x00\x7f\x85\u2028\u202e\u200b\ud800z")
    expected = r"a\u000ab\u001b[31m\u0000\u007f\u0085\u2028\u202e\u200b\ud800z"
    assert kept == expected


@pytest.mark.conformance("WAL-3.8")
@pytest.mark.parametrize("size", [499, 500, 501, 1999, 2000, 2001, 100_000])
def test_a_message_has_at_most_500_characters(size: int) -> None:
    """What is longer is cut and ends in an ellipsis; what fits is left alone."""
    kept = redact(("word " * (size // 5 + 1))[:size].strip())
    assert len(kept) <= MESSAGE_CHARS_MAX == 500
    assert kept.endswith("…") == (size > 500)


@pytest.mark.conformance("WAL-3.8")
@pytest.mark.parametrize("place", [0, 480, 495, 1980, 1995, 2050])
def test_a_secret_at_a_cut_does_not_survive(place: int) -> None:
    """Wherever a long message is cut, no half of a secret is left."""
    padding = ("word " * 1000)[:place]
    kept = redact(f"{padding} password=hunter2-hunter2 {AWS_SECRET} bob@example.com " + "x " * 500)
    assert not [part for part in ("hunter", AWS_SECRET[:20], "bob@") if part in kept]


@pytest.mark.parametrize("blank", [" ", "\n", "\t", "\u3000"])
def test_a_message_of_blanks_alone_is_no_error(blank: str) -> None:
    """A long message without a single word is redacted like any other."""
    assert len(redact(blank * 5000)) <= MESSAGE_CHARS_MAX


@pytest.mark.conformance("WAL-3.8")
@given(st.text(max_size=600))
def test_any_text_becomes_a_short_printable_line(text: str) -> None:
    """No text makes redaction fail; its result is printable, short, and stays as it is."""
    kept = redact(text)
    assert kept.isprintable()
    assert len(kept) <= MESSAGE_CHARS_MAX
    assert redact(kept) == kept


fragments = st.sampled_from([message for message, _ in CORPUS] + HARMLESS)


@pytest.mark.conformance("WAL-3.8")
@given(st.lists(fragments | st.text(max_size=20), max_size=30), st.sampled_from([" ", "\n", ", "]))
def test_a_redacted_message_is_not_changed_by_redacting_it_again(
    parts: list[str], separator: str
) -> None:
    """Redaction settles: whatever the mixture, a second pass finds nothing more."""
    kept = redact(separator.join(parts))
    assert kept.isprintable()
    assert len(kept) <= MESSAGE_CHARS_MAX
    assert redact(kept) == kept


@pytest.mark.parametrize("rule", [each for each in redaction._PATTERNS if each.signs])
@given(data=st.data())
def test_no_pattern_matches_a_text_without_its_signs(rule: Any, data: st.DataObject) -> None:
    """A sign that is missing in the list would let a secret pass: all that matches has one."""
    text = data.draw(st.from_regex(rule.pattern))
    small = small_letters(text)
    assert any(sign in small for sign in rule.signs)


@pytest.mark.parametrize("letter", [chr(number) for number in range(sys.maxunicode + 1)
                                    if re.match("[a-z]", chr(number), re.IGNORECASE)])  # fmt: skip
def test_a_letter_is_small_as_patterns_take_it(letter: str) -> None:
    """Some letters of other alphabets count as one of a to z where case does not."""
    assert re.match(re.escape(small_letters(letter)), letter, re.IGNORECASE)
    assert small_letters(letter) in "abcdefghijklmnopqrstuvwxyz"
