from __future__ import annotations

from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallgrass.errors import InvalidInput
from tallgrass.ledger.object_uri import canonical_object_uri, key_of_event, object_uri

printable_keys = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Zl", "Zp")),
    min_size=1,
    max_size=60,
)


@pytest.mark.conformance("WAL-3.3")
@pytest.mark.parametrize(
    ("encoded", "key"),
    [
        ("a+b", "a b"),  # S3 writes a blank as a plus
        ("a%20b", "a b"),
        ("a%2Bb", "a+b"),
        ("a%2bb", "a+b"),
        ("a%252Bb", "a%2Bb"),  # decoded once, not twice
        ("a%25b", "a%b"),
        ("a/b=c&d", "a/b=c&d"),
        ("caf%C3%A9", "café"),
        ("plain.nc", "plain.nc"),
    ],
)
def test_an_event_key_is_decoded_exactly_once(encoded: str, key: str) -> None:
    """A notification's key stands for one object key, by one decoding."""
    assert key_of_event(encoded) == key


@pytest.mark.conformance("WAL-3.3")
@pytest.mark.parametrize("uri", ["s3://b/a+b", "s3://b/a%2Bb", "s3://b/a b", "s3://b/a%20b"])
def test_a_canonical_address_is_taken_as_it_is(uri: str) -> None:
    """Plus, percent and blank mean themselves: the four are four different objects."""
    assert canonical_object_uri(uri) == uri


@pytest.mark.conformance("WAL-3.3")
@given(printable_keys)
def test_both_ways_of_encoding_a_key_lead_to_one_address(key: str) -> None:
    """However a producer encodes a key, the address is the same and gives the key back."""
    uri = f"s3://noaa-goes19/{key}"
    for encoded in (quote(key), quote_plus(key), quote(key, safe="")):
        assert object_uri("aws", "noaa-goes19", key_of_event(encoded)) == uri


@pytest.mark.conformance("WAL-3.3")
@pytest.mark.parametrize(
    ("provider", "uri"),
    [("aws", "s3://b/k"), ("gcp", "gs://b/k"), ("azure", "az://b/k"), ("wasabi", "wasabi://b/k")],
)
def test_each_provider_has_its_scheme(provider: str, uri: str) -> None:
    """The three known providers have their usual schemes, a configured one its own name."""
    assert object_uri(provider, "b", "k") == uri


@pytest.mark.conformance("WAL-3.3")
@pytest.mark.parametrize(
    "uri",
    [
        "",
        "key-only",
        "s3://bucket",
        "s3://bucket/",
        "s3:///key",
        "//bucket/key",
        "S3://bucket/key",
        "1s://bucket/key",
        "s3://buc ket/key",
        "s3://-bucket/key",
        "s3://b/line\nbreak",
        "s3://b/nul\x00",
        "s3://b/next\u0085line",
        "s3://b/line\u2028separator",
        "s3://b/half\ud800",
        "s3://b/" + "k" * 1025,
        "s3://b/" + "é" * 513,
    ],
)
def test_what_names_no_object_is_refused(uri: str) -> None:
    """Whatever is not scheme://bucket/key in printable characters of 1,024 bytes is refused."""
    with pytest.raises(InvalidInput) as refusal:
        canonical_object_uri(uri)
    assert refusal.value.code == "invalid_object_uri"


def test_a_key_may_have_1024_bytes() -> None:
    """The limit is the object store's own: 1,024 bytes, not characters."""
    assert canonical_object_uri("s3://b/" + "é" * 512)
    assert canonical_object_uri("s3://b/" + "k" * 1024)
