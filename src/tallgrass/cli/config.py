"""``tallgrass config``: each setting, its value and where it came from."""

from typing import TYPE_CHECKING, Any

import click

from tallgrass.canonical_json import canonical_text
from tallgrass.cli.invocation import Invocation, examples, output_option, pass_invocation
from tallgrass.cli.text import hide_credentials, print_json
from tallgrass.config import Config
from tallgrass.setting_form import Value
from tallgrass.settings import SETTINGS, TABLES

if TYPE_CHECKING:
    from rich.text import Text


@click.group(name="config", epilog=examples("tallgrass config show"))
def command() -> None:
    """Show and check the configuration."""


@command.command(
    epilog=examples("tallgrass config show", "TALLGRASS_ENV=prod tallgrass config show")
)
@output_option
@pass_invocation
def show(invocation: Invocation, *, as_json: bool) -> None:
    """Say each value and where it came from; credentials are not shown."""
    config = invocation.config
    if as_json:
        print_json(_document(config))
        return
    from tallgrass.cli.tables import Cell, cell, show_facts, show_table  # noqa: PLC0415

    rows: list[tuple[Cell, ...]] = [
        (s.key, _text(_shown(config.values[s.key])), _origin(config, s.key), cell(s.doc, "dim"))
        for s in SETTINGS
    ]
    rows += [
        (key, _text(value), str(config.file), cell(TABLES[key], "dim"))
        for key, value in _tables(config).items()
    ]
    show_table(("setting", "value", "from", "meaning"), rows, wide=("value", "meaning"))
    show_facts([("config_version", config.config_version), ("file", _file(config))])


@command.command(epilog=examples("tallgrass --config tallgrass.toml config check"))
@output_option
@pass_invocation
def check(invocation: Invocation, *, as_json: bool) -> None:
    """Check the configuration; what cannot be used is named with its place and a fix."""
    from tallgrass.bootstrap.datasets import open_catalogue  # noqa: PLC0415 - `show` needs none of it
    from tallgrass.bootstrap.sinks import check_targets  # noqa: PLC0415

    config = invocation.config
    check_targets(config)
    open_catalogue(config)
    if as_json:
        print_json({"ok": True, "file": _file(config), "config_version": config.config_version})
        return
    from tallgrass.cli.tables import say  # noqa: PLC0415 - rich is for tables only

    say(f"The configuration is good ({_file(config) or 'no file'}).")


def _document(config: Config) -> dict[str, object]:
    return {
        "config_version": config.config_version,
        "file": _file(config),
        "settings": {
            s.key: {"value": _shown(config.values[s.key]), "origin": config.origins[s.key]}
            for s in SETTINGS
        },
        "tables": _tables(config),
    }


def _shown(value: Value) -> Value:
    return hide_credentials(value) if isinstance(value, str) else value


def _tables(config: Config) -> dict[str, Any]:
    """Return the tables; an address in them may hold credentials, as a setting may."""
    return {key: _without_credentials(value) for key, value in config.tables.items()}


def _without_credentials(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_credentials(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_without_credentials(each) for each in value]
    return hide_credentials(value) if isinstance(value, str) else value


def _text(value: object) -> str:
    return value if isinstance(value, str) else canonical_text(value)


def _origin(config: Config, key: str) -> "Text":
    from tallgrass.cli.tables import cell  # noqa: PLC0415 - rich is for tables only

    origin = config.origins[key]
    return cell(origin, "dim" if origin == "default" else "bold")


def _file(config: Config) -> str | None:
    return None if config.file is None else str(config.file)
