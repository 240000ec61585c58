"""Log events as lines for people and for `grep`: time, level, name, then name=value."""

import json
import re
from collections.abc import Callable

from tallgrass.clock import Clock, format_instant
from tallgrass.telemetry.names import EVENTS
from tallgrass.telemetry.recorder import NoopRecorder

#: A value that needs no quotes.
_PLAIN = re.compile(r"[A-Za-z0-9._:/+-]+")


class LogRecorder(NoopRecorder):
    """Writes log events and nothing else; metrics and spans go nowhere."""

    enabled = True

    def __init__(self, write: Callable[[str], object], clock: Clock) -> None:
        self._write = write
        self._clock = clock

    def event(self, name: str, **fields: object) -> None:
        """Write one line; whatever stands in a value cannot begin another."""
        about = EVENTS[name]
        values = " ".join(f"{key}={_value(fields[key])}" for key in about.fields if key in fields)
        self._write(f"{format_instant(self._clock())} {about.level} {name} {values}\n")


def _value(value: object) -> str:
    text = str(value)
    return text if _PLAIN.fullmatch(text) else json.dumps(text)
