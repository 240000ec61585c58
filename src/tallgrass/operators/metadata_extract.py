"""metadata-extract: when and where the data are, and what they are.

Times and places come from the file where its header tells them, else from the key, else from the
dataset's file. Evidence names them `start` (of a radar volume `volume_time`), `end`, `bbox` (west,
south, east, north) and `properties` (STAC properties that only the file knows). What the file says
of its model run (`reference_time`) and of its radar (`site`) is compared with the key.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from tallgrass.clock import format_instant, parse_instant
from tallgrass.datasets.definition import Dataset, Severity
from tallgrass.datasets.key_grammar import KeyMatch
from tallgrass.datasets.key_times import UNKNOWN_START
from tallgrass.errors import InvalidInput
from tallgrass.evidence.reading import Evidence
from tallgrass.ledger.vocabulary import CheckStatus
from tallgrass.operators.issues import CheckReport, Issue, issue, status_of
from tallgrass.stac.geometry import Box, box_of
from tallgrass.stac.item import Description

NAME = "metadata-extract"
CHECKS = ("temporal", "spatial", "product", "platform", "coverage")

#: How far the times of key and header may lie apart before one of them must be wrong.
_TIMES_APART_MAX = timedelta(days=1)
_HOUR = timedelta(hours=1)
_MINUTE = timedelta(minutes=1)

#: The report without a finding.
OK = CheckReport(status=CheckStatus.OK, checks_run=CHECKS)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataReport:
    """The report; the description is None if it failed."""

    report: CheckReport
    description: Description | None


def metadata_extract(match: KeyMatch, read: Evidence) -> MetadataReport:
    """Describe the data of one object."""
    issues: list[Issue] = []
    start, end = _times(match, read, issues)
    box = _box(match, read, issues)
    properties = _properties(match, read, issues)
    if not issues:
        report = OK
    else:
        report = CheckReport(status=status_of(issues), checks_run=CHECKS, issues=tuple(issues))
    if report.status is CheckStatus.FAILED:
        return MetadataReport(report=report, description=None)
    return MetadataReport(
        report=report,
        description=Description(
            start=start,
            end=end,
            # A forecast is for its valid time and a sum is known by its end; anything observed over
            # a while has its middle.
            instant=match.start if _has_its_own_time(match) else start + (end - start) / 2,
            box=box,
            properties=properties,
        ),
    )


def _has_its_own_time(match: KeyMatch) -> bool:
    return match.reference is not None or match.accumulation is not None


def _times(match: KeyMatch, read: Evidence, issues: list[Issue]) -> tuple[datetime, datetime]:
    dataset, start, end = match.dataset, match.start, match.end
    if match.accumulation is not None:
        start, end = start - match.accumulation, start
    if start == UNKNOWN_START:
        text = "the key has no time"
        issues.append(issue(dataset, "invalid_time_range", text, Severity.SUSPECT))
    named = "start" if "start" in read.header else "volume_time"
    told_start = _told(match, read.header, named, issues)
    told_end = _told(match, read.header, "end", issues) or told_start
    if told_start is not None and told_end is not None:
        # A key may name the issue of a forecast alone, days before what it is for.
        run = None
        if match.reference is None:
            run = _told(match, read.header, "reference_time", issues)
        first = min(run or told_start, told_start)
        near = first - _TIMES_APART_MAX <= start <= told_end + _TIMES_APART_MAX
        if not near and start != UNKNOWN_START:
            text = f"the key says {format_instant(start)}, the file {format_instant(told_start)}"
            issues.append(issue(dataset, "invalid_time_range", text, Severity.SUSPECT))
        start, end = told_start, told_end
    elif told_end is not None:
        end = told_end
    if end is None:
        return start, start
    if end < start:
        text = f"it ends at {format_instant(end)}, before it starts at {format_instant(start)}"
        issues.append(issue(dataset, "invalid_time_range", text))
        return start, start
    return start, end


def _told(
    match: KeyMatch, header: Mapping[str, object], name: str, issues: list[Issue]
) -> datetime | None:
    """Return a time that the header tells, if it does."""
    text = header.get(name)
    if text is None:
        return None
    try:
        return parse_instant(str(text))
    except InvalidInput as exc:
        problem = f"the {name} in the file's header: {exc}"
        issues.append(issue(match.dataset, "invalid_time_range", problem))
        return None


def _box(match: KeyMatch, read: Evidence, issues: list[Issue]) -> Box | None:
    rules = match.dataset.item
    values: object = read.header.get("bbox")
    if values is None and rules.place_group is not None:
        values = rules.places.get(match.groups.get(rules.place_group) or "")
    if values is None:
        values = rules.bbox
    if values is None and rules.placeless:
        return None
    if values is None:
        text = "neither the file, nor the key, nor the dataset says where the data lie"
        issues.append(_never_suspect(match.dataset, "missing_geolocation", text))
        return None
    try:
        return box_of(values)
    except InvalidInput as exc:
        issues.append(_never_suspect(match.dataset, "invalid_geometry", str(exc)))
        return None


def _never_suspect(dataset: Dataset, code: str, message: str) -> Issue:
    """Return an issue that fails whatever the dataset says: without a place there is no item."""
    found = issue(dataset, code, message)
    return found if found.severity is Severity.FAILED else replace(found, severity=Severity.FAILED)


def _properties(match: KeyMatch, read: Evidence, issues: list[Issue]) -> dict[str, object]:
    rules = match.dataset.item
    values: dict[str, object] = {}
    for name, group in rules.from_key.items():
        try:
            text = match.groups[group]
        except KeyError:
            problem = f"{name}: the key has no part {group!r}"
            issues.append(issue(match.dataset, "incomplete_product_metadata", problem))
            continue
        if text is not None:
            words = rules.vocabulary.get(name)
            values[name] = text if words is None else words.get(text, text)
    told = read.header.get("properties")
    if isinstance(told, Mapping):
        values.update(told)
    site = read.header.get("site")
    if site is not None and match.groups.get(rules.place_group or "", site) != site:
        text = f"the key names the site {match.groups[rules.place_group or '']}, the file {site}"
        issues.append(issue(match.dataset, "incomplete_product_metadata", text))
    if match.start == UNKNOWN_START:
        # STAC asks for a time; this one only stands for it, unless the file told another.
        values["kfm:time_in_key"] = False
    if match.reference is not None:
        _compare_runs(match, match.reference, read, issues)
        values["forecast:reference_datetime"] = format_instant(match.reference)
        if match.start >= match.reference:  # An hour before its run is no forecast.
            values["forecast:horizon"] = _duration(match.start - match.reference)
    return values


def _compare_runs(
    match: KeyMatch, reference: datetime, read: Evidence, issues: list[Issue]
) -> None:
    told = _told(match, read.header, "reference_time", issues)
    if told is not None and told != reference:
        text = f"the key names the run of {format_instant(reference)}, "
        text += f"the file that of {format_instant(told)}"
        issues.append(issue(match.dataset, "invalid_time_range", text, Severity.SUSPECT))


def _duration(span: timedelta) -> str:
    """Write a span of time as ISO 8601 does: PT0H, PT18H, PT1H15M."""
    hours, rest = divmod(span, _HOUR)
    minutes = rest // _MINUTE
    return f"PT{hours}H{minutes}M" if minutes else f"PT{hours}H"
