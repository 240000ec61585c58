"""What ends a node's attempt without being a failure of it."""

from tallgrass.errors import NodeParked


def is_no_failure(error: BaseException) -> bool:
    """Tell what stops a node without being a failure of it: a signal, a switch, a cancellation."""
    return isinstance(error, NodeParked) or not isinstance(error, Exception) or is_bubble_up(error)


def is_bubble_up(error: BaseException) -> bool:
    """Tell LangGraph's own signals, interrupts for one, without importing LangGraph."""
    return any(
        kind.__name__ == "GraphBubbleUp" and kind.__module__.startswith("langgraph.")
        for kind in type(error).__mro__
    )
