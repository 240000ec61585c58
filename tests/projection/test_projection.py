"""The copy in pgstac: all of the catalog, each change, never half a batch, whoever is at work."""

from __future__ import annotations

import contextlib
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.bootstrap.projecting import Following, open_projector
from tallgrass.errors import CommitUnknown, DatabaseUnusable, InvalidInput
from tests.projection.scene import (
    change,
    changing,
    copied,
    project,
    projector,
    rename,
    stored,
    waiting,
)
from tests.support.catalog import HOUR, NOON, Known, text_of, write_catalog
from tests.web.scene import ITEMS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.backends import Backend

WAITS_FOR_A_LOCK = "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock'"


def numbered(count: int, first: int = 0) -> list[Known]:
    """Return items of one collection, in order of time and id."""
    return [
        Known(id=f"glm-{number:04}", at=NOON + timedelta(seconds=number))
        for number in range(first, first + count)
    ]


def until_somebody_waits(backend: Backend, done: threading.Event) -> None:
    """Return when a session waits for a lock; fail if all is done before."""
    while not backend.sql(WAITS_FOR_A_LOCK):
        assert not done.wait(0.02), "nobody waited"


def test_the_copy_holds_what_the_catalog_holds(catalog: Backend) -> None:
    """Items with their content, collections with theirs; again there is nothing left to copy."""
    write_catalog(catalog, ITEMS)
    first = open_projector(catalog.config(), catalog.open(), wanted=(), batch=2)
    first.once()
    report = first.report
    assert (report.items, report.without_place) == (6, 1)
    assert copied(catalog) == stored(catalog)
    assert {name for _, name in copied(catalog)} == {item.id for item in ITEMS} - {"glm-3"}
    ours = {
        i: json.loads(b) for i, b in catalog.sql("SELECT collection_id, body FROM stac_collections")
    }
    theirs = catalog.sql("SELECT id, content::text FROM pgstac.collections")
    assert {name: json.loads(body) for name, body in theirs} == ours
    assert report.collections == len(ours) > 50
    again = project(catalog).report
    assert (again.items, again.batches) == (0, 0)


def test_a_change_replaces_the_item_and_nothing_else_is_written(catalog: Backend) -> None:
    """An item that changed twice is copied once; one that is new is added."""
    write_catalog(catalog, ITEMS)
    project(catalog)
    change(catalog, "glm-1", version=2)
    change(catalog, "glm-1", version=3)
    write_catalog(catalog, [Known(id="hrrr-9", collection="hrrr")])
    assert waiting(catalog) == 3
    assert project(catalog).report.items == 2
    assert copied(catalog) == stored(catalog)
    assert copied(catalog)["goes-glm", "glm-1"]["properties"]["version"] == 3
    assert waiting(catalog) == 0


def test_a_changed_collection_is_replaced(catalog: Backend) -> None:
    """Its own document counts, though none of its items changed."""
    write_catalog(catalog, ITEMS)
    project(catalog)
    body = b'{"id":"hrrr","type":"Collection","title":"Renewed"}'
    catalog.sql("UPDATE stac_collections SET body = ?, sha256 = ? WHERE collection_id = 'hrrr'",
                body, "c" * 64)  # fmt: skip
    assert project(catalog).report.batches == 1
    ((title,),) = catalog.sql(
        "SELECT content ->> 'title' FROM pgstac.collections WHERE id = 'hrrr'"
    )
    assert title == "Renewed"
    assert copied(catalog) == stored(catalog)


@pytest.mark.parametrize("trunc", [None, "month"])
def test_an_item_that_moves_in_time_is_there_once(catalog: Backend, trunc: str | None) -> None:
    """Also where pgstac keeps each month in a partition of its own."""
    write_catalog(catalog, numbered(3))
    project(catalog)
    catalog.sql("UPDATE pgstac.collections SET partition_trunc = ? WHERE id = 'goes-glm'", trunc)
    change(catalog, "glm-0001", datetime=text_of(NOON + 24 * 40 * HOUR))
    project(catalog)
    assert copied(catalog) == stored(catalog)
    assert len(copied(catalog)) == 3


def test_an_item_that_loses_its_place_leaves(catalog: Backend) -> None:
    """What pgstac held of it would be wrong, and without a place it cannot hold it."""
    write_catalog(catalog, numbered(2))
    project(catalog)
    catalog.sql("UPDATE stac_items SET west = 999, south = 999, east = 999, north = 999"
                " WHERE item_id = 'glm-0000'")  # fmt: skip
    assert project(catalog).report.without_place == 1
    assert [name for _, name in copied(catalog)] == ["glm-0001"]


def test_an_item_that_got_another_id_is_there_once(catalog: Backend) -> None:
    """The id that it had leaves the copy; one whose copy is still under way, too."""
    write_catalog(catalog, numbered(4))
    first = projector(catalog, batch=2)
    first.prepare(migrate=False, rebuild=False)
    rename(catalog, "glm-0001", "glm-1111")
    first.once()
    assert copied(catalog) == stored(catalog)
    rename(catalog, "glm-0000", "glm-9999")
    assert waiting(catalog) == 2
    report = project(catalog).report
    assert (report.items, report.without_place) == (1, 0)
    assert [name for _, name in sorted(copied(catalog))] == [
        "glm-0002", "glm-0003", "glm-1111", "glm-9999",
    ]  # fmt: skip
    assert copied(catalog) == stored(catalog)


def test_nothing_is_noted_where_nothing_is_copied(catalog: Backend) -> None:
    """Ingest pays for the copy only where there is one, and only for its collections."""
    write_catalog(catalog, numbered(3))
    assert waiting(catalog) == 0
    assert project(catalog, "hrrr").report.items == 0
    write_catalog(catalog, [*numbered(2, first=5), Known(id="hrrr-1", collection="hrrr")])
    assert waiting(catalog) == 1
    project(catalog, "hrrr")
    assert list(copied(catalog)) == [("hrrr", "hrrr-1")]


def test_a_late_commit_is_not_passed_over(catalog: Backend) -> None:
    """A change that was noted before others, but committed after they were copied, is copied."""
    write_catalog(catalog, numbered(2))
    project(catalog)
    with closing(catalog.connect()) as late:
        late.execute("BEGIN")
        statement, *params = changing("glm-0000", _versioned(catalog, "glm-0000"))
        late.execute(statement.replace("?", "%s"), params)
        change(catalog, "glm-0001", version=2)
        assert project(catalog).report.items == 1
        assert "version" not in copied(catalog)["goes-glm", "glm-0000"]["properties"]
        late.execute("COMMIT")
    ((newest,),) = catalog.sql("SELECT last_value FROM stac_changes_change_id_seq")
    ((late_one,),) = catalog.sql("SELECT change_id FROM stac_changes")
    assert late_one < newest, "what was copied has a higher number"
    assert project(catalog).report.items == 1
    assert copied(catalog) == stored(catalog)


def test_a_writer_from_before_the_first_copy_is_waited_for(catalog: Backend) -> None:
    """What it writes was not noted; the copy begins when it has committed."""
    write_catalog(catalog, numbered(2))
    done = threading.Event()
    first = projector(catalog)

    def run() -> None:
        try:
            first.once()
        finally:
            done.set()

    with closing(catalog.connect()) as early, ThreadPoolExecutor(1) as thread:
        early.execute("BEGIN")
        statement, *params = changing("glm-0000", _versioned(catalog, "glm-0000"))
        early.execute(statement.replace("?", "%s"), params)
        running = thread.submit(run)
        until_somebody_waits(catalog, done)
        early.execute("COMMIT")
        running.result()
    assert copied(catalog) == stored(catalog)
    assert copied(catalog)["goes-glm", "glm-0000"]["properties"]["version"] == 2


def test_two_at_once_copy_each_item_once(catalog: Backend) -> None:
    """They take turns at a collection; together they write every item, none of them twice."""
    write_catalog(
        catalog, [*numbered(120), *(Known(id=f"h-{n}", collection="hrrr") for n in range(60))]
    )
    both = [projector(catalog, "goes-glm", "hrrr", batch=7) for _ in range(2)]
    with ThreadPoolExecutor(2) as threads:
        for running in [threads.submit(each.once) for each in both]:
            running.result()
    assert sum(each.report.items for each in both) == 180
    assert copied(catalog) == stored(catalog)
    noted = catalog.sql("SELECT collection_id, items FROM stac_projections ORDER BY 1")
    assert noted == [("goes-glm", 120), ("hrrr", 60)]


def test_following_outlives_a_broken_connection(catalog: Backend) -> None:
    """It says so, and goes on over a new one: what changed meanwhile is copied."""
    write_catalog(catalog, numbered(2))
    waits: list[float] = []
    told: list[str] = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 1:
            change(catalog, "glm-0001", version=2)
            catalog.sql(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND application_name = 'tallgrass'"
            )

    projector(catalog).follow(
        Following(
            every_s=7.0,
            stop=lambda: len(waits) == 3,
            sleep=sleep,
            failed=lambda error: told.append(error.code),
        )
    )
    assert told == ["database_unreachable"]
    assert (waits[0], waits[2]) == (7.0, 7.0)
    assert 0 <= waits[1] <= 1.0, "the first failure waits a second at most"
    assert copied(catalog) == stored(catalog)
    assert copied(catalog)["goes-glm", "glm-0001"]["properties"]["version"] == 2


def test_statistics_are_renewed_behind_the_batches(catalog: Backend) -> None:
    """What pgstac queued for its partitions has run when a run ends; no statement of it failed."""
    write_catalog(catalog, numbered(5))
    project(catalog, batch=2)
    write_catalog(catalog, numbered(5, first=5))
    assert catalog.sql("SELECT count(*) FROM pgstac.query_queue") == [(0,)]
    project(catalog, batch=2)
    assert catalog.sql("SELECT count(*) FROM pgstac.query_queue") == [(0,)]
    assert catalog.sql("SELECT error FROM pgstac.query_queue_history WHERE error IS NOT NULL") == []
    ((low, high),) = catalog.sql(
        "SELECT lower(dtrange)::text, upper(dtrange)::text FROM pgstac.partition_stats"
        " WHERE collection = 'goes-glm'"
    )
    assert (low[:19], high[:19]) == ("2026-06-01 12:00:00", "2026-06-01 12:00:09")


def test_a_batch_that_is_refused_leaves_everything_as_it_was(catalog: Backend) -> None:
    """Neither its items nor where the copy is: mended, it goes on from there."""
    write_catalog(catalog, numbered(6))
    project(catalog)
    write_catalog(catalog, numbered(6, first=6))
    catalog.sql("CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS"
                " $$ BEGIN RAISE 'not this one'; END $$")  # fmt: skip
    catalog.sql("CREATE TRIGGER refuse BEFORE INSERT ON pgstac.items FOR EACH ROW"
                " WHEN (NEW.id = 'glm-0010') EXECUTE FUNCTION refuse()")  # fmt: skip
    with pytest.raises(DatabaseUnusable, match="not this one"):
        project(catalog, batch=3)
    assert sorted(name for _, name in copied(catalog)) == [f"glm-{n:04}" for n in range(9)]
    assert waiting(catalog) == 3
    catalog.sql("DROP TRIGGER refuse ON pgstac.items")
    assert project(catalog, batch=3).report.items == 3
    assert copied(catalog) == stored(catalog)


def test_items_that_pgstac_leaves_out_silently_are_an_error(catalog: Backend) -> None:
    """What arrived is counted: a copy that says less than it was given is not believed."""
    write_catalog(catalog, numbered(4))
    project(catalog)
    catalog.sql("CREATE FUNCTION lose() RETURNS trigger LANGUAGE plpgsql AS"
                " $$ BEGIN RETURN NULL; END $$")  # fmt: skip
    catalog.sql("CREATE TRIGGER lose BEFORE INSERT ON pgstac.items FOR EACH ROW"
                " WHEN (NEW.id = 'glm-0005') EXECUTE FUNCTION lose()")  # fmt: skip
    write_catalog(catalog, numbered(2, first=4))
    with pytest.raises(DatabaseUnusable, match="1 of 2 items arrived") as caught:
        project(catalog)
    assert caught.value.code == "pgstac_refused"
    assert waiting(catalog) == 2


def test_a_rebuilt_copy_is_the_same(catalog: Backend) -> None:
    """What was spoiled or does not belong there is gone; other collections are left alone."""
    write_catalog(catalog, ITEMS)
    project(catalog)
    before = copied(catalog)
    catalog.sql("DELETE FROM pgstac.items WHERE id = 'glm-1'")
    catalog.sql("UPDATE pgstac.items SET content = content || '{\"properties\": {}}'"
                " WHERE id IN ('glm-2', 'hrrr-1')")  # fmt: skip
    change(catalog, "glm-2", version=2)
    change(catalog, "glm-2", version=2)
    again = projector(catalog, "goes-glm")
    again.prepare(migrate=False, rebuild=True)
    assert {name for name, _ in copied(catalog)} == {"hrrr", "nexrad-l2"}
    again.once()
    assert again.report.items == 2
    found = copied(catalog)
    assert found["goes-glm", "glm-1"] == before["goes-glm", "glm-1"]
    assert found["goes-glm", "glm-2"] == stored(catalog)["goes-glm", "glm-2"]
    assert found["hrrr", "hrrr-1"]["properties"] == {}
    whole = projector(catalog)
    whole.prepare(migrate=False, rebuild=True)
    whole.once()
    assert copied(catalog) == stored(catalog)
    assert waiting(catalog) == 0


def test_a_copy_that_is_forgotten_is_no_longer_kept(catalog: Backend) -> None:
    """What it holds stays; changes are noted for the other collections alone, then for none."""
    write_catalog(catalog, ITEMS)
    project(catalog, "goes-glm", "hrrr")
    before = copied(catalog)
    change(catalog, "glm-1", version=2)
    assert projector(catalog, "goes-glm").forget() == 1
    change(catalog, "glm-1", version=3)
    change(catalog, "hrrr-1", version=3)
    assert catalog.sql("SELECT item_id FROM stac_changes") == [("hrrr-1",)]
    assert projector(catalog).forget() == 1
    change(catalog, "hrrr-1", version=4)
    assert waiting(catalog) == 0
    assert copied(catalog) == before
    assert project(catalog).report.items == 6
    assert copied(catalog) == stored(catalog)


class LosingDatabase:
    """A database that loses its first COMMIT with its connection: landed or not, nobody knows."""

    def __init__(self, database: Any, *, landed: bool) -> None:
        self._database = database
        self._landed = landed
        self._begun = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Any]:
        """Begin; the first ends without an answer."""
        self._begun += 1
        is_lost = self._begun == 1
        with contextlib.suppress(Undone), self._database.transaction() as transaction:
            yield transaction
            if is_lost and not self._landed:
                raise Undone
        if is_lost:
            raise CommitUnknown("the connection broke during COMMIT")


class Undone(Exception):
    """Rolls a transaction back."""


@pytest.mark.parametrize("landed", [False, True])
def test_a_commit_without_an_answer_is_not_taken_for_done(
    catalog: Backend, *, landed: bool
) -> None:
    """What was asked for once is told as an error, or is asked about: it is done in the end."""
    write_catalog(catalog, numbered(2))
    stores = catalog.open()
    stores.runner._sleep = lambda _: None
    database = stores.runner.database
    made = open_projector(catalog.config(), stores, wanted=("goes-glm",), batch=10)

    def lose_a_commit() -> None:
        stores.runner.database = LosingDatabase(database, landed=landed)

    lose_a_commit()
    with pytest.raises(CommitUnknown):
        made.once()
    made.once()
    catalog.sql("DELETE FROM pgstac.items WHERE id = 'glm-0001'")
    lose_a_commit()
    with pytest.raises(CommitUnknown):
        made.prepare(migrate=False, rebuild=True)
    made.prepare(migrate=False, rebuild=True)
    made.once()
    assert copied(catalog) == stored(catalog)
    lose_a_commit()
    assert made.forget() == 1
    assert catalog.sql("SELECT * FROM stac_projections") == []


def test_a_collection_that_is_not_there_is_refused(catalog: Backend) -> None:
    """A slip of the pen must not look like an empty collection."""
    write_catalog(catalog, ITEMS)
    with pytest.raises(InvalidInput, match="no collection goes-gml"):
        project(catalog, "goes-gml")


def _versioned(catalog: Backend, name: str) -> bytes:
    """Return the bytes of an item with a property more."""
    ((body,),) = catalog.sql("SELECT body FROM stac_items WHERE item_id = ?", name)
    document = json.loads(body)
    document["properties"]["version"] = 2
    return json.dumps(document).encode()
