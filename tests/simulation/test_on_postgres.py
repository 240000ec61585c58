"""Histories of worlds on PostgreSQL; `make simulate BACKEND=postgres SEEDS=500` plays more."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

import pytest

from tallgrass.clock import format_instant
from tests.simulation.planted import BUGS, Bug, sql
from tests.simulation.simulator import History, Simulation, failure
from tests.simulation.template import Template
from tests.simulation.world import World
from tools import reliability, simulate

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.plugins.postgres import Databases

SEEDS = range(1, 8)
#: Bugs that are planted in the code, and are the same ones on every database.
SHARED = (
    "a message is acknowledged before the commit",
    "the outcome is written before its effects, in a transaction of its own",
    "poison is not stored",
    "an event is not written with its item",
)
#: Bugs in what only PostgreSQL is asked.
ITS_OWN = (
    Bug(
        name="a lost worker is never fenced",
        found_as="is open since",
        plant=partial(
            sql,
            "fence_expired",
            "expires_at <= %(now)s",
            "expires_at <= %(now)s AND false",
            "postgres",
        ),
        seed=7,
    ),
    Bug(
        name="the result of a late dispatcher overwrites another's",
        found_as="outbox_attempts",
        plant=partial(
            sql,
            "deliver_rows",
            "d.attempt = %(attempt)s AND d.claimed_by = %(dispatcher)s",
            "%(attempt)s > 0 AND %(dispatcher)s <> ''",
            "postgres",
        ),
        seed=5,
    ),
    Bug(
        name="a parked unit is never due",
        found_as="pending and never due",
        plant=partial(sql, "reset_records", "due_at = x.due_at", "due_at = NULL", "postgres"),
        seed=3,
    ),
)
PLANTED = (*(bug for bug in BUGS if bug.name in SHARED), *ITS_OWN)

#: All columns that hold times, but those of the schema's own history.
TIMES = (
    "SELECT c.table_name, c.column_name FROM information_schema.columns AS c"
    " JOIN information_schema.tables AS t USING (table_schema, table_name)"
    " WHERE c.table_schema = 'public' AND c.data_type = 'timestamp with time zone'"
    " AND t.table_type = 'BASE TABLE' AND c.table_name <> 'schema_migrations'"
)


@pytest.fixture(scope="module")
def template(
    tmp_path_factory: pytest.TempPathFactory, postgres_databases: Databases
) -> Iterator[Template]:
    """Return empty databases on the suite's server."""
    made = Template(tmp_path_factory.mktemp("template"), postgres_databases)
    yield made
    made.close()


@pytest.mark.parametrize("seed", SEEDS)
def test_no_history_breaks_a_promise(seed: int, template: Template) -> None:
    """On PostgreSQL too promises hold at each moment, and all comes to its end."""
    history = Simulation(seed, template, tell=True).run()
    assert not history.violations, failure(history)
    assert history.backend == "postgres"
    assert history.events > 50


def test_one_seed_has_one_history(template: Template) -> None:
    """A seed is played the same way each time, event by event."""
    first, second = (Simulation(9, template, tell=True).run() for _ in range(2))
    assert first.lines == second.lines
    assert len(first.lines) > 50


@pytest.mark.parametrize("bug", PLANTED, ids=lambda bug: bug.name)
def test_a_planted_bug_is_found(bug: Bug, template: Template) -> None:
    """With the bug its seed breaks a promise, as is said of it."""
    with bug.plant():
        history = Simulation(bug.seed, template).run()
    assert any(bug.found_as in text for text in history.violations), history.violations


def test_what_is_found_are_the_bugs() -> None:
    """None of them was renamed away, and each of their seeds is played above without any bug."""
    assert len(PLANTED) == len(SHARED) + len(ITS_OWN)
    assert {bug.seed for bug in PLANTED} <= set(SEEDS)


def test_time_is_the_worlds(template: Template) -> None:
    """No row of a world bears a time of the machine's clock: all are of the world's own days."""
    world = World(1, template)
    day = timedelta(days=1)
    earliest, latest = (format_instant(world.clock() + side) for side in (-day, day))
    try:
        world.produce(len(world.coming))
        for process in world.everybody:
            process.start()
        for _ in range(40):
            for process in world.everybody:
                process.step()
            world.pass_time(1.0)
        world.check()
        assert world.violations == []
        seen = set()
        for table, column in world.ledger.execute(TIMES).fetchall():
            rows = world.ledger.execute(f"SELECT {column} FROM {table}").fetchall()
            times = [time for (time,) in rows if time is not None]
            assert all(earliest < time < latest for time in times), f"{table}.{column}: {times}"
            seen |= {table} if times else set()
        assert seen >= {"wal_records", "wal_attempts", "workers", "stac_items", "outbox_attempts"}
    finally:
        world.close()


def test_the_command_starts_a_server_of_its_own(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command plays seeds on PostgreSQL, sums them up, and has its own place on the page."""
    published: dict[str, Mapping[str, int | str]] = {}
    monkeypatch.setattr(simulate, "publish", published.__setitem__)
    assert simulate.main(["--seeds", "1", "--from", "10", "--backend", "postgres"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Seeds from FROM=10"
    assert lines[-1].startswith("1 seeds, ")
    assert lines[-1].endswith(" events, 0 violations")
    ((command, counts),) = published.items()
    assert (counts["seeds"], counts["violations"]) == (1, 0)
    page = reliability.PAGE.read_text(encoding="utf-8")
    assert "of its own" in reliability.replaced(page, command, "of its own")
    assert command != "simulate"


def test_a_broken_promise_is_repeated_on_its_database() -> None:
    """The command that repeats a history names the database."""
    history = History(seed=42, backend="postgres", events=3, violations=["it broke"])
    assert failure(history).endswith("make simulate FROM=42 SEEDS=1 BACKEND=postgres")
