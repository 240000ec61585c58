"""The datasets that are known, and the policies they stand under."""

from pathlib import Path

from tallgrass.canonical_json import sha256_hex
from tallgrass.config import Config
from tallgrass.datasets.catalogue import Catalogue, default_catalogue
from tallgrass.datasets.folder import catalogue_with
from tallgrass.datasets.governed import governed, policies_of
from tallgrass.governance.policy import Policies


def open_catalogue(config: Config) -> Catalogue:
    """Return the datasets: the shipped ones, with those of the configured folder.

    Each carries the rules of governance that hold: its file's, with the configured policy on top.
    """
    folder = config.text("datasets.folder")
    shipped = catalogue_with(Path(folder)) if folder else default_catalogue()
    catalogue = governed(shipped, config.policies)
    policies_of(catalogue, config.policies)
    return catalogue


def config_version(config: Config, catalogue: Catalogue | None) -> str:
    """Hash what can change an output: the settings that shape it, and the datasets.

    Attempts, plans, provenance and reports of the configuration all name this version.
    """
    if catalogue is None:
        return config.settings_version
    return sha256_hex(f"{config.settings_version}:{catalogue.fingerprint}".encode())[:16]


def open_policies(config: Config, catalogue: Catalogue | None = None) -> Policies:
    """Return the policies of all datasets, those that only others publish included."""
    return policies_of(catalogue or open_catalogue(config), config.policies)
