"""The only wiring: concrete databases, queues, clock, ids and randomness are put together here.

Command line, API, pages and programs reach databases and queues through these modules alone. Read
`stores` first, which opens the database and everything in it, then `ingesting`, which runs one
worker from its first lease to its end. The others follow the same pattern: they take a `Config`,
open what they need, and do one job.

Wiring
    stores              the database and every store over it, opened when first used
    store_pool          stores for many threads
    queues              the queue: embedded, or SQS
    datasets            the catalogue of datasets, and the policies they stand under
    workers             a worker with its reader of objects, its operators and its stores
    sinks               targets of events
    schemas             where JSON Schemas are found
    telemetry           the recorder of a process: log, Prometheus, collector
    metering            the energy meter around a recorder
    listening           sockets that are bound before their address is told
    views, proofs       types and readers of storage, for modules that may not import it

Ingest
    ingesting           one worker process, until it is stopped or its work is done
    door                signatures checked, and messages kept hidden, as they come in
    feeding             poison messages fed to the queue again

Replay
    planning            a plan over the ledger, by reading only
    plan_making         plans for the pages and the API, bounded in size
    kept_plans          plans that a server keeps until their run has ended
    replay_preparing    every guard asked, before a run begins
    replaying           one run, from its registration to its report
    replay_runs         runs and their records, read
    replay_reporting    telemetry of replays, drains and backfills
    previewing          what a re-run would change in items
    verifying           every item made again from its evidence, and compared

Dead letters
    dead_letters        where dead letters lie, and the queue of a run
    drain_preparing     every guard asked, before a drain begins
    draining            letters classified, planned, drained, reported and closed

Inventory
    inventory           what buckets and lists of objects hold
    backfilling         objects that no notification brought are made due
    following           a bucket followed: what is asked for, checked and begun
    follow_rounds       its buckets listed again and again, and what is new worked on
    reconciling         bucket, ledger and catalog compared
    reconcile_report    what a comparison found, as a document
    retaining           old rows moved to archives, and archives searched
    retention_run       one run of retention

Governance
    governing           units held, annotated and released; configurations kept by their hash
    approving           approvals asked for and listed
    enrolling           actors added, and given new tokens
    switching           kill switches turned
    auditing            the audit log sealed, and its chain checked
    audit_anchors       the anchor file: heads of the chain, outside the database

Outbox
    outbox              dispatchers that deliver events
    outbox_status       events by target, and exhausted ones sent again
    publishing          a publisher for pipelines of your own

Nodes
    nodes               a runner of reliable nodes under the configured governance
    node_clearing       failed nodes run again by approval
    node_lineage        lineage of nodes into the outbox
    node_reports        journals of nodes, read

Catalog
    catalog             the STAC API, exports, and collections kept up to date
    named_collections   names of collections, refused where there is none
    footprints          where the newest items lie
    projecting          the copy in pgstac
    validating          the catalog against STAC and its extensions

Reports
    overview            the whole pipeline at one moment
    health              backlogs, ages, freshness and promises
    health_metrics      the same as gauges for Prometheus
    units               one unit with everything that is known of it; units found by name
    queue_report        the queue as a document
    config_report       the configuration as a document, without credentials
    telemetry_files     what the telemetry files of a release are made of
    backing_up          copies of ledger and embedded queue
"""
