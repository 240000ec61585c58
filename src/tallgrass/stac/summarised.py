"""Which properties of items their collection tells in its summaries."""

from tallgrass.datasets.definition import Dataset

#: Properties that only files tell and whose values are few.
TOLD_BY_FILES = ("nexrad:product_code", "nexrad:vcp", "proj:code")
#: Properties that are as good as different in each item: a summary would only tell some of them.
_NOT_SUMMARISED = frozenset({"nexrad:chunk", "nexrad:volume"})


def summarised(dataset: Dataset) -> frozenset[str]:
    """Return the properties whose values among the items are told in summaries."""
    rules = dataset.item
    return frozenset({*rules.from_key, *rules.properties, *TOLD_BY_FILES}) - _NOT_SUMMARISED
