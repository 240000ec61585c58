"""Stores that refuse a row or are down: what becomes of the unit and of its neighbours."""

from __future__ import annotations

import random
import string
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from tallgrass.errors import DatabaseLocked, DatabaseUnreachable, DataRefused
from tallgrass.ingest_loop import Until
from tallgrass.operators import stac_register
from tests.contract.scene import insert_statement
from tests.pipeline.scene import (
    VISIBILITY_S,
    Pipeline,
    assert_effects_follow_the_ledger,
    thing,
    things,
)
from tests.pipeline.watched import WatchedDatabase
from tests.support.backends import prepare

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.backends import Backend


@pytest.mark.conformance("WAL-6.7", "WAL-5.4")
@pytest.mark.parametrize("place", [0, 3, 6])
def test_a_row_that_the_database_refuses_harms_no_neighbour(
    backend: Backend, tmp_path: Path, place: int
) -> None:
    """A batch with one refused item is halved until that one is alone: all others succeed."""
    pipeline = Pipeline(backend, tmp_path)
    given = things(7)
    # A stranger has the name that one of them would write.
    other = Pipeline(backend, tmp_path)
    other.feed(stranger := thing(99))
    other.drain()
    bad = given[place]
    probe = _item_row_of(tmp_path, bad)
    row = {**(other.item(stranger) or {}), "item_id": probe["item_id"]}
    row["collection_id"] = probe["collection_id"]
    free = thing(98)
    pipeline.announce(free)
    pipeline.worker.run_messages()
    row["wal_id"] = pipeline.row(free)["wal_id"]
    backend.sql(insert_statement("stac_items", row), *row.values())
    pipeline.feed(*given)
    pipeline.worker.run_messages()
    found = {each.uri: pipeline.row(each) for each in given}
    refused = found.pop(bad.uri)
    assert {each["status"] for each in found.values()} == {"succeeded"}
    assert (refused["status"], refused["last_error_code"]) == ("failed", "catalog_conflict")
    assert refused["stac_status"] == "failed"
    assert "What to do:" in refused["last_error_message"]
    assert all(pipeline.item(each) for each in given if each is not bad)


def test_a_refusal_names_no_place(
    backend: Backend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A value that the database does not take fails its unit; the text names no database."""
    pipeline = Pipeline(backend, tmp_path)
    pipeline.feed(*things(3))
    real = stac_register.stac_register

    def without_north(*args: Any) -> Any:
        made = real(*args)
        if args[0].id != "goes-glm":
            return made
        box: Any = (*made.item.bbox[:3], None)
        return replace(made, item=replace(made.item, bbox=box))

    monkeypatch.setattr(stac_register, "stac_register", without_north)
    pipeline.worker.run_messages()
    assert pipeline.statuses() == {"failed": 1, "succeeded": 2}
    message = pipeline.row(thing())["last_error_message"]
    assert message.startswith("commit: ")
    assert "north" in message
    for place in (str(tmp_path), "on /", "database "):
        assert place not in message


def test_a_text_that_no_index_takes_harms_no_neighbour(
    postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PostgreSQL has a limit that SQLite has not; what goes beyond it fails its unit alone."""
    backend = prepare("postgres", postgres_url)
    pipeline = Pipeline(backend, tmp_path)
    pipeline.feed(*things(3))
    real, chance = stac_register.stac_register, random.Random(1)

    def with_a_long_name(*args: Any) -> Any:
        made = real(*args)
        name = made.item.item_id
        if args[0].id == "goes-glm":
            name = "".join(chance.choices(string.ascii_letters + string.digits, k=5000))
        return replace(made, item=replace(made.item, item_id=name))

    monkeypatch.setattr(stac_register, "stac_register", with_a_long_name)
    pipeline.worker.run_messages()
    assert pipeline.statuses() == {"failed": 1, "succeeded": 2}
    row = pipeline.row(thing())
    assert row["last_error_code"] == "catalog_conflict"
    assert "index row" in row["last_error_message"]
    backend.close()


def test_a_refusal_of_the_failure_itself_ends_the_worker(backend: Backend, tmp_path: Path) -> None:
    """If the database takes not even the report of a failure, the refusal is raised, once."""
    pipeline = Pipeline(backend, tmp_path)
    pipeline.feed(thing())
    tries: list[str] = []

    def refuse(name: str) -> None:
        if name == "close_attempts":
            tries.append(name)
            raise DataRefused("told to refuse")

    pipeline.stores.runner.database = WatchedDatabase(pipeline.stores.database, refuse)
    with pytest.raises(DataRefused):
        pipeline.worker.run_messages()
    assert len(tries) == 2
    assert pipeline.statuses() == {"in_progress": 1}


def _item_row_of(folder: Path, given: Any) -> dict[str, Any]:
    """Return the item that a unit makes, from a ledger of its own."""
    (folder / "probe").mkdir()
    backend = prepare("sqlite", f"sqlite:///{folder / 'probe' / 'ledger.db'}")
    pipeline = Pipeline(backend, folder / "probe")
    pipeline.feed(given)
    pipeline.drain()
    item = pipeline.item(given)
    backend.close()
    assert item is not None
    return item


@pytest.mark.conformance("WAL-6.7", "SM-7.3a")
def test_a_store_that_is_down_at_the_commit_loses_nothing(backend: Backend, tmp_path: Path) -> None:
    """The error ends the batch, nothing is written or deleted, and a later round finishes it."""
    pipeline = Pipeline(backend, tmp_path)
    given = things(4)
    pipeline.feed(*given)

    def down(name: str) -> None:
        if name == "insert_provenance":
            raise DatabaseUnreachable("told to be down")

    pipeline.stores.runner.database = WatchedDatabase(pipeline.stores.database, down)
    with pytest.raises(DatabaseUnreachable):
        pipeline.worker.run_messages()
    pipeline.stores.runner.database = pipeline.stores.database
    assert pipeline.statuses() == {"in_progress": 4}
    assert pipeline.left() == (0, 4, 0)
    assert backend.sql("SELECT count(*) FROM stac_items") == [(0,)]
    pipeline.replace_worker()
    pipeline.drain()
    assert pipeline.statuses() == {"succeeded": 4}
    assert pipeline.left() == (0, 0, 0)
    assert_effects_follow_the_ledger(backend)


#: More rounds than a unit has attempts.
ROUNDS = 12


def outlast(pipeline: Pipeline, heal: Callable[[], object]) -> list[float]:
    """Run the loop to its end; heal the store after some rounds. Return the rests up to then."""
    rests: list[float] = []

    def rest(seconds: float) -> None:
        rests.append(seconds)
        pipeline.clock.advance(VISIBILITY_S + 1)
        if len(rests) == ROUNDS:
            heal()

    pipeline.loop(sleep=rest).run(Until.DRAINED)
    return rests[:ROUNDS]


@pytest.mark.conformance("C-09", "SM-7.3a")
@pytest.mark.parametrize("number", [1, 40])
def test_a_store_that_takes_claims_and_no_commits_holds_no_unit(
    backend: Backend, tmp_path: Path, number: int
) -> None:
    """More rounds than a unit has attempts cost none of them; the loop rests longer and longer."""
    pipeline = Pipeline(backend, tmp_path, max_attempts=3)
    pipeline.feed(*things(number))

    is_locked = [True]

    def locked(name: str) -> None:
        if is_locked and name == "close_attempts":
            raise DatabaseLocked("told to be locked")

    pipeline.stores.runner.database = WatchedDatabase(pipeline.stores.database, locked)
    rests = outlast(pipeline, is_locked.clear)
    assert rests == [0.1, 0.2, 0.4, 0.8, 1.6, *[2.5] * 7]
    assert pipeline.statuses() == {"succeeded": number}
    handed_back = "SELECT count(*) FROM wal_attempts WHERE error_code = 'handed_back'"
    assert backend.sql(handed_back)[0][0] >= ROUNDS


@pytest.mark.conformance("C-09")
def test_a_unit_whose_commit_brings_the_server_down_is_held_alone(
    backend: Backend, tmp_path: Path
) -> None:
    """The worker lives and comes back each time; in the end the unit is held, and no other."""
    pipeline = Pipeline(backend, tmp_path, max_attempts=3)
    given = things(30)
    pipeline.feed(*given)
    killer, commit = given[17].uri, pipeline.worker._ledger.commit

    def dies(worker: Any, outcomes: Any, effects: Any) -> Any:
        if any(claim.unit.object_uri == killer for claim, _ in outcomes):
            raise DatabaseUnreachable("the server closed the connection")
        return commit(worker, outcomes, effects)

    pipeline.worker._ledger.commit = dies  # type: ignore[method-assign]
    rests: list[float] = []

    def rest(seconds: float) -> None:
        rests.append(seconds)
        assert len(rests) < 100, "it is never found"
        pipeline.clock.advance(VISIBILITY_S + 1)

    pipeline.loop(sleep=rest).run(Until.DRAINED)
    assert pipeline.statuses() == {"quarantined": 1, "succeeded": 29}
    row = pipeline.row(given[17])
    assert (row["status"], row["last_error_code"]) == ("quarantined", "handed_back")
    # With all, with at most sixteen, and three times alone.
    assert row["attempts"] == 5
    assert pipeline.left() == (0, 0, 0)


@pytest.mark.conformance("C-09")
@pytest.mark.parametrize("backend", ["postgres"], indirect=True)
def test_an_index_that_is_built_meanwhile_holds_no_unit(backend: Backend, tmp_path: Path) -> None:
    """Its lock lets claims through and stops every commit, for as long as it takes."""
    backend.url += "&options=-c%20lock_timeout%3D50ms"
    pipeline = Pipeline(backend, tmp_path, max_attempts=3)
    pipeline.feed(*things(20))
    with psycopg.connect(backend.url) as builder:
        builder.execute("LOCK TABLE stac_items IN SHARE MODE")
        assert len(outlast(pipeline, builder.rollback)) == ROUNDS
    assert pipeline.statuses() == {"succeeded": 20}
