"""The candidates of a plan are exactly what the selection means, on both databases."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tallgrass.bootstrap.planning import PlanRequest, open_plan
from tallgrass.clock import parse_instant
from tallgrass.errors import InvalidInput, UnknownRecord
from tallgrass.governance.switches import SwitchScope
from tallgrass.ledger.vocabulary import Status
from tallgrass.replay.plan import Candidate, PlanAction
from tallgrass.replay.selection import IdRange, Purpose, Selection, Span
from tallgrass.storage.named_queries import load_queries
from tallgrass.storage.plan_reader import PlanReader
from tests.contract.scene import Scene
from tests.replay.population import DATASETS, means, populate, rows_with_messages
from tests.support.builders import DATA_START, failure, success, unit, units
from tests.support.put_back import put_back

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.backends import Backend

MICROSECOND = timedelta(microseconds=1)


def found_by(reader: PlanReader, selection: Selection) -> list[Candidate]:
    """Return the candidates of a selection."""
    named = reader.named_units(selection)
    return list(reader.candidates(selection, named, reader.datasets(selection, named)))


@st.composite
def selections(draw: st.DrawFn, read: Callable[[], list[dict[str, Any]]]) -> Selection:
    """Draw a selection whose bounds lie on, just before and just behind real values."""
    rows = read()

    def span(column: str) -> Span:
        near = st.builds(
            lambda row, step: parse_instant(row[column]) + step * MICROSECOND,
            st.sampled_from(rows),
            st.integers(-1, 1),
        )
        ends = sorted(draw(st.lists(near, max_size=2, unique=True)))
        if len(ends) == 1:
            return draw(st.sampled_from([Span(ends[0], None), Span(None, ends[0])]))
        return Span(*ends)

    def some(values: list[Any], size: int) -> tuple[Any, ...]:
        return tuple(draw(st.lists(st.sampled_from(values), max_size=size)))

    uris = [row["object_uri"] for row in rows]
    ids = sorted(draw(st.sets(st.sampled_from([row["wal_id"] for row in rows]), max_size=2)))
    conditions: dict[str, Any] = {
        "datasets": lambda: some(list(DATASETS), 2),
        "datasets_exclude": lambda: some(list(DATASETS), 1),
        "bucket_prefix": lambda: draw(st.sampled_from(uris))[: draw(st.integers(14, 40))],
        "data_time": lambda: span("time_range_start"),
        "time_range_overlap": lambda: span("time_range_end"),
        "event_time": lambda: span("event_time"),
        "created_at": lambda: span("created_at"),
        "wal_ids": lambda: some([row["wal_id"] for row in rows], 9),
        "wal_id_range": lambda: IdRange(*ids),
        "statuses": lambda: some(list(Status), 3),
        "error_codes": lambda: some(["io_error", "size_zero", "governance_hard_fail"], 2),
        "attempts_min": lambda: draw(st.integers(0, 2)),
        "attempts_max": lambda: draw(st.integers(0, 2)),
        "purpose": lambda: Purpose.REPAIR,
    }  # fmt: skip
    chosen = draw(st.sets(st.sampled_from(sorted(conditions)), max_size=4))
    try:
        return Selection(**{name: conditions[name]() for name in sorted(chosen)})
    except InvalidInput:
        assume(condition=False)
        raise


@pytest.mark.conformance("RP-4.2b", "C-26", "WAL-8.1")
def test_candidates_are_what_a_plain_filter_finds(backend: Backend, *, full_counts: bool) -> None:
    """Any conditions together, with bounds on the very values: the same units, in order."""
    scene = populate(backend)
    rows = rows_with_messages(backend)
    assert len({row["status"] for row in rows}) == 5, "the premise: units of every status"
    # Small pages, so that ranges have many of them.
    reader = PlanReader(scene.stores.database, page_size=2)
    sizes = []

    @settings(max_examples=1000 if full_counts else 80)
    @given(selections(lambda: rows))
    def check(selection: Selection) -> None:
        expected = [row["wal_id"] for row in rows if means(selection, row)]
        assert [each.wal_id for each in found_by(reader, selection)] == expected
        sizes.append(len(expected))

    check()
    assert sum(size > 0 for size in sizes) > len(sizes) / 5, "too few selections find anything"


@pytest.mark.conformance("RP-4.2a", "RP-6.1")
def test_ids_of_units_and_messages_are_one_list(backend: Backend) -> None:
    """A message means all units that it announced; named twice, a unit is a candidate once."""
    reader = PlanReader(populate(backend).stores.database)
    rows = rows_with_messages(backend)
    expected: list[str] = []
    for message in ("sqs-4", "sns-4"):
        expected = [row["wal_id"] for row in rows if message in row["messages"]]
        assert len(expected) == 2
        found = found_by(reader, Selection(message_ids=(message,)))
        assert [each.wal_id for each in found] == expected
    mixed = Selection(
        message_ids=("sqs-4", "sns-4", "sqs-7"), wal_ids=(rows[0]["wal_id"], expected[0])
    )
    wanted = [row["wal_id"] for row in rows if means(mixed, row)]
    assert [each.wal_id for each in found_by(reader, mixed)] == wanted
    assert len(wanted) == len(set(wanted)) >= 4


@pytest.mark.conformance("RP-4.2a")
@pytest.mark.parametrize(
    "unknown",
    [
        Selection(wal_ids=("3a1e8907-8000-8500-9e97-000000000001",)),
        Selection(message_ids=("sqs-1", "never-sent")),
    ],
)
def test_an_unknown_id_is_an_error(backend: Backend, unknown: Selection) -> None:
    """Whoever names a unit means that one: nothing is planned in its place."""
    reader = PlanReader(populate(backend).stores.database)
    with pytest.raises(UnknownRecord, match=r"000000000001|never-sent"):
        reader.named_units(unknown)


def test_a_candidate_tells_what_decides_its_fate(backend: Backend) -> None:
    """Held re-runs, wishes, newer objects and the versions of the applied attempt are as stored."""
    scene = Scene(backend)
    claims = [scene.claim(number) for number in range(2)]
    scene.commit(*(success(claim) for claim in claims))
    stored = scene.attempts(claims[0].wal_id)[0]
    newer = replace(unit(1).object_ref, sequencer="0055AED6DCD90281E9", etag="other")
    rerun = scene.claim(unit(1, object_ref=newer))
    reader = PlanReader(scene.stores.database)
    selection = Selection(datasets=("goes-glm",), purpose=Purpose.REPAIR)
    plain, held = found_by(reader, selection)
    assert plain == Candidate(
        wal_id=claims[0].wal_id,
        dataset="goes-glm",
        status="succeeded",
        version=3,
        attempts=1,
        budget_from=1,
        last_error_code=None,
        rerun_intent=None,
        newer_object=0,
        held=0,
        applied_code_version=stored["code_version"],
        applied_config_version=stored["config_version"],
    )
    assert (held.wal_id, bool(held.held)) == (rerun.wal_id, True)
    scene.commit(failure(rerun))
    again = found_by(reader, selection)[1]
    assert (bool(again.held), again.last_error_code) == (False, "io_error")


def test_a_unit_that_moves_while_the_plan_is_read_is_told_once(backend: Backend) -> None:
    """Read as failed on one page and as pending on a later one: one candidate, in order."""
    scene = Scene(backend)
    scene.switch(is_on=True)
    scene.announce(*units(100))
    scene.switch(is_on=False)
    claims = [receipt.claim for receipt in scene.announce(*units(100, first=100)) if receipt.claim]
    scene.commit(*(failure(claim) for claim in claims))
    reader = PlanReader(scene.stores.database, page_size=50)
    selection = Selection(datasets=("goes-glm",), statuses=(Status.FAILED, Status.PENDING))
    seen: list[str] = []
    for candidate in reader.candidates(selection, None, ["goes-glm"]):
        if not seen:
            left = put_back(backend.open(), [(claim.wal_id, 3) for claim in claims[:20]])
            assert list(left.values()) == [None] * 20
        seen.append(candidate.wal_id)
    assert seen == sorted(each.wal_id for each in units(200))


@pytest.mark.parametrize("named", [False, True])
def test_candidates_are_read_from_an_index(backend: Backend, *, named: bool) -> None:
    """Dataset, status and id are one range of an index: a million other units are not looked at."""
    query = load_queries(backend.name)["candidates_named" if named else "candidate_page"]
    values: dict[str, Any] = dict.fromkeys(query.once)
    values |= {
        "dataset": "goes-glm", "status": "failed", "size": 100, "rows": "[]", "statuses": "[]",
        "datasets_exclude": "[]", "start": "0" * 8 + "-0000-0000-0000-" + "0" * 12,
        "stop": "f" * 8 + "-ffff-ffff-ffff-" + "f" * 12,
    }  # fmt: skip
    connection = backend.connect()
    if backend.name == "sqlite":
        rows = connection.execute(
            f"EXPLAIN QUERY PLAN {query.sql}", tuple(values[name] for name in query.once)
        ).fetchall()
        plan = " ".join(str(row) for row in rows)
        assert "SCAN r" not in plan
        assert "SCAN a" not in plan
        assert "USE TEMP B-TREE" not in plan or named
        index = "sqlite_autoindex_wal_records_1" if named else "wal_records_by_dataset"
        assert re.search(rf"SEARCH r USING (COVERING )?INDEX {index}", plan), plan
        return
    for other in ("seqscan", "bitmapscan", "sort"):  # an empty table would be read in any way
        connection.execute(f"SET enable_{other} = off")
    rows = connection.execute(
        f"EXPLAIN {query.sql}", {name: values[name] for name in query.once}
    ).fetchall()
    plan = " ".join(str(row) for row in rows)
    index = "wal_records_pkey" if named else "wal_records_by_dataset"
    assert f"using {index} on wal_records r" in plan
    assert "using wal_attempts_pkey on wal_attempts" in plan
    assert "Seq Scan" not in plan


@pytest.mark.conformance("WAL-8.9")
@pytest.mark.parametrize("dialect", ["sqlite", "postgres"])
def test_a_plan_asks_the_ledger_alone(dialect: str) -> None:
    """Its statements read records and attempts: no catalog, no queue, no write."""
    folder = files("tallgrass.storage") / "queries" / dialect
    text = re.sub(r"^--.*$", "", (folder / "plan.sql").read_text("utf-8"), flags=re.MULTILINE)
    tables = set(re.findall(r"\b(?:FROM|JOIN)\s+(?:LATERAL\s+)?(\w+)", text)) - {
        "json_each",
        "LATERAL",
    }
    assert tables - {"json_array_elements_text"} == {"wal_records", "wal_attempts"}
    assert not re.search(r"\b(INSERT|UPDATE|DELETE|CREATE|LOCK|FOR SHARE)\b", text)


class TestPlan:
    """A plan over a real ledger, as the command makes it."""

    def plan(
        self, backend: Backend, selection: Selection, **asked: Any
    ) -> tuple[Any, dict[str, tuple[str, str | None]]]:
        """Return the plan and what it says of each unit."""
        stores = backend.open(read_only=True)
        request = PlanRequest(selection=selection, **asked)
        plan = open_plan(backend.config(), stores, request)
        plan.stream.first_line()
        return plan, {row.wal_id: (row.action.value, row.reason) for _, row, _ in plan.rows()}

    @pytest.mark.conformance("SM-2.3b", "WAL-8.1")
    def test_a_mixed_population(self, backend: Backend) -> None:
        """Failed units are planned, no other is; what the range holds beside them is counted."""
        populate(backend)
        rows = rows_with_messages(backend)
        selection = Selection(datasets=DATASETS, data_time=Span(DATA_START, None))
        plan, said = self.plan(backend, selection)
        failed = {row["wal_id"]: row for row in rows if row["status"] == "failed"}
        assert set(said) == set(failed)
        assert {w for w, (action, _) in said.items() if action == "replay"} == {
            w for w, row in failed.items() if row["last_error_code"] == "io_error"
        }
        assert plan.scope() == {
            status: sum(row["status"] == status for row in rows) for status in Status
        }
        everything = replace(selection, statuses=tuple(Status))
        _, said = self.plan(backend, everything)
        for row in rows:
            if row["status"] != "failed":
                assert said[row["wal_id"]] == ("skip", row["status"])

    @pytest.mark.conformance("RP-6.4")
    def test_the_plan_is_what_putting_back_then_does(self, backend: Backend) -> None:
        """On a ledger that nobody changed the planned units move; the others are left alone."""
        scene = populate(backend)
        _, said = self.plan(backend, Selection(datasets=DATASETS, statuses=tuple(Status)))
        versions = backend.sql("SELECT wal_id, version FROM wal_records")
        left = put_back(scene.stores, [(wal_id, version) for wal_id, version in versions])
        assert {action for action, _ in said.values()} == {"replay", "skip"}
        assert left == {wal_id: reason for wal_id, (_, reason) in said.items()}

    def test_two_plans_of_a_ledger_that_nobody_changed_are_the_same_bytes(
        self, backend: Backend
    ) -> None:
        """Given the run's id; else the id is the only difference."""
        populate(backend)
        selection = Selection(datasets=DATASETS)
        hashes = [
            self.plan(backend, selection, replay_run_id="r1")[0].stream.sha256 for _ in range(2)
        ]
        assert hashes[0] == hashes[1]
        one, other = (self.plan(backend, selection)[0].header for _ in range(2))
        assert one.replay_run_id != other.replay_run_id
        assert replace(one, replay_run_id="x") == replace(other, replay_run_id="x")

    def test_a_switch_leaves_its_dataset_out(self, backend: Backend) -> None:
        """Replay of one dataset is off: its units are skipped under the guard's name."""
        scene = populate(backend)
        scene.stores.switches.set(
            SwitchScope.REPLAY, "hrrr", is_on=True, actor="ann", reason="test"
        )
        plan, said = self.plan(backend, Selection(datasets=DATASETS))
        off = {row["wal_id"] for row in rows_with_messages(backend) if row["dataset"] == "hrrr"}
        stopped = {w for w, (_, reason) in said.items() if reason == "kill_switch_active"}
        assert stopped
        assert stopped <= off
        assert not {w for w in off if said.get(w, ("", ""))[0] == PlanAction.REPLAY}
        assert "kill_switch_active" in {each.guard.value for each in plan.findings()}

    def test_the_year_1_and_the_far_future_are_bounds_too(self, backend: Backend) -> None:
        """A span as wide as ids reach finds all; one behind them is refused as a time."""
        populate(backend)
        first, last = datetime(1, 1, 1, tzinfo=UTC), datetime(8900, 1, 1, tzinfo=UTC)
        wide = Selection(datasets=DATASETS, data_time=Span(first, last))
        narrow = Selection(datasets=DATASETS)
        assert self.plan(backend, wide)[1] == self.plan(backend, narrow)[1]
        beyond = Selection(datasets=DATASETS, data_time=Span(datetime(9500, 1, 1, tzinfo=UTC)))
        with pytest.raises(InvalidInput, match="future"):
            self.plan(backend, beyond)
