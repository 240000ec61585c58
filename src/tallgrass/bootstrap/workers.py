"""Wires a worker: its queue, its reader of objects, its operators and its stores."""

import uuid
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import tallgrass
from tallgrass.bootstrap.datasets import config_version, open_catalogue
from tallgrass.bootstrap.door import open_door, open_held
from tallgrass.bootstrap.stores import Stores
from tallgrass.clock import Clock, system_clock
from tallgrass.config import Config
from tallgrass.datasets.catalogue import Catalogue
from tallgrass.datasets.definition import Dataset, FileFormat
from tallgrass.errors import ConfigError
from tallgrass.evidence.cloud_objects import CloudObjects, standard_s3_credentials
from tallgrass.evidence.hdf5_children import Hdf5Children
from tallgrass.evidence.object_store import LocalObjects, OneFile
from tallgrass.evidence.readers import EventEvidenceReader, ObjectEvidenceReader
from tallgrass.evidence.reading import EvidenceReader
from tallgrass.ledger.claim import WorkerLease
from tallgrass.ledger.unit import IngestUnit
from tallgrass.operators.context import ChainContext
from tallgrass.operators.run_unit import match_of
from tallgrass.poison_feeding import PoisonFeeder, as_a_worker_reads
from tallgrass.queues.door import Door
from tallgrass.queues.held import HeldMessages
from tallgrass.queues.protocol import Queue
from tallgrass.telemetry.recorder import NOBODY, Recorder
from tallgrass.worker import Worker

#: Objects of a cloud read at the same time; a read waits for the network nearly all its time.
_CLOUD_READS_MAX = 32
#: With the longest read (70 s) on top, still within a message's hidden time of 300 s.
_CLOUD_BATCH_S_MAX = 120.0


def open_file_reader(file: Path, dataset: Dataset) -> ObjectEvidenceReader:
    """Return what reads one file as an object of a dataset; close it at the end."""
    return ObjectEvidenceReader(
        OneFile(file.absolute()),
        lambda _unit: dataset.format,
        threads=1,
        attributes=_open_attributes(),
    )


def open_reader(config: Config, catalogue: Catalogue) -> EvidenceReader:
    """Return what reads objects: clouds, a folder, or nothing but the event."""
    url = config.text("objects.url")
    if url == "event":
        return EventEvidenceReader()

    def format_of(unit: IngestUnit) -> FileFormat | None:
        # By the key, as the operators judge it: of an unknown layout only its name tells.
        match = match_of(unit, catalogue)
        return None if match is None else match.dataset.format

    if url == "cloud":
        return ObjectEvidenceReader(
            open_clouds(config),
            format_of,
            threads=_CLOUD_READS_MAX,
            deadline_s=_CLOUD_BATCH_S_MAX,
            attributes=_open_attributes(),
        )
    require_objects(config)
    folder = Path(url.removeprefix("file:"))
    return ObjectEvidenceReader(LocalObjects(folder), format_of, attributes=_open_attributes())


def require_objects(config: Config) -> None:
    """Refuse a configuration whose folder of objects is not there."""
    url = config.text("objects.url")
    if url not in {"event", "cloud"} and not (folder := Path(url.removeprefix("file:"))).is_dir():
        raise ConfigError(
            f"objects.url: there is no folder {folder}; for objects in public buckets say"
            " --objects cloud, or set TALLGRASS_OBJECTS_URL=cloud"
        )


def _open_attributes() -> Hdf5Children | None:
    """Return what reads attributes of HDF5; without the extra `formats` nothing does."""
    return None if find_spec("h5py") is None else Hdf5Children()


def open_clouds(config: Config) -> CloudObjects:
    """Return the objects of the clouds, with the configured address and rights."""
    signed = config.flag("objects.signed")
    return CloudObjects(
        endpoint_url=config.text("objects.endpoint_url"),
        signed=signed,
        s3_credentials=standard_s3_credentials() if signed else None,
    )


def open_worker(  # noqa: PLR0913 - everything can be passed in
    config: Config,
    stores: Stores,
    lease: WorkerLease,
    *,
    queue: Queue | None,
    reader: EvidenceReader | None = None,
    catalogue: Catalogue | None = None,
    recorder: Recorder = NOBODY,
    clock: Clock = system_clock,
    door: Door | None = None,
    held: HeldMessages | None = None,
) -> Worker:
    """Wire a worker that holds a lease."""
    catalogue = catalogue or open_catalogue(config)
    door = door or open_door(config, recorder)
    now = clock()
    return Worker(
        lease=lease,
        ledger=stores.ledger,
        queue=queue,
        poison=stores.poison,
        reader=reader or open_reader(config, catalogue),
        catalogue=catalogue,
        context=ChainContext(
            code_version=tallgrass.__version__,
            config_version=config_version(config, catalogue),
            worker_id=lease.worker_id,
            ingest_run_id=lease.ingest_run_id,
            started_at=now,
            ended_at=now,
            rules=config.rules,
            routing=config.routing,
        ),
        recorder=recorder,
        clock=clock,
        held=held or open_held(config),
        batch_size=config.integer("worker.batch"),
        providers=config.rules.providers,
        admit=door.admit,
        confirm=door.confirm,
    )


def open_feeder(
    config: Config,
    stores: Stores,
    *,
    ids: Callable[[], uuid.UUID] = uuid.uuid4,
) -> PoisonFeeder:
    """Wire what feeds poison messages again; it reads a body as a worker of this queue would."""
    queue_name = config.text("queue.name")
    read = as_a_worker_reads(
        queue_name,
        open_catalogue(config),
        config.rules.providers,
        open_door(config).admit,
    )
    return PoisonFeeder(stores.poison, queue_name=queue_name, read=read, ids=ids)
