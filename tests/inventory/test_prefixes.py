"""Prefixes: every key of a time lies below one of them, the older ones come first."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallgrass.datasets.catalogue import default_catalogue
from tallgrass.datasets.definition import Dataset, FolderRules
from tallgrass.datasets.folder_loader import PLACEHOLDER
from tallgrass.datasets.key_grammar import read_key
from tallgrass.datasets.loader import load_with_examples
from tallgrass.inventory.prefixes import beginnings, expanded

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tallgrass.inventory.prefixes import FoldersOf

MOMENT = timedelta(microseconds=1)
FIRST = datetime(2017, 1, 1, tzinfo=UTC)


def at(text: str) -> datetime:
    """Return an instant of UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def prefixes(
    dataset: Dataset, since: datetime | None, until: datetime | None, folders: FoldersOf
) -> Iterator[str]:
    """Yield what is listed of one bucket for the data of a time, as a backfill does."""
    for begin in beginnings(dataset, since, until):
        yield from expanded(begin, folders)


def nothing(_folder: str) -> tuple[str, ...]:
    """Know no folder."""
    raise AssertionError


def glm(**changes: object) -> Dataset:
    """Return the dataset whose folders tell the hour."""
    dataset = default_catalogue().named("goes-glm")
    return replace(dataset, **changes)  # type: ignore[arg-type]


def test_an_hour_is_a_folder_of_its_day_of_the_year() -> None:
    """By hand: 2026-06-01 is day 152, the last day of 2027 is 365 and that of 2028 is 366."""
    found = list(prefixes(glm(), at("2026-06-01T22:30"), at("2026-06-02T01:00"), nothing))
    assert found == [
        "GLM-L2-LCFA/2026/152/22/",
        "GLM-L2-LCFA/2026/152/23/",
        "GLM-L2-LCFA/2026/153/00/",
    ]
    ends = list(prefixes(glm(), at("2028-12-31T23:00"), at("2029-01-01T00:00:01"), nothing))
    assert ends == ["GLM-L2-LCFA/2028/366/23/", "GLM-L2-LCFA/2029/001/00/"]


def test_the_end_of_the_time_does_not_belong_to_it() -> None:
    """A window that ends on the hour asks for no further folder."""
    assert list(prefixes(glm(), at("2026-06-01T10:00"), at("2026-06-01T11:00"), nothing)) == [
        "GLM-L2-LCFA/2026/152/10/"
    ]


def test_a_long_time_is_listed_by_its_days() -> None:
    """Three days are three prefixes, not 72."""
    found = list(prefixes(glm(), at("2026-06-01"), at("2026-06-04"), nothing))
    assert found == [f"GLM-L2-LCFA/2026/{day}/" for day in (152, 153, 154)]


def test_a_forecast_lies_in_the_folder_of_its_run() -> None:
    """What is valid on the third may come from runs of the first: 48 hours ahead."""
    hrrr = default_catalogue().named("hrrr")
    found = list(prefixes(hrrr, at("2026-06-03T06:00"), at("2026-06-03T07:00"), nothing))
    assert found == ["hrrr.20260601/", "hrrr.20260602/", "hrrr.20260603/"]


def test_data_before_their_folder_are_found_in_a_later_one() -> None:
    """An analysis of the evening before lies in the folder of its run."""
    late = glm(folders=FolderRules(begins=("x/{YYYY}{MM}{DD}/",), behind_hours=3))
    found = list(prefixes(late, at("2026-06-01T22:00"), at("2026-06-01T23:00"), nothing))
    assert found == ["x/20260601/", "x/20260602/"]


def test_folders_of_any_name_are_found_by_listing() -> None:
    """MRMS: region and product are asked for, once a level, and only those that begin so."""
    held = {
        "": ["CONUS/", "ALASKA/"],
        "CONUS/": ["CONUS/A_00.50/", "CONUS/B_00.50/"],
        "ALASKA/": ["ALASKA/A_00.50/"],
    }
    mrms = default_catalogue().named("mrms")
    found = list(prefixes(mrms, at("2026-06-01T01:00"), at("2026-06-01T02:00"), held.__getitem__))
    assert found == [
        "CONUS/A_00.50/20260601/",
        "CONUS/B_00.50/20260601/",
        "ALASKA/A_00.50/20260601/",
    ]
    abi = default_catalogue().named("goes-abi")
    some = list(prefixes(
        abi, at("2026-06-01T01:00"), at("2026-06-01T02:00"), lambda _: ["ABI-L2-X/", "GLM-L2-LCFA/"]
    ))  # fmt: skip
    assert some == ["ABI-L2-X/2026/152/01/"]


def test_several_beginnings_come_in_the_order_of_time() -> None:
    """Day by day, not one model after the other."""
    gfs = default_catalogue().named("gfs")
    found = list(beginnings(gfs, at("2026-06-20"), at("2026-06-20T01:00")))
    assert found[:4] == ["gdas.20260604/", "gfs.20260604/", "gdas.20260605/", "gfs.20260605/"]
    assert found[-1] == "gfs.20260620/"


def test_keys_without_a_time_are_listed_whole() -> None:
    """A flat bucket, and a window without an end, have the dataset's own prefixes."""
    flat = default_catalogue().named("nexrad-l3")
    assert list(prefixes(flat, at("2026-06-01"), at("2026-06-02"), nothing)) == [""]
    assert list(prefixes(glm(), at("2026-06-01"), None, nothing)) == ["GLM-L2-LCFA/"]


@pytest.mark.parametrize("years", [("0001-01-01", "0001-01-02"), ("9999-12-30", "9999-12-31")])
def test_the_ends_of_the_calendar_are_listed_too(years: tuple[str, str]) -> None:
    """No overflow, and it comes to an end."""
    far = glm(folders=FolderRules(begins=("{YYYY}/",), ahead_hours=17_000, behind_hours=17_000))
    assert list(prefixes(far, at(years[0]), at(years[1]), nothing))


@given(
    start=st.integers(0, 14 * 365 * 86_400).map(lambda s: FIRST + timedelta(seconds=s)),
    before=st.timedeltas(timedelta(0), timedelta(days=4)),
    after=st.timedeltas(MOMENT, timedelta(days=4)),
)
def test_whatever_the_window_the_folder_of_each_instant_in_it_is_listed(
    start: datetime, before: timedelta, after: timedelta
) -> None:
    """The key of an instant, written by strftime, begins with exactly one prefix of the window."""
    key = start.strftime("GLM-L2-LCFA/%Y/%j/%H/OR_x.nc")
    found = list(prefixes(glm(), start - before, start + after, nothing))
    assert sum(key.startswith(prefix) for prefix in found) == 1
    assert found == sorted(set(found))


def _files() -> list[str]:
    folder = files("tallgrass.datasets").joinpath("files")
    texts = {file.name: file.read_text(encoding="utf-8") for file in folder.iterdir()}
    return sorted(name for name, text in texts.items() if "\n[folders]" in text)


def test_the_datasets_that_are_followed_are_there() -> None:
    """The feeds whose layout is verified tell their folders."""
    assert {"goes-glm.toml", "goes-abi.toml", "nexrad-l2.toml", "hrrr.toml", "mrms.toml",
            "gfs.toml", "nwm.toml", "himawari.toml"} <= set(_files())  # fmt: skip


@pytest.mark.parametrize("name", _files())
def test_every_example_of_a_dataset_lies_where_its_folders_say(name: str) -> None:
    """Each key that the file itself reads begins as its `folders` tell for its start."""
    text = files("tallgrass.datasets").joinpath("files", name).read_text(encoding="utf-8")
    dataset, examples = load_with_examples(text, name)
    seen = 0
    for example in examples:
        start = example.found.get("start")
        found = read_key(dataset, example.key)
        if start is None or start.startswith("1970") or not getattr(found, "is_known", True):
            continue  # where objects of unknown layouts lie, nobody knows
        instant = datetime.fromisoformat(start)
        begins = list(beginnings(dataset, instant, instant + MOMENT))
        patterns = [re.escape(each).replace(r"\{\*\}", "[^/]*") for each in begins]
        assert any(re.match(pattern, example.key) for pattern in patterns), (example.key, begins)
        seen += 1
    assert seen
    assert dataset.folders is not None
    assert all(PLACEHOLDER.search(each) for each in dataset.folders.begins)
