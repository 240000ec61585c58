"""Batches of SQS: ten entries, one mebibyte, and an answer for each entry by itself."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from tallgrass.errors import QueueDenied, QueueMissing, QueueUnreachable
from tallgrass.queues.protocol import BODY_BYTES_MAX
from tallgrass.queues.sqs_errors import unavailability
from tallgrass.retry import Backoff

BATCH_MAX = 10
#: Of entries that SQS itself failed to do; boto3 tries again only whole requests.
_TRIES = 4
_BETWEEN_TRIES = Backoff(base_s=0.1, cap_s=2.0)

Fields = Mapping[str, Any]
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedEntry:
    """What SQS calls the sender's fault: the same entry would be refused again."""

    code: str
    message: str


def tens(entries: Sequence[_T]) -> list[Sequence[_T]]:
    """Cut into batches of ten."""
    return [entries[first : first + BATCH_MAX] for first in range(0, len(entries), BATCH_MAX)]


def sendable(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    """Cut into batches of at most ten texts and one mebibyte; none alone is longer."""
    batch: list[str] = []
    size = 0
    for text in texts:
        length = len(text.encode())
        if batch and (len(batch) == BATCH_MAX or size + length > BODY_BYTES_MAX):
            yield batch
            batch, size = [], 0
        batch.append(text)
        size += length
    if batch:
        yield batch


def settle(
    entries: Sequence[Fields],
    call: Callable[[Sequence[Fields]], Fields],
    *,
    what: str,
    sleep: Callable[[float], object],
    random: Callable[[], float],
) -> list[Fields | RefusedEntry]:
    """Send at most ten entries until each is done or refused; return what became of each.

    Ids are positions: ids made of the entries could collide, which refuses the whole batch. An
    entry of which the answer says nothing counts as not done.
    """
    settled: dict[int, Fields | RefusedEntry] = {}
    failure: Fields = {}
    for attempt in range(1, _TRIES + 1):
        left = [position for position in range(len(entries)) if position not in settled]
        answer = call([{"Id": str(position), **entries[position]} for position in left])
        settled |= {int(done["Id"]): done for done in answer.get("Successful", ())}
        for failed in answer.get("Failed", ()):
            failure = failed
            if (refused := _refused(failed, what)) is not None:
                settled[int(failed["Id"])] = refused
        if len(settled) == len(entries):
            return [settled[position] for position in range(len(entries))]
        if attempt < _TRIES:
            sleep(_BETWEEN_TRIES.delay_s(attempt, random))
    kind = unavailability(str(failure.get("Code", ""))) or QueueUnreachable
    raise kind(f"{what}: {len(entries) - len(settled)} of {len(entries)} failed: {_said(failure)}")


def _refused(failed: Fields, what: str) -> RefusedEntry | None:
    """Judge an entry that failed; None if it may be tried again."""
    code = str(failed.get("Code", ""))
    kind = unavailability(code)
    if kind in {QueueDenied, QueueMissing}:
        raise kind(f"{what}: {_said(failed)}")  # trying again at once would not help
    if kind is not None or not failed.get("SenderFault"):
        return None
    return RefusedEntry(code=code, message=str(failed.get("Message", "")))


def _said(failed: Fields) -> str:
    return (
        ": ".join(str(failed[key]) for key in ("Code", "Message") if failed.get(key)) or "no word"
    )
