"""What acts under policies: releases from quarantine, and the record of configurations."""

from collections.abc import Sequence

from tallgrass.bootstrap.datasets import open_policies
from tallgrass.bootstrap.stores import Stores, config_version
from tallgrass.canonical_json import canonical_bytes
from tallgrass.config import Config
from tallgrass.datasets.catalogue import Catalogue, as_json_value
from tallgrass.errors import GuardRefused, InvalidInput
from tallgrass.governance.actors import Actor
from tallgrass.governance.gate import Rule
from tallgrass.ledger.record import WalRecord
from tallgrass.ledger.vocabulary import Status
from tallgrass.storage.config_store import ConfigStore
from tallgrass.storage.ledger_reader import HistoryEvent
from tallgrass.storage.releases import Released, Releases
from tallgrass.telemetry.recorder import NOBODY, Recorder

__all__ = [
    "Released",
    "Releases",
    "config_body",
    "held_by",
    "open_configs",
    "open_releases",
    "record_config",
    "release_units",
    "released_document",
]


def open_releases(config: Config, stores: Stores, *, recorder: Recorder = NOBODY) -> Releases:
    """Wire what releases units from quarantine."""
    policies = open_policies(config)
    return Releases(stores.runner, stores.approvals, policies, recorder=recorder)


def release_units(
    config: Config, stores: Stores, names: Sequence[str], *, approval_id: str | None, by: Actor
) -> Released:
    """Let quarantined units go on: all of them, under an approval for exactly these."""
    units = [stores.reader.record(name).wal_id for name in names]
    if not units:
        raise InvalidInput("say which units are to be released")
    if approval_id is None:
        message = "nothing leaves quarantine without one; `tallgrass approvals request` asks"
        refused = GuardRefused(message, guard=Rule.APPROVAL_MISSING.value)
        raise stores.actors.refuse(by.name, "release", refused, subject=units[0])
    return open_releases(config, stores).release(units, approval_id=approval_id, by=by)


def released_document(released: Released) -> dict[str, object]:
    """Return a release as a JSON value."""
    approval = released.approval
    return {
        "released": released.wal_ids,
        "approval_id": approval.approval_id,
        "reason": approval.reason,
        "requested_by": approval.requested_by,
        "approved_by": [each.actor for each in approval.decisions if each.counts],
    }


def held_by(stores: Stores, record: WalRecord) -> HistoryEvent:
    """Return the edge into quarantine; a unit that is not held is refused."""
    if record.status is not Status.QUARANTINED:
        raise InvalidInput(f"{record.wal_id} is {record.status.value}, not quarantined")
    into = [
        event
        for event in stores.reader.history(record.wal_id)
        if event.to_status == Status.QUARANTINED.value != event.from_status
    ]
    return into[-1]


def open_configs(stores: Stores) -> ConfigStore:
    """Wire what keeps configurations by their hash."""
    return ConfigStore(stores.runner)


def record_config(stores: Stores, config: Config, catalogue: Catalogue) -> str:
    """Keep the configuration that attempts will name; return its version."""
    version = config_version(config, catalogue)
    configs = open_configs(stores)
    if configs.body(version) is None:
        configs.put(version, config_body(config, catalogue))
    return version


def config_body(config: Config, catalogue: Catalogue) -> bytes:
    """Return all that shapes outputs: the settings, and the datasets with their policies."""
    datasets = {dataset.id: as_json_value(dataset) for dataset in catalogue.datasets}
    return canonical_bytes({"settings": config.shaping, "datasets": datasets})
