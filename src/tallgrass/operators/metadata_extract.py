"""metadata-extract: when and where the data are, and what they are.

Times and places come from the file where its header tells them, else from the key, else from the
dataset's file. Evidence names them `start` (of a radar volume `volume_time`), `end`, `footprint` (a
ring of longitudes and latitudes), `bbox` (west, south, east, north), `grid` (parameters of a grid)
and `properties` (STAC properties that only the file knows). What the file says of its model run
(`reference_time`), and of what it is, is compared with the key: see `key_and_file`.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from tallgrass.clock import format_instant, parse_instant
from tallgrass.datasets.definition import Band, Dataset, Severity
from tallgrass.datasets.key_grammar import KeyMatch
from tallgrass.datasets.key_times import UNKNOWN_START
from tallgrass.errors import InvalidInput
from tallgrass.evidence.grib2_sections import START_OF_FORECAST
from tallgrass.evidence.header import UNREAD
from tallgrass.evidence.reading import Evidence
from tallgrass.ledger.vocabulary import CheckStatus
from tallgrass.made_often import made_often
from tallgrass.operators.issues import CheckReport, Issue, issue, status_of
from tallgrass.operators.key_and_file import ToldTimes, contradictions, finer, times_apart
from tallgrass.stac.circle import circle
from tallgrass.stac.footprint import Footprint, footprint_of
from tallgrass.stac.forecast import forecast_properties
from tallgrass.stac.geometry import Box, box_of
from tallgrass.stac.geostationary import GEOSTATIONARY, view_of
from tallgrass.stac.item import Description
from tallgrass.stac.projection import projection_properties

NAME = "metadata-extract"
CHECKS = ("temporal", "spatial", "product", "platform", "coverage")

_NO_WORDS: Mapping[str, object] = {}

#: The report without a finding.
OK = CheckReport(status=CheckStatus.OK, checks_run=CHECKS)


@made_often
class MetadataReport:
    """The report; the description is None if it failed."""

    report: CheckReport
    description: Description | None


def metadata_extract(match: KeyMatch, read: Evidence) -> MetadataReport:
    """Describe the data of one object."""
    issues: list[Issue] = []
    start, end = _times(match, read, issues)
    seen = _footprint(match, read, issues)
    box = _box(match, read, issues) if seen is None else seen.box
    properties = _properties(match, read, issues)
    if not match.is_known:
        text = "its key has a layout that the dataset's file does not describe"
        issues.append(issue(match.dataset, "incomplete_product_metadata", text, Severity.SUSPECT))
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
            geometry=None if seen is None else seen.geometry,
            properties=properties,
            bands=_bands(match),
        ),
    )


def _has_its_own_time(match: KeyMatch) -> bool:
    return match.reference is not None or match.accumulation is not None


def _times(match: KeyMatch, read: Evidence, issues: list[Issue]) -> tuple[datetime, datetime]:
    dataset, start, end = match.dataset, match.start, match.end
    if match.accumulation is not None:
        start, end = start - match.accumulation, start
    if start == UNKNOWN_START:
        text = f"the key has no time{_why_the_file_is_silent(read)}"
        issues.append(issue(dataset, "invalid_time_range", text, Severity.SUSPECT))
    named = "start" if "start" in read.header else "volume_time"
    told_start = _told(match, read.header, named, issues)
    told_end = _told(match, read.header, "end", issues) or told_start
    if match.accumulation is not None and told_end is not None and told_end == told_start:
        # The file has the stamp alone; over how long was summed stands in the key.
        told_start = told_end - match.accumulation
    if told_start is not None and told_end is not None:
        run = None
        if match.reference is None:
            run = _told(match, read.header, "reference_time", issues)
        told = ToldTimes(start=told_start, end=told_end, run=run)
        problem = times_apart(match, told, read.header)
        if problem is not None:
            issues.append(issue(dataset, "invalid_time_range", problem, Severity.SUSPECT))
        start, end = finer(start, told_start), finer(end, told_end)
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


def _footprint(match: KeyMatch, read: Evidence, issues: list[Issue]) -> Footprint | None:
    """Return the outline of the data, where more than a box is known of it."""
    header = read.header
    try:
        points = header.get("footprint")
        if points is not None:
            return footprint_of(points)
        grid = header.get("grid")
        if isinstance(grid, dict) and grid.get("kind") == GEOSTATIONARY:
            return _view(grid)
        _refuse_unusable(header)
        around = _circle(match, header)
        return None if around is None else circle(*around)
    except InvalidInput as exc:
        issues.append(issue(match.dataset, "invalid_geometry", str(exc), Severity.SUSPECT))
        return None


def _refuse_unusable(header: Mapping[str, object]) -> None:
    """Refuse the place of a file whose grid or swath should tell it, and does not."""
    if "unusable" in header:
        raise InvalidInput(f"the {header['unusable']} in the file is none on the Earth")


def _view(grid: Mapping[str, object]) -> Footprint:
    """Return what the satellite sees; numbers that no satellite has are refused."""
    try:
        view = view_of(grid)
    except (ArithmeticError, ValueError, TypeError, KeyError) as exc:
        raise InvalidInput(f"the grid in the file is none: {type(exc).__name__}") from exc
    if view is None:
        raise InvalidInput("the grid in the file shows no Earth")
    return view


def _circle(match: KeyMatch, header: Mapping[str, object]) -> tuple[float, float, float] | None:
    """Return longitude, latitude and range of what looks all round; the file knows best where."""
    rules = match.dataset.item
    known = rules.circles.get(match.groups.get(rules.place_group or "") or "")
    longitude, latitude = header.get("longitude"), header.get("latitude")
    if rules.range_km is None or not (
        isinstance(longitude, int | float) and isinstance(latitude, int | float)
    ):
        return known
    return longitude, latitude, rules.range_km if known is None else known[2]


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
        text += _why_the_file_is_silent(read)
        issues.append(_never_suspect(match.dataset, "missing_geolocation", text))
        return None
    try:
        return box_of(values)
    except InvalidInput as exc:
        issues.append(_never_suspect(match.dataset, "invalid_geometry", str(exc)))
        return None


def _why_the_file_is_silent(read: Evidence) -> str:
    """Return what to add to a complaint where the file may tell, and could not be asked."""
    if UNREAD not in read.header:
        return ""
    unread = read.header[UNREAD]
    return f"; the file's {unread} were not read, as this worker lacks the extra `formats`"


def _never_suspect(dataset: Dataset, code: str, message: str) -> Issue:
    """Return an issue that fails whatever the dataset says: without a place there is no item."""
    found = issue(dataset, code, message)
    return found if found.severity is Severity.FAILED else replace(found, severity=Severity.FAILED)


def _from_key(match: KeyMatch, issues: list[Issue]) -> dict[str, object]:
    """Return the properties that parts of the key tell, in the dataset's words."""
    rules = match.dataset.item
    values: dict[str, object] = {}
    for name, group in rules.from_key.items():
        try:
            text = match.groups[group]
        except KeyError:
            problem = f"{name}: the key has no part {group!r}"
            issues.append(issue(match.dataset, "incomplete_product_metadata", problem))
            continue
        if text is None:
            continue
        if name in rules.numbers and text.isdecimal():
            values[name] = int(text)
        else:
            words = rules.vocabulary.get(name, _NO_WORDS)
            if text in words or name not in rules.known_only:
                values[name] = words.get(text, text)
    return values


def _bands(match: KeyMatch) -> tuple[Band, ...]:
    """Return the spectral bands of the object, where the key tells them."""
    rules = match.dataset.item.bands
    if rules is None:
        return ()
    named = (match.groups.get(group) for group in rules.groups)
    return next((rules.of[name] for name in named if name and name in rules.of), ())


def _properties(match: KeyMatch, read: Evidence, issues: list[Issue]) -> dict[str, object]:
    values = _from_key(match, issues)
    grid = read.header.get("grid")
    if isinstance(grid, dict):
        values.update(projection_properties(grid))
    told = read.header.get("properties")
    if isinstance(told, dict):
        values.update(told)
    issues.extend(
        issue(match.dataset, "incomplete_product_metadata", text)
        for text in contradictions(match, read.header)
    )
    if match.start == UNKNOWN_START:
        # STAC asks for a time; this one only stands for it, unless the file told another.
        values["kfm:time_in_key"] = False
    if match.reference is not None:
        _compare_runs(match, match.reference, read, issues)
        values |= forecast_properties(match.reference, match.start, read.header)
    elif read.header.get("reference_time_significance") == START_OF_FORECAST:
        values |= _forecast_of_file(match, read.header, issues)
    return values


def _forecast_of_file(
    match: KeyMatch, header: Mapping[str, object], issues: list[Issue]
) -> dict[str, object]:
    """Return the properties of a forecast whose run the file alone tells."""
    reference = _told(match, header, "reference_time", issues)
    start, end = (_told(match, header, name, issues) for name in ("start", "end"))
    if reference is None:
        return {}
    one = end if start == end or "interval_s" in header else None
    return forecast_properties(reference, one, header)


def _compare_runs(
    match: KeyMatch, reference: datetime, read: Evidence, issues: list[Issue]
) -> None:
    told = _told(match, read.header, "reference_time", issues)
    if told is not None and told != reference:
        text = f"the key names the run of {format_instant(reference)}, "
        text += f"the file that of {format_instant(told)}"
        issues.append(issue(match.dataset, "invalid_time_range", text, Severity.SUSPECT))
