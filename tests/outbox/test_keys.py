from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallgrass.outbox.keys import idempotency_key, object_version_ref
from tests.vectors import make_event_keys

VECTORS_PATH = Path(__file__).parents[1] / "vectors" / "event_keys.json"
VECTORS: list[dict[str, str]] = json.loads(VECTORS_PATH.read_text(encoding="utf-8"))
PARTS = {
    "pipeline_id": "kfm-nodd-ingest",
    "event_name": "nodd.item.created",
    "dataset_id": "goes-glm",
    "content_hash": "f" * 64,
}
TEXT = st.text(st.characters(codec="utf-8"), max_size=8)


def prefixed(*parts: str) -> bytes:
    """Join parts with their lengths, as the contract of the key says."""
    return b"".join(len(each.encode()).to_bytes(4, "big") + each.encode() for each in parts)


def test_the_vectors_are_those_of_their_generator() -> None:
    """The committed file is what `sha256sum` gives, untouched by hand."""
    assert make_event_keys.vectors() == VECTORS


@pytest.mark.conformance("OB-2.3", "C-34")
def test_the_committed_vectors_hold() -> None:
    """Each key equals the one that was worked out by other means and committed."""
    for vector in VECTORS:
        expected = vector["idempotency_key"]
        assert idempotency_key(**{name: vector[name] for name in make_event_keys.PARTS}) == expected
    keys = [vector["idempotency_key"] for vector in VECTORS]
    assert len(set(keys)) == len(keys)


@pytest.mark.conformance("RP-7.1", "OB-2.3", "C-34")
def test_the_key_is_the_hash_of_its_five_parts() -> None:
    """A reader with a hash function and the contract computes the same key."""
    ref = object_version_ref("s3://noaa-goes19/a.nc", version_id=None, sequencer="00A1", etag="e1")
    object_ref = "21:s3://noaa-goes19/a.nc,-4:00A1,2:e1,"
    expected = hashlib.sha256(
        prefixed("kfm-nodd-ingest", "nodd.item.created", "goes-glm", object_ref, "f" * 64)
    ).hexdigest()
    assert ref == object_ref
    assert idempotency_key(object_ref=ref, **PARTS) == f"sha256:{expected}"


@pytest.mark.conformance("RP-7.1", "OB-2.3", "C-34")
@given(
    left=st.tuples(TEXT, TEXT, TEXT, TEXT, TEXT),
    right=st.tuples(TEXT, TEXT, TEXT, TEXT, TEXT),
    moved=st.integers(0, 3),
)
def test_different_parts_never_share_a_key(
    left: tuple[str, ...], right: tuple[str, ...], moved: int
) -> None:
    """Equal keys mean equal parts, also where a character moves from one part to the next."""

    def key(parts: tuple[str, ...]) -> str:
        return idempotency_key(**dict(zip(make_event_keys.PARTS, parts, strict=True)))

    assert (key(left) == key(right)) == (left == right)
    shifted = list(left)
    shifted[moved], shifted[moved + 1] = left[moved] + "x", left[moved + 1]
    other = list(left)
    other[moved], other[moved + 1] = left[moved], "x" + left[moved + 1]
    assert key(tuple(shifted)) != key(tuple(other))


@given(
    left=st.tuples(TEXT, *[st.none() | TEXT] * 3), right=st.tuples(TEXT, *[st.none() | TEXT] * 3)
)
def test_versions_of_objects_are_told_apart(
    left: tuple[str, str | None, str | None, str | None],
    right: tuple[str, str | None, str | None, str | None],
) -> None:
    """Equal references mean the same address, version, sequencer and etag; absent is not empty."""

    def ref(parts: tuple[str, str | None, str | None, str | None]) -> str:
        uri, version_id, sequencer, etag = parts
        return object_version_ref(uri, version_id=version_id, sequencer=sequencer, etag=etag)

    assert (ref(left) == ref(right)) == (left == right)


def test_an_overwrite_is_a_new_event_even_with_old_content() -> None:
    """Two overwrites that bring back the same bytes are two events."""
    keys = {
        idempotency_key(
            object_ref=object_version_ref("s3://b/k", version_id=None, sequencer=each, etag="e1"),
            **PARTS,
        )
        for each in ("00A1", "00A2")
    }
    assert len(keys) == 2
