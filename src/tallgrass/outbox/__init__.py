"""Publish, routing, dispatcher and inbox: events leave only from recorded rows.

The names below are for pipelines of your own. They are loaded when they are asked for: the rules
beside them are used where there is no database.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tallgrass.outbox.payload_rules import PayloadRules
    from tallgrass.outbox.publication import Artifact, Event, Published
    from tallgrass.outbox.publishing import Publisher, publish, publish_all
    from tallgrass.outbox.routing import Route, Routing, Target

__all__ = [
    "Artifact",
    "Event",
    "PayloadRules",
    "Published",
    "Publisher",
    "Route",
    "Routing",
    "Target",
    "publish",
    "publish_all",
]

_MODULES = {
    "PayloadRules": "payload_rules",
    "Artifact": "publication",
    "Event": "publication",
    "Published": "publication",
    "Publisher": "publishing",
    "publish": "publishing",
    "publish_all": "publishing",
    "Route": "routing",
    "Routing": "routing",
    "Target": "routing",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - only for the names above

    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
