"""The configuration as a document; credentials are not in it."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from tallgrass.config import Config
from tallgrass.errors import ConfigError
from tallgrass.setting_form import Value
from tallgrass.settings import SETTINGS
from tallgrass.views.text import hide_credentials

if TYPE_CHECKING:
    from tallgrass.datasets.catalogue import Catalogue


def version_in_use(config: Config, catalogue: "Catalogue | None" = None) -> str | None:
    """Return the version that attempts and plans name; None where the datasets cannot be read.

    `check_config` says why not. Without a catalogue the datasets are read as they are now.
    """
    from tallgrass.bootstrap.datasets import config_version, open_catalogue  # noqa: PLC0415

    try:
        return config_version(config, catalogue or open_catalogue(config))
    except ConfigError:
        return None


def config_document(config: Config, catalogue: "Catalogue | None" = None) -> dict[str, object]:
    """Return each value and where it came from."""
    return {
        "config_version": version_in_use(config, catalogue),
        "file": config_file(config),
        "settings": {
            s.key: {"value": shown(config.values[s.key]), "origin": config.origins[s.key]}
            for s in SETTINGS
        },
        "tables": shown_tables(config),
    }


def check_config(config: Config) -> dict[str, object]:
    """Open what the configuration names; what cannot be used is raised with its place."""
    from tallgrass.bootstrap.datasets import config_version, open_catalogue  # noqa: PLC0415
    from tallgrass.bootstrap.sinks import check_targets  # noqa: PLC0415 - to show needs none

    check_targets(config)
    catalogue = open_catalogue(config)
    _require_known(config.rules.exceptions, [each.id for each in catalogue.datasets])
    version = config_version(config, catalogue)
    return {"ok": True, "file": config_file(config), "config_version": version}


def _require_known(exceptions: Iterable[str], datasets: Sequence[str]) -> None:
    """Refuse an exception for a dataset that there is not: it would never hold."""
    from tallgrass.datasets.fields import nearest_or_all  # noqa: PLC0415 - to show needs none

    for name in exceptions:
        if name not in datasets:
            hint = nearest_or_all(name, datasets)
            raise ConfigError(f"ledger.exceptions.{name}: there is no dataset {name!r}{hint}")


def config_file(config: Config) -> str | None:
    """Return the file that the configuration was read from."""
    return None if config.file is None else str(config.file)


def shown(value: Value) -> Value:
    """Return a value without credentials."""
    return hide_credentials(value) if isinstance(value, str) else value


def shown_tables(config: Config) -> dict[str, Any]:
    """Return the tables without credentials: their addresses may hold some, as settings may."""
    return {key: _without_credentials(value) for key, value in config.tables.items()}


def _without_credentials(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_credentials(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_without_credentials(each) for each in value]
    return hide_credentials(value) if isinstance(value, str) else value
