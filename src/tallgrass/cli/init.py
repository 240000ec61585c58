"""``tallgrass init``: a configuration file with every setting, its meaning and its default."""

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import click

from tallgrass.canonical_json import canonical_text
from tallgrass.cli.invocation import Invocation, examples, output_option, pass_invocation
from tallgrass.cli.tables import say
from tallgrass.cli.text import print_json
from tallgrass.cli.whole_files import appearing_whole
from tallgrass.config import DEFAULT_FILE
from tallgrass.errors import Refused
from tallgrass.setting_form import Setting
from tallgrass.settings import SETTINGS, TABLES


@click.command(
    name="init",
    epilog=examples("tallgrass init", "tallgrass --config other.toml init --force"),
)
@click.option("--force", is_flag=True, help="Write over a file that is there.")
@output_option
@pass_invocation
def command(invocation: Invocation, *, force: bool, as_json: bool) -> None:
    """Write a configuration file with every setting and its default.

    It goes to ./tallgrass.toml, or to the file that --config names.
    """
    path = invocation.config_file or Path(DEFAULT_FILE)
    if path.exists() and not force:
        message = f"{path} is there already; --force writes over it"
        raise Refused(message)
    with appearing_whole(path, mode=0o644) as file:
        file.write(configuration_text().encode())
    if as_json:
        print_json({"file": str(path), "settings": len(SETTINGS)})
        return
    say(f"Wrote {path} with {len(SETTINGS)} settings. Next:")
    say("  tallgrass config show    each value and where it came from")
    say("  tallgrass db migrate     make the tables")


def configuration_text() -> str:
    """Return the file: settings with their defaults, and tables as comments."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield "# Settings of Tallgrass, each with its default."
    yield "# A TALLGRASS_… variable counts more than this file, a flag more than both."
    for section, settings in groupby(SETTINGS, key=lambda setting: setting.key.rpartition(".")[0]):
        yield ""
        if section:
            yield f"[{section}]"
        for setting in settings:
            yield f"# {setting.doc} (${setting.variable})"
            yield _assignment(setting)
    yield ""
    yield "# Tables, which only a file can hold:"
    for name, doc in TABLES.items():
        yield f"#   {name}: {doc}"


def _assignment(setting: Setting) -> str:
    # JSON's texts, numbers, true and false are TOML's too.
    return f"{setting.key.rpartition('.')[2]} = {canonical_text(setting.default)}"
