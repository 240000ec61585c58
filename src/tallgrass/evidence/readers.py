"""Readers of evidence: one that reads objects, one that believes the event."""

import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from tallgrass.datasets.definition import FileFormat
from tallgrass.evidence import grib2, nexrad_level2
from tallgrass.evidence.formats import format_by_name, header_alone, read_seen, tail_bytes
from tallgrass.evidence.hdf5_attributes import may_tell_a_place, with_attributes
from tallgrass.evidence.hdf5_children import Attributes
from tallgrass.evidence.header import ATTRIBUTES, UNREAD, Ranges, Seen, Verdict
from tallgrass.evidence.kinds import issue_of
from tallgrass.evidence.magic import magic_of
from tallgrass.evidence.object_store import ObjectBytes, Objects, RangeUnread
from tallgrass.evidence.reading import Evidence, ReadFailure
from tallgrass.ledger.unit import IngestUnit

#: Answers the format of a unit's object, or None where none is known.
FormatOf = Callable[[IngestUnit], FileFormat | None]

#: What stands where neither dataset nor name tell the format of an object.
_TOLD_BY_NO_NAME = (None, FileFormat.BY_NAME, FileFormat.BY_NAME_HEADER)
_NETCDF = (FileFormat.NETCDF4, FileFormat.HDF5)

#: An etag is 32 digits, with a suffix for parts; one beyond this is none.
ETAG_CHARACTERS_MAX = 1024


class ObjectEvidenceReader:
    """Reads head and tail of each object, several at a time; `attributes` reads those of HDF5.

    With one thread it reads in the caller's, in order. A process that was forked after the first
    read must not use it: obstore's own threads are not there. Start workers by `spawn`.

    A batch starts no read after `deadline_s`: where each read of a large batch ends by a time limit
    of its own, all of them together would outlast the worker's lease. What was not read fails with
    a retried code.
    """

    def __init__(
        self,
        objects: Objects,
        format_of: FormatOf,
        *,
        threads: int = 8,
        deadline_s: float = math.inf,
        monotonic: Callable[[], float] = time.monotonic,
        attributes: Attributes | None = None,
    ) -> None:
        self._objects = objects
        self._attributes = attributes
        self._format_of = format_of
        self._threads = threads
        self._deadline_s = deadline_s
        self._monotonic = monotonic
        self._pool: ThreadPoolExecutor | None = None

    def read(self, units: Sequence[IngestUnit]) -> Sequence[Evidence | ReadFailure]:
        """Return one answer for each unit, in the order given."""
        answers: list[Evidence | ReadFailure | None] = [None] * len(units)
        waiting = deque(enumerate(units))
        threads = min(self._threads, len(units))
        until = self._monotonic() + self._deadline_s
        if threads <= 1:
            self._work(waiting, answers, until)
        else:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="evidence")
            # One task a thread, not one an object: a future costs as much as half a read.
            tasks = [self._pool.submit(self._work, waiting, answers, until) for _ in range(threads)]
            for task in tasks:
                task.result()
        return [answer if answer is not None else _LOST for answer in answers]

    def close(self) -> None:
        """End the threads and processes."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None
        if self._attributes is not None:
            self._attributes.close()

    def _work(
        self,
        waiting: deque[tuple[int, IngestUnit]],
        answers: list[Evidence | ReadFailure | None],
        until: float,
    ) -> None:
        while True:
            try:
                number, unit = waiting.popleft()
            except IndexError:
                return
            late = self._monotonic() > until
            answers[number] = self._too_late(unit) if late else self._read_one(unit)

    def _too_late(self, unit: IngestUnit) -> ReadFailure:
        return ReadFailure(
            code="transient_network_error",
            message=f"{unit.object_uri} was not asked for: "
            f"other reads of its batch took {self._deadline_s:g} s",
        )

    def _read_one(self, unit: IngestUnit) -> Evidence | ReadFailure:
        try:
            file_format = self._format(unit)
            read = self._objects.read(unit.object_uri, tail_bytes(file_format))
            if isinstance(read, ReadFailure):
                return read
            if file_format in _NETCDF and self._is_classic(unit, read):
                file_format = FileFormat.BY_NAME_HEADER
            verdict = self._verdict(file_format, read, unit.object_uri)
        except (KeyboardInterrupt, SystemExit):
            raise
        except RangeUnread as unread:
            return unread.failure
        except BaseException as exc:  # noqa: BLE001 - a panic of native code is no Exception
            return ReadFailure(
                code="operator_error",
                message=f"reading {unit.object_uri} raised {type(exc).__name__}: {str(exc)[:200]}",
            )
        if isinstance(verdict, ReadFailure):
            return replace(verdict, message=f"{unit.object_uri}: {verdict.message}")
        header, issues = verdict
        return Evidence(
            etag=read.etag, size=read.size, source="object", header=header, issues=issues
        )

    def _format(self, unit: IngestUnit) -> FileFormat | None:
        file_format = self._format_of(unit)
        if file_format is FileFormat.BY_NAME:
            return format_by_name(unit.object_uri) or file_format
        if file_format is FileFormat.BY_NAME_HEADER:
            named = format_by_name(unit.object_uri)
            return file_format if named is None else header_alone(named)
        return file_format

    def _is_classic(self, unit: IngestUnit, read: ObjectBytes) -> bool:
        """Tell whether a file that only its name calls HDF5 is of the older form of NetCDF."""
        by_name = self._format_of(unit) in _TOLD_BY_NO_NAME
        return by_name and magic_of(read.head) == "netcdf3"

    def _verdict(
        self, file_format: FileFormat | None, read: ObjectBytes, uri: str
    ) -> Verdict | ReadFailure:
        """Judge by the header's bytes; only where they cannot tell ask for attributes."""
        seen = Seen(read.head, read.tail, read.size, read.more if read.near else None)
        header, issues = read_seen(file_format, seen)
        if "format" not in header and file_format in _TOLD_BY_NO_NAME and not issues:
            issue = issue_of(uri, seen)
            return header, () if issue is None else (issue,)
        if file_format is FileFormat.GRIB2_GRID and not issues and header.get("messages") is None:
            return _with_last_message(file_format, seen, read.more) or (header, issues)
        if file_format is FileFormat.NEXRAD_LEVEL2 and not issues:
            return _with_first_radial(file_format, seen, header, read.more) or (header, issues)
        if issues or read.more is None or not _wants_attributes(file_format, header, seen):
            return header, issues
        if self._attributes is None:
            return {**header, UNREAD: ATTRIBUTES}, issues
        whole = Seen(read.head, read.tail, read.size, read.more)
        answer = self._attributes.read(whole, near=read.near)
        return answer if isinstance(answer, ReadFailure) else with_attributes(header, answer)


def _wants_attributes(
    file_format: FileFormat | None, header: dict[str, object], seen: Seen
) -> bool:
    """Tell whether the attributes of an HDF5 file are asked for, by a process that costs 1 ms."""
    if "compression" in header:
        return False
    if file_format is FileFormat.NETCDF4_PLACE:
        return may_tell_a_place(seen)
    return header.get("format") == FileFormat.HDF5


def _with_last_message(file_format: FileFormat, seen: Seen, more: Ranges | None) -> Verdict | None:
    """Look for the last message of a file that is not near, by one more request."""
    length = grib2.wider_tail(seen)
    if not length or more is None:
        return None
    tail = more(seen.size - length, length)
    return read_seen(file_format, Seen(seen.head, tail, seen.size))


def _with_first_radial(
    file_format: FileFormat, seen: Seen, header: dict[str, object], more: Ranges | None
) -> Verdict | None:
    """Look for the first radial of a volume that is not near, by one more request."""
    length = nexrad_level2.wider_head(seen, header)
    if not length or more is None:
        return None
    return read_seen(file_format, Seen(more(0, length), seen.tail, seen.size))


#: Stands for an answer that no thread gave, which only the end of the process can bring about.
_LOST = ReadFailure(code="operator_error", message="the reader was stopped")


class EventEvidenceReader:
    """Reads nothing: etag and size are those that the event announced."""

    def read(self, units: Sequence[IngestUnit]) -> Sequence[Evidence | ReadFailure]:
        """Return one answer for each unit, in the order given."""
        return [_announced(unit) for unit in units]


def _announced(unit: IngestUnit) -> Evidence | ReadFailure:
    etag = unit.object_ref.etag
    if etag is not None and len(etag) > ETAG_CHARACTERS_MAX:
        return ReadFailure(
            code="etag_mismatch",
            message=f"the announced etag of {unit.object_uri} has {len(etag)} characters",
        )
    return Evidence(etag=etag, size=unit.object_ref.size, source="event", header={})
