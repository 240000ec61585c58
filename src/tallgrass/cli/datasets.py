"""``tallgrass datasets``: what is ingested. List and show it, check and write dataset files."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from tallgrass.bootstrap.datasets import open_catalogue
from tallgrass.cli.dataset_template import dataset_template
from tallgrass.cli.invocation import Invocation, examples, output_option, pass_invocation
from tallgrass.cli.tables import say, show_facts, show_table
from tallgrass.cli.text import print_json, printable
from tallgrass.config import Config
from tallgrass.datasets.catalogue import as_json_value, default_catalogue
from tallgrass.datasets.definition import Dataset
from tallgrass.datasets.examples import Example
from tallgrass.datasets.folder import joined, read_dataset_file
from tallgrass.datasets.loader import load_dataset
from tallgrass.views.datasets import check_document, chosen_datasets, dataset_line

#: Buckets or topics in a line of the list.
_NAMES_MAX = 3


@click.group(
    name="datasets",
    epilog=examples("tallgrass datasets list", "tallgrass datasets show goes-abi"),
)
def command() -> None:
    """What is ingested: list, show, check and write dataset files."""


@command.command(
    name="list",
    epilog=examples(
        "tallgrass datasets list --bucket noaa-goes19",
        "tallgrass datasets list --topic NewMRMSObject --output json",
    ),
)
@click.option("--bucket", metavar="NAME", help="Only datasets with objects in this bucket.")
@click.option("--topic", metavar="TOPIC", help="Only those announced by it: an ARN, or its name.")
@output_option
@pass_invocation
def list_datasets(
    invocation: Invocation, *, bucket: str | None, topic: str | None, as_json: bool
) -> None:
    """Show all datasets: where their objects are, who announces them, whether keys are read."""
    datasets = open_catalogue(invocation.config).datasets
    chosen = chosen_datasets(datasets, bucket=bucket, topic=topic)
    if as_json:
        print_json({"datasets": [dataset_line(each) for each in chosen]})
        return
    show_table(
        ("id", "title", "keys read", "buckets", "topics"),
        [
            (
                each.id,
                each.title,
                "no" if each.key.generic else "yes",
                _some(_bucket_names(each)),
                _some([topic.rpartition(":")[2] for topic in each.topics]),
            )
            for each in chosen
        ],
        wide=("title", "buckets", "topics"),
    )
    say(f"{len(chosen)} datasets" if len(chosen) != 1 else "1 dataset", "dim")


@command.command(epilog=examples("tallgrass datasets show mrms", "tallgrass datasets show nwm"))
@click.argument("dataset_id", metavar="ID")
@output_option
@pass_invocation
def show(invocation: Invocation, dataset_id: str, *, as_json: bool) -> None:
    """Show one dataset: its buckets, its keys and its items."""
    dataset = open_catalogue(invocation.config).named(dataset_id)
    if as_json:
        print_json(as_json_value(dataset))
        return
    show_facts(_facts(dataset), title=dataset.id)


@command.command(epilog=examples("tallgrass datasets check my-radar.toml"))
@click.argument("file", type=click.Path(path_type=Path), metavar="FILE")
@output_option
@pass_invocation
def check(invocation: Invocation, file: Path, *, as_json: bool) -> None:
    """Check a dataset file, by itself and beside the other datasets.

    What cannot be used is named with its field and what is allowed there. A good file is answered
    with what its own examples gave.
    """
    dataset, read = read_dataset_file(file)
    catalogue = open_catalogue(invocation.config)
    others = default_catalogue() if _is_in_use(invocation.config, file) else catalogue
    is_known = others.dataset(dataset.id) is not None
    joined(catalogue, {file: dataset})
    if as_json:
        print_json(check_document(dataset, read, is_known=is_known))
        return
    _show_check(dataset, read, is_known=is_known)


@command.command(epilog=examples("tallgrass datasets new my-radar > datasets/my-radar.toml"))
@click.argument("dataset_id", metavar="ID")
@output_option
def new(dataset_id: str, *, as_json: bool) -> None:
    """Print a dataset file to begin with, every field explained."""
    text = dataset_template(dataset_id)
    # Refuses an id that no file may have.
    load_dataset(text, "the new file")
    if as_json:
        print_json({"id": dataset_id, "file": text})
        return
    click.echo(text, nl=False)


def _bucket_names(dataset: Dataset) -> list[str]:
    """Return the buckets, those of other providers with the provider's name."""
    return [
        name if provider == dataset.provider else f"{provider}:{name}"
        for provider, name in dataset.places()
    ]


def _some(names: Sequence[str]) -> str | None:
    """Return the first names, and how many more there are; `show` tells them all."""
    if len(names) <= _NAMES_MAX:
        return ", ".join(names) or None
    return f"{', '.join(names[: _NAMES_MAX - 1])} and {len(names) - _NAMES_MAX + 1} more"


def _facts(dataset: Dataset) -> list[tuple[str, str | None]]:
    key, item = dataset.key, dataset.item
    layouts = () if key.generic else (key, *key.layouts)
    return [
        ("title", dataset.title),
        ("description", dataset.description),
        ("provider", dataset.provider),
        *(("bucket", name) for name in _bucket_names(dataset)),
        *(("topic", topic) for topic in dataset.topics),
        *(("retired topic", topic) for topic in dataset.retired_topics),
        ("format", dataset.format),
        ("every", None if dataset.cadence_s is None else f"{dataset.cadence_s:g} s"),
        ("priority", dataset.priority),
        ("keys begin with", "anything left" if key.rest else ", ".join(key.prefixes) or "anything"),
        *(("key", " ".join(layout.pattern.pattern.split())) for layout in layouts),
        *(
            ("ignored", f"{' '.join(rule.pattern.pattern.split())} ({rule.reason})")
            for rule in key.ignore
        ),
        ("collection", item.collection),
        ("media type", item.media_type),
        ("from the key", ", ".join(item.from_key) or None),
        ("care label", dataset.governance.care_label),
    ]


def _is_in_use(config: Config, file: Path) -> bool:
    """Tell a file of the configured folder: the dataset that it would replace there is itself."""
    folder = config.text("datasets.folder")
    return bool(folder) and file.resolve().parent == Path(folder).resolve()


def _show_check(dataset: Dataset, read: Sequence[Example], *, is_known: bool) -> None:
    show_table(
        ("example", "gives"), [(each.key, _given(each.found)) for each in read], wide=("example",)
    )
    replaces = "; it replaces the dataset of that id" if is_known else ""
    say(f"The dataset {printable(dataset.id)} is good{replaces}.")


def _given(found: Mapping[str, str | None]) -> str:
    return ", ".join(f"{name} {value}" for name, value in found.items() if value is not None)
