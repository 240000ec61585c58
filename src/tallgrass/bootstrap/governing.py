"""What acts under policies: holds, notes and releases, and the record of configurations."""

from collections.abc import Sequence

from tallgrass.bootstrap.datasets import config_version, open_policies
from tallgrass.bootstrap.stores import Stores
from tallgrass.canonical_json import canonical_bytes
from tallgrass.config import Config
from tallgrass.datasets.catalogue import Catalogue, as_json_value
from tallgrass.errors import GuardRefused, InvalidInput
from tallgrass.governance.actors import Acting, Actor, name_of
from tallgrass.governance.gate import Rule
from tallgrass.ledger.record import WalRecord
from tallgrass.ledger.vocabulary import Status
from tallgrass.storage.config_store import ConfigStore
from tallgrass.storage.interventions import Moved
from tallgrass.storage.ledger_reader import HistoryEvent
from tallgrass.storage.releases import Released, Releases

__all__ = [
    "Moved",
    "Released",
    "Releases",
    "annotate_attempt",
    "config_body",
    "held_by",
    "held_document",
    "hold_units",
    "open_configs",
    "open_releases",
    "record_config",
    "release_units",
    "released_document",
]


def open_releases(config: Config, stores: Stores) -> Releases:
    """Wire what releases units from quarantine."""
    policies = open_policies(config)
    return Releases(stores.runner, stores.approvals, policies, recorder=stores.recorder)


def hold_units(stores: Stores, names: Sequence[str], *, reason: str, by: Acting) -> Moved:
    """Take units out of the flow as they are now; tell which cannot be held, and why."""
    records = [stores.reader.record(name) for name in names]
    if not records:
        raise InvalidInput("say which units are to be held")
    selection = [(record.wal_id, record.version) for record in records]
    return stores.interventions.quarantine(selection, reason=reason, actor=by)


def held_document(held: Moved) -> dict[str, object]:
    """Return what was held, and what was not, as a JSON value."""
    refused = {
        wal_id: {"code": error.code, "message": str(error)}
        for wal_id, error in held.refused.items()
    }
    return {"held": list(held.done), "refused": refused}


def annotate_attempt(
    stores: Stores, name: str, attempt_no: int, *, note: str, by: Acting
) -> dict[str, object]:
    """Write a note to an attempt of a unit; return it as a JSON value."""
    wal_id = stores.reader.record(name).wal_id
    if attempt_no not in {each.attempt_no for each in stores.reader.attempts(wal_id)}:
        raise InvalidInput(f"{wal_id} has no attempt {attempt_no}")
    stores.interventions.annotate(wal_id, attempt_no, actor=by, note=note)
    return {"wal_id": wal_id, "attempt_no": attempt_no, "actor": name_of(by), "note": note}


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
    """Return the transition into quarantine of a unit; one that is not held is refused."""
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
