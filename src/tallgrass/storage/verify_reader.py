"""Units with all that is stored of their success, for verification: read only, page by page."""

from collections.abc import Sequence

from tallgrass.ledger.unit import EventMetadata
from tallgrass.ledger.vocabulary import Intent
from tallgrass.replay.recompute import AppliedAttempt
from tallgrass.replay.verify import StoredUnit
from tallgrass.storage.rows import instant, object_from, unit_from
from tallgrass.storage.unit_of_work import Database, Row


class VerifyReader:
    """Reads what is stored of units."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def units(self, wal_ids: Sequence[str]) -> list[StoredUnit]:
        """Return the units of these ids, in order of id, each as one moment shows it."""
        with self._database.reading() as tx:
            rows = tx.select("units_to_verify", rows=list(wal_ids))
        return [_stored(row) for row in rows]


def _stored(row: Row) -> StoredUnit:
    has_item = row["item_id"] is not None
    return StoredUnit(
        wal_id=row["wal_id"],
        dataset=row["dataset"],
        object_uri=row["object_uri"],
        applied=None if row["attempt_no"] is None else _applied(row),
        named_item=(row["stac_collection_id"], row["stac_item_id"]),
        item=(row["collection_id"], row["item_id"]) if has_item else None,
        item_body=row["item_body"],
        item_sha256=row["item_sha256"],
        provenance_body=row["provenance_body"],
        provenance_sha256=row["provenance_sha256"],
        made_item_sha256=row["made_item_sha256"],
        made_provenance_sha256=row["made_provenance_sha256"],
    )


def _applied(row: Row) -> AppliedAttempt:
    return AppliedAttempt(
        # Only the run part of provenance tells of the event, and that is not compared.
        unit=unit_from(row, object_from(row), EventMetadata(event_time=instant(row["event_time"]))),
        attempt_no=row["attempt_no"],
        intent=Intent(row["intent"]),
        replay_run_id=row["replay_run_id"],
        evidence=row["evidence"],
        code_version=row["code_version"],
        config_version=row["config_version"],
    )
