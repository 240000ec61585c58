"""Which prefixes of a bucket hold the data of a time: by the dataset's folders, in time order.

A dataset whose keys do not begin with a time is listed whole; what lies outside the wanted time is
left out object by object.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from heapq import merge

from tallgrass.datasets.definition import Dataset, FolderRules
from tallgrass.datasets.folder_loader import ANY_FOLDER, PLACEHOLDER

#: Folders of a folder, each as a whole prefix with its slash.
FoldersOf = Callable[[str], Sequence[str]]

#: A longer time is listed by its days: a tenth of the requests, as an hour has few objects.
_BY_THE_HOUR = timedelta(days=2)
_HOUR = timedelta(hours=1)
_DAY = timedelta(days=1)
_FIRST = datetime(1, 1, 1, tzinfo=UTC)
_LAST = datetime(9999, 12, 31, tzinfo=UTC)


def beginnings(
    dataset: Dataset, since: datetime | None, until: datetime | None, *, by_run: bool = False
) -> Iterator[str]:
    """Yield how the keys of data begin that start from `since` on and before `until`.

    The older ones first. ``{*}/`` in them stands for any folder: `expanded` finds those. `by_run`
    asks for model runs of that time: folders are named by them, however far they look ahead.
    """
    rules = dataset.folders
    if by_run and rules is not None and dataset.key.reference is not None:
        rules = replace(rules, ahead_hours=0)
    if rules is None or since is None or until is None:
        yield from sorted(dataset.key.prefixes)
        return
    timed = (_times(begin, rules, since, until) for begin in rules.begins)
    for _, begin in merge(*timed):
        yield begin


def expanded(begin: str, folders: FoldersOf) -> Iterator[str]:
    """Yield the prefixes that a beginning stands for; `folders` tells what a folder holds."""
    head, any_folder, tail = begin.partition(ANY_FOLDER)
    if not any_folder:
        yield begin
        return
    for folder in folders(head[: head.rfind("/") + 1]):
        if folder.startswith(head):
            yield from expanded(folder + tail, folders)


def _times(
    begin: str, rules: FolderRules, since: datetime, until: datetime
) -> Iterator[tuple[datetime, str]]:
    """Yield each time of a beginning whose data may start within the window, and its text."""
    if until - since > _BY_THE_HOUR:
        begin = begin.partition("{HH}")[0]
    parts = set(PLACEHOLDER.findall(begin))
    instant = _floor(_moved(since, timedelta(hours=-rules.ahead_hours)), parts)
    end = _moved(until, timedelta(hours=rules.behind_hours))
    while instant < end:
        yield instant, _filled(begin, instant)
        if (following := _next(instant, parts)) <= instant:
            return  # the calendar ends
        instant = following


def _filled(begin: str, instant: datetime) -> str:
    values = {
        "YYYY": f"{instant.year:04}",
        "MM": f"{instant.month:02}",
        "DD": f"{instant.day:02}",
        "DDD": f"{instant.timetuple().tm_yday:03}",
        "HH": f"{instant.hour:02}",
        "*": "{*}",
    }
    return PLACEHOLDER.sub(lambda match: values[match[1]], begin)


def _floor(instant: datetime, parts: set[str]) -> datetime:
    """Return the begin of the hour, day, month or year, whichever is the finest that is told."""
    hour = instant.replace(minute=0, second=0, microsecond=0)
    if "HH" in parts:
        return hour
    day = hour.replace(hour=0)
    if parts & {"DD", "DDD"}:
        return day
    month = day.replace(day=1)
    return month if "MM" in parts else month.replace(month=1)


def _next(instant: datetime, parts: set[str]) -> datetime:
    if "HH" in parts:
        return _moved(instant, _HOUR)
    if parts & {"DD", "DDD"}:
        return _moved(instant, _DAY)
    # Longer than any month or year, and shorter than two.
    return _floor(_moved(instant, 32 * _DAY if "MM" in parts else 367 * _DAY), parts)


def _moved(instant: datetime, by: timedelta) -> datetime:
    """Return another instant; the calendar's ends are as far as it goes."""
    try:
        return instant + by
    except OverflowError:
        return _LAST if by > timedelta(0) else _FIRST
