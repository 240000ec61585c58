from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallgrass.datasets.item_ids import item_id

PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,200}")


@pytest.mark.parametrize(
    ("bucket", "key", "expected"),
    [
        # The digits come from sha256sum over the length-prefixed provider, bucket and key.
        (
            "noaa-goes19",
            "GLM-L2-LCFA/2025/097/13/OR_GLM-L2-LCFA_G19_s20250971300200_e20250971300400_c20250971300420.nc",
            "OR_GLM-L2-LCFA_G19_s20250971300200_e20250971300400_c20250971300420.nc-095ffbed32e1a11bbb34336b",
        ),
        (
            "noaa-hrrr-bdp-pds",
            "hrrr.20240510/conus/hrrr.t12z.wrfsfcf02.grib2",
            "hrrr.t12z.wrfsfcf02.grib2-36d3b19fcadd3d84f69e760d",
        ),
        ("b", "a/b c.nc", "b-c.nc-f68bd290813688f7619c8984"),
    ],
)
def test_ids_never_change(bucket: str, key: str, expected: str) -> None:
    """An object's item id is the same in every release."""
    assert item_id("aws", bucket, key) == expected


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("aws", "b", "x/k"), ("aws", "b", "y/k")),  # the same file name in two folders
        (("aws", "b", "k"), ("aws", "c", "k")),
        (("aws", "b", "k"), ("gcp", "b", "k")),
        (("aws", "b", "a b"), ("aws", "b", "a-b")),  # alike once simplified
        (("aws", "b", "a b"), ("aws", "b", "a+b")),
        (("aws", "b", "K"), ("aws", "b", "k")),  # alike where case does not count
        (("aws", "b", "x" * 200 + "1"), ("aws", "b", "x" * 200 + "2")),  # alike once cut
        (("aws", "bk", "x"), ("aws", "b", "kx")),  # a moved boundary
    ],
)
def test_different_objects_have_different_ids(
    one: tuple[str, str, str], other: tuple[str, str, str]
) -> None:
    """Objects that look alike still get ids that differ, in capitals and small letters too."""
    assert item_id(*one).lower() != item_id(*other).lower()


@given(st.text(max_size=300))
def test_an_id_is_safe_everywhere(key: str) -> None:
    """An id needs no encoding in a URL, and with an ending it is a legal file name."""
    clean = key.encode("utf-8", "ignore").decode()
    name = item_id("aws", "noaa-goes19", clean)
    assert PLAIN.fullmatch(name)
    assert len(f"{name}.json") <= 255


@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=12), min_size=2, unique=True))
def test_no_two_keys_share_an_id(keys: list[str]) -> None:
    """Different keys of a bucket have different ids, the same key has one."""
    ids = [item_id("aws", "b", key) for key in keys]
    assert len(set(ids)) == len(keys)
    assert ids == [item_id("aws", "b", key) for key in keys]
