"""Nodes with effects, how tests call them, and where the log tells of their compensation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tallgrass.errors import ValidationError
from tallgrass.nodes import effect
from tallgrass.nodes.compensation import Compensations

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tallgrass.nodes import NodeRunner


Undone = list[tuple[Any, "Mapping[str, Any]"]]
COMPENSATION = "run-1/publish/compensation.json"
FAILED = "run-1/publish/failed.json"


def run(runner: NodeRunner, node: Callable[[Any], Any], **options: Any) -> Any:
    """Call a node that has effects."""
    given = {
        "node_id": "publish", "code_version": "v1", "inputs": {"x": 1}, "has_effects": True,
        **options,
    }  # fmt: skip
    return runner.run(exec_fn=node, **given)


def two_effects_then_wrong(_state: Any) -> Any:
    """Make two effects, then fail for good."""
    effect("put", key="a", do=lambda: {"etag": "1"})
    effect("put", key="b", do=lambda: {"etag": "2"})
    raise ValidationError("wrong")


def no_waits(**options: Any) -> Compensations:
    """A registry that does not wait."""
    return Compensations(sleep=lambda _seconds: None, uniform=lambda _low, _high: 0.0, **options)
