from __future__ import annotations

import pytest

from tallgrass.datasets.definition import FileFormat
from tests.evidence.real_files import content
from tests.evidence.samples import level3, read

LEVEL3 = FileFormat.NEXRAD_LEVEL3


def test_a_product_is_told() -> None:
    """Heading, code, place and times are those that were written."""
    assert read(LEVEL3, level3()) == (
        {
            "format": "nexrad-level3",
            "heading": "SDUS54 KOUN 202016",
            "product": "N0Q",
            "site": "TLX",
            "message_code": 94,
            "message_time": "2013-05-20T20:17:05.000000Z",
            "latitude": 35.333,
            "longitude": -97.278,
            "pattern": 12,
            "volume_number": 28,
            "volume_time": "2013-05-20T20:16:43.000000Z",
            # 1,277 feet, and 73,009 s of the day.
            "properties": {
                "nexrad:product_code": 94,
                "nexrad:vcp": 12,
                "nexrad:antenna_elevation": 389,
                "processing:datetime": "2013-05-20T20:16:49.000000Z",
            },
            "complete": True,
        },
        (),
    )


#: Product, site, code, volume time; the headings are in the files' names, the codes published.
REAL = {
    "KOUN_NXUS64_GSMTLX_201305202100": ("GSM", "TLX", 2, None),
    "KOUN_SDUS34_NVWTLX_201305202016": ("NVW", "TLX", 48, "2013-05-20T20:16:43.000000Z"),
    "KOUN_SDUS54_N0QTLX_201305202016": ("N0Q", "TLX", 94, "2013-05-20T20:16:43.000000Z"),
    "KOUN_SDUS64_NHITLX_201305202016": ("NHI", "TLX", 59, "2013-05-20T20:16:43.000000Z"),
    "KOUN_SDUS84_DPRTLX_201305202016": ("DPR", "TLX", 176, "2013-05-20T20:16:43.000000Z"),
    "Level3_MCI_TZL_20160526_2154.nids": ("TZL", "MCI", 186, "2016-05-26T21:54:08.000000Z"),
}


@pytest.mark.parametrize("name", REAL)
def test_real_products_are_told(name: str) -> None:
    """Real products of six kinds, one of an airport's radar, are read."""
    header, issues = read(LEVEL3, content(f"nexrad-l3/{name}"))
    fields = ("product", "site", "message_code", "volume_time")
    assert tuple(header.get(field) for field in fields) == REAL[name]
    assert issues == ()


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (30, 0x80),  # code of the message: negative
        (48, 0),  # divider
        (61, 0),  # code in the description: another product
        (72, 0xFF),  # volume time beyond the day
        (0, 0x30),  # heading
    ],
)
def test_damage_is_seen(place: int, value: int) -> None:
    """A product whose parts contradict each other is not sound."""
    data = bytearray(level3())
    data[place] = value
    assert read(LEVEL3, bytes(data))[1] == ("content_type_invalid",)


def test_a_length_that_does_not_fit_is_seen() -> None:
    """One byte too few or too many is found by the length in the message header."""
    assert read(LEVEL3, level3()[:-1])[1] == ("size_too_small",)
    assert read(LEVEL3, level3() + b"\0")[1] == ("size_too_large",)
