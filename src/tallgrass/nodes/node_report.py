"""What a node's execution tells the recorder and those who watch it; it never fails the node."""

from collections.abc import Callable
from datetime import timedelta
from functools import partial

from tallgrass.errors import GovernanceError, TallgrassError, text_of
from tallgrass.ledger.redaction import redact
from tallgrass.nodes.protocols import NodeCall, NodeHooks, NodeOutcome
from tallgrass.telemetry import names
from tallgrass.telemetry.energy import EnergyUse
from tallgrass.telemetry.recorder import Recorder


class NodeReport:
    """Speaks to the recorder, under the table's names."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._said: set[tuple[str, str]] = set()

    def attempt(self, call: NodeCall, latency_ms: float, use: EnergyUse | None) -> None:
        """An attempt ended."""
        if not self._recorder.enabled:
            return
        labels = _labels(call)
        self._recorder.observe(names.NODE_LATENCY, [latency_ms], **labels)
        if use is not None:
            self._recorder.observe(names.NODE_ENERGY, [use.energy_wh], **labels)
            self._recorder.observe(names.NODE_CARBON, [use.carbon_gco2e], **labels)

    def hit(self, call: NodeCall, took: timedelta) -> None:
        """A result came from the cache."""
        if self._recorder.enabled:
            latency_ms = took / timedelta(milliseconds=1)
            self._recorder.observe(names.NODE_LATENCY, [latency_ms], **_labels(call))
            self._recorder.count(names.NODE_CACHE_HITS, 1, **_labels(call))

    def miss(self, call: NodeCall) -> None:
        """The cache had no result."""
        if self._recorder.enabled:
            self._recorder.count(names.NODE_CACHE_MISSES, 1, **_labels(call))

    def corrupt(self, call: NodeCall) -> None:
        """The cache had something that did not verify."""
        self._recorder.count(names.NODE_CACHE_CORRUPT, 1, **_labels(call))

    def retry(self, call: NodeCall) -> None:
        """An attempt after the first begins."""
        self._recorder.count(names.NODE_RETRIES, 1, **_labels(call))

    def uncached(self, pipeline: str, node_id: str, why: str) -> None:
        """Say once that a node is not cached."""
        if (pipeline, node_id) in self._said:
            return
        self._said.add((pipeline, node_id))
        self._recorder.event(names.NODE_UNCACHED, pipeline=pipeline, node=node_id, message=why)

    def cache_unusable(self, call: NodeCall, error: Exception) -> None:
        """The cache could not be read or written; the node runs without it."""
        self._recorder.event(
            names.NODE_CACHE_UNUSABLE,
            pipeline=call.pipeline,
            node=call.node_id,
            message=_told(call, error),
        )

    def failed(self, call: NodeCall, error: BaseException) -> None:
        """A node failed for good."""
        self._recorder.event(
            names.NODE_FAILED,
            pipeline=call.pipeline,
            run_id=call.run_id,
            node=call.node_id,
            task_id=call.task.task_id,
            error_code=error.code if isinstance(error, TallgrassError) else type(error).__name__,
            message=None if call.sensitive else redact(text_of(error)),
        )

    def compensation_held(self, call: NodeCall, refused: GovernanceError) -> None:
        """Governance does not allow to undo a node's effects now."""
        self._recorder.event(
            names.NODE_COMPENSATION_HELD,
            pipeline=call.pipeline,
            run_id=call.run_id,
            node=call.node_id,
            task_id=call.task.task_id,
            error_code=refused.code,
            message=redact(str(refused)),
        )

    def finished(self, outcome: NodeOutcome, hooks: NodeHooks) -> None:
        """Tell everybody who watches."""
        for watcher in hooks.watchers:
            self.guarded(outcome.call, "watcher", partial(watcher.finished, outcome))

    def guarded(self, call: NodeCall, hook: str, work: Callable[[], None]) -> None:
        """Do something of others whose failure is not the node's."""
        try:
            work()
        except Exception as error:  # noqa: BLE001 - whatever it is, the result stands
            self._recorder.event(
                names.NODE_HOOK_FAILED,
                pipeline=call.pipeline,
                run_id=call.run_id,
                node=call.node_id,
                task_id=call.task.task_id,
                hook=hook,
                message=_told(call, error),
            )


def _told(call: NodeCall, error: BaseException) -> str:
    """Return what an error says; of data that are not open its kind alone."""
    name = type(error).__name__
    return name if call.sensitive else redact(f"{name}: {text_of(error)}")


def _labels(call: NodeCall) -> dict[str, str]:
    return {"pipeline": call.pipeline, "node": call.node_id, "dataset_id": call.dataset_id}
