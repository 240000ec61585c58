"""Dispatchers beside workers, in one process: `tallgrass ingest --dispatch`."""

import threading

from tallgrass.bootstrap.outbox import DispatchResult, dispatch
from tallgrass.config import Config
from tallgrass.ingest_loop import Until
from tallgrass.outbox.dispatch_loop import DispatchUntil
from tallgrass.telemetry.recorder import Recorder

#: What is still to be delivered when the workers have ended.
_AFTER = {Until.ONCE: DispatchUntil.ONCE, Until.DRAINED: DispatchUntil.DRAINED}


class DispatchBeside:
    """Delivers events on threads of its own for as long as workers run."""

    def __init__(self, config: Config, recorder: Recorder) -> None:
        self._config = config
        self._recorder = recorder
        self._stop = threading.Event()
        self._result: DispatchResult | None = None
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="tallgrass-dispatch", daemon=True)

    def start(self) -> None:
        """Begin; targets that cannot be used are refused before any worker starts."""
        dispatch(self._config, until=DispatchUntil.ONCE, stop=lambda: True)
        self._thread.start()

    def finish(self, until: Until, stop: threading.Event) -> DispatchResult:
        """End, after delivering what the workers have left where they were to end by themselves."""
        self._stop.set()
        self._thread.join()
        if self._failure is not None:
            raise self._failure
        before = self._result
        assert before is not None  # noqa: S101 - the thread ends with a result or a failure
        if until is Until.STOPPED or stop.is_set():
            return before
        after = dispatch(
            self._config, until=_AFTER[until], stop=stop.is_set, recorder=self._recorder
        )
        after.report.merge(before.report)
        return after

    def _run(self) -> None:
        try:
            self._result = dispatch(
                self._config,
                until=DispatchUntil.STOPPED,
                stop=self._stop.is_set,
                recorder=self._recorder,
            )
        except BaseException as error:  # noqa: BLE001 - raised where the command can answer it
            self._failure = error
