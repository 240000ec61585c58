"""What replays report: each batch once it is committed, each command that asks for one."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

from tallgrass.clock import Clock
from tallgrass.errors import GuardRefused, TallgrassError
from tallgrass.telemetry import names
from tallgrass.telemetry.recorder import Recorder, count_each

if TYPE_CHECKING:
    from tallgrass.replay.run import Run


def report_replay_batch(
    recorder: Recorder, reason: str, size: int, skipped: Sequence[str] = ()
) -> None:
    """Report a batch that was put to work; `skipped` holds why records of it were not."""
    if not recorder.enabled or not size:
        return
    recorder.count(names.REPLAY_BATCHES, 1, replay_reason=reason)
    recorder.observe(names.REPLAY_BATCH_SIZE, [float(size)])
    count_each(recorder, names.REPLAY_SKIPPED, ((why,) for why in skipped))


def batch_tracing(recorder: Recorder, clock: Clock) -> "Callable[[Run, int, float], None]":
    """Return what is told of each batch of a run: how many records, and how many seconds."""

    def batched(run: "Run", size: int, took_s: float) -> None:
        if not recorder.tracing:
            return
        order, ended_at = run.order, clock()
        about = {
            "nodd.replay_run_id": order.replay_run_id,
            "nodd.replay_mode": order.mode.value,
            "nodd.replay_reason": order.reason,
            "nodd.plan_sha256": order.plan_sha256,
            "nodd.units": size,
        }
        began_at = ended_at - timedelta(seconds=max(0.0, took_s))
        recorder.span(names.REPLAY_BATCH, began_at, ended_at, about)

    return batched


def throttling(recorder: Recorder) -> Callable[[str], None]:
    """Return what is told each time that a batch has to wait."""
    return lambda reason: recorder.count(names.REPLAY_THROTTLED, 1, reason=reason)


@contextmanager
def reported_command(recorder: Recorder, command: str, *, dry_run: bool = False) -> Iterator[None]:
    """Count a command that asks for a replay, and how it is refused.

    A dry run counts as having been called, and as nothing else.
    """
    recorder.count(names.REPLAY_CLI_INVOCATIONS, 1, command=command)
    try:
        yield
    except TallgrassError as error:
        if not dry_run:
            if isinstance(error, GuardRefused):
                recorder.count(names.REPLAY_GUARDRAILS, 1, guard_type=error.guard)
            recorder.count(names.REPLAY_CLI_FAILURES, 1, command=command, error_code=error.code)
        raise
