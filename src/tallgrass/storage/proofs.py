"""Raw counts by which the promises of the ledger are checked."""

from collections.abc import Callable

from tallgrass.storage.unit_of_work import Database

#: A named count, with its parameters.
Counts = Callable[..., int]


def count_for_proof(database: Database) -> Counts:
    """Return a function that counts rows by a statement of ``proofs.sql``."""

    def count(name: str, **params: object) -> int:
        with database.reading() as tx:
            return int(tx.select(name, **params)[0]["found"])

    return count
