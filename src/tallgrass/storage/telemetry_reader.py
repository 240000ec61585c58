"""Reading what the specified metrics come to, over all workers that ever wrote to the ledger."""

from collections.abc import Iterator

from tallgrass.storage.unit_of_work import Database, Transaction
from tallgrass.telemetry import names
from tallgrass.telemetry.files import Counted, Numbered

#: Counter → its query; the columns are the metric's labels.
_COUNTERS = {
    names.WAL_RECORDS: "telemetry_wal_records",
    names.WAL_REPLAYS: "telemetry_wal_replays",
}


class TelemetryReader:
    """Counts in one snapshot. A role with read rights suffices."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def read(self) -> tuple[list[Counted], list[Numbered]]:
        """Return all counters, and the attempt numbers of each dataset."""
        with self._database.reading() as tx:
            return list(_counted(tx)), _numbered(tx)


def _counted(tx: Transaction) -> Iterator[Counted]:
    for name, query in _COUNTERS.items():
        labels = names.METRICS[name].labels
        for row in tx.select(query):
            yield Counted(name, tuple(row[label] for label in labels), int(row["number"]))
    for row in tx.select("telemetry_errors"):
        labels = (row["dataset"], row["error_code"])
        yield Counted(names.VALIDATION_ERRORS, labels, int(row["number"]))
    mismatches: dict[str, int] = {}
    for row in tx.select("telemetry_replays"):
        dataset = row["dataset"]
        yield Counted(names.REPLAYS, (dataset, row["reason"]), int(row["number"]))
        mismatches[dataset] = mismatches.get(dataset, 0) + int(row["mismatches"])
    for dataset, number in mismatches.items():
        yield Counted(names.REPLAY_MISMATCHES, (dataset,), number)


def _numbered(tx: Transaction) -> list[Numbered]:
    found: dict[str, dict[int, int]] = {}
    for row in tx.select("telemetry_attempts"):
        found.setdefault(row["dataset"], {})[row["attempt_no"]] = int(row["number"])
    return [Numbered(names.WAL_ATTEMPTS, (dataset,), values) for dataset, values in found.items()]
