"""stac-api-validator on a real process, for every class that the API declares."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pystac
import pytest

import tallgrass.stac
from tallgrass.datasets.catalogue import default_catalogue
from tallgrass.stac.collections import build_collection
from tests.pipeline.scene import Pipeline, things
from tests.stac.schemas import folder
from tests.web.serving import serving

if TYPE_CHECKING:
    from tests.support.backends import Backend


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_the_validator_finds_no_error(backend: Backend, tmp_path: Path) -> None:
    """Core, collections, features, item search, sort and fields, on items of a real pipeline."""
    schemas = [
        Path(pystac.__file__).parent / "validation" / "jsonschemas",
        Path(tallgrass.stac.__file__).parent / "schemas",
        folder() / "stac",
    ]
    pipeline = Pipeline(backend, tmp_path)
    pipeline.feed(*things(36))
    pipeline.drain()
    named = [default_catalogue().dataset(name) for name in ("goes-glm", "hrrr", "nexrad-l2")]
    pipeline.stores.collections.put(
        [(each.item.collection, build_collection(each)) for each in named if each]
    )
    with serving(backend) as api:
        script = Path(__file__).parent / "run_validator.py"
        done = subprocess.run(
            [sys.executable, "-W", "ignore", str(script), api.url, *map(str, schemas)],
            check=False,
            capture_output=True,
            text=True,
            timeout=240,
        )
        assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert not found["errors"], "\n".join(each[:2000] for each in found["errors"])
