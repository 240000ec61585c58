"""Log events as lines: readable ones for people and `grep`, or JSON with the keys of the spans.

Here is the boundary: whatever a value holds, it ends as part of one line, without secrets, persons
or places, and without a character that steers a terminal or begins another line.
"""

import json
import re
from collections.abc import Callable, Mapping
from enum import StrEnum

from tallgrass.clock import Clock, format_instant
from tallgrass.ledger.redaction import printable, redact
from tallgrass.telemetry.names import EVENTS, TELEMETRY_UNDELIVERED, LogEvent, attribute_of
from tallgrass.telemetry.recorder import NoopRecorder

#: A value that needs no quotes.
_PLAIN = re.compile(r"[A-Za-z0-9._:/+-]+")
#: Fields that this program fills with ids and with words of closed lists. They are not searched for
#: secrets: a hash may look like a number of a card.
_OWN_WORDS = frozenset(
    {
        "wal_id", "dataset", "object_uri_hash", "status", "error_code", "issues", "rule_id",
        "replay_run_id", "replay_mode", "replay_reason", "replay_original_run", "trace_id",
        "span_id", "outbox_id", "event_name", "ingest_run_id",
    }
)  # fmt: skip
_OWN_FORM = re.compile(r"[A-Za-z0-9_.:,-]{1,200}")


class LogForm(StrEnum):
    """How lines are written."""

    TEXT = "text"
    JSON = "json"


class LogRecorder(NoopRecorder):
    """Writes log events and nothing else; metrics and spans go nowhere.

    A line that cannot be written is dropped, and never an error of whoever had something to tell:
    `dropped` is called for it, and the first line that can be written again is followed by one
    that says how many were lost.
    """

    enabled = True

    def __init__(
        self,
        write: Callable[[str], object],
        clock: Clock,
        form: LogForm = LogForm.TEXT,
        dropped: Callable[[], object] = lambda: None,
    ) -> None:
        self._write = write
        self._clock = clock
        self._line = _json_line if form is LogForm.JSON else _text_line
        self._dropped = dropped
        self._lost = 0

    def event(self, name: str, **fields: object) -> None:
        """Write one line; whatever stands in a value cannot begin another."""
        about = EVENTS[name]
        told = {
            key: _told(key, value) for key in about.fields if (value := fields.get(key)) is not None
        }
        try:
            self._write(f"{self._line(format_instant(self._clock()), about, told)}\n")
        except (OSError, ValueError):  # a disk is full, a reader has gone, a stream is closed
            self._lost += 1
            self._dropped()
            return
        if self._lost:
            lost, self._lost = self._lost, 0
            self.event(TELEMETRY_UNDELIVERED, signal="logs", lines=lost)


def _told(key: str, value: object) -> str | float:
    """Return what may be told of a value."""
    if isinstance(value, bool | int | float):
        return value
    text = str(value)
    if key in _OWN_WORDS and _OWN_FORM.fullmatch(text):
        return text
    return printable(redact(text))


def _text_line(now: str, about: LogEvent, told: Mapping[str, str | float]) -> str:
    values = " ".join(f"{key}={_quoted(value)}" for key, value in told.items())
    return f"{now} {about.level} {about.name} {values}"


def _quoted(value: str | float) -> str:
    text = str(value)
    return text if _PLAIN.fullmatch(text) else json.dumps(text)


def _json_line(now: str, about: LogEvent, told: Mapping[str, str | float]) -> str:
    """Return one JSON object; every line has the first four keys."""
    line = {"timestamp": now, "level": about.level, "event": about.name, "message": about.meaning}
    keyed = {attribute_of(about.name, key): value for key, value in told.items()}
    return json.dumps({**line, **keyed})
