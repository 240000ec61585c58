"""Who hears of an event: targets, and routes that choose them by event, dataset and care label.

    [outbox.targets.lake]           kind = "sqs", settings of the kind, concurrency, ordered, rate
    [[outbox.routes]]               events = ["nodd.item.*"], targets = ["lake"]

Routes add up: an event goes to the targets of every route that matches it. One that no route
matches goes to `DEFAULT_TARGET`, so that nothing is told to nobody by oversight. OpenLineage events
alone are made only where a route wants them.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any

from tallgrass.errors import ConfigError, did_you_mean
from tallgrass.governance.policy import CARE_LABELS

#: Where events go that no route matches: a file of JSON Lines beside the database.
DEFAULT_TARGET = "file"
#: How the names of events begin that have no default target.
ON_REQUEST = "openlineage."

#: Routes are asked for every event; names and datasets are few, but callers choose them.
_REMEMBERED_MAX = 4096

_NAME_FORM = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_SECRET = re.compile(
    r"secret|passw|token|credential|authorization|(?:api|access|private|signing|shared)_?key"
)
#: A setting that says where a secret is kept.
_SECRET_PLACE = ("_env", "_file")
_SELECTORS = ("events", "datasets", "care_labels")

#: Sends to a target under way at the same time, unless it says otherwise.
CONCURRENCY = 4
CONCURRENCY_RANGE = range(1, 65)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A place that events are delivered to."""

    name: str
    #: Names the sink: one of ours, or an entry point of the group ``tallgrass.sinks``.
    kind: str
    #: Sends under way at the same time.
    concurrency: int = CONCURRENCY
    #: Whether events of one dataset are sent in the order in which they were written.
    ordered: bool = False
    #: Most events a second; None for any number.
    rate: float | None = None
    #: All other settings, for the sink.
    settings: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """Events for targets. A selector is a list of patterns (`*`, `?`); an empty one takes all."""

    targets: tuple[str, ...]
    events: tuple[str, ...] = ()
    datasets: tuple[str, ...] = ()
    care_labels: tuple[str, ...] = ()

    def matches(self, event_name: str, dataset_id: str, care_label: str) -> bool:
        """Tell whether each selector takes its part."""
        return (
            _selects(self.events, event_name)
            and _selects(self.datasets, dataset_id)
            and _selects(self.care_labels, care_label)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Routing:
    """All targets and routes. The default target is there even if nobody declares it."""

    targets: Mapping[str, Target] = field(default_factory=dict)
    routes: tuple[Route, ...] = ()
    _resolved: Callable[[str, str, str], tuple[str, ...]] = field(
        init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        """Add the default target, and remember what was resolved: one batch asks 500 times."""
        default = Target(name=DEFAULT_TARGET, kind="file")
        object.__setattr__(self, "targets", {DEFAULT_TARGET: default, **self.targets})
        object.__setattr__(self, "_resolved", lru_cache(_REMEMBERED_MAX)(self._resolve))

    def __reduce__(self) -> "tuple[Callable[..., Routing], tuple[Any, ...]]":
        """Go to another process without what was remembered, which cannot."""
        return _rebuilt, (dict(self.targets), self.routes)

    def targets_for(self, event_name: str, dataset_id: str, care_label: str) -> tuple[str, ...]:
        """Return the targets of an event, each once, in the order of the routes."""
        return self._resolved(event_name, dataset_id, care_label)

    def _resolve(self, event_name: str, dataset_id: str, care_label: str) -> tuple[str, ...]:
        chosen = dict.fromkeys(
            target
            for route in self.routes
            if route.matches(event_name, dataset_id, care_label)
            for target in route.targets
        )
        if not chosen and not event_name.startswith(ON_REQUEST):
            return (DEFAULT_TARGET,)
        return tuple(chosen)


def _rebuilt(targets: dict[str, Target], routes: tuple[Route, ...]) -> Routing:
    return Routing(targets=targets, routes=routes)


def parse_routing(targets: object, routes: object, *, lineage_target: str = "") -> Routing:
    """Build the routing from ``outbox.targets`` and ``outbox.routes`` as a file holds them.

    `lineage_target` is short for a route of all OpenLineage events; it may name a target that is
    declared elsewhere: its events wait for it.
    """
    declared = _targets(targets)
    known = {DEFAULT_TARGET, *declared}
    parsed = [_route(body, number, known) for number, body in enumerate(_list(routes), start=1)]
    if lineage_target:
        parsed.append(Route(events=(f"{ON_REQUEST}*",), targets=(lineage_target,)))
    return Routing(targets=declared, routes=tuple(parsed))


def _selects(patterns: tuple[str, ...], value: str) -> bool:
    return not patterns or any(fnmatchcase(value, pattern) for pattern in patterns)


def _targets(table: object) -> dict[str, Target]:
    if not isinstance(table, dict):
        raise ConfigError("outbox.targets must be tables: [outbox.targets.NAME]")
    return {name: _target(name, body) for name, body in table.items()}


def _target(name: str, body: object) -> Target:
    where = f"outbox.targets.{name}"
    if not _NAME_FORM.fullmatch(name):
        raise ConfigError(f"{where}: a target's name is at most 64 letters, digits, '.', '_', '-'")
    if not isinstance(body, dict):
        raise ConfigError(f"{where} must be a table with a kind")
    settings = dict(body)
    kind = settings.pop("kind", None)
    if not isinstance(kind, str) or not kind:
        raise ConfigError(f'{where}: kind is missing; say kind = "file", "sqs", "webhook" …')
    _refuse_secrets(where, settings)
    return Target(
        name=name,
        kind=kind,
        concurrency=_concurrency(where, settings.pop("concurrency", CONCURRENCY)),
        ordered=_ordered(where, settings.pop("ordered", False)),
        rate=_rate(where, settings.pop("rate", None)),
        settings=settings,
    )


def _refuse_secrets(where: str, settings: Mapping[str, object]) -> None:
    """Refuse what would put a secret into a file that others read and commands show."""
    for key in settings:
        if _SECRET.search(key.lower()) and not key.endswith(_SECRET_PLACE):
            raise ConfigError(
                f"{where}.{key}: no secret stands in the file; name the variable that holds it "
                f"({key}_env) or a file that only its owner reads ({key}_file)"
            )


def _concurrency(where: str, value: object) -> int:
    if type(value) is not int or value not in CONCURRENCY_RANGE:
        low, high = CONCURRENCY_RANGE[0], CONCURRENCY_RANGE[-1]
        raise ConfigError(
            f"{where}.concurrency must be a whole number from {low} to {high}, not {value!r}"
        )
    return value


def _ordered(where: str, value: object) -> bool:
    if type(value) is not bool:
        raise ConfigError(f"{where}.ordered must be true or false, not {value!r}")
    return value


def _rate(where: str, value: object) -> float | None:
    if value is None:
        return None
    # Exact types: to Python, true is a number too.
    if type(value) is int or type(value) is float:
        rate = float(value)
        if 0 < rate < float("inf"):
            return rate
    raise ConfigError(f"{where}.rate must be a number of events a second, not {value!r}")


def _list(routes: object) -> list[Any]:
    if not isinstance(routes, list):
        raise ConfigError("outbox.routes must be a list of tables: [[outbox.routes]]")
    return routes


def _route(body: object, number: int, known: set[str]) -> Route:
    where = f"outbox.routes[{number}]"
    if not isinstance(body, dict):
        raise ConfigError(f"{where} must be a table: [[outbox.routes]]")
    allowed = (*_SELECTORS, "targets")
    for key in body:
        if key not in allowed:
            raise ConfigError(f"{where}: unknown key {key!r}{did_you_mean(key, allowed)}")
    targets = _words(where, "targets", body.get("targets"))
    for target in targets:
        if target not in known:
            raise ConfigError(
                f"{where}: there is no target {target!r}{did_you_mean(target, sorted(known))}; "
                f"declare it as [outbox.targets.{target}]",
                code="unknown_target",
            )
    selectors = {key: _words(where, key, body[key]) for key in _SELECTORS if key in body}
    for label in selectors.get("care_labels", ()):
        if not any(fnmatchcase(each, label) for each in CARE_LABELS):
            raise ConfigError(
                f"{where}: there is no care label {label!r}{did_you_mean(label, CARE_LABELS)} "
                f"(known: {', '.join(CARE_LABELS)})"
            )
    return Route(targets=targets, **selectors)


def _words(where: str, key: str, value: object) -> tuple[str, ...]:
    """Return a list of names; an empty one would say the opposite of an absent one."""
    if isinstance(value, list) and value and all(isinstance(word, str) and word for word in value):
        return tuple(value)
    raise ConfigError(f'{where}.{key} must be a list such as ["name"], not {value!r}')
