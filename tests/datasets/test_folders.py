"""The table `[folders]` of a dataset file: read as it stands, and refused where it says nothing."""

from __future__ import annotations

import pytest

from tallgrass.datasets.catalogue import catalogue_of, default_catalogue
from tallgrass.datasets.definition import FolderRules
from tallgrass.datasets.fields import Table
from tallgrass.datasets.folder_loader import load_folders
from tallgrass.errors import ConfigError


def load(**values: object) -> FolderRules | None:
    """Read the table of a dataset whose keys begin with `hrrr.`."""
    return load_folders(Table(values, "own.toml", "folders"), ("hrrr.",))


def test_a_table_is_read_as_it_stands() -> None:
    """Hours are none where they are not given."""
    assert load(begins=["hrrr.{YYYY}{MM}{DD}/"], ahead_hours=48) == FolderRules(
        begins=("hrrr.{YYYY}{MM}{DD}/",), ahead_hours=48, behind_hours=0
    )
    assert load_folders(None, ("",)) is None


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"begins": []}, "must name at least one"),
        ({"begins": ["hrrr.{YY}/"]}, "{YY} in 'hrrr.{YY}/' means nothing"),
        ({"begins": ["hrrr."]}, "tells no year, month, day or hour"),
        ({"begins": ["hrrr.{HH}/"]}, "tells no year"),
        ({"begins": ["hrrr.{YYYY}{YYYY}/"]}, "each once"),
        ({"begins": ["hrrr.{YYYY}{DD}/"]}, "tells no year, month, day"),
        ({"begins": ["hrrr.{*}x/{YYYY}/"]}, "must be a folder before a time"),
        ({"begins": ["hrrr.{YYYY}/{*}/"]}, "must be a folder before a time"),
        ({"begins": ["gfs.{YYYY}/"]}, "begins with none of key.prefixes"),
        ({"begins": ["hrrr.{YYYY}/"], "ahead_hours": -1}, "whole number from 0"),
        ({"begins": ["hrrr.{YYYY}/"], "behind_hours": 99_999}, "more than 17568"),
        ({"begins": ["hrrr.{YYYY}/"], "hours": 1}, "hours"),
    ],
)
def test_a_table_that_says_nothing_is_refused_with_its_field(
    values: dict[str, object], said: str
) -> None:
    """File, field and what is wrong."""
    with pytest.raises(ConfigError) as raised:
        load(**values)
    assert said in str(raised.value)
    assert str(raised.value).startswith("own.toml: folders")


def test_folders_change_no_output() -> None:
    """Where a bucket is listed is no part of `config_version`."""
    from dataclasses import replace  # noqa: PLC0415 - for this test alone

    base = default_catalogue()
    other = replace(base.named("hrrr"), folders=None)
    assert catalogue_of(base, [other]).fingerprint == base.fingerprint
