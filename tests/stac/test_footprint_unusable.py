"""Grids and swaths that a file has and that cannot be: the item is suspect, never silently so."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
import pytest

from tallgrass.evidence.hdf5_children import Hdf5Children
from tallgrass.ledger.vocabulary import CheckStatus
from tests.stac.real_items import tried
from tests.stac.satellite_files import SECTORS, abi, corners

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ABI = (
    "noaa-goes19/ABI-L2-ACMC/2026/152/12/"
    "OR_ABI-L2-ACMC-M6_G19_s20261521201174_e20261521203547_c20261521204254.nc"
)
VIIRS = (
    "noaa-nesdis-n20-pds/VIIRS-JRR-CloudHeight/2026/04/16/"
    "JRR-CloudHeight_v3r2_j01_s202604162301309_e202604162302556_c202604162344501.nc"
)
FILL = -999.3


@pytest.fixture(scope="module")
def children() -> Iterator[Hdf5Children]:
    """Return processes that read attributes."""
    made = Hdf5Children(1)
    yield made
    made.close()


def changed(**attributes: float) -> bytes:
    """Return an image whose projection has other numbers."""
    buffer = io.BytesIO(abi(-75.2, SECTORS["C"]))
    with h5py.File(buffer, "r+") as file:
        for name, value in attributes.items():
            file["goes_imager_projection"].attrs[name] = np.array([value])
    return buffer.getvalue()


def with_axis(values: Any, **attributes: float) -> bytes:
    """Return an image with another axis along x."""
    buffer = io.BytesIO(abi(-75.2, SECTORS["C"]))
    with h5py.File(buffer, "r+") as file:
        del file["x"]
        axis = file.create_dataset("x", data=values)
        for name, value in attributes.items():
            axis.attrs[name] = np.array([value], "f4")
    return buffer.getvalue()


def judged(folder: Path, place: str, data: bytes, children: Hdf5Children) -> list[str]:
    """Return the codes of what is wrong; the object itself is whole."""
    trial = tried(folder, place, data, children)
    assert trial.integrity.status is CheckStatus.OK
    codes = [each.code for each in trial.metadata.issues]
    assert trial.metadata.status is (CheckStatus.SUSPECT if codes else CheckStatus.OK)
    return codes


@pytest.mark.parametrize(
    "data",
    [
        changed(perspective_point_height=1e308),
        changed(perspective_point_height=1e160),
        changed(perspective_point_height=0.0),
        changed(perspective_point_height=float("nan")),
        changed(semi_minor_axis=0.0),
        changed(semi_minor_axis=1e-200),
        changed(longitude_of_projection_origin=999.0),
        with_axis(np.full(2500, np.nan)),
        with_axis(np.zeros(1, "i2")),
        with_axis(np.arange(500, dtype="i2"), scale_factor=0.000056, add_offset=0.3),
    ],
)
def test_a_grid_that_cannot_be_is_suspect(
    tmp_path: Path, data: bytes, children: Hdf5Children
) -> None:
    """Impossible numbers, axes without extent and views of space alone are told."""
    assert judged(tmp_path, ABI, data, children) == ["invalid_geometry"]


def test_a_grid_as_it_should_be_is_ok(tmp_path: Path, children: Hdf5Children) -> None:
    """The same file with its own numbers has no issue."""
    assert judged(tmp_path, ABI, changed(), children) == []


def test_a_swath_of_fill_values_is_suspect(tmp_path: Path, children: Hdf5Children) -> None:
    """A swath whose corners are not known has no geometry, and says so."""
    assert judged(tmp_path, VIIRS, corners([(FILL, FILL)] * 4), children) == ["invalid_geometry"]
    sound = corners([(-90.0, 40.0), (-60.0, 44.0), (-62.0, 50.0), (-96.0, 46.0)])
    assert judged(tmp_path, VIIRS, sound, children) == []
