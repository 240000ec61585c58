"""Hands the lineage of nodes on: OpenLineage run events and PROV-O, once each execution.

    Lineage(FileLineage("work/lineage"))        files, for runners without a database
    Lineage(OutboxLineage(…))                   the outbox; `tallgrass.bootstrap.node_lineage`

A hit of the cache is an execution of its own. Documents are made from the journal alone
(`lineage_documents`): after a crash they are handed on again under the same keys, and `rebuild`
makes all of a run's.
"""

import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

from tallgrass.nodes.entries import Entry, Kind, RunState
from tallgrass.nodes.identity import file_name_of
from tallgrass.nodes.line_file import LineFile
from tallgrass.nodes.lineage_documents import PROVENANCE_EVENT, LineageDocument, documents_of
from tallgrass.nodes.lineage_facts import NodeLineage, lineage_of
from tallgrass.nodes.protocols import NodeOutcome
from tallgrass.outbox.publication import Event

_ENDS: Final = frozenset({Kind.POST, Kind.HIT, Kind.FAILED})
#: Files that are remembered; a run that was left is read anew.
_FILES_MAX: Final = 128


class LineageSink(Protocol):
    """Takes documents, each once by its key."""

    @property
    def kept_in(self) -> str:
        """The kind of place, as logs note it."""

    def hand_on(self, documents: Sequence[LineageDocument]) -> int:
        """Keep all of them or none; return how many were not there yet."""


class Lineage:
    """Makes documents and hands them on; given to a runner as `NodeHooks.lineage`."""

    def __init__(self, sink: LineageSink) -> None:
        self._sink = sink

    def emit(self, outcome: NodeOutcome) -> Mapping[str, Any]:
        """Hand on the lineage of a task that ended; return what the log shall note."""
        task = outcome.task
        end = None if task is None else task.failed if outcome.error is not None else task.post
        lineage = None
        if task is not None and end is not None:
            lineage = lineage_of(outcome.call.run_id, task, end)
        if lineage is None:
            return {}
        documents = documents_of(lineage)
        self._sink.hand_on(documents)
        return {**_noted(lineage, documents), "kept_in": self._sink.kept_in}

    def rebuild(self, run_id: str, entries: Iterable[Entry]) -> int:
        """Hand on all that a run's journal tells of; return how many documents were missing."""
        return self._sink.hand_on(
            [each for lineage in lineages_of(run_id, entries) for each in documents_of(lineage)]
        )


def rebuild(run_id: str, entries: Iterable[Entry], sink: LineageSink) -> int:
    """Make a run's lineage again from its journal; return how many documents were missing."""
    return Lineage(sink).rebuild(run_id, entries)


def was_kept_in(sink: LineageSink, entries: Iterable[Entry]) -> bool:
    """Tell whether a run's log notes that lineage was handed on to such a place."""
    return any(
        entry.kind is Kind.LINEAGE and entry.body["noted"].get("kept_in") == sink.kept_in
        for entry in entries
    )


def lineages_of(run_id: str, entries: Iterable[Entry]) -> Iterator[NodeLineage]:
    """Yield what a run's journal tells of, in its order; a repetition of an end is not told."""
    state = RunState(run_id)
    told = set()
    for entry in entries:
        state.apply(entry, 0)
        if entry.task is None or entry.kind not in _ENDS:
            continue
        name = (entry.task, entry.body["identity"], entry.kind is Kind.FAILED)
        lineage = lineage_of(run_id, state.task(entry.task), entry)
        if name not in told and lineage is not None:
            told.add(name)
            yield lineage


def event_of(document: LineageDocument) -> Event:
    """Return a document as an event for the outbox."""
    return Event(
        pipeline_id=document.pipeline,
        event_name=document.event_name,
        dataset_id=document.dataset_id,
        version=document.version,
        payload=document.body,
        care_label=document.care_label,
        governance_ref=document.governance_ref,
        sovereignty=dict(document.sovereignty) or None,
        subject=document.subject,
        idempotency_key=document.key,
    )


class FileLineage:
    """Two files of JSON lines a run: ``<root>/<run_id>/openlineage.ndjson`` and ``prov.ndjson``."""

    kept_in = "files"

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root)
        self._files: OrderedDict[Path, LineFile] = OrderedDict()
        self._lock = threading.Lock()

    def hand_on(self, documents: Sequence[LineageDocument]) -> int:
        """Add the documents that the files have not got, each as a line."""
        lines: dict[Path, list[bytes]] = {}
        for each in documents:
            name = "prov" if each.event_name == PROVENANCE_EVENT else "openlineage"
            path = self.root / file_name_of(each.run_id) / f"{name}.ndjson"
            lines.setdefault(path, []).append(each.line)
        return sum(self._file(path).add(added) for path, added in lines.items())

    def _file(self, path: Path) -> LineFile:
        with self._lock:
            known = self._files.setdefault(path, LineFile(path))
            self._files.move_to_end(path)
            if len(self._files) > _FILES_MAX:
                self._files.popitem(last=False)
            return known


def _noted(lineage: NodeLineage, documents: Sequence[LineageDocument]) -> dict[str, Any]:
    return {
        "openlineage_run_id": lineage.openlineage_run_id,
        "parent_run_id": lineage.parent_run_id,
        "prov_activity_id": lineage.activity_id,
        "documents": [each.key for each in documents],
    }
