"""Files of datasets whose keys have several layouts, or none."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest

from tallgrass.datasets.key_grammar import IgnoredKey, KeyMatch, read_key
from tallgrass.datasets.key_times import UNKNOWN_START
from tallgrass.datasets.loader import load_dataset
from tallgrass.errors import ConfigError
from tests.datasets.file_texts import GENERIC


def test_a_file_without_a_grammar_takes_every_object() -> None:
    """No [key], no format, no cadence, no example: generic units, whose items may lie nowhere."""
    things = load_dataset(GENERIC, "things.toml")
    assert things.key.generic
    assert (things.format, things.cadence_s, things.key.prefixes) == (None, None, ("",))
    assert things.item.placeless
    assert things.item.media_types[".nc"] == "application/netcdf"
    assert read_key(things, "a.md") == IgnoredKey(reason="sidecar", dataset=things)
    assert read_key(things, "a/README") == IgnoredKey(reason="not_ingestable", dataset=things)
    found = read_key(things, "any thing\n")
    assert isinstance(found, KeyMatch)
    assert found.start == UNKNOWN_START


def test_a_generic_dataset_may_have_prefixes_rules_and_mirrors() -> None:
    """A [key] without a pattern narrows the buckets; mirrors are buckets of other providers."""
    text = (
        GENERIC
        + """
    mirrors.gcp = ["things-gcp"]
    mirrors.azure = ["account.things", "account.more"]
    retired_topics = ["old"]
    [key]
    prefixes = ["a/", "b/"]
    [[key.ignore]]
    pattern = '.*\\.bak'
    reason = "backup"
    [[examples]]
    key = "a/b.bak"
    ignored = "backup"
    """
    )
    things = load_dataset(text, "things.toml")
    assert (things.key.generic, things.key.prefixes) == (True, ("a/", "b/"))
    assert things.retired_topics == ("old",)
    assert list(things.places()) == [
        ("aws", "things-pds"),
        ("gcp", "things-gcp"),
        ("azure", "account.things"),
        ("azure", "account.more"),
    ]


LAYOUTS = (
    GENERIC
    + """
item.from_key.platform = "site"
item.from_key."things:hour" = "hour"
[key]
pattern = 'old/(?P<date>\\d{8})/(?P<hour>\\d{2})/(?P<span>\\d{2}H)?'
start = { form = "date", groups = ["date"], plus_hours = "hour" }
accumulation = "span"
[[key.layouts]]
pattern = 'new/(?P<site>[a-z]+)/(?P<date>\\d{8})/(?P<from>\\d{6})-(?P<to>\\d{6})'
start = { form = "date-time", groups = ["date", "from"] }
end = { form = "date-time", groups = ["date", "to"], crosses_midnight = true }
[[examples]]
key = "old/20240228/24/"
start = "2024-02-29T00:00:00Z"
[[examples]]
key = "new/here/20231231/235900-000100"
start = "2023-12-31T23:59:00Z"
end = "2024-01-01T00:01:00Z"
"""
)


def test_a_dataset_may_have_several_layouts() -> None:
    """They are tried in order; the groups of another layout are None."""
    things = load_dataset(LAYOUTS, "things.toml")
    old = read_key(things, "old/20240228/06/03H")
    assert isinstance(old, KeyMatch)
    assert old.accumulation == timedelta(hours=3)
    assert (old.groups["hour"], old.groups["site"]) == ("06", None)
    new = read_key(things, "new/here/20240228/010000-020000")
    assert isinstance(new, KeyMatch)
    assert (new.groups["hour"], new.groups["site"], new.accumulation) == (None, "here", None)
    assert new.end == datetime(2024, 2, 28, 2, tzinfo=UTC)
    newer = read_key(things, "newer/x")
    assert isinstance(newer, KeyMatch)
    assert (newer.is_known, newer.start) == (False, UNKNOWN_START)


@pytest.mark.parametrize(
    ("key", "start", "reason"),
    [
        ("odd/20240228.txt", datetime(2024, 2, 28, tzinfo=UTC), None),
        ("odd/20240231.txt", UNKNOWN_START, None),
        ("odd/20240228.txt.md5", None, "sidecar"),
        ("odd/20240228.tmp", None, "not_ingestable"),
        ("odd/README.20240228", None, "not_ingestable"),
        ("even/odder", UNKNOWN_START, None),
    ],
)
def test_a_layout_may_tell_the_time_alone(
    key: str, start: datetime | None, reason: str | None
) -> None:
    """Of such objects nothing else is known; what is never data stays ignored."""
    layout = """[[key.layouts]]
generic = true
pattern = 'odd/.*(?P<date>\\d{8}).*'
start = { form = "date", groups = ["date"] }
[[examples]]"""
    things = load_dataset(LAYOUTS.replace("[[examples]]", layout, 1), "things.toml")
    found = read_key(things, key)
    if reason is not None:
        assert found == IgnoredKey(reason=reason, dataset=things)
        return
    assert isinstance(found, KeyMatch)
    assert (found.is_known, found.start, found.end, found.groups) == (False, start, None, {})
    assert (found.dataset.id, found.dataset.item.from_key) == (things.id, {})


def test_an_example_that_no_layout_reads_proves_no_grammar() -> None:
    """A file whose pattern takes none of its examples is refused."""
    lines = LAYOUTS[: LAYOUTS.index("[[examples]]")]
    unread = '[[examples]]\nkey = "newer/x"\nstart = "1970-01-01T00:00:00Z"\n'
    with pytest.raises(ConfigError, match="needs at least one key of a unit"):
        load_dataset(lines + unread, "things.toml")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('accumulation = "span"', 'accumulation = "spam"', "key.accumulation: key.pattern has no"),
        ("crosses_midnight = true", 'until = "week"', "key.layouts[1].end.until: unknown word"),
        ("crosses_midnight = true", "crosses = true", "key.layouts[1].end.crosses: unknown field"),
        ("crosses_midnight = true", "offset_minutes = 1.5", "offset_minutes: must be a whole"),
        ("crosses_midnight = true", 'minus_hours = "x"', "key.layouts[1].end.minus_hours: key.pat"),
        ("crosses_midnight = true", 'until = "day"', "examples[2].key"),
        ("[key]\n", '[key]\nrest = true\nprefixes = ["a"]\n', "key.prefixes: a dataset that takes"),
        ("[key]\n", "[key]\nrest = 1\n", "key.rest: must be true or false"),
        ('platform = "site"', 'platform = "sitt"', "did you mean 'site'"),
        ('priority = "low"', 'priority = "low"\nformat = "netcdf"', "did you mean 'netcdf4'?"),
        (
            'priority = "low"',
            'priority = "low"\nformta = "x"',
            "formta: unknown field; did you mean 'format'?",
        ),
        ('priority = "low"', 'priority = "low"\nmirrors.aws = ["x"]', "mirrors: 'aws' is the"),
        ('priority = "low"', 'priority = "low"\nmirrors.gcp = []', "mirrors.gcp: must name at"),
    ],
)
def test_a_mistake_in_layouts_is_refused_with_its_place(old: str, new: str, message: str) -> None:
    """Further layouts, time rules and mirrors are checked as the first are."""
    assert LAYOUTS.count(old) == 1, old
    with pytest.raises(ConfigError, match=re.escape(message)):
        load_dataset(LAYOUTS.replace(old, new), "things.toml")


def test_what_is_allowed_is_named_once() -> None:
    """A field that resembles none is answered with all there are, optional ones too."""
    with pytest.raises(ConfigError, match="allowed are") as refused:
        load_dataset(
            LAYOUTS.replace('priority = "low"', 'priority = "low"\nqqq = 1'), "things.toml"
        )
    names = str(refused.value).partition("allowed are ")[2].split(", ")
    assert len(names) == len(set(names))
    assert {"format", "cadence_s", "topics", "aliases"} <= set(names)


@pytest.mark.parametrize(
    ("times", "good"),
    [
        # As much is told, otherwise.
        ('start = { form = "date-time", groups = ["date", "to"] }', False),
        ('start = { form = "date-time", groups = ["date", "from"] }', True),
        # For what is left: less is told.
        ('start = { form = "date", groups = ["date"] }', True),
    ],
)
def test_two_layouts_may_not_read_an_example_otherwise(times: str, good: bool) -> None:  # noqa: FBT001
    """Which of them counts would hang on their order alone."""
    more = f"""
[[key.layouts]]
pattern = 'new/[a-z]+/(?P<date>\\d{{8}})/(?P<from>\\d{{6}})-(?P<to>\\d{{6}})'
{times}
end = {{ form = "date-time", groups = ["date", "to"], crosses_midnight = true }}
[[examples]]
key = "new/here/20240228/010000-020000"
start = "2024-02-28T01:00:00Z"
end = "2024-02-28T02:00:00Z"
[[examples]]
key = "old/"""
    text = LAYOUTS.replace('[[examples]]\nkey = "old/', more, 1)
    if good:
        load_dataset(text, "things.toml")
        return
    with pytest.raises(ConfigError, match=r"things\.toml: examples\[1\]\.key: .* by two layouts"):
        load_dataset(text, "things.toml")
