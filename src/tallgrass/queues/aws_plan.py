"""Which topics a queue is subscribed to for chosen datasets, and what SNS lets pass.

SNS delivers over regions, so topics of several regions share one queue, and one queue is what a
worker polls: each subscription is made in its topic's region, taken from the ARN. Datasets that
share a topic share its subscription. Pure; `aws_template` writes it down as CloudFormation.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote_plus

from tallgrass.datasets.definition import Dataset
from tallgrass.errors import InvalidInput

_TOPIC = re.compile(r"arn:aws[a-z-]*:sns:(?P<region>[a-z0-9-]+):(?P<account>\d{12}):(?P<name>.+)")
QUEUE_NAME = re.compile(r"[A-Za-z0-9_-]{1,76}")
_REGION = re.compile(r"[a-z]{2}(?:-[a-z]+)+-\d")

#: This topic sends JSON of its own with attributes to filter by, and no S3 events.
_CHUNK_TOPIC = "NewNEXRADLevel2ObjectFilterable"
_WHOLE_SITE = re.compile(r"[A-Z][A-Z0-9]{0,3}/?")

#: A filter may have 150 combinations; a value that lies four levels deep counts four times.
_FILTER_VALUES_MAX = 150 // 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A dataset, and the beginnings or patterns of those of its keys that are wanted."""

    dataset: Dataset
    #: Plain beginnings, or with ``*`` patterns of whole keys; an empty one takes every key.
    keys: tuple[str, ...]
    #: Whether less than the whole dataset is wanted.
    is_narrowed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """One topic that feeds the queue."""

    topic: str
    region: str
    datasets: tuple[str, ...]
    #: What SNS lets pass; None for everything.
    filter_policy: Mapping[str, Any] | None
    filter_scope: str | None
    #: What the reader of the plan should know of it.
    note: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePlan:
    """Everything that the template is made from."""

    queue_name: str
    #: Where the stack is meant to be made.
    region: str
    visibility_s: int
    max_receive_count: int
    #: Raw messages carry no signature.
    raw_delivery: bool
    subscriptions: tuple[Subscription, ...]

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics that may send."""
        return tuple(one.topic for one in self.subscriptions)

    @property
    def other_regions(self) -> tuple[str, ...]:
        """Regions that messages come from over the border of the queue's."""
        return tuple(sorted({one.region for one in self.subscriptions} - {self.region}))


def choose(dataset: Dataset, wanted: Sequence[str]) -> Choice:
    """Narrow a dataset to the wanted keys; a wish that none of its keys can meet is refused."""
    if not sns_topics(dataset):
        places = ", ".join(f"s3://{bucket}/" for bucket in dataset.buckets)
        raise InvalidInput(
            f"no SNS topic announces {dataset.id}; its objects can only be found by listing "
            f"{places} (public: no account is needed)",
            code="no_topic",
        )
    if not wanted:
        return Choice(dataset=dataset, keys=dataset.key.prefixes)
    keys = tuple(dict.fromkeys(key for one in wanted for key in _narrowed(dataset, one)))
    return Choice(dataset=dataset, keys=keys, is_narrowed=keys != dataset.key.prefixes)


def sns_topics(dataset: Dataset) -> tuple[str, ...]:
    """Return the topics of a dataset that an SQS queue can be subscribed to."""
    return tuple(topic for topic in dataset.topics if _TOPIC.fullmatch(topic))


def plan_queue(
    choices: Sequence[Choice],
    *,
    queue_name: str,
    region: str | None = None,
    visibility_s: float = 300,
    max_receive_count: int = 5,
    raw_delivery: bool = False,
) -> QueuePlan:
    """Lay out one queue for all choices; without `region`, where most of the topics are."""
    if not QUEUE_NAME.fullmatch(queue_name):
        raise InvalidInput(
            f"{queue_name!r} cannot name a queue: 1 to 76 letters, digits, '-' and '_'"
        )
    if region is not None and not _REGION.fullmatch(region):
        raise InvalidInput(f"{region!r} is no AWS region; they look like us-east-1")
    by_topic: dict[str, list[Choice]] = {}
    for choice in choices:
        for topic in sns_topics(choice.dataset):
            by_topic.setdefault(topic, []).append(choice)
    subscriptions = tuple(_subscription(topic, by_topic[topic]) for topic in sorted(by_topic))
    return QueuePlan(
        queue_name=queue_name,
        region=region or _commonest([one.region for one in subscriptions]),
        visibility_s=int(visibility_s),
        max_receive_count=max_receive_count,
        raw_delivery=raw_delivery,
        subscriptions=subscriptions,
    )


def _narrowed(dataset: Dataset, wanted: str) -> list[str]:
    """Return what a wish leaves of a dataset's keys."""
    fixed, star, _ = wanted.partition("*")
    found = []
    for prefix in dataset.key.prefixes:
        if fixed.startswith(prefix):
            found.append(wanted)
        elif prefix.startswith(fixed) and not star:
            found.append(prefix)
    if not found:
        begins = " or ".join(repr(prefix) for prefix in dataset.key.prefixes)
        raise InvalidInput(f"--prefix {wanted!r}: keys of {dataset.id} begin with {begins}")
    return found


def _subscription(topic: str, choices: Sequence[Choice]) -> Subscription:
    """Merge what several datasets want of one topic: SNS allows one subscription a queue."""
    match = _TOPIC.fullmatch(topic)
    if match is None:  # `sns_topics` gave it
        raise InvalidInput(f"{topic} is no SNS topic")
    keys = _without_covered(key for choice in choices for key in choice.keys)
    note = None
    if any(choice.dataset.key.rest and "" in choice.keys for choice in choices):
        note = "not filtered: the dataset takes what no other of its buckets' datasets does"
    elif len(keys) > _FILTER_VALUES_MAX:
        note = f"not filtered: {len(keys)} beginnings of keys, a filter takes {_FILTER_VALUES_MAX}"
        keys = ("",)
    policy, scope = _chunk_filter(keys) if match["name"] == _CHUNK_TOPIC else _event_filter(keys)
    return Subscription(
        topic=topic,
        region=match["region"],
        datasets=tuple(sorted({choice.dataset.id for choice in choices})),
        filter_policy=policy,
        filter_scope=scope,
        note=note,
    )


def _without_covered(keys: Any) -> tuple[str, ...]:
    """Leave out keys that a shorter plain beginning already takes."""
    distinct = sorted(set(keys))
    plain = [key for key in distinct if "*" not in key]
    return tuple(
        key
        for key in distinct
        if not any(other != key and key.partition("*")[0].startswith(other) for other in plain)
    )


def _event_filter(keys: Sequence[str]) -> tuple[Mapping[str, Any] | None, str | None]:
    """Filter S3 events by their body. SNS compares the text as sent, where keys are URL-encoded."""
    if "" in keys:
        return None, None
    values = [
        {"wildcard": quote_plus(key, safe="/*")}
        if "*" in key
        else {"prefix": quote_plus(key, safe="/")}
        for key in keys
    ]
    return {"Records": {"s3": {"object": {"key": values}}}}, "MessageBody"


def _chunk_filter(keys: Sequence[str]) -> tuple[Mapping[str, Any] | None, str | None]:
    """Filter NEXRAD chunks: by the site's attribute, or by the key in the body, sent as it is."""
    if "" in keys:
        return None, None
    if all(_WHOLE_SITE.fullmatch(key) for key in keys):
        sites = [key[:-1] if key.endswith("/") else {"prefix": key} for key in keys]
        return {"SiteID": sites}, "MessageAttributes"
    values = [{"wildcard": key} if "*" in key else {"prefix": key} for key in keys]
    return {"Key": values}, "MessageBody"


def _commonest(regions: Sequence[str]) -> str:
    if not regions:
        raise InvalidInput("choose at least one dataset")
    return max(sorted(set(regions)), key=regions.count)
