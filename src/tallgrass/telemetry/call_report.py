"""The span of one call of a command: the root of what the call does."""

from collections.abc import Iterator
from contextlib import contextmanager

from tallgrass.clock import Clock
from tallgrass.errors import TallgrassError
from tallgrass.telemetry import names
from tallgrass.telemetry.recorder import Recorder
from tallgrass.telemetry.trace_context import SpanContext, SpanPlace


@contextmanager
def reported_call(
    recorder: Recorder, command: str, context: SpanContext, clock: Clock
) -> Iterator[None]:
    """Report a call when it ends, however it ends."""
    began, error_type = clock(), None
    try:
        yield
    except BaseException as error:
        error_type = _error_type(error)
        raise
    finally:
        about = {"nodd.command": command, names.ERROR_TYPE: error_type}
        recorder.span(names.CLI_CALL, began, max(began, clock()), about, SpanPlace(context))


def _error_type(error: BaseException) -> str | None:
    if isinstance(error, TallgrassError):
        return error.code
    # What ends a command on purpose has the exit code on it.
    exit_code = getattr(error, "exit_code", None)
    if exit_code is None:
        return type(error).__name__
    return f"exit_{exit_code}" if exit_code else None
