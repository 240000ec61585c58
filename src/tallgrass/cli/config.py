"""``tallgrass config``: each setting, its value and where it came from."""

from typing import TYPE_CHECKING

import click

from tallgrass.bootstrap.config_report import (
    check_config,
    config_document,
    config_file,
    shown,
    shown_tables,
    version_in_use,
)
from tallgrass.canonical_json import canonical_text
from tallgrass.cli.invocation import Invocation, examples, output_option, pass_invocation
from tallgrass.cli.tables import Cell, cell, say, show_facts, show_table
from tallgrass.cli.text import print_json
from tallgrass.config import Config
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
        print_json(config_document(config))
        return
    rows: list[tuple[Cell, ...]] = [
        (s.key, _text(shown(config.values[s.key])), _origin(config, s.key), cell(s.doc, "dim"))
        for s in SETTINGS
    ]
    rows += [
        (key, _text(value), str(config.file), cell(TABLES[key], "dim"))
        for key, value in shown_tables(config).items()
    ]
    show_table(("setting", "value", "from", "meaning"), rows, wide=("value", "meaning"))
    version = version_in_use(config) or "not known: see `tallgrass config check`"
    show_facts([("config_version", version), ("file", config_file(config))])


@command.command(epilog=examples("tallgrass --config tallgrass.toml config check"))
@output_option
@pass_invocation
def check(invocation: Invocation, *, as_json: bool) -> None:
    """Check the configuration; what cannot be used is named with its place and a fix."""
    config = invocation.config
    checked = check_config(config)
    if as_json:
        print_json(checked)
        return
    say(f"The configuration is good ({config_file(config) or 'no file'}).")


def _text(value: object) -> str:
    return value if isinstance(value, str) else canonical_text(value)


def _origin(config: Config, key: str) -> "Text":
    origin = config.origins[key]
    return cell(origin, "dim" if origin == "default" else "bold")
