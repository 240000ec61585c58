"""A pipeline as a process of its own: publishes one event and dies where it is told to."""

from __future__ import annotations

import os
import signal
import sys

from tallgrass.outbox import publish
from tests.outbox.callers import ARTIFACT, DriverCaller, event
from tests.support.backends import Backend

#: Where it may die, in order.
POINTS = ("begun", "state", "published", "committed")


def main(name: str, url: str, point: str) -> None:
    """Run once; say so at the end if it is still alive."""

    def reach(here: str) -> None:
        if here == point:
            os.kill(os.getpid(), signal.SIGKILL)

    caller = DriverCaller(Backend(name, url))
    with caller.transaction() as handle:
        reach("begun")
        caller.change_state(handle)
        reach("state")
        publish(handle, event(), artifact=ARTIFACT)
        reach("published")
    reach("committed")
    print("alive")  # noqa: T201 - the test listens


if __name__ == "__main__":
    main(*sys.argv[1:])
