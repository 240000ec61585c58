"""What a lost, stopped or late worker can do, shown step by step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.simulation.template import Template
from tests.simulation.world import SAFETY_WINDOW_S, World

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.simulation.actors import Process

#: Worlds of these seeds are looked at; each has another feed and other settings.
SEEDS = range(900, 906)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Template:
    """Return empty databases to copy."""
    return Template(tmp_path_factory.mktemp("template"))


@pytest.fixture(params=SEEDS)
def world(request: pytest.FixtureRequest, template: Template) -> Iterator[World]:
    """Return a world whose whole feed was sent and whose first worker holds units."""
    made = World(request.param, template)
    made.produce(len(made.coming))
    del made.processes[1:]
    made.processes[0].start()
    yield made
    made.close()


def in_progress(world: World) -> int:
    """Count by raw SQL."""
    query = "SELECT count(*) FROM wal_records WHERE status = 'in_progress'"
    return int(world.ledger.execute(query).fetchone()[0])


def open_attempts(world: World) -> list[tuple[str, int]]:
    """Return open attempts by raw SQL."""
    query = "SELECT wal_id, attempt_no FROM wal_attempts WHERE status = 'pending' ORDER BY 1"
    return list(world.ledger.execute(query))


def claim(world: World) -> tuple[Process, list[tuple[str, int]]]:
    """Step the worker until it holds units; return what it holds."""
    process = world.processes[0]
    for _ in range(60):
        process.step()
        if held := open_attempts(world):
            return process, held
    raise AssertionError("it claimed nothing")


@pytest.mark.conformance("WAL-4.2", "SM-2.2a")
def test_a_stopped_worker_holds_its_units_for_a_bounded_time(world: World) -> None:
    """A worker stopped in the middle loses its units within visibility and safety window."""
    process, held = claim(world)
    assert in_progress(world)
    process.hung = True
    world.pass_time(world.visibility_s + SAFETY_WINDOW_S)
    assert not set(held) & set(open_attempts(world))
    assert not in_progress(world)
    world.check()
    assert not world.violations


@pytest.mark.conformance("WAL-4.2", "SM-2.2a")
def test_a_store_failure_does_not_let_a_live_worker_hold_units_for_ever(world: World) -> None:
    """A worker whose commit failed, and which goes on renewing, gives its units back."""
    process, held = claim(world)
    process.store_faults.armed = [(0, "unreachable")]
    while process.store_faults.armed:
        process.step()
    world.pass_time(world.visibility_s + SAFETY_WINDOW_S)
    assert process.alive
    assert not set(held) & set(open_attempts(world))
    world.check()
    assert not world.violations


@pytest.mark.conformance("SM-1.3")
def test_a_late_worker_cannot_undo_a_quarantine(world: World) -> None:
    """What catalog and provenance would say of a unit comes too late once it is held."""
    process, held = claim(world)
    process.hung = True
    world.pass_time(world.lease_s * 2)
    wal_ids = [wal_id for wal_id, _ in held]
    for wal_id in wal_ids:
        world.quarantine(wal_id)
    before = world.ledger.execute("SELECT * FROM wal_records ORDER BY wal_id").fetchall()
    process.hung = False
    said = [process.step() for _ in range(20) if process.alive]
    assert said[-1] == "found itself fenced, and ended"
    assert world.ledger.execute("SELECT * FROM wal_records ORDER BY wal_id").fetchall() == before
    for table in ("stac_items", "provenance"):
        owners = {row[0] for row in world.ledger.execute(f"SELECT wal_id FROM {table}")}
        assert not owners & set(wal_ids)


@pytest.mark.conformance("RP-3.1", "RP-3.9", "WAL-1.2")
@pytest.mark.parametrize("fault", ["crash before COMMIT", "crash after COMMIT"])
def test_no_effect_comes_before_its_record(template: Template, fault: str, tmp_path: Path) -> None:
    """Crashed at each transaction, no item or provenance lacks an attempt committed before it.

    At each COMMIT a second connection looks whether the attempts of all new effects are there; and
    after each crash no effect is there without its record.
    """
    points = 0
    for point in range(40):
        world = World(901, template)
        try:
            world.produce(len(world.coming))
            process = world.processes[0]
            process.start()
            process.store_faults.armed = [(point, fault)]
            for _ in range(60):
                if not process.alive:
                    points += 1
                    break
                process.step()
            world.check()
            assert not world.violations
            orphans = world.ledger.execute(
                "SELECT wal_id, attempt_no FROM stac_items"
                " UNION SELECT wal_id, attempt_no FROM provenance"
                " EXCEPT SELECT wal_id, attempt_no FROM wal_attempts WHERE status = 'applied'"
            ).fetchall()
            assert not orphans
        finally:
            world.close()
    assert points > 10
