"""The pure rules of dead letters: causes, selection, decisions, plans."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallgrass.error_codes import CodeScope, registry
from tallgrass.errors import InvalidInput
from tallgrass.intake.message import Deferred, Ignored, ParsedMessage, Poison
from tallgrass.ledger.receipt import Known
from tallgrass.ledger.rules import LedgerRules
from tallgrass.ledger.unit import EventMetadata, IngestUnit, ObjectReference
from tallgrass.ledger.vocabulary import Status
from tallgrass.queues.replay_queues import (
    is_replay_file_of,
    is_replay_queue,
    replay_queue_name,
    replay_queue_url,
)
from tallgrass.replay.dead_letter_plan import (
    DrainHeader,
    DrainPlan,
    DrainRow,
    capped,
    is_drain_plan,
    read_plan,
    row_of,
)
from tallgrass.replay.dead_letters import (
    Cause,
    DrainAction,
    DrainRules,
    KnownUnit,
    Letter,
    LetterFate,
    UnitFate,
    Wanted,
    cause_of_code,
    classify,
    decide_letter,
    mended,
)
from tallgrass.replay.drain import fate_of
from tallgrass.replay.guards import Caps
from tallgrass.replay.selection import Selection, Span

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
FIRST = datetime(2026, 5, 1, tzinfo=UTC)
DATASETS = ("goes-glm", "hrrr", "nexrad-l2")
CODES = (None, "transient_network_error", "stac_validation_failed", "size_zero", "lease_expired")
#: By hand, from what each code means.
CAUSES = {
    "transient_network_error": "connectivity",
    "access_denied": "connectivity",
    "stac_validation_failed": "schema",
    "missing_required_field": "schema",
    "unsupported_schema_version": "schema",
    "governance_hard_fail": "governance",
    "lease_expired": "infra",
    "storage_unavailable": "infra",
    "size_zero": "integrity",
    "etag_mismatch": "integrity",
    "missing_object": "integrity",
    "operator_error": "unknown",
}


def a_unit(
    number: int = 0, *, dataset: str = "goes-glm", sequencer: str | None = "05"
) -> IngestUnit:
    """Return an announced unit whose data start `number` hours after the first."""
    start = FIRST + timedelta(hours=number)
    return IngestUnit.of(
        dataset=dataset,
        object_uri=f"s3://noaa-goes19/{dataset}/{number}.nc",
        provider="aws",
        queue="nodd-primary",
        time_range_start=start,
        time_range_end=start,
        event=EventMetadata(event_time=NOW),
        object_ref=ObjectReference(sequencer=sequencer),
    )


def known_of(unit: IngestUnit, **changes: object) -> KnownUnit:
    """Return what the ledger knows of a unit: failed once, with a retried code."""
    values: dict[str, object] = {
        "wal_id": unit.wal_id, "dataset": unit.dataset, "status": Status.FAILED, "version": 3,
        "attempts": 1, "budget_from": 0, "lease_expiries": 0,
        "last_error_code": "transient_network_error", "due_at": None, "retry_after": None,
        "rerun_intent": None, "replay_run_id": None, "held_until": None,
    }  # fmt: skip
    known = Known(**{**values, **changes})  # type: ignore[arg-type]
    return KnownUnit(known=known, object_ref=ObjectReference(sequencer="05"))


def letter_of(*units: IngestUnit, message_id: str = "m-1", **parsed: object) -> Letter:
    """Return a letter that names the units."""
    return Letter(
        message_id=message_id,
        receipt="r",
        body=b"body",
        sent_at=NOW,
        parsed=ParsedMessage(units=units, **parsed),  # type: ignore[arg-type]
    )


def rules(**changes: object) -> DrainRules:
    """Return rules that deny nothing."""
    values: dict[str, object] = {
        "ledger": LedgerRules(max_attempts=3), "selection": Selection(), "denies": lambda _: None
    }  # fmt: skip
    return DrainRules(**{**values, **changes})  # type: ignore[arg-type]


def fate(unit: IngestUnit, known: KnownUnit | None, **changes: object) -> tuple[str, str | None]:
    """Return what becomes of a letter with one unit."""
    found = {} if known is None else {unit.object_uri: known}
    decided = decide_letter(letter_of(unit), found, rules(**changes), NOW)
    return decided.action.value, decided.reason


@pytest.mark.conformance("RP-5.2")
def test_every_code_has_a_cause() -> None:
    """A table by hand; what nobody knows is unknown; each code of a unit has a cause."""
    assert {code: cause_of_code(code).value for code in CAUSES} == CAUSES
    assert cause_of_code(None) is cause_of_code("never_heard_of") is Cause.UNKNOWN
    for code, entry in registry().items():
        if entry.scope is CodeScope.UNIT:
            assert entry.cause in {cause.value for cause in Cause} - {"unidentified"}, code
        else:
            assert entry.cause is None, code


@pytest.mark.conformance("RP-5.2", "C-21")
def test_a_letter_without_a_unit_is_unidentified() -> None:
    """With the code of the poison; it is chosen only where no condition asks for a unit."""
    poison = Poison(code="invalid_input", message="no JSON")
    letter = letter_of(poison=poison, faults=(poison,))
    found = classify(letter, {}, Wanted(selection=Selection()))
    assert found is not None
    assert (found.cause, found.code, found.dataset) == (Cause.UNIDENTIFIED, "invalid_input", None)
    for selection in (
        Selection(datasets=("hrrr",)),
        Selection(error_codes=("size_zero",)),
        Selection(data_time=Span(FIRST, None)),
    ):
        assert classify(letter, {}, Wanted(selection=selection)) is None
    only_schema = Wanted(selection=Selection(), causes=frozenset({Cause.SCHEMA}))
    assert classify(letter, {}, only_schema) is None


_unit_of_letter = st.tuples(
    st.integers(0, 20), st.sampled_from(DATASETS), st.sampled_from(CODES), st.booleans()
)
_hours = st.none() | st.integers(0, 20)


@pytest.mark.conformance("RP-5.4")
@given(
    letters=st.lists(st.lists(_unit_of_letter, min_size=1, max_size=3), max_size=8),
    datasets=st.sets(st.sampled_from(DATASETS), max_size=2),
    codes=st.sets(st.sampled_from([code for code in CODES if code]), max_size=2),
    causes=st.sets(st.sampled_from(list(Cause)), max_size=2),
    since=_hours,
    length=_hours,
)
def test_a_selection_chooses_what_a_plain_filter_chooses(
    letters: list[list[tuple[int, str, str | None, bool]]],
    datasets: set[str],
    codes: set[str],
    causes: set[Cause],
    since: int | None,
    length: int | None,
) -> None:
    """Window, dataset, code and cause together, of one and the same unit; spans are half open."""
    start = None if since is None else FIRST + timedelta(hours=since)
    end = None if length is None else (start or FIRST) + timedelta(hours=length + 1)
    wanted = Wanted(
        selection=Selection(
            datasets=tuple(datasets), error_codes=tuple(codes), data_time=Span(start, end)
        ),
        causes=frozenset(causes),
    )
    for given_units in letters:
        units = [a_unit(hour, dataset=name) for hour, name, _, _ in given_units]
        known = {
            unit.object_uri: known_of(unit, last_error_code=code, status=Status.PENDING)
            for unit, (_, _, code, recorded) in zip(units, given_units, strict=True)
            if recorded
        }
        expected = any(
            (not datasets or unit.dataset in datasets)
            and (not codes or _code(unit, known) in codes)
            and (not causes or CAUSES.get(_code(unit, known) or "", "unknown") in causes)
            and (start is None or unit.time_range_start >= start)
            and (end is None or unit.time_range_start < end)
            for unit in units
        )
        assert (classify(letter_of(*units), known, wanted) is not None) is expected


def _code(unit: IngestUnit, known: dict[str, KnownUnit]) -> str | None:
    found = known.get(unit.object_uri)
    return None if found is None else found.known.last_error_code


@pytest.mark.conformance("SM-5.3b", "C-22")
def test_the_ledger_decides_on_each_state_of_a_unit() -> None:
    """The receipt table and the rules of replay, in the words of a drain."""
    unit = a_unit()
    late = NOW + timedelta(seconds=60)
    for changes, expected in (
        ({}, ("replay", None)),
        ({"last_error_code": "size_zero"}, ("leave", "code_not_replayed")),
        ({"last_error_code": "governance_hard_fail"}, ("leave", "code_not_replayed")),
        ({"retry_after": late}, ("replay", None)),
        ({"attempts": 3}, ("quarantine", "attempts_exceeded")),
        ({"attempts": 3, "budget_from": 1}, ("replay", None)),
        # Last tried without a message: the ledger itself tries it again.
        ({"due_at": late, "retry_after": late}, ("settle", "due")),
        ({"due_at": NOW, "attempts": 3}, ("quarantine", "attempts_exceeded")),
        ({"status": Status.QUARANTINED}, ("quarantine", "quarantined")),
        ({"status": Status.SUCCEEDED, "last_error_code": None}, ("settle", "succeeded")),
        ({"status": Status.PENDING}, ("send", "waits_for_message")),
        ({"status": Status.PENDING, "due_at": NOW}, ("settle", "due")),
        ({"status": Status.PENDING, "due_at": late}, ("settle", "due")),
        ({"status": Status.PENDING, "attempts": 3}, ("quarantine", "attempts_exceeded")),
        ({"status": Status.IN_PROGRESS, "held_until": late}, ("leave", "in_progress")),
        ({"status": Status.IN_PROGRESS, "held_until": NOW}, ("recover", "lease_expired")),
    ):
        assert fate(unit, known_of(unit, **changes)) == expected, changes
    assert fate(unit, None) == ("send", "unknown_to_ledger")
    assert fate(unit, known_of(unit), denies=lambda _: "mode_not_allowed") == (
        "leave", "mode_not_allowed",
    )  # fmt: skip
    assert fate(unit, None, denies=lambda _: "kill_switch_active")[0] == "leave"
    named = Selection(error_codes=("size_zero",))
    mendable = known_of(unit, last_error_code="size_zero")
    assert fate(unit, mendable, selection=named) == ("replay", None)


def test_a_newer_or_older_object_is_new_data_or_none() -> None:
    """An older announcement is let go; a newer one goes back as it is, in any state."""
    newer, older = a_unit(sequencer="06"), a_unit(sequencer="04")
    for status in (Status.FAILED, Status.SUCCEEDED, Status.PENDING, Status.QUARANTINED):
        code = None if status is Status.SUCCEEDED else "transient_network_error"
        known = known_of(newer, status=status, last_error_code=code)
        assert fate(newer, known) == ("send", "newer_object"), status
    for status in (Status.FAILED, Status.SUCCEEDED, Status.PENDING):
        assert fate(older, known_of(older, status=status)) == ("settle", "superseded"), status


def test_a_letter_that_alone_orders_a_listed_object_is_sent() -> None:
    """A listing tells no sequencer. While the object is not done, its letter goes by a worker."""
    unit, unordered = a_unit(), a_unit(sequencer=None)
    sent = ("send", "orders_object")
    for changes, expected, else_ in (
        ({"status": Status.PENDING, "due_at": NOW}, sent, ("settle", "due")),
        ({"status": Status.PENDING, "attempts": 3}, sent, ("quarantine", "attempts_exceeded")),
        ({"status": Status.QUARANTINED}, sent, ("quarantine", "quarantined")),
        ({"attempts": 3}, sent, ("quarantine", "attempts_exceeded")),
        ({}, ("replay", None), ("replay", None)),
        ({"due_at": NOW}, sent, ("settle", "due")),
    ):
        known = replace(known_of(unit, **changes), object_ref=ObjectReference(etag="x", size=3))
        assert fate(unit, known) == expected, changes
        assert fate(unordered, known) == else_, changes
    due = known_of(unit, status=Status.PENDING, due_at=NOW)
    listed = replace(due, object_ref=ObjectReference(size=3))
    assert fate(unit, listed, denies=lambda _: "kill_switch_active")[0] == "leave"
    done = known_of(unit, status=Status.SUCCEEDED, last_error_code=None)
    named = replace(unit, object_ref=ObjectReference(sequencer="05", etag="x"))
    same = replace(done, object_ref=ObjectReference(etag="x", size=3))
    assert fate(named, same) == ("settle", "succeeded")


def test_a_letter_gets_what_its_strongest_unit_needs() -> None:
    """One unit that must stay keeps the whole letter; nothing is done by halves."""
    units = [a_unit(n) for n in range(4)]
    states: list[dict[str, object]] = [
        {"status": Status.SUCCEEDED, "last_error_code": None},
        {"attempts": 3},
        {},
        {"last_error_code": "size_zero"},
    ]
    known = {u.object_uri: known_of(u, **s) for u, s in zip(units, states, strict=True)}
    actions = [
        decide_letter(letter_of(*units[:count]), known, rules(), NOW).action.value
        for count in (1, 2, 3, 4)
    ]
    assert actions == ["settle", "quarantine", "replay", "leave"]
    ignored = letter_of(ignored=(Ignored(reason="deletion"),))
    assert decide_letter(ignored, {}, rules(), NOW).action is DrainAction.SETTLE
    deferred = letter_of(deferred=Deferred(code="certificate_unreachable", message="x"))
    assert decide_letter(deferred, {}, rules(), NOW).reason == "deferred"


def test_whoever_names_a_cause_says_that_its_codes_are_mended() -> None:
    """Named codes count alone; else all codes of the causes; an unknown cause names few."""
    assert mended(Selection(error_codes=("io_error",)), [Cause.SCHEMA]).error_codes == ("io_error",)
    schema = mended(Selection(), [Cause.SCHEMA]).error_codes
    assert {"stac_validation_failed", "missing_required_header"} <= set(schema)
    assert not {"size_zero", "io_error"} & set(schema)
    assert mended(Selection(), []).error_codes == ()


# --- plan and drain -------------------------------------------------------------------------------


def planned(
    action: DrainAction, *units: tuple[str, int | None], reason: str | None = None
) -> DrainRow:
    """Return a row of a plan."""
    return DrainRow("m-1", "0" * 64, action, tuple(units), reason)


def unit_fate(version: int | None, action: DrainAction, **changes: object) -> UnitFate:
    """Return the fate of the unit `a`."""
    known = None if version is None else known_of(a_unit(), version=version, **changes).known
    return UnitFate(wal_id="a", known=known, action=action)


def now(action: DrainAction, *units: UnitFate, reason: str | None = None) -> LetterFate:
    """Return what the ledger says now."""
    return LetterFate(action=action, reason=reason, units=units)


def test_no_more_is_done_than_was_planned() -> None:
    """Another version or another wish leaves the letter; what is done meanwhile lets it go."""
    replay = planned(DrainAction.REPLAY, ("a", 3))
    same = now(DrainAction.REPLAY, unit_fate(3, DrainAction.REPLAY))
    moved = now(DrainAction.REPLAY, unit_fate(5, DrainAction.REPLAY))
    assert fate_of(replay, same, "run").action is DrainAction.REPLAY
    assert fate_of(replay, moved, "run").reason == "moved"
    settled = now(DrainAction.SETTLE, unit_fate(5, DrainAction.SETTLE), reason="succeeded")
    assert fate_of(replay, settled, "run") == settled
    held = now(
        DrainAction.QUARANTINE, unit_fate(5, DrainAction.QUARANTINE, status=Status.QUARANTINED)
    )
    assert fate_of(replay, held, "run").action is DrainAction.QUARANTINE
    # Holding a unit is a change of its state: only as planned.
    holding = now(DrainAction.QUARANTINE, unit_fate(3, DrainAction.QUARANTINE))
    assert fate_of(replay, holding, "run").reason == "moved"
    assert fate_of(planned(DrainAction.QUARANTINE, ("a", 3)), holding, "run") == holding
    left = planned(DrainAction.LEAVE, ("a", 3), reason="beyond_max_events")
    assert fate_of(left, same, "run").reason == "beyond_max_events"
    off = now(DrainAction.LEAVE, unit_fate(3, DrainAction.LEAVE), reason="kill_switch_active")
    assert fate_of(replay, off, "run").reason == "kill_switch_active"


def test_a_run_goes_on_with_what_it_put_back_itself() -> None:
    """A unit that waits for the message of this run is sent; one of another run is not."""
    replay = planned(DrainAction.REPLAY, ("a", 3))
    waiting = {"status": Status.PENDING, "replay_run_id": "run"}
    mine = now(DrainAction.SEND, unit_fate(4, DrainAction.SEND, **waiting))
    assert fate_of(replay, mine, "run").action is DrainAction.REPLAY
    assert fate_of(replay, mine, "another").reason == "moved"
    both = planned(DrainAction.REPLAY, ("a", 3), ("b", None))
    new = UnitFate(wal_id="b", known=None, action=DrainAction.SEND)
    assert (
        fate_of(both, replace(mine, units=(*mine.units, new)), "run").action is DrainAction.REPLAY
    )
    assert fate_of(replay, replace(mine, units=(*mine.units, new)), "run").reason == "moved"


def a_plan() -> DrainPlan:
    """Return a plan with two rows."""
    rows = (
        planned(DrainAction.REPLAY, ("a", 3)),
        DrainRow("m-2", "1" * 64, DrainAction.LEAVE, (("b", None),), "in_progress"),
    )
    header = DrainHeader(
        replay_run_id="run-1",
        env="dev",
        queue="nodd-primary",
        selection=Selection(datasets=("hrrr",)),
        causes=(Cause.SCHEMA,),
        code_version="1",
        config_version="c",
        approvals_needed=1,
        caps=Caps(max_events=10, batch=5, max_candidates=100, max_records_per_second=1.0),
    )
    return DrainPlan(header=header, rows=rows)


def test_a_plan_is_read_as_it_was_written_or_not_at_all() -> None:
    """Every byte counts: edited, reordered, doubled or cut lines are refused."""
    lines = list(a_plan().lines())
    assert read_plan(lines) == a_plan()
    assert is_drain_plan(lines[0])
    assert not is_drain_plan(lines[1])
    for broken in (
        [],
        lines[1:],
        [lines[0], lines[2], lines[1]],
        [lines[0], lines[1], lines[1]],
        [lines[0], lines[1].replace(b"replay", b"shred")],
        [lines[0], lines[1].replace(b'"version":3', b'"version": 3')],
        [lines[0], lines[1][:-1]],
        [lines[0].replace(b'"dlq"', b'"range"'), *lines[1:]],
    ):
        with pytest.raises(InvalidInput) as refused:
            read_plan(broken)
        assert refused.value.code == "plan_invalid"


@given(
    st.lists(
        st.tuples(st.integers(0, 99), st.sampled_from(list(DrainAction))), unique_by=lambda r: r[0]
    ),
    st.integers(1, 5),
)
def test_a_cap_leaves_what_comes_after_it(found: list[tuple[int, DrainAction]], cap: int) -> None:
    """In order of ids; only letters that would be sent count."""
    rows = [DrainRow(f"{n:02}", "0" * 64, action) for n, action in found]
    kept = list(capped(rows, cap, "beyond_max_events"))
    assert [row.message_id for row in kept] == sorted(f"{n:02}" for n, _ in found)
    sending = [n for n, action in sorted(found) if action.value in {"replay", "send"}]
    beyond = {f"{n:02}" for n in sending[cap:]}
    assert {row.message_id for row in kept if row.reason == "beyond_max_events"} == beyond
    assert all(row.action is DrainAction.LEAVE for row in kept if row.message_id in beyond)


def test_a_row_names_each_unit_once() -> None:
    """Two records of one message may tell of the same object."""
    units = (unit_fate(3, DrainAction.REPLAY), unit_fate(3, DrainAction.REPLAY))
    assert row_of("m", "0" * 64, now(DrainAction.REPLAY, *units)).units == (("a", 3),)


def test_the_queue_of_a_run_is_named_after_both() -> None:
    """Within what SQS takes; an id that no name can hold stands there as its hash."""
    run = "0190c7e8-5f4e-7cc1-9d7e-0190c7e85f4e"
    arn = "arn:aws:sqs:us-east-1:123456789012:nodd"
    assert replay_queue_url(arn, run) == f"{arn}-replay-{run}"
    assert replay_queue_url("sqlite:////var/q.db", run) == f"sqlite:////var/q-replay-{run}.db"
    assert replay_queue_url("sqlite:///a.b/q", "r") == "sqlite:///a.b/q-replay-r"
    assert len(replay_queue_name("n" * 80, run)) == 80
    odd = replay_queue_name("nodd", "run:1/ü")
    assert odd.isascii()
    assert odd != replay_queue_name("nodd", "run:2/ü")
    for url in (arn, "sqlite:////var/q.db"):
        assert is_replay_queue(replay_queue_url(url, run), run)
        assert not is_replay_queue(replay_queue_url(url, run), "another")
        assert not is_replay_queue(url, run)
    assert is_replay_queue("sqlite:///a.b/q-replay-r", "r")


def test_the_queues_of_runs_are_found_by_their_names() -> None:
    """Those of one queue and no other's, whatever the run is called; nothing else beside it."""
    url = "sqlite:////var/q.db"
    runs = ("run-7", "a-replay-b", "run:1/ü", "9" * 40, "9" * 41)
    for run in runs:
        name = replay_queue_url(url, run).rpartition("/")[2]
        assert is_replay_file_of(url, name), name
        assert not is_replay_file_of("sqlite:////var/other.db", name)
        assert not is_replay_file_of("sqlite:////var/q", name)
    for other in ("q.db", "q-replay-.db", "q-replay-r.db-wal", "q-replay-r.db.lock", "q-replay-r"):
        assert not is_replay_file_of(url, other), other
    assert is_replay_file_of("sqlite:///a.b/q", "q-replay-r")
    # A queue whose own name is like that of a run's.
    assert is_replay_file_of("sqlite:///q-replay-a.db", "q-replay-a-replay-b.db")
    long = f"sqlite:///{'n' * 80}.db"
    assert is_replay_file_of(long, replay_queue_url(long, "run-7").rpartition("/")[2])
