"""Validating items by core and every extension that they declare: a share of 60 µs an item.

The items are the committed ones of three datasets. Schemas of extensions come from the folder
beside the one that TALLGRASS_TEST_DATA names; without it there is no figure.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import orjson

from bench.report import Row, row
from tallgrass.bootstrap.schemas import open_validator

LIMIT_US = 60.0
ROUNDS = 9
ITEMS = 2000

_ROOT = Path(__file__).resolve().parents[1]


def schema_folder() -> Path | None:
    """Return the folder of published schemas, if it is there."""
    data = os.environ.get("TALLGRASS_TEST_DATA")
    beside = Path(data).parent if data else _ROOT.parent / "shared"
    found = beside / "schemas" / "stac"
    return found if found.is_dir() else None


def benchmarks() -> list[Row]:
    """Return the one row."""
    folder = schema_folder()
    if folder is None:
        print("no published schemas: validation is not measured")
        return []
    validator = open_validator([folder])
    bodies = [path.read_bytes() for path in sorted((_ROOT / "tests/golden").glob("*.item.json"))]
    assert all(validator.judge(orjson.loads(body)).is_valid for body in bodies)
    shares = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        for number in range(ITEMS):
            validator.judge(orjson.loads(bodies[number % len(bodies)]))
        shares.append((time.perf_counter() - start) / ITEMS * 1e6 / LIMIT_US)
    name = f"validation with all extensions, an item / {LIMIT_US:g} µs"
    return [row(name, shares, at_most=1.0)]
