"""Dispatchers beside workers, in one process: `tallgrass ingest --dispatch`."""

import threading
from collections.abc import Callable

from tallgrass.bootstrap.outbox import DispatchResult, dispatch
from tallgrass.config import Config
from tallgrass.errors import TallgrassError, text_of
from tallgrass.ingest_loop import Until
from tallgrass.outbox.dispatch_loop import DispatchUntil
from tallgrass.telemetry import names
from tallgrass.telemetry.recorder import Recorder

#: What is still to be delivered when the workers have ended.
_AFTER = {Until.ONCE: DispatchUntil.ONCE, Until.DRAINED: DispatchUntil.DRAINED}


class DispatchBeside:
    """Delivers events on threads of its own for as long as workers run.

    An error is told at once and ends the workers too: the command must not seem to deliver.
    """

    def __init__(self, config: Config, recorder: Recorder, stop: threading.Event) -> None:
        self._config = config
        self._recorder = recorder
        #: Tells the whole command to stop.
        self._stop = stop
        self._workers_ended = threading.Event()
        self._result: DispatchResult | None = None
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="tallgrass-dispatch", daemon=True)

    def start(self) -> None:
        """Begin; targets that cannot be used are refused before any worker starts."""
        dispatch(self._config, until=DispatchUntil.ONCE, stop=lambda: True)
        self._thread.start()

    def finish(self, until: Until) -> DispatchResult:
        """End, after delivering what the workers have left where they were to end by themselves."""
        self._workers_ended.set()
        self._thread.join()
        if self._failure is not None:
            raise self._failure
        before = self._result
        assert before is not None  # noqa: S101 - the thread ends with a result or a failure
        if until is Until.STOPPED or self._stop.is_set():
            return before
        after = self._dispatch(_AFTER[until], self._stop.is_set)
        after.report.merge(before.report)
        return after

    def _run(self) -> None:
        try:
            self._result = self._dispatch(DispatchUntil.STOPPED, self._workers_ended.is_set)
        except BaseException as error:  # noqa: BLE001 - raised where the command can answer it
            self._failure = error
            self._stop.set()

    def _dispatch(self, until: DispatchUntil, stop: Callable[[], bool]) -> DispatchResult:
        try:
            return dispatch(self._config, until=until, stop=stop, recorder=self._recorder)
        except BaseException as error:
            code = error.code if isinstance(error, TallgrassError) else "internal_error"
            self._recorder.event(names.DISPATCH_FAILED, error_code=code, message=text_of(error))
            raise
