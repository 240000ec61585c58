"""Kinds of sinks by name: ours, and those of installed packages (entry points).

Nothing of a sink is imported before a target of its kind is opened: the library for AWS alone takes
half a second.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from tallgrass.errors import ConfigError, TallgrassError, did_you_mean
from tallgrass.sinks.protocol import ENTRY_POINTS, Sink, SinkFactory
from tallgrass.sinks.resources import SinkResources

#: Kind → module and factory. Ours alone get resources: no outsider holds the catalog in its hands.
_OURS = {
    "file": "tallgrass.sinks.file:open_file",
    "graph-store": "tallgrass.sinks.graph_store:open_graph_store",
    "notify": "tallgrass.sinks.notify:open_notify",
    "openlineage": "tallgrass.sinks.openlineage:open_openlineage",
    "sns": "tallgrass.sinks.sns:open_sns",
    "sqs": "tallgrass.sinks.sqs:open_sqs",
    "stac-api": "tallgrass.sinks.stac_api:open_stac_api",
    "webhook": "tallgrass.sinks.webhook:open_webhook",
}
#: What an extra brings; without it the kind is known but cannot be opened.
_EXTRAS = {"sns": "aws", "sqs": "aws"}


def kinds() -> tuple[str, ...]:
    """Return the names of all kinds that can be opened here, in order."""
    return tuple(sorted({*_OURS, *(point.name for point in _installed())}))


def open_sink(
    kind: str, settings: Mapping[str, object], resources: SinkResources | None = None
) -> Sink:
    """Make a sink of a kind; ConfigError says what is wrong with its settings."""
    if kind in _OURS:
        return _open_ours(kind, settings, resources or SinkResources())
    for point in _installed():
        if point.name == kind:
            return _open_installed(point, settings)
    known = kinds()
    hint = did_you_mean(kind, known)
    raise ConfigError(f"there is no kind of target {kind!r}{hint} (known: {', '.join(known)})")


def _installed() -> list[EntryPoint]:
    return sorted(entry_points(group=ENTRY_POINTS), key=lambda point: point.name)


def _open_ours(kind: str, settings: Mapping[str, object], resources: SinkResources) -> Sink:
    module, _, name = _OURS[kind].partition(":")
    try:
        factory: Callable[[Mapping[str, object], SinkResources], Sink]
        factory = getattr(import_module(module), name)
    except ModuleNotFoundError as exc:
        extra = _EXTRAS.get(kind)
        if extra is None:
            raise
        raise ConfigError(f"{kind} needs pip install 'tallgrass[{extra}]'") from exc
    return factory(settings, resources)


def _open_installed(point: EntryPoint, settings: Mapping[str, object]) -> Sink:
    """Open a sink of another package; what it raises beside ConfigError is told with its name."""
    where = f"kind {point.name!r} of {point.dist.name if point.dist else 'a package'}"
    try:
        factory: SinkFactory = point.load()
    except (ImportError, AttributeError) as exc:
        raise ConfigError(f"{where} cannot be loaded: {exc}") from exc
    try:
        made: Any = factory(settings)
    except TallgrassError:
        raise
    except (Exception, SystemExit) as exc:
        raise ConfigError(f"{where} cannot be opened: {type(exc).__name__}: {exc}") from exc
    missing = [name for name in ("batch_max", "send", "close") if not hasattr(made, name)]
    if missing:
        raise ConfigError(f"{where} makes no sink: it has no {', '.join(missing)}")
    if type(made.batch_max) is not int or made.batch_max < 1:
        raise ConfigError(f"{where} makes no sink: its batch_max is {made.batch_max!r}")
    sink: Sink = made
    return sink
