"""The parts of docs/reference/library.md: the names that programs of others may use."""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Module → its public names; those of `__all__` where none are given.
PUBLIC: dict[str, tuple[str, ...]] = {
    "tallgrass.outbox": (),
    "tallgrass.outbox.inbox": (),
    "tallgrass.bootstrap.publishing": ("open_publisher",),
    "tallgrass.governance.masking": ("MaskingPolicy", "ProtectedArea", "Tier"),
    "tallgrass.sinks.protocol": ("Sink", "Delivered", "Undelivered"),
    "tallgrass.sinks.options": ("Options",),
    "tallgrass.nodes": (),
    "tallgrass.nodes.graphs": (),
    "tallgrass.nodes.cache_store": ("CacheStore", "FolderCache", "ObjectCache"),
    "tallgrass.nodes.validation_policy": (),
    "tallgrass.nodes.energy_policy": (),
    "tallgrass.nodes.error_budget": ("ErrorBudgets",),
    "tallgrass.nodes.lineage": ("Lineage", "FileLineage"),
    "tallgrass.bootstrap.nodes": ("open_node_runner",),
    "tallgrass.bootstrap.node_lineage": ("OutboxLineage",),
    "tallgrass.config": ("load_config",),
    "tallgrass.errors": ("TallgrassError",),
}


def public_names() -> Iterator[tuple[str, str, Any]]:
    """Yield module, name and value of each public name."""
    for module_name, names in PUBLIC.items():
        module = import_module(module_name)
        for name in names or module.__all__:
            yield module_name, name, getattr(module, name)


def library() -> str:
    """Return a table of the names of each module."""
    parts: dict[str, list[str]] = {}
    for module, name, value in public_names():
        parts.setdefault(module, []).append(f"| `{name}` | {_first_line(value)} |\n")
    return "\n".join(
        f"### {module}\n\n| name | what it is |\n| --- | --- |\n{''.join(lines)}"
        for module, lines in parts.items()
    )


def _first_line(value: Any) -> str:
    """Return what the docstring says first; of a constant, its value."""
    if not callable(value):
        return f"`{value!r}`".replace("|", "\\|")
    text = inspect.getdoc(value) or ""
    return text.partition("\n\n")[0].replace("\n", " ").replace("|", "\\|")
