"""Spans as tests look at them: by their place, their parts and what they tell."""

from __future__ import annotations

import hashlib
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tests.support.backends import Backend, prepare

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tallgrass.telemetry.trace_context import SpanContext
    from tests.support.recording import MemoryRecorder, RecordedSpan


ROOT = "nodd_sns.ingest"
FROM_A_MESSAGE = ("sqs_receive", "message_parse")
OF_A_UNIT = (
    "object_fetch", "integrity_check", "metadata_extract", "stac_register", "provenance_emit",
)  # fmt: skip
REPLAY = ("replay_run_id", "replay_mode", "replay_reason", "replay_original_run")


def digits(count: int, *parts: object) -> str:
    """Hash netstrings of the parts, as the page on telemetry says that ids are made."""
    named = "".join(f"{len(str(part))}:{part}," for part in parts)
    return hashlib.sha256(named.encode()).hexdigest()[:count]


def context_of(span: RecordedSpan) -> SpanContext:
    """Return where a span stands."""
    assert span.place is not None
    return span.place.context


def roots(recorder: MemoryRecorder) -> list[RecordedSpan]:
    """Return the spans of attempts."""
    return [span for span in recorder.spans if span.name == ROOT]


def below(recorder: MemoryRecorder, root: RecordedSpan) -> list[RecordedSpan]:
    """Return the spans whose parent is the given one."""
    parent = context_of(root)
    return [span for span in recorder.spans if span.place and span.place.parent == parent]


def told(span: RecordedSpan, *names: str) -> tuple[Any, ...]:
    """Return attributes of our own."""
    return tuple(span.attributes[f"nodd.{name}"] for name in names)


def attempts(backend: Backend) -> list[tuple[Any, ...]]:
    """Return id and number of all attempts, by raw SQL."""
    rows = backend.sql("SELECT wal_id, attempt_no FROM wal_attempts ORDER BY wal_id, attempt_no")
    return [(str(wal_id), number) for wal_id, number in rows]


@contextmanager
def fresh(folder: Path) -> Iterator[tuple[Backend, Path]]:
    """A database of its own, and a folder for its objects."""
    folder.mkdir()
    backend = prepare("sqlite", f"sqlite:///{folder / 'ledger.db'}")
    yield backend, folder
    backend.close()
