"""``tallgrass stac``: use the catalog."""

import click

from tallgrass.cli.invocation import Invocation, examples, output_option, pass_invocation
from tallgrass.cli.stac_export import export
from tallgrass.cli.stac_project import project
from tallgrass.cli.stac_serve import serve
from tallgrass.cli.stac_validate import validate
from tallgrass.cli.text import print_json


@click.group(
    name="stac",
    epilog=examples(
        "tallgrass stac serve --port 8080",
        "tallgrass stac export --format static --dir catalog",
        "tallgrass stac validate --schemas schemas",
    ),
)
def command() -> None:
    """Use the catalog: export, validate, serve it as a STAC API, copy it to pgstac."""


@click.group(epilog=examples("tallgrass stac collections refresh"))
def collections() -> None:
    """What collections tell of their items."""


@collections.command(epilog=examples("tallgrass stac collections refresh --output json"))
@output_option
@pass_invocation
def refresh(invocation: Invocation, *, as_json: bool) -> None:
    """Renew extents and summaries from the items, and words from the dataset files.

    Extents follow the items by themselves and only grow. This also shrinks them where items no
    longer reach as far, and renews words after a dataset file or a policy changed.
    """
    from tallgrass.bootstrap.catalog import refresh_collections  # noqa: PLC0415
    from tallgrass.bootstrap.datasets import open_catalogue  # noqa: PLC0415 - loads the drivers

    catalogue = open_catalogue(invocation.config)
    with invocation.stores(read_only=False) as stores:
        number, changed = refresh_collections(stores, catalogue)
    if as_json:
        print_json({"collections": number, "changed": changed})
    else:
        click.echo(f"{number:,} collections, {changed:,} of them changed.")


command.add_command(export)
command.add_command(validate)
command.add_command(serve)
command.add_command(project)
command.add_command(collections)
