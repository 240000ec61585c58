"""Configurations by their hash: what an attempt's config_version meant can be read back."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tallgrass.bootstrap.datasets import config_version, open_catalogue
from tallgrass.bootstrap.governing import config_body, open_configs, record_config
from tallgrass.canonical_json import canonical_bytes, sha256_hex
from tests.contract.scene import accepts

if TYPE_CHECKING:
    from tests.support.backends import Backend


def test_a_configuration_is_kept_once(backend: Backend) -> None:
    """Its body is the one that the version was made of; a second worker adds nothing."""
    config = backend.config()
    catalogue = open_catalogue(config)
    stores = backend.open()
    version = record_config(stores, config, catalogue)
    assert version == config_version(config, catalogue)
    configs = open_configs(stores)
    assert configs.body(version) == config_body(config, catalogue)
    assert configs.put(version, b"another") is False
    assert record_config(stores, config, catalogue) == version
    assert backend.sql("SELECT config_version FROM config_versions") == [(version,)]
    assert configs.body("unknown") is None


def test_the_body_proves_its_version(backend: Backend) -> None:
    """Hashing the stored body again, as `config_version` does, gives the version."""
    config = backend.config()
    version = record_config(backend.open(), config, open_catalogue(config))
    [row] = backend.rows("SELECT body FROM config_versions")
    document = json.loads(row["body"])
    settings = sha256_hex(canonical_bytes(document["settings"]))[:16]
    assert settings == config.settings_version
    assert len(document["datasets"]) == len(open_catalogue(config).datasets)
    assert version == config_version(config, open_catalogue(config))


def test_a_configuration_is_never_changed(backend: Backend) -> None:
    """Raw SQL cannot rewrite or remove one."""
    config = backend.config()
    record_config(backend.open(), config, open_catalogue(config))
    connection = backend.connect()
    assert not accepts(connection, "UPDATE config_versions SET config_version = 'x'")
    assert not accepts(connection, "DELETE FROM config_versions")
