"""What selects units: flags and files, merged and refused."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tallgrass.errors import InvalidInput
from tallgrass.governance.policy import ReplayMode
from tallgrass.ledger.vocabulary import Intent, Status
from tallgrass.replay.selection import NAMES_MAX, IdRange, Purpose, Selection, Span
from tallgrass.replay.selection_file import parse_selection, render_selection

JUNE = datetime(2026, 6, 1, tzinfo=UTC)
DAY = timedelta(days=1)
IDS = [f"3a1e8907-8000-8500-9e97-{number:012x}" for number in range(10)]

FULL_FILE = """
apiVersion: kfm.nodd.replay/v1alpha1
kind: ReplaySelection
metadata:
  name: june-outage
  description: what failed in the outage
  env: prod
  labels: {replay_reason: incident, incident_id: INC-7, owner_team: ingest}
spec:
  mode: repair-and-replace
  filters:
    datasets: [hrrr, goes-glm]
    datasets_exclude: [gfs]
    status: [failed, succeeded]
    error_codes: [io_error]
    event_time: {start: 2026-06-01, end: 2026-06-02T12:00:00Z}
    created_at: {start: 2026-06-01T00:00:00+02:00}
    time_range_overlap: {end: 2026-06-03}
    data_time: {start: 2026-05-31}
    attempts: {min: 1, max: 4}
    bucket_prefix: s3://noaa-goes19/GLM-L2-LCFA/
    wal_id_range: {start: 3a1e8907-8000-8500-9e97-000000000001}
  limits: {max_records: 5000, batch_size: 500, max_batches: 15}
  options: {dry_run: true, allow_repair_and_replace: true, respect_kill_switch: true, notes: x}
"""


def parsed(text: str) -> Selection:
    """Return the selection of a file."""
    return parse_selection(text.encode()).selection


def document(**spec: Any) -> dict[str, Any]:
    """Return a small file's value, with parts of its spec."""
    return {
        "apiVersion": "kfm.nodd.replay/v1alpha1",
        "kind": "ReplaySelection",
        "spec": {"filters": {"datasets": ["hrrr"]}, **spec},
    }


def refusal(value: Any) -> str:
    """Return why a file's value is refused."""
    with pytest.raises(InvalidInput) as refused:
        parsed(json.dumps(value))
    return str(refused.value)


@pytest.mark.conformance("RP-6.3")
def test_a_file_says_all_that_the_format_knows() -> None:
    """Every field is read; times are instants in UTC, a date is its midnight."""
    saved = parse_selection(FULL_FILE.encode())
    assert saved.selection == Selection(
        datasets=("goes-glm", "hrrr"),
        datasets_exclude=("gfs",),
        statuses=(Status.FAILED, Status.SUCCEEDED),
        error_codes=("io_error",),
        event_time=Span(JUNE, JUNE + DAY + timedelta(hours=12)),
        created_at=Span(JUNE - timedelta(hours=2), None),
        time_range_overlap=Span(None, JUNE + 2 * DAY),
        data_time=Span(JUNE - DAY, None),
        attempts_min=1,
        attempts_max=4,
        bucket_prefix="s3://noaa-goes19/GLM-L2-LCFA/",
        wal_id_range=IdRange("3a1e8907-8000-8500-9e97-000000000001", None),
        purpose=Purpose.REPAIR,
        max_records=5000,
    )
    assert (saved.env, saved.replay_reason, saved.incident_id) == ("prod", "incident", "INC-7")
    assert (saved.batch_size, saved.max_batches) == (500, 15)
    assert saved.dry_run is True


def test_json_and_yaml_say_the_same() -> None:
    """The same document in either form is the same selection."""
    value = yaml.load(FULL_FILE, yaml.BaseLoader)  # noqa: S506 - all as text
    value["spec"]["filters"]["attempts"] = {"min": 1, "max": 4}
    value["spec"]["limits"] = {"max_records": 5000, "batch_size": 500, "max_batches": 15}
    value["spec"]["options"] = {"allow_repair_and_replace": True}
    assert parsed(json.dumps(value)) == parsed(FULL_FILE)


@pytest.mark.parametrize(
    ("place", "name", "nearest"),
    [
        ((), "metdata", "metadata"),
        (("spec",), "filter", "filters"),
        (("spec", "filters"), "dataset", "datasets"),
        (("spec", "filters"), "error_code", "error_codes"),
        (("spec", "limits"), "max_record", "max_records"),
        (("spec", "options"), "dryrun", "dry_run"),
        (("metadata", "labels"), "reason", "replay_reason"),
    ],
)
def test_an_unknown_field_is_refused(place: tuple[str, ...], name: str, nearest: str) -> None:
    """A mistyped condition selects nothing more: its place and the nearest name are told."""
    value = document()
    inner = value
    for part in place:
        inner = inner.setdefault(part, {})
    inner[name] = []
    told = refusal(value)
    assert repr(name) in told
    assert f"did you mean {nearest!r}?" in told
    assert not place or ".".join(place) in told


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"apiVersion": "kfm.nodd.replay/v2"}, "apiVersion must be"),
        ({"kind": "Other"}, "kind must be"),
        ({"spec": []}, "spec must be a table"),
        ({"spec": {"filters": {"datasets": "hrrr"}}}, "must be a list"),
        ({"spec": {"filters": {"datasets": []}}}, "is empty"),
        ({"spec": {"filters": {"wal_ids": ["x"]}}}, "not a wal_id"),
        ({"spec": {"filters": {"attempts": {"max": True}}}}, "whole number"),
        ({"spec": {"filters": {"status": ["done"]}}}, "not a Status"),
        ({"spec": {"filters": {"error_codes": ["io_eror"]}}}, "did you mean 'io_error'"),
        ({"spec": {"filters": {"event_time": {"start": "June"}}}}, "RFC 3339"),
        ({"spec": {"filters": {}, "mode": "repair-and-replace"}}, "allow_repair_and_replace"),
        ({"spec": {"filters": {}, "options": {"respect_kill_switch": False}}}, "always respected"),
        ({"spec": {"filters": {}, "options": {"dry_run": "yes"}}}, "true or false"),
    ],
)
def test_what_a_file_cannot_mean_is_refused(change: dict[str, Any], told: str) -> None:
    """Another version, a wrong type, an unknown word: nothing is guessed."""
    assert told in refusal({**document(), **change})


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("apiVersion: a\napiVersion: b\n", "stands twice"),
        ("a: &x [1]\nb: *x\n", "alias"),
        ("a: [\n", "neither YAML nor JSON"),
        ('{"a": 1, "a": 2}', "not strict JSON"),
        ("a: !!python/object/apply:os.system [x]\n", "neither YAML nor JSON"),
        ("just words", "must be a table"),
        ("x" * (1 << 21), "at most"),
    ],
)
def test_files_with_surprises_are_refused(text: str, told: str) -> None:
    """A key twice, an alias, a tag that would run code: refused with a reason."""
    with pytest.raises(InvalidInput, match=told):
        parse_selection(text.encode())


def test_bytes_that_are_no_text_are_refused() -> None:
    """A file of something else."""
    with pytest.raises(InvalidInput, match="UTF-8"):
        parse_selection(b"\xff\xfe\x00")


def test_a_saved_selection_is_read_back_the_same() -> None:
    """What is written for later selects the same later."""
    selection = parsed(FULL_FILE)
    text = render_selection(selection, env="prod", reason="incident")
    again = parse_selection(text.encode())
    assert again.selection == selection
    assert (again.env, again.replay_reason) == ("prod", "incident")


@pytest.mark.conformance("RP-6.3")
@pytest.mark.parametrize(
    "wrong",
    [
        {"data_time": Span(JUNE, JUNE)},
        {"event_time": Span(JUNE + DAY, JUNE)},
        {"created_at": Span(JUNE + DAY, JUNE)},
        {"time_range_overlap": Span(JUNE, JUNE)},
        {"wal_id_range": IdRange(IDS[2], IDS[1])},
        {"wal_id_range": IdRange(IDS[1], IDS[1])},
        {"attempts_min": 3, "attempts_max": 2},
        {"datasets": ("a",), "datasets_exclude": ("a",)},
        {"purpose": Purpose.REPAIR, "statuses": (Status.FAILED,)},
        {"bucket_prefix": "noaa-goes19"},
        {"max_records": 0},
        {"max_records": 2**31},
        {"attempts_min": 2**31},
        {"attempts_max": 2**31},
        {"message_ids": ("",)},
        {"wal_ids": tuple(f"3a1e8907-8000-8500-9e97-{n:012x}" for n in range(NAMES_MAX + 1))},
    ],
)
def test_what_selects_nothing_is_refused(wrong: dict[str, Any]) -> None:
    """Inverted times, contradictions and malformed words are bad arguments, with their code."""
    with pytest.raises(InvalidInput) as refused:
        Selection(**wrong)
    assert (refused.value.code, refused.value.exit_code) == ("selection_invalid", 2)


def test_a_selection_without_conditions_is_empty() -> None:
    """Purpose, limit and exclusion choose nothing; any condition does."""
    assert Selection(purpose=Purpose.REPAIR, max_records=3, datasets_exclude=("a",)).is_empty
    for one in (
        Selection(datasets=("a",)),
        Selection(statuses=(Status.FAILED,)),
        Selection(message_ids=("m",)),
        Selection(data_time=Span(None, JUNE)),
        Selection(attempts_min=0),
    ):
        assert not one.is_empty


def test_one_named_unit_or_message_is_single() -> None:
    """Policies tell a single replay from a range; two ids are a range."""
    assert Selection(wal_ids=(IDS[0],)).mode is ReplayMode.SINGLE
    assert Selection(message_ids=("m",)).mode is ReplayMode.SINGLE
    assert Selection(wal_ids=(IDS[0], IDS[1])).mode is ReplayMode.RANGE
    assert Selection(wal_ids=(IDS[0],), message_ids=("m",)).mode is ReplayMode.RANGE
    assert Selection(datasets=("a",)).mode is ReplayMode.RANGE


@pytest.mark.conformance("SM-2.3b")
def test_succeeded_units_are_selected_on_request_only() -> None:
    """Without a word about statuses only failed units are; named units are, whatever they are."""
    assert Selection(datasets=("a",)).wanted_statuses == (Status.FAILED,)
    repair = Selection(datasets=("a",), purpose=Purpose.REPAIR)
    assert set(repair.wanted_statuses) == {Status.FAILED, Status.SUCCEEDED}
    assert set(Selection(wal_ids=(IDS[0],)).wanted_statuses) == set(Status)
    assert repair.purpose.intent is Intent.REPAIR
    assert Purpose.BACKFILL.intent is Intent.BACKFILL
    assert Purpose.FAILED_ONLY.intent is Intent.INGEST


SAVED = Selection(
    datasets=("goes-glm", "hrrr"),
    bucket_prefix="s3://b/a",
    event_time=Span(JUNE, JUNE + 10 * DAY),
    statuses=(Status.FAILED, Status.PENDING),
    error_codes=("io_error",),
    wal_ids=(IDS[0], IDS[1]),
    wal_id_range=IdRange(IDS[0], IDS[9]),
    attempts_max=5,
    max_records=100,
)


def test_flags_narrow_a_file() -> None:
    """Each flag takes away; what is not said stays as the file has it."""
    flags = Selection(
        datasets=("hrrr",),
        bucket_prefix="s3://b/a/c",
        event_time=Span(JUNE + DAY, None),
        statuses=(Status.FAILED,),
        wal_ids=(IDS[1],),
        wal_id_range=IdRange(None, IDS[5]),
        attempts_max=9,
        attempts_min=2,
        max_records=7,
    )
    assert SAVED.narrowed(flags) == replace(
        SAVED,
        datasets=("hrrr",),
        bucket_prefix="s3://b/a/c",
        event_time=Span(JUNE + DAY, JUNE + 10 * DAY),
        statuses=(Status.FAILED,),
        wal_ids=(IDS[1],),
        wal_id_range=IdRange(IDS[0], IDS[5]),
        attempts_max=5,
        attempts_min=2,
        max_records=7,
    )
    assert SAVED.narrowed(Selection()) == SAVED


@pytest.mark.parametrize(
    "flags",
    [
        Selection(datasets=("gfs",)),
        Selection(bucket_prefix="s3://b/other"),
        Selection(event_time=Span(JUNE + 20 * DAY, None)),
        Selection(statuses=(Status.SUCCEEDED,)),
        Selection(error_codes=("size_zero",)),
        Selection(wal_ids=(IDS[2],)),
        Selection(wal_id_range=IdRange("ffffffff-8000-8500-9e97-000000000000", None)),
        Selection(attempts_min=6),
        Selection(purpose=Purpose.REPAIR),
    ],
)
def test_flags_that_contradict_a_file_are_refused(flags: Selection) -> None:
    """Nothing that the file left out can come in by a flag."""
    with pytest.raises(InvalidInput) as refused:
        SAVED.narrowed(flags)
    assert refused.value.code == "selection_invalid"


INSTANTS = st.datetimes(
    min_value=datetime(1900, 1, 1), max_value=datetime(2100, 1, 1), timezones=st.just(UTC)  # noqa: DTZ001
)  # fmt: skip


@st.composite
def spans(draw: st.DrawFn) -> Span:
    """Draw a span that is not empty; either side may be open."""
    ends = sorted(draw(st.sets(INSTANTS, min_size=2, max_size=2)))
    return Span(*(end if draw(st.booleans()) else None for end in ends))


@settings(max_examples=40)
@given(
    st.builds(
        Selection,
        datasets=st.lists(st.sampled_from(["a", "b", "c"])).map(tuple),
        data_time=spans(),
        time_range_overlap=spans(),
        event_time=spans(),
        created_at=spans(),
        wal_ids=st.lists(st.sampled_from(IDS)).map(tuple),
        message_ids=st.lists(st.text(min_size=1, max_size=5)).map(tuple),
        statuses=st.lists(st.sampled_from(Status)).map(tuple),
        attempts_min=st.none() | st.integers(0, 5),
        attempts_max=st.none() | st.integers(5, 9),
        max_records=st.none() | st.integers(1, 9),
    )
)
def test_any_selection_can_be_saved(selection: Selection) -> None:
    """Written and read again it is equal, to the microsecond."""
    text = render_selection(selection, env="dev", reason=None)
    assert parse_selection(text.encode()).selection == selection
