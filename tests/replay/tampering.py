"""Raw SQL against a ledger whose guards are out of the way: what only verification can find."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.support.backends import Backend


def tamper(backend: Backend, statement: str, *params: object) -> None:
    """Run a statement that the triggers would refuse (`?` for parameters on both)."""
    connection = backend.connect()
    try:
        if backend.name == "postgres":
            # As a replica, which no trigger and no foreign key holds back.
            connection.execute("SET session_replication_role = replica")
            statement = statement.replace("?", "%s")
        else:
            connection.execute("PRAGMA foreign_keys = OFF")
            names = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger'")
            for (name,) in names.fetchall():
                connection.execute(f"DROP TRIGGER {name}")
        changed = connection.execute(statement, params).rowcount
        assert changed == 1, statement
    finally:
        connection.close()
