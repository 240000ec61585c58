"""A folder of dataset files of one's own: they join the shipped ones, or stand in their place."""

from collections.abc import Mapping
from pathlib import Path

from tallgrass.datasets.catalogue import Catalogue, catalogue_of, default_catalogue
from tallgrass.datasets.definition import Dataset
from tallgrass.datasets.examples import Example
from tallgrass.datasets.fields import INVALID
from tallgrass.datasets.loader import load_with_examples
from tallgrass.errors import ConfigError


def catalogue_with(folder: Path) -> Catalogue:
    """Return the shipped datasets with those of a folder; one of the same id is replaced."""
    own = {file: read_dataset_file(file)[0] for file in _files_of(folder)}
    return joined(default_catalogue(), own)


def _files_of(folder: Path) -> list[Path]:
    """Return the dataset files of a folder; one that cannot be read is not an empty one."""
    try:
        if not folder.is_dir():
            raise ConfigError(f"datasets.folder: there is no folder {folder}")
        # Not by `glob`, which finds nothing where it may not look.
        return sorted(file for file in folder.iterdir() if file.name.endswith(".toml"))
    except OSError as exc:
        raise ConfigError(f"datasets.folder: cannot read {folder}: {exc.strerror}") from exc


def joined(base: Catalogue, own: Mapping[Path, Dataset]) -> Catalogue:
    """Return the datasets with those of files; a file that does not fit is refused by its name."""
    try:
        return catalogue_of(base, own.values())
    except ConfigError as exc:
        raise ConfigError(f"{_misfit(base, own)}: {exc}", code=exc.code) from exc


def _misfit(base: Catalogue, own: Mapping[Path, Dataset]) -> Path:
    """Return the first file whose dataset does not go with the ones before it."""
    files = list(own)
    for number, file in enumerate(files, start=1):
        try:
            catalogue_of(base, [own[each] for each in files[:number]])
        except ConfigError:
            return file
    return files[-1]


def read_dataset_file(file: Path) -> tuple[Dataset, tuple[Example, ...]]:
    """Return the dataset of a file, and what its examples gave."""
    try:
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError as exc:
        raise ConfigError(f"{file}: not UTF-8: {exc.reason}", code=INVALID) from exc
    except OSError as exc:
        raise ConfigError(f"{file}: cannot be read: {exc.strerror}", code=INVALID) from exc
    return load_with_examples(text, str(file))
