"""Spectral bands and known words of a dataset file."""

from __future__ import annotations

import re

import pytest

from tallgrass.datasets.loader import load_dataset
from tallgrass.errors import ConfigError
from tests.datasets.file_texts import FILE

BANDS = """
[item.bands]
groups = ["site", "date"]

[item.bands.of]
KTLX = { name = "B1", "eo:center_wavelength" = 0.64 }
KDMX = { name = "B2" }

[item.bands.sets]
ALLX = ["KTLX", "KDMX"]

[integrity]"""
WITH_BANDS = FILE.replace("[integrity]", BANDS, 1)
FIRST, SECOND = {"name": "B1", "eo:center_wavelength": 0.64}, {"name": "B2"}


def test_bands_and_sets_are_read() -> None:
    """A value of a group has one band; a set has several, in the order given."""
    bands = load_dataset(WITH_BANDS, "radar.toml").item.bands
    assert bands is not None
    assert bands.groups == ("site", "date")
    assert bands.of == {"KTLX": (FIRST,), "KDMX": (SECOND,), "ALLX": (FIRST, SECOND)}


def test_a_file_need_not_have_bands() -> None:
    """Most data have none."""
    assert load_dataset(FILE, "radar.toml").item.bands is None


def test_known_words_alone_can_be_asked_for() -> None:
    """The names of properties whose vocabulary is all there is."""
    text = FILE.replace('place_group = "site"', 'place_group = "site"\nknown_only = ["platform"]')
    assert load_dataset(text, "radar.toml").item.known_only == {"platform"}
    assert load_dataset(FILE, "radar.toml").item.known_only == frozenset()


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ('groups = ["site", "date"]', 'groups = ["sight"]', "item.bands.groups: .*'sight'"),
        ('groups = ["site", "date"]', "", "item.bands.groups: is missing"),
        ('KDMX = { name = "B2" }', "KDMX = {}", "item.bands.of.KDMX: must be a table with a name"),
        (
            'KDMX = { name = "B2" }',
            'KDMX = "B2"',
            "item.bands.of.KDMX: must be a table with a name",
        ),
        ('name = "B2"', 'name = "B2", x = [1]', "item.bands.of.KDMX: must be a table with a name"),
        ('["KTLX", "KDMX"]', '["KTLX", "KDMY"]', "sets.ALLX: no band 'KDMY'; did you mean 'KDMX'"),
        ("[item.bands.sets]", "[item.bands.set]", "item.bands.set: unknown field"),
        (
            'place_group = "site"',
            'place_group = "site"\nknown_only = ["gsd"]',
            "known_only: .*'gsd'",
        ),
    ],
)
def test_what_cannot_be_used_is_refused_with_its_place(old: str, new: str, problem: str) -> None:
    """The error names the file, the field and what is wrong."""
    assert WITH_BANDS.count(old) == 1
    with pytest.raises(ConfigError, match=f"radar.toml: .*{problem}"):
        load_dataset(WITH_BANDS.replace(old, new), "radar.toml")


def test_the_places_of_refusals_are_whole() -> None:
    """A field is named from the top of the file on."""
    with pytest.raises(ConfigError, match=re.escape("radar.toml: item.bands.of: is missing")):
        load_dataset(WITH_BANDS.replace("[item.bands.of]", "[item.bands.off]"), "radar.toml")
