"""What is said of a node and of a call of it, and what a strict runner wants to hear."""

import inspect
import platform
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final

import tallgrass
from tallgrass.errors import InvalidInput
from tallgrass.nodes.compensation import require_compensation
from tallgrass.nodes.identity import file_name_of
from tallgrass.nodes.protocols import NodeDeclaration
from tallgrass.nodes.retry_policy import RetryPolicy

#: A wrapped function says under this name what it is.
_WRAPPED_NAME: Final = "__tallgrass_node__"
_LISTS: Final = frozenset({"uses", "reads", "writes"})
_TEXTS: Final = frozenset({"code_version", "data_version", "dataset", "care_label"})
#: No thread waits for longer at a time.
TIMEOUT_S_MAX: Final = 7 * 86_400.0
_DECLARED: Final = frozenset(each.name for each in fields(NodeDeclaration))

#: Says which run and which task a call belongs to, where nobody names them; None: it knows nothing.
Whereabouts = Callable[[], tuple[str | None, str | None]]


def nowhere() -> tuple[None, None]:
    """Know neither run nor task."""
    return None, None


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a call says beside its node and its inputs."""

    run_id: str | None = None
    task_id: str | None = None
    retry: RetryPolicy | None = None
    approval: str | None = None
    #: Run and place, as the runner's `whereabouts` would find them; None: it must look.
    found: tuple[str | None, str | None] | None = None
    #: What else the result depends on, by name; it counts in the identity and is never given to
    #: the node.
    beside: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        """Refuse what is no policy."""
        require_retry(self.retry)


@dataclass(frozen=True, slots=True, kw_only=True)
class WrappedNode:
    """What a wrapped function says of itself; the function inside is its ``__wrapped__``."""

    runner: Any
    declaration: NodeDeclaration
    retry: RetryPolicy | None


def require_plain(function: Any) -> Any:
    """Return the function of a plain call; an async one is refused before the log knows the node.

    There it would have failed for good, and the right call after it with it.
    """
    if inspect.iscoroutinefunction(function):
        raise InvalidInput(
            "the node's function is async: use `arun`, or await the wrapped node",
            code="node_declaration_invalid",
        )
    return function


def marked(function: Callable[..., Any], node: WrappedNode) -> Callable[..., Any]:
    """Let a function say which node it is."""
    setattr(function, _WRAPPED_NAME, node)
    return function


def wrapped_node(function: Any) -> WrappedNode | None:
    """Return what a function says of itself, if a runner wrapped it."""
    node = getattr(function, _WRAPPED_NAME, None)
    return node if isinstance(node, WrappedNode) else None


def declaration_of(node_id: str, **declared: Any) -> NodeDeclaration:
    """Return the declaration; an option that no node has is refused."""
    unknown = sorted(set(declared) - _DECLARED)
    if unknown:
        raise InvalidInput(
            f"a node has no option {', '.join(unknown)}", code="node_declaration_invalid"
        )
    file_name_of(node_id)
    _require_forms(declared)
    declaration = NodeDeclaration(node_id=node_id, **declared)
    if declaration.compensate_fn is not None:
        require_compensation(declaration.compensate_fn)
        declaration = replace(declaration, has_effects=True)
    return declaration


def require_names(option: str, given: Any) -> None:
    """Refuse what is no list of names: a single text would be taken letter by letter."""
    listed = isinstance(given, Collection) and not isinstance(given, str)
    if not (given is None or (listed and all(isinstance(each, str) for each in given))):
        raise _invalid(f"{option} holds names, such as ('flow',), not {given!r}")


def require_retry(given: Any) -> None:
    """Refuse what is no policy, such as a number of attempts."""
    if not (given is None or isinstance(given, RetryPolicy)):
        raise _invalid(f"retry is a RetryPolicy, not {given!r}")


def _require_forms(declared: Mapping[str, Any]) -> None:
    """Refuse options that would fail later, or silently mean something else."""
    for option in _LISTS & declared.keys():
        require_names(option, declared[option])
    for option in _TEXTS & declared.keys():
        if not isinstance(declared[option], str | None):
            raise _invalid(f"{option} is a text, not {declared[option]!r}")
    timeout_s = declared.get("timeout_s")
    is_number = isinstance(timeout_s, int | float) and not isinstance(timeout_s, bool)
    if not (timeout_s is None or (is_number and 0 < timeout_s <= TIMEOUT_S_MAX)):
        raise _invalid(
            f"timeout_s is more than 0 and at most {TIMEOUT_S_MAX:g} seconds, not {timeout_s!r}"
        )


def _invalid(message: str) -> InvalidInput:
    return InvalidInput(message, code="node_declaration_invalid")


def require_complete(declaration: NodeDeclaration) -> None:
    """Refuse a node that does not say its version, or what governs its effects."""
    if declaration.code_version is None:
        raise InvalidInput(
            f"{declaration.node_id} has no code_version, and this runner is strict",
            code="node_code_version_missing",
        )
    governed = declaration.compensate_fn is not None or declaration.procedure is not None
    if declaration.has_effects and not governed:
        raise InvalidInput(
            f"{declaration.node_id} has effects, and neither compensate_fn nor procedure",
            code="node_declaration_invalid",
        )


def environment() -> dict[str, str]:
    """Return what of the surroundings is told; nothing that names a host, a user or a secret."""
    return {
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "system": platform.system(),
        "machine": platform.machine(),
        "tallgrass": tallgrass.__version__,
    }
