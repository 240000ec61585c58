"""Datasets as documents, and the choice of datasets by bucket or topic."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tallgrass.datasets.definition import Dataset
    from tallgrass.datasets.examples import Example


def chosen_datasets(
    datasets: Iterable[Dataset], *, bucket: str | None = None, topic: str | None = None
) -> list[Dataset]:
    """Return those with objects in a bucket, announced by a topic: its ARN, or its name."""
    return [
        each
        for each in datasets
        if (bucket is None or any(name == bucket for _, name in each.places()))
        and (topic is None or _has_topic(each, topic))
    ]


def dataset_line(dataset: Dataset) -> dict[str, object]:
    """Return what a list tells of a dataset."""
    return {
        "id": dataset.id,
        "title": dataset.title,
        "buckets": {dataset.provider: dataset.buckets, **dataset.mirrors},
        "topics": dataset.topics,
        "grammar": not dataset.key.generic,
    }


def check_document(
    dataset: Dataset, read: Iterable[Example], *, is_known: bool
) -> dict[str, object]:
    """Return what the examples of a good dataset file gave."""
    found = [{"key": each.key, **each.found} for each in read]
    return {"ok": True, "id": dataset.id, "replaces": is_known, "examples": found}


def _has_topic(dataset: Dataset, topic: str) -> bool:
    known = (*dataset.topics, *dataset.retired_topics)
    return any(each == topic or each.rpartition(":")[2] == topic for each in known)
