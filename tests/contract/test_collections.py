"""Collections are in the catalog before their items."""

from __future__ import annotations

import hashlib
import json
from importlib.resources import files
from typing import TYPE_CHECKING

from tallgrass.bootstrap.stores import record_collections
from tallgrass.datasets.catalogue import default_catalogue

if TYPE_CHECKING:
    from tests.support.backends import Backend


def test_every_dataset_has_its_collection_once(backend: Backend) -> None:
    """Recording them twice leaves one row each, whose hash is that of its bytes."""
    stores = backend.open()
    for _ in range(2):
        record_collections(stores, default_catalogue())
    rows = backend.sql("SELECT collection_id, body, sha256 FROM stac_collections")
    files_of_datasets = files("tallgrass.datasets").joinpath("files").iterdir()
    expected = sorted(file.name.removesuffix(".toml") for file in files_of_datasets)
    assert {"goes-glm", "hrrr", "nexrad-l2"} <= set(expected)
    assert sorted(name for name, _, _ in rows) == expected
    for name, body, sha256 in rows:
        assert hashlib.sha256(body).hexdigest() == sha256
        assert json.loads(body)["id"] == name
