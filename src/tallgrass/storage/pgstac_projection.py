"""The catalog's copy in pgstac, beside it in the same PostgreSQL, for stock servers to read.

A batch is one transaction: the collection's lock, the next items, where the copy is now, and the
upsert by pypgstac. So the copy never runs ahead of its place nor behind it, and whoever is killed
in between leaves nothing half done. The tables remain the truth: the copy can be made again.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from pypgstac.db import PgstacDB
from pypgstac.load import Loader, Methods
from pypgstac.migrate import Migrate
from pypgstac.version import __version__ as own_version

from tallgrass.errors import DatabaseUnusable, InvalidInput, TallgrassError, TransactionConflict
from tallgrass.storage.driver_errors import from_postgres
from tallgrass.storage.postgres import PostgresTransaction
from tallgrass.storage.transaction_runner import Result, TransactionRunner
from tallgrass.storage.unit_of_work import Row, Transaction

# Its warnings tell of what is raised here as an error.
logging.getLogger("pypgstac").setLevel(logging.CRITICAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied:
    """What one batch did."""

    items: int = 0
    #: Items that pgstac cannot hold, as they have no geometry.
    without_place: int = 0
    has_more: bool = False


class PgstacProjection:
    """Copies collections and items; any number of processes may do it at once."""

    def __init__(self, runner: TransactionRunner, url: str) -> None:
        self._runner = runner
        self._url = url
        self._place = runner.database.place

    def require_usable(self) -> str:
        """Return the version of pgstac in the database; refuse one that cannot be written to."""
        with self._runner.database.reading() as tx:
            statements = _statements(tx)
            self._require_postgis(statements)
            if not statements.select("facts")[0]["has_pgstac"]:
                raise DatabaseUnusable(f"{self._place} has no pgstac", code="pgstac_schema_missing")
            found = str(statements.select("pgstac_version")[0]["version"])
        if found.split(".")[:2] != own_version.split(".")[:2]:
            message = f"{self._place} has pgstac {found}; pypgstac {own_version} is installed"
            raise DatabaseUnusable(message, code="pgstac_schema_other")
        return found

    def install(self) -> str:
        """Bring pgstac's own tables to the version of the installed pypgstac; return it."""
        with self._runner.database.reading() as tx:
            self._require_postgis(_statements(tx))
        try:
            with psycopg.connect(self._url, autocommit=True) as connection:
                return str(Migrate(_GivenConnection(connection)).run_migration())
        except psycopg.Error as exc:
            raise from_postgres(
                exc, exc.sqlstate, self._place, connected=True, committing=False
            ) from exc
        except Exception as exc:  # it has no classes of its own
            raise _refused(exc) from exc

    def register(self, wanted: Sequence[str] = ()) -> list[str]:
        """Copy these collections from now on, or all there are; return their ids in order."""
        with self._runner.database.reading() as tx:
            known = {
                row["collection_id"]: row["is_projected"]
                for row in _statements(tx).select("known_collections")
            }
        unknown = sorted(set(wanted) - known.keys())
        if unknown:
            raise InvalidInput(f"the catalog has no collection {', '.join(unknown)}")
        chosen = [name for name in known if not wanted or name in wanted]
        new = [name for name in chosen if not known[name]]
        if new:
            self._run(lambda statements: _add(statements, new))
        return chosen

    def waiting(self) -> list[str]:
        """Return the collections that have something to copy."""
        with self._runner.database.reading() as tx:
            rows = _statements(tx).select("waiting_collections")
        return [row["collection_id"] for row in rows]

    def copy_batch(self, collection_id: str, size: int) -> Copied:
        """Copy the next items of a collection: those never copied first, then those that changed.

        If the connection breaks during COMMIT, nothing need be known: the next batch begins
        wherever the database says.
        """
        return self._run(lambda statements: _copy(statements, collection_id, size), _never_mind)

    def restart(self, collection_id: str) -> None:
        """Empty the copy of a collection, so that it is made again from its first item."""

        def work(statements: PostgresTransaction) -> None:
            statements.execute("restart_projection", collection_id=collection_id)
            statements.execute("forget_changes", collection_id=collection_id)
            statements.execute("drop_collection", collection_id=collection_id)

        self._run(work)

    def forget(self, wanted: Sequence[str] = ()) -> list[str]:
        """Copy these collections no longer, or none; return those that were copied until now.

        What pgstac has of them stays in it.
        """

        def work(statements: PostgresTransaction) -> list[str]:
            # Who writes items now has noted them for a copy that is still there: first they finish.
            statements.execute("lock_items")
            copied = [row["collection_id"] for row in statements.select("projections")]
            forgotten = [name for name in copied if not wanted or name in wanted]
            for name in forgotten:
                statements.execute("forget_projection", collection_id=name)
                statements.execute("forget_changes", collection_id=name)
            if forgotten == copied:
                statements.execute("note_no_changes")
            return forgotten

        return self._run(work, _are_forgotten)

    def run_queued(self) -> bool:
        """Run one statement of pgstac's queue: statistics of partitions; False if it is empty."""

        def work(statements: PostgresTransaction) -> bool:
            statements.select("use_pgstac")
            return bool(statements.select("run_queued")[0]["has_run"])

        return self._run(work, _never_mind)

    def _run(self, work: "_Work[Result]", landed: "_Landed[Result] | None" = None) -> Result:
        """Run work in a transaction.

        If the connection breaks during COMMIT, `landed` asks whether it came through; without it
        that is an error, and the call may be repeated.
        """
        if landed is None:
            return self._runner.run(lambda tx: work(_statements(tx)))
        return self._runner.run(
            lambda tx: work(_statements(tx)),
            lambda tx, result: landed(_statements(tx), result),
        )

    def _require_postgis(self, statements: PostgresTransaction) -> None:
        if not statements.select("facts")[0]["has_postgis"]:
            raise DatabaseUnusable(
                f"the server of {self._place} has no PostGIS", code="postgis_missing"
            )


_Work = Callable[[PostgresTransaction], Result]
_Landed = Callable[[PostgresTransaction, Result], bool]


def _never_mind(_statements: PostgresTransaction, _result: object) -> bool:
    """Tell that nothing need be known: the next call begins wherever the database says."""
    return True


def _are_forgotten(statements: PostgresTransaction, forgotten: Sequence[str]) -> bool:
    """Tell whether none of the collections is copied any longer."""
    copied = {row["collection_id"] for row in statements.select("projections")}
    return copied.isdisjoint(forgotten)


def _statements(tx: Transaction) -> PostgresTransaction:
    """Return the same transaction with the statements of the copy."""
    return PostgresTransaction(tx.connection, "postgres_projection")  # type: ignore[attr-defined]


def _add(statements: PostgresTransaction, collection_ids: Sequence[str]) -> None:
    statements.execute("lock_items")
    for name in collection_ids:
        statements.execute("add_projection", collection_id=name)
    statements.execute("note_changes")


def _copy(statements: PostgresTransaction, collection_id: str, size: int) -> Copied:
    found = statements.select("projection", collection_id=collection_id)
    if not found:  # forgotten meanwhile
        return Copied()
    projection = found[0]
    batch = _next_batch(statements, collection_id, projection["copied_to"], size)
    statements.execute(
        "move_projection",
        collection_id=collection_id,
        copied_to=batch.copied_to,
        collection_sha256=projection["sha256"],
        items=len(batch.placed),
    )
    # Behind all that reads our own tables: from here on names are pgstac's.
    statements.select("use_pgstac")
    statements.select("queue_statistics")
    _write(statements, collection_id, projection, batch)
    return Copied(
        items=len(batch.placed), without_place=len(batch.placeless), has_more=batch.has_more
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Batch:
    """Items to write, by id, and where the copy is behind them."""

    placed: Mapping[str, str]
    placeless: Sequence[str]
    #: Ids that their items no longer have.
    gone: Sequence[str]
    copied_to: str | None
    has_more: bool


def _next_batch(
    statements: PostgresTransaction, collection_id: str, copied_to: str | None, size: int
) -> _Batch:
    if copied_to is None:
        rows = statements.select("take_changes", collection_id=collection_id, size=size)
    else:
        rows = statements.select(
            "next_items", collection_id=collection_id, copied_to=copied_to, size=size
        )
        copied_to = rows[-1]["item_id"] if len(rows) == size else None
    # Behind the last item come the changes that were noted meanwhile.
    has_more = copied_to is not None or bool(
        statements.select("has_changes", collection_id=collection_id)
    )
    return _Batch(
        placed={row["item_id"]: row["body"] for row in rows if row["has_place"]},
        placeless=[row["item_id"] for row in rows if row["has_place"] is False],
        gone=[row["item_id"] for row in rows if row["body"] is None],
        copied_to=copied_to,
        has_more=has_more,
    )


def _write(
    statements: PostgresTransaction, collection_id: str, projection: Row, batch: _Batch
) -> None:
    """Upsert by pypgstac; what it took is counted, as it may leave out items without an error."""
    loader = _BatchLoader(_GivenConnection(statements.connection))
    try:
        if projection["collection_changed"]:
            loader.load_collections(iter([projection["body"]]), Methods.upsert)
        if batch.placed:
            loader.load_items(iter(batch.placed.values()), _method(statements, collection_id))
    except psycopg.errors.CheckViolation as exc:
        # Another process renewed the partition's range between a look at it and the insert.
        raise TransactionConflict(f"pgstac: {exc}") from exc
    except (psycopg.Error, TallgrassError):
        raise
    except Exception as exc:  # it has no classes of its own
        raise _refused(exc) from exc
    if left := [*batch.placeless, *batch.gone]:
        statements.execute("drop_items", collection_id=collection_id, rows=left)
    found = statements.select("count_items", collection_id=collection_id, rows=list(batch.placed))
    if found[0]["items"] != len(batch.placed):
        raise _refused(f"{collection_id}: {found[0]['items']} of {len(batch.placed)} items arrived")


def _method(statements: PostgresTransaction, collection_id: str) -> Methods:
    """Return how to replace items; in more partitions than one, an item may have to move."""
    found = statements.select("partition_trunc", collection_id=collection_id)
    return Methods.upsert if found[0]["partition_trunc"] is None else Methods.delsert


def _refused(why: object) -> DatabaseUnusable:
    return DatabaseUnusable(f"pgstac: {why}", code="pgstac_refused")


class _GivenConnection(PgstacDB):
    """pypgstac on a connection of ours; it would open a pool of its own beside it."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        super().__init__(connection=connection)
        self._given = connection

    def connect(self) -> psycopg.Connection[Any]:
        """Return the connection."""
        return self._given


class _BatchLoader(Loader):
    """Loads once: a loader that waits to try again would hold the locks of the batch meanwhile."""

    def load_partition(self, *args: Any, **kwargs: Any) -> None:  # type: ignore[override]
        """Load items of one partition."""
        Loader.load_partition.__wrapped__(self, *args, **kwargs)
