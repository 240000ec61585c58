"""What the telemetry files are made of: the ledger, the journals of nodes, the measured energy."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tallgrass.bootstrap.stores import Stores
from tallgrass.clock import Clock, system_clock
from tallgrass.config import Config
from tallgrass.errors import ConfigError, PermanentError, TallgrassError
from tallgrass.nodes.entries import RunState
from tallgrass.nodes.reliability_lines import reliability_lines
from tallgrass.nodes.wal_store import WalStore
from tallgrass.storage.telemetry_reader import TelemetryReader
from tallgrass.telemetry.energy_lines import EnergyTotals, total_energy
from tallgrass.telemetry.files import About, nodd_document, schema

#: Refuses what is not as its schema says.
Check = Callable[[Any], None]


def ingest_telemetry(
    config: Config, stores: Stores, release: str, *, clock: Clock = system_clock
) -> dict[str, Any]:
    """Return the metrics of ingest, with energy and carbon where they were measured."""
    counted, numbered = TelemetryReader(stores.database).read()
    about = About(release=release, env=config.text("env"), at=clock())
    return nodd_document(about, counted, numbered, _energy(config))


def node_telemetry(config: Config, problems: dict[str, TallgrassError]) -> Iterator[dict[str, Any]]:
    """Yield a line for each attempt of each node whose journal is here, if there is any.

    Runs whose journals cannot be read are left out, and stand among the `problems` at the end.
    """
    folder = Path(config.text("nodes.folder")) / "wal"
    if not folder.is_dir():
        return
    yield from reliability_lines(config.text("env"), _runs(WalStore(folder), problems))


def checker(name: str) -> Check:
    """Return what checks documents against a schema that is shipped."""
    try:
        import jsonschema_rs  # noqa: PLC0415 - optional extra
    except ModuleNotFoundError as exc:
        raise ConfigError(
            "telemetry export: jsonschema-rs is not installed", code="telemetry_missing"
        ) from exc
    validator = jsonschema_rs.validator_for(schema(name))

    def check(document: Any) -> None:
        for error in validator.iter_errors(document):
            place = "/".join(str(each) for each in error.instance_path)
            message = f"not as {name} says, at /{place}: {error.message}"
            raise PermanentError(message, code="telemetry_invalid")

    return check


def _runs(store: WalStore, problems: dict[str, TallgrassError]) -> Iterator[RunState]:
    for run_id in store.run_ids():
        try:
            run = store.read(run_id)
        except TallgrassError as error:
            problems[run_id] = error
        else:
            yield run


def _energy(config: Config) -> EnergyTotals | None:
    path = config.text("telemetry.energy_file")
    if not path or not Path(path).is_file():
        return None
    with Path(path).open("rb") as lines:
        return total_energy(lines)
