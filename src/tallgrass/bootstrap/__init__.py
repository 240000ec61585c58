"""The only wiring: concrete databases, queues, clock, ids and randomness are put together here."""

from tallgrass.bootstrap.ingesting import ingest
from tallgrass.bootstrap.queues import (
    check_queue,
    open_door,
    open_embedded_queue,
    open_held,
    open_queue,
    read_queue_status,
)
from tallgrass.bootstrap.stores import (
    Stores,
    check_database,
    config_version,
    export_ledger,
    import_ledger,
    migrate_database,
    open_current_stores,
    open_database,
    open_stores,
    record_collections,
)
from tallgrass.bootstrap.workers import open_catalogue, open_feeder, open_reader, open_worker
from tallgrass.ingest_loop import LoopReport, Until
from tallgrass.storage.catalog_reader import CatalogView
from tallgrass.storage.exchange import Imported
from tallgrass.storage.health import Health
from tallgrass.storage.ledger_reader import Annotation, HistoryEvent, LedgerStats, RecordFilter
from tallgrass.storage.migrations import SchemaState
from tallgrass.storage.proofs import Counts, applied_etags, count_for_proof, stored_items

__all__ = [
    "Annotation",
    "CatalogView",
    "Counts",
    "Health",
    "HistoryEvent",
    "Imported",
    "LedgerStats",
    "LoopReport",
    "RecordFilter",
    "SchemaState",
    "Stores",
    "Until",
    "applied_etags",
    "check_database",
    "check_queue",
    "config_version",
    "count_for_proof",
    "export_ledger",
    "import_ledger",
    "ingest",
    "migrate_database",
    "open_catalogue",
    "open_current_stores",
    "open_database",
    "open_door",
    "open_embedded_queue",
    "open_feeder",
    "open_held",
    "open_queue",
    "open_reader",
    "open_stores",
    "open_worker",
    "read_queue_status",
    "record_collections",
    "stored_items",
]
