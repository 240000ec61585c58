"""The only wiring: concrete databases, queues, clock, ids and randomness are put together here."""

from tallgrass.bootstrap.ingesting import ingest
from tallgrass.bootstrap.outbox import DispatchResult, chosen_targets, dispatch
from tallgrass.bootstrap.planning import Plan, PlanRequest, open_plan
from tallgrass.bootstrap.previewing import Preview, preview
from tallgrass.bootstrap.queues import (
    check_queue,
    open_door,
    open_embedded_queue,
    open_held,
    open_queue,
    read_queue_status,
)
from tallgrass.bootstrap.replay_preparing import Prepared, ReplayRequest, prepare_replay
from tallgrass.bootstrap.replaying import RunOptions, own_worker, run_replay, run_rules
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
from tallgrass.bootstrap.verifying import VerifyRequest, verify
from tallgrass.bootstrap.workers import (
    open_catalogue,
    open_feeder,
    open_file_reader,
    open_policies,
    open_reader,
    open_worker,
)
from tallgrass.ingest_loop import LoopReport, Until
from tallgrass.outbox.dispatch_loop import DispatchUntil
from tallgrass.storage.catalog_reader import CatalogView, ProjectionLag
from tallgrass.storage.exchange import Imported
from tallgrass.storage.health import Health
from tallgrass.storage.ledger_reader import Annotation, HistoryEvent, LedgerStats, RecordFilter
from tallgrass.storage.migrations import SchemaState
from tallgrass.storage.proofs import Counts, applied_etags, count_for_proof, stored_items

__all__ = [
    "Annotation",
    "CatalogView",
    "Counts",
    "DispatchResult",
    "DispatchUntil",
    "Health",
    "HistoryEvent",
    "Imported",
    "LedgerStats",
    "LoopReport",
    "Plan",
    "PlanRequest",
    "Prepared",
    "Preview",
    "ProjectionLag",
    "RecordFilter",
    "ReplayRequest",
    "RunOptions",
    "SchemaState",
    "Stores",
    "Until",
    "VerifyRequest",
    "applied_etags",
    "check_database",
    "check_queue",
    "chosen_targets",
    "config_version",
    "count_for_proof",
    "dispatch",
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
    "open_file_reader",
    "open_held",
    "open_plan",
    "open_policies",
    "open_queue",
    "open_reader",
    "open_stores",
    "open_worker",
    "own_worker",
    "prepare_replay",
    "preview",
    "read_queue_status",
    "record_collections",
    "run_replay",
    "run_rules",
    "stored_items",
    "verify",
]
