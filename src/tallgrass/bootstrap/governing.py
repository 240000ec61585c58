"""What acts under policies: releases from quarantine, and the record of configurations."""

from tallgrass.bootstrap.datasets import open_policies
from tallgrass.bootstrap.stores import Stores, config_version
from tallgrass.canonical_json import canonical_bytes
from tallgrass.config import Config
from tallgrass.datasets.catalogue import Catalogue, as_json_value
from tallgrass.storage.config_store import ConfigStore
from tallgrass.storage.releases import Released, Releases
from tallgrass.telemetry.recorder import NOBODY, Recorder

__all__ = ["Released", "Releases", "config_body", "open_configs", "open_releases", "record_config"]


def open_releases(config: Config, stores: Stores, *, recorder: Recorder = NOBODY) -> Releases:
    """Wire what releases units from quarantine."""
    policies = open_policies(config)
    return Releases(stores.runner, stores.approvals, policies, recorder=recorder)


def open_configs(stores: Stores) -> ConfigStore:
    """Wire what keeps configurations by their hash."""
    return ConfigStore(stores.runner)


def record_config(stores: Stores, config: Config, catalogue: Catalogue) -> str:
    """Keep the configuration that attempts will name; return its version."""
    version = config_version(config, catalogue)
    configs = open_configs(stores)
    if configs.body(version) is None:
        configs.put(version, config_body(config, catalogue))
    return version


def config_body(config: Config, catalogue: Catalogue) -> bytes:
    """Return all that shapes outputs: the settings, and the datasets with their policies."""
    datasets = {dataset.id: as_json_value(dataset) for dataset in catalogue.datasets}
    return canonical_bytes({"settings": config.shaping, "datasets": datasets})
