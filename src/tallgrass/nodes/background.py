"""A thread for what nobody waits for, in the order in which it was handed on."""

import threading
from collections.abc import Callable
from queue import SimpleQueue

from tallgrass.nodes.forks import begin_anew_after_forks

Work = Callable[[], None]


class Background:
    """One thread, made when it is needed; work that raises would end it, so it must not."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.begin_anew()
        begin_anew_after_forks(self)

    def begin_anew(self) -> None:
        """Have a thread and work of this process; what is under way is the parent's."""
        self._queue: SimpleQueue[Work] = SimpleQueue()
        self._is_running = False
        self._lock = threading.Lock()

    def hand_on(self, work: Work) -> None:
        """Have something done, after all that was handed on before."""
        if not self._is_running:
            self._start()
        self._queue.put(work)

    def settle(self) -> None:
        """Return when all that was handed on until now is done."""
        if self._is_running:
            done = threading.Event()
            self._queue.put(done.set)
            done.wait()

    def _start(self) -> None:
        with self._lock:
            if not self._is_running:
                thread = threading.Thread(
                    target=_work, args=(self._queue,), name=self._name, daemon=True
                )
                thread.start()
                self._is_running = True


def _work(queue: "SimpleQueue[Work]") -> None:
    while True:
        queue.get()()
