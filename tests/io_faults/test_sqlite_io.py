"""Each operation of SQLite's file layer fails in turn; `make io-faults` plays all stores.

The rule is the same everywhere: the state is old or new, never torn, and no success was reported
that is not there.
"""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

import pytest

from tallgrass.storage import sqlite
from tests.io_faults.faulty_vfs import How, Script, faulty_vfs
from tests.io_faults.lives import judge
from tests.io_faults.power_loss import every_moment, record
from tests.io_faults.sqlite_lives import lives
from tests.io_faults.sqlite_points import Stage, every_point, play

if TYPE_CHECKING:
    from pathlib import Path

#: Of a migration, one large transaction, each so many-th operation fails here.
SPARSE = {"migration": 7}


@pytest.fixture(params=list(lives(1)))
def stage(request: pytest.FixtureRequest, quick_folder: Path) -> Stage:
    """Each life of SQLite files in turn, with one unit."""
    return Stage(lives(1)[request.param], quick_folder)


@pytest.mark.slow
def test_every_failing_operation_leaves_old_or_new(stage: Stage) -> None:
    """Whichever write, sync, truncation, deletion or opening fails, nothing is torn."""
    every = SPARSE.get(stage.life.name, 1)
    tally = every_point(stage, [How.BEFORE], every=every)
    assert tally.violations == []
    assert tally.total == -(-stage.count() // every)
    assert tally.points["write before"] > 30
    assert tally.points["sync before"] >= 1


@pytest.mark.slow
@pytest.mark.parametrize("how", [How.TORN, How.AFTER, How.NO_ROOM])
def test_half_done_and_untold_operations_leave_old_or_new(stage: Stage, how: How) -> None:
    """The same where half was written, where all was and nobody was told, and where no room is."""
    tally = every_point(stage, [how], every=11 * SPARSE.get(stage.life.name, 1))
    assert tally.violations == []
    assert tally.total >= 3


def test_a_disk_that_stays_broken_leaves_old_or_new(stage: Stage) -> None:
    """The same where nothing works from then on, and nobody can be asked what has landed."""
    every = 12 * SPARSE.get(stage.life.name, 1)
    tally = every_point(stage, [How.BEFORE], for_good=True, every=every)
    assert tally.violations == []
    assert tally.total > 3


@pytest.mark.slow
def test_a_power_cut_at_any_moment_loses_nothing_that_was_reported(stage: Stage) -> None:
    """What was synced is there, and of what was not, any part may be: all is sound."""
    every = SPARSE.get(stage.life.name, 2)
    tally = every_moment(stage, every=every)
    assert tally.violations == []
    assert tally.points["power cut"] == stage.count() // every + 1


def test_a_store_that_does_not_wait_for_the_disk_is_found(
    quick_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The premise of the test above: with less than a full sync, reported commits are lost."""
    less = tuple(each.replace("FULL", "NORMAL") for each in sqlite._PRAGMAS)
    monkeypatch.setattr(sqlite, "_PRAGMAS", less)
    tally = every_moment(Stage(lives(1)["governance"], quick_folder), every=3)
    assert any("reported as done, and the last is not there" in each for each in tally.violations)


def test_a_store_that_takes_an_error_for_success_is_found(
    quick_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The premise of the tests above: whoever goes on after a failed commit is found out."""
    stage = Stage(lives(1)["governance"], quick_folder)
    number = next(n for n, done in enumerate(record(stage).log) if done.what == "sync")
    monkeypatch.setattr(sqlite.SqliteDatabase, "transaction", forgiving)
    found = play(stage, Script(fails_at=number))
    assert [each.partition(":")[0] for each in found] == ["when closed", "when killed"]


def forgiving(database: sqlite.SqliteDatabase) -> Forgiving:
    """Begin a transaction that never complains."""
    return Forgiving(database)


class Forgiving:
    """A transaction whose commit may fail without a word."""

    def __init__(self, database: sqlite.SqliteDatabase) -> None:
        self._database = database
        self._connection = database._connect()

    def __enter__(self) -> sqlite.SqliteTransaction:
        self._connection.execute("BEGIN IMMEDIATE")
        database = self._database
        return sqlite.SqliteTransaction(
            self._connection, database._clock, database.place, database.schema
        )

    def __exit__(self, *_: object) -> None:
        try:
            self._connection.execute("COMMIT")
        except sqlite3.Error:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")


def test_a_mixture_of_old_and_new_is_found(quick_folder: Path) -> None:
    """One table from before a step beside one from after it is neither."""
    stage = Stage(lives(1)["governance"], quick_folder)
    # Freezing turns switches and writes what was done into the audit log.
    old, new = stage.states[1:3]
    mixed = {**new, "ledger.db:audit_log": old["ledger.db:audit_log"]}
    assert old != new
    assert mixed != new
    assert "neither old nor new" in (judge(stage.life, stage.states, 1, mixed) or "")
    assert judge(stage.life, stage.states, 1, new) is None


def test_the_file_layer_reaches_the_library_in_use(tmp_path: Path) -> None:
    """A connection of `sqlite3` goes through it while a script plays, and not afterwards."""
    with faulty_vfs().playing(Script(fails_at=0)) as script:
        with pytest.raises(sqlite3.OperationalError, match="unable to open"):
            sqlite3.connect(tmp_path / "a.db")
        assert (script.struck, script.seen) == ("open", 1)
    connection = sqlite3.connect(tmp_path / "a.db")
    connection.execute("CREATE TABLE t (a)")
    connection.close()
    assert script.seen == 1
