"""The folder of real NOAA files, where there is one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def noaa_data(*parts: str) -> Path:
    """Return a file or folder of the real data, or skip the test that asks for it."""
    named = os.environ.get("TALLGRASS_TEST_DATA")
    folder = Path(named) if named else ROOT.parent / "shared" / "data"
    path = folder.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"real NOAA data: TALLGRASS_TEST_DATA names no folder with {'/'.join(parts)}")
    return path
