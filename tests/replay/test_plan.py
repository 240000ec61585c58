"""What a plan makes of its candidates, by their state alone."""

from __future__ import annotations

import hashlib
import json
import tracemalloc
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallgrass.errors import InvalidInput
from tallgrass.governance.policy import ReplayMode
from tallgrass.ledger.rules import DatasetException, LedgerRules
from tallgrass.ledger.vocabulary import Intent, Status
from tallgrass.replay.guards import Caps
from tallgrass.replay.plan import (
    Candidate,
    PlanAction,
    PlanHeader,
    PlanRules,
    decide,
)
from tallgrass.replay.plan_file import PlanReading
from tallgrass.replay.plan_stream import PlanStream
from tallgrass.replay.selection import Purpose, Selection

if TYPE_CHECKING:
    from collections.abc import Iterator

CAPS = Caps(max_events=5000, batch=500, max_candidates=1_000_000, max_records_per_second=500.0)


def header(**changes: Any) -> PlanHeader:
    """Return the header of a plan over failed units."""
    values: dict[str, Any] = {
        "replay_run_id": "run-1",
        "env": "dev",
        "mode": ReplayMode.RANGE,
        "intent": Intent.INGEST,
        "reason": "incident",
        "selection": Selection(datasets=("hrrr",)),
        "code_version": "1.0",
        "config_version": "c1",
        "approvals_needed": 0,
        "caps": CAPS,
    }
    return PlanHeader(**{**values, **changes})


REPAIR = Selection(datasets=("hrrr",), purpose=Purpose.REPAIR)


def rules(*, denied: dict[str, str] | None = None, **changes: Any) -> PlanRules:
    """Return rules with the default limits; `denied` names the gate's rule by dataset."""
    ledger = changes.pop("ledger", LedgerRules(max_attempts=8))
    refusals = denied or {}
    return PlanRules(
        header=header(**changes),
        ledger=ledger,
        denies=lambda dataset, _action: refusals.get(dataset),
    )


def candidate(number: int = 0, **changes: Any) -> Candidate:
    """Return a failed unit whose code is retried."""
    values: dict[str, Any] = {
        "wal_id": f"3a1e8907-8000-8500-9e97-{number:012x}",
        "dataset": "hrrr",
        "status": "failed",
        "version": 3,
        "attempts": 1,
        "budget_from": 0,
        "last_error_code": "io_error",
        "rerun_intent": None,
        "newer_object": 0,
        "held": 0,
        "applied_code_version": None,
        "applied_config_version": None,
    }
    return Candidate(**{**values, **changes})


def succeeded(number: int = 0, **changes: Any) -> Candidate:
    """Return a succeeded unit, made by the code and configuration of the plan."""
    values: dict[str, Any] = {
        "status": "succeeded",
        "last_error_code": None,
        "applied_code_version": "1.0",
        "applied_config_version": "c1",
    }
    return candidate(number, **{**values, **changes})


def planned(found: list[Candidate], by: PlanRules) -> tuple[PlanStream, list[dict[str, Any]]]:
    """Return a plan's stream and its rows as they are written."""
    stream = PlanStream(by)
    stream.first_line()
    return stream, [json.loads(line) for _, _, line in stream.rows(found)]


class TestFailed:
    """Units that failed."""

    def test_a_retried_code_is_replayed(self) -> None:
        """The ordinary case."""
        assert decide(candidate(), rules()) == (PlanAction.REPLAY, None)

    def test_another_code_is_replayed_if_it_is_named(self) -> None:
        """`size_zero` is not retried by itself: naming it says that its cause is mended."""
        unit = candidate(last_error_code="size_zero")
        assert decide(unit, rules()) == (PlanAction.SKIP, "code_not_replayed")
        named = Selection(datasets=("hrrr",), error_codes=("size_zero",))
        assert decide(unit, rules(selection=named)) == (PlanAction.REPLAY, None)

    def test_what_a_policy_refused_is_never_replayed(self) -> None:
        """Not even by name."""
        unit = candidate(last_error_code="governance_hard_fail")
        named = Selection(datasets=("hrrr",), error_codes=("governance_hard_fail",))
        assert decide(unit, rules(selection=named)) == (PlanAction.SKIP, "code_not_replayed")

    @pytest.mark.conformance("WAL-8.2", "SM-9.3")
    @pytest.mark.parametrize(
        ("attempts", "budget_from", "expected"),
        [
            (7, 0, (PlanAction.REPLAY, None)),
            (8, 0, (PlanAction.SKIP, "attempts_exceeded")),
            (9, 0, (PlanAction.SKIP, "attempts_exceeded")),
            (9, 2, (PlanAction.REPLAY, None)),
            (10, 2, (PlanAction.SKIP, "attempts_exceeded")),
        ],
    )
    def test_the_limit_counts_since_the_budget_began(
        self, attempts: int, budget_from: int, expected: tuple[PlanAction, str | None]
    ) -> None:
        """One below the limit of 8 is replayed; at it and above it is not."""
        unit = candidate(attempts=attempts, budget_from=budget_from)
        assert decide(unit, rules()) == expected

    @pytest.mark.conformance("WAL-8.2")
    def test_a_dataset_may_have_a_limit_of_its_own(self) -> None:
        """The exception of a dataset counts for its units alone."""
        granted = DatasetException(dataset="gfs", approval_ref="GOV-1", max_attempts=3)
        ledger = LedgerRules(max_attempts=8, exceptions={"gfs": granted})
        by = rules(ledger=ledger)
        assert decide(candidate(attempts=3, dataset="gfs"), by)[1] == "attempts_exceeded"
        assert decide(candidate(attempts=3), by)[0] is PlanAction.REPLAY

    def test_the_gate_s_rule_is_the_reason(self) -> None:
        """A switch, or any rule of the gate, leaves its dataset's units out under its name."""
        by = rules(denied={"hrrr": "kill_switch_active"})
        assert decide(candidate(), by) == (PlanAction.SKIP, "kill_switch_active")
        assert decide(candidate(dataset="gfs"), by) == (PlanAction.REPLAY, None)


class TestOthers:
    """Units in any other state."""

    @pytest.mark.conformance("WAL-8.1")
    @pytest.mark.parametrize("status", ["pending", "in_progress", "quarantined"])
    @pytest.mark.parametrize("selection", [Selection(datasets=("hrrr",)), REPAIR])
    def test_they_are_left_alone(self, status: str, selection: Selection) -> None:
        """The reason is their state; no selection changes that."""
        unit = candidate(status=status)
        assert decide(unit, rules(selection=selection)) == (PlanAction.SKIP, status)

    @pytest.mark.conformance("SM-2.3b")
    def test_a_succeeded_unit_is_run_again_on_request_only(self) -> None:
        """Routine replay skips it and says so."""
        old = succeeded(applied_code_version="0.9")
        assert decide(old, rules()) == (PlanAction.SKIP, "succeeded")
        assert decide(old, rules(selection=REPAIR)) == (PlanAction.RERUN, None)

    @pytest.mark.parametrize(
        ("change", "action"),
        [
            ({}, PlanAction.HIT),
            ({"applied_code_version": "0.9"}, PlanAction.RERUN),
            ({"applied_config_version": "c0"}, PlanAction.RERUN),
            ({"newer_object": 1}, PlanAction.RERUN),
            ({"last_error_code": "io_error"}, PlanAction.RERUN),
        ],
    )
    def test_a_hit_is_the_same_code_configuration_and_object(
        self, change: dict[str, Any], action: PlanAction
    ) -> None:
        """Anything else, a re-run that failed too, is worth running again."""
        assert decide(succeeded(**change), rules(selection=REPAIR)) == (action, None)

    @pytest.mark.parametrize(
        ("change", "reason"),
        [
            ({"held": 1}, "in_progress"),
            ({"rerun_intent": "reingest"}, "rerun_pending"),
        ],
    )
    def test_a_succeeded_unit_may_be_busy(self, change: dict[str, Any], reason: str) -> None:
        """One that is running or will run is not asked to run again."""
        assert decide(succeeded(**change), rules(selection=REPAIR)) == (PlanAction.SKIP, reason)

    @pytest.mark.conformance("C-09")
    @pytest.mark.parametrize("change", [{"newer_object": 1}, {"last_error_code": "io_error"}])
    def test_a_succeeded_unit_that_was_given_up_may_run_again(self, change: dict[str, Any]) -> None:
        """An approved re-run starts a new budget, as a release of a quarantined unit does.

        Its message is gone, and a listing finds nothing new: only a plan can bring in its object.
        """
        spent = succeeded(attempts=8, **change)
        assert decide(spent, rules(selection=REPAIR)) == (PlanAction.RERUN, None)
        assert decide(spent, rules()) == (PlanAction.SKIP, "succeeded")

    def test_a_hit_passes_the_gate_too(self) -> None:
        """No way around it, not even for what writes nothing."""
        by = rules(selection=REPAIR, denied={"hrrr": "kill_switch_active"})
        assert decide(succeeded(), by) == (PlanAction.SKIP, "kill_switch_active")


STATES = st.builds(
    candidate,
    status=st.sampled_from([status.value for status in Status]),
    attempts=st.integers(0, 12),
    last_error_code=st.sampled_from(["io_error", "size_zero", "governance_hard_fail"]),
    rerun_intent=st.sampled_from([None, "repair"]),
    newer_object=st.integers(0, 1),
    held=st.integers(0, 1),
    applied_code_version=st.sampled_from(["1.0", "0.9"]),
    applied_config_version=st.sampled_from(["c1", "c0"]),
)


@pytest.mark.conformance("WAL-8.1", "SM-9.3")
@given(STATES, st.sampled_from([Selection(datasets=("hrrr",)), REPAIR]))
def test_only_failed_units_are_replayed_and_only_succeeded_ones_run_again(
    unit: Candidate, selection: Selection
) -> None:
    """Over any population: failed ones below the limit, succeeded ones where they are included."""
    action, reason = decide(unit, rules(selection=selection))
    assert (reason is not None) == (action is PlanAction.SKIP)
    if action is PlanAction.REPLAY:
        assert unit.status == "failed"
        assert unit.attempts < 8
        assert unit.last_error_code == "io_error"
    if action in {PlanAction.RERUN, PlanAction.HIT}:
        assert unit.status == "succeeded"
        assert selection is REPAIR


class TestCap:
    """How much a run may do."""

    @pytest.mark.conformance("WAL-8.6")
    def test_the_rest_beyond_the_cap_is_reported(self) -> None:
        """Cap + 1 candidates: the cap is run, the last one is left out under its reason."""
        by = rules(caps=replace(CAPS, max_events=3, batch=2))
        found = [candidate(n) for n in range(4)]
        stream, rows = planned(found, by)
        assert [row["action"] for row in rows] == ["replay", "replay", "replay", "skip"]
        assert rows[3]["reason"] == "beyond_max_events"
        assert (stream.summary.events, stream.summary.batches(by.header.caps)) == (3, 2)

    @pytest.mark.conformance("WAL-8.6")
    def test_what_is_not_run_does_not_use_the_cap(self) -> None:
        """Skips and hits cost nothing."""
        by = rules(selection=REPAIR, caps=replace(CAPS, max_events=1))
        found = [candidate(0, status="pending"), succeeded(1), candidate(2), candidate(3)]
        rows = planned(found, by)[1]
        assert [row["action"] for row in rows] == ["skip", "hit", "replay", "skip"]

    @pytest.mark.conformance("C-23")
    @pytest.mark.parametrize(
        ("asked", "expected"), [(None, 5000), (10, 10), (5000, 5000), (9000, 5000)]
    )
    def test_a_flag_can_only_lower_it(self, asked: int | None, expected: int) -> None:
        """The smaller of configuration and flag counts."""
        assert CAPS.lowered(max_events=asked).max_events == expected

    def test_a_file_s_batches_lower_it_too(self) -> None:
        """15 batches of 100 are 1,500 units; a larger batch than configured is not had."""
        assert CAPS.lowered(batch=100, batches=15) == replace(CAPS, batch=100, max_events=1500)
        assert CAPS.lowered(batch=900, batches=2) == replace(CAPS, max_events=1000)


class TestStream:
    """The plan as bytes."""

    def test_the_bytes_are_as_documented(self) -> None:
        """A header, then rows with their keys in order; the hash is of just these bytes."""
        stream = PlanStream(rules())
        lines = [stream.first_line()]
        found = [candidate(1), candidate(2, status="pending")]
        lines += [line for _, _, line in stream.rows(found)]
        assert lines[1:] == [
            b'{"action":"replay","version":3,"wal_id":"3a1e8907-8000-8500-9e97-000000000001"}\n',
            b'{"action":"skip","reason":"pending","version":3,"wal_id":"%s"}\n'
            % found[1][0].encode(),
        ]
        assert stream.sha256 == hashlib.sha256(b"".join(lines)).hexdigest()
        first = json.loads(lines[0])
        assert first == {
            "apiVersion": "kfm.nodd.replay/v1alpha1",
            "kind": "ReplayPlan",
            "purpose": "replay",
            "replay_run_id": "run-1",
            "env": "dev",
            "mode": "range",
            "intent": "ingest",
            "reason": "incident",
            "selection": {"mode": "failed-only", "filters": {"datasets": ["hrrr"]}},
            "code_version": "1.0",
            "config_version": "c1",
            "approvals_needed": 0,
            "caps": {
                "max_events": 5000,
                "batch": 500,
                "max_candidates": 1_000_000,
                "max_records_per_second": 500.0,
            },
            "incident_ref": None,
            "change_ref": None,
            "policy_ref": None,
            "expected": [],
            "forced": False,
            "allow_downgrade": False,
        }

    @pytest.mark.conformance("RP-6.4")
    def test_the_summary_counts_every_row(self) -> None:
        """By action, reason, dataset, status and code; the sum is the number of candidates."""
        found = [
            candidate(0),
            candidate(1, dataset="gfs", last_error_code="size_zero"),
            candidate(2, status="quarantined"),
            succeeded(3),
            succeeded(4, applied_code_version="0.9"),
            candidate(5, attempts=8),
        ]
        stream, rows = planned(found, rules(selection=REPAIR))
        told = stream.summary.document(CAPS)
        assert told["candidates"] == 6 == sum(told["by_action"].values())
        assert told["by_action"] == dict(Counter(row["action"] for row in rows))
        assert told["by_action"] == {"replay": 1, "rerun": 1, "hit": 1, "skip": 3}
        assert told["by_reason"] == {
            "attempts_exceeded": 1, "code_not_replayed": 1, "quarantined": 1,
        }  # fmt: skip
        assert told["by_dataset"]["gfs"] == {"replay": 0, "rerun": 0, "hit": 0, "skip": 1}
        assert told["by_status"] == {"failed": 3, "quarantined": 1, "succeeded": 2}
        assert told["by_error_code"] == {"io_error": 3, "size_zero": 1}
        assert (told["events"], told["batches"]) == (2, 1)

    def test_guards_that_would_fire_are_named(self) -> None:
        """Too many candidates, records at their limit, a switch, a lacking approval."""
        by = rules(
            caps=replace(CAPS, max_candidates=2),
            approvals_needed=2,
            denied={"gfs": "kill_switch_active"},
        )
        found = [candidate(0), candidate(1, attempts=9), candidate(2, dataset="gfs")]
        stream, _ = planned(found, by)
        fired = {f.guard.value: (f.refuses, f.records) for f in stream.summary.guards(by.header)}
        assert fired == {
            "selection_too_large": (True, 0),
            "attempts_exceeded": (False, 1),
            "kill_switch_active": (False, 1),
            "approval_missing": (True, 0),
        }
        quiet, _ = planned([candidate(0)], rules())
        assert quiet.summary.guards(header()) == []

    def test_memory_stays_flat(self) -> None:
        """A hundred thousand candidates take no more than a thousand do, but for the counters."""

        def many(count: int) -> Iterator[Candidate]:
            for number in range(count):
                yield candidate(number)

        def peak(count: int) -> int:
            stream = PlanStream(rules())
            tracemalloc.start()
            for _ in stream.rows(many(count)):
                pass
            found = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            return found

        peak(10)
        assert peak(20_000) < peak(1_000) + 50_000


class TestReading:
    """A plan that was written."""

    def written(self) -> list[bytes]:
        """Return the lines of a plan with three rows."""
        stream = PlanStream(rules(expected=("/properties/datetime",)))
        found = [candidate(1), candidate(2, status="pending"), candidate(3)]
        return [stream.first_line(), *(line for _, _, line in stream.rows(found))]

    def test_it_is_read_back_as_it_was(self) -> None:
        """Header, rows, counts and hash are the plan's own."""
        lines = self.written()
        reading = PlanReading(lines)
        found, rows = reading.open()
        assert found == header(expected=("/properties/datetime",))
        assert [(row.version, row.action.value, row.reason) for row in rows] == [
            (3, "replay", None), (3, "skip", "pending"), (3, "replay", None),
        ]  # fmt: skip
        assert reading.sha256 == hashlib.sha256(b"".join(lines)).hexdigest()
        assert reading.by_action == {"replay": 2, "skip": 1}

    @pytest.mark.parametrize(
        "edit",
        [
            lambda lines: [],
            lambda lines: lines[1:],
            lambda lines: [lines[0], lines[2], lines[1]],
            lambda lines: [lines[0], lines[1], lines[1]],
            lambda lines: [lines[0].replace(b"ReplayPlan", b"Other"), *lines[1:]],
            lambda lines: [lines[0].replace(b'"env"', b' "env"'), *lines[1:]],
            lambda lines: [lines[0].replace(b'"range"', b'"all"'), *lines[1:]],
            lambda lines: [lines[0].replace(b'"caps":{', b'"caps":{"x":1,'), *lines[1:]],
            lambda lines: [lines[0], b"{}\n"],
            lambda lines: [lines[0], b"[]\n"],
            lambda lines: [lines[0], lines[1].replace(b"replay", b"delete")],
            lambda lines: [lines[0], lines[1].replace(b":3", b':"3"')],
            lambda lines: [lines[0], lines[1][:-9]],
        ],
    )
    def test_what_is_no_plan_is_refused(self, edit: Any) -> None:
        """Another file, a moved, doubled, cut or edited line: nothing is guessed."""
        with pytest.raises(InvalidInput) as refused:
            list(PlanReading(edit(self.written())).open()[1])
        assert refused.value.code == "plan_invalid"
