"""Options that choose which listed objects a command looks at."""

from pathlib import Path

import click

prefix_option = click.option(
    "--prefix", default="", metavar="KEY", help="Only objects whose key begins so."
)
bucket_option = click.option(
    "--bucket",
    "buckets",
    multiple=True,
    metavar="NAME",
    help="Only this bucket of the dataset, or of its mirrors; repeatable.",
)
listing_option = click.option(
    "--listing",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Read this list in place of the bucket: an S3 Inventory manifest.json, CSV, Parquet, "
    "JSON Lines, or keys.",
)
objects_option = click.option(
    "--objects", metavar="URL", help="file:FOLDER or cloud (objects.url)."
)
