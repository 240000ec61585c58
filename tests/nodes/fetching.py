"""A node that counts its calls, and how tests call it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tallgrass.nodes import NodeRunner


LABELS = {"pipeline": "hydrology", "node": "fetch", "dataset_id": ""}


class Counted:
    """A node that counts its calls."""

    def __init__(self, result: Any = None) -> None:
        self.calls = 0
        self._result = result

    def __call__(self, state: Any) -> Any:
        """Add one, or return what was given."""
        self.calls += 1
        return {"out": state["x"] + 1} if self._result is None else self._result


def run(runner: NodeRunner, node: Any, x: Any = 1, **options: Any) -> Any:
    """Call a node with a given version."""
    given_options = {"node_id": "fetch", "code_version": "v1", "inputs": {"x": x}, **options}
    return runner.run(exec_fn=node, **given_options)
