"""Poison messages on their way back into the queue, once a dataset or a fix claims them.

    read again → record the intent → send → confirm

A crash between any two leaves the message stored and, at worst, twice in the queue: the ledger
makes one unit of both. It is never lost, and each step is in the audit log.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import islice
from typing import Protocol
from uuid import UUID

from tallgrass.datasets.catalogue import Catalogue
from tallgrass.errors import InvalidInput, UnknownRecord
from tallgrass.governance.actors import Acting, name_of
from tallgrass.intake.message import ParsedMessage
from tallgrass.intake.parse import Admission, parse_message
from tallgrass.intake.poison import PoisonFilter, PoisonState, StoredPoison

#: Messages that are recorded, sent and confirmed together.
BATCH = 50

#: Reads a body as a worker would.
Reading = Callable[[StoredPoison, bytes], ParsedMessage]


class LeftOut(StrEnum):
    """Why a message is not fed."""

    CUT = "cut"  # only its beginning is kept; nothing can force it
    OTHER_QUEUE = "other_queue"  # it came from another queue than the one it would go to
    ALREADY_FED = "already_fed"  # and it did not come back
    NOT_UNDERSTOOD = "not_understood"  # it would only become poison again


class PoisonSource(Protocol):
    """The poison store as feeding needs it."""

    def page(
        self, wanted: PoisonFilter, *, after: int = 0, size: int = 100
    ) -> Sequence[StoredPoison]:
        """Return a page of what is stored."""

    def find(self, poison_ids: Sequence[int]) -> Sequence[StoredPoison]:
        """Return those of the given messages that there are."""

    def bodies(self, poison_ids: Sequence[int]) -> Mapping[int, bytes]:
        """Return the bodies of messages."""

    def begin_feeding(
        self, messages: Sequence[StoredPoison], *, feed_id: str, actor: Acting, reason: str
    ) -> None:
        """Record that messages will be fed."""

    def confirm_feeding(
        self, sent: Mapping[int, str], *, feed_id: str, actor: str, reason: str
    ) -> None:
        """Note by which message each was sent."""

    def refuse_feeding(self, refused: Mapping[int, str], *, actor: str) -> None:
        """Keep in the audit log what was asked for and not done."""


class Sender(Protocol):
    """The queue as feeding needs it."""

    def send(self, bodies: Sequence[bytes]) -> Sequence[str]:
        """Put messages into the queue; return their ids, in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A stored message, what its body gives now, and what became of it."""

    message: StoredPoison
    #: None for a body of which only the beginning is kept.
    parsed: ParsedMessage | None
    left_out: LeftOut | None
    #: The message by which it was fed; None if it was not.
    sent_as: str | None = None


def as_a_worker_reads(
    queue_name: str, catalogue: Catalogue, providers: Collection[str], admit: Admission | None
) -> Reading:
    """Return what reads a stored body as a worker of this queue would read it now."""

    def read(message: StoredPoison, body: bytes) -> ParsedMessage:
        return parse_message(
            body,
            message_id=message.message_id or "",
            sent_at=message.last_seen_at,
            queue=queue_name,
            catalogue=catalogue,
            providers=providers,
            admit=admit,
        )

    return read


def select_named(store: PoisonSource, poison_ids: Sequence[int]) -> list[StoredPoison]:
    """Return the named messages; one that is not there stops the whole call."""
    found = {message.poison_id: message for message in store.find(poison_ids)}
    missing = [str(poison_id) for poison_id in poison_ids if poison_id not in found]
    if missing:
        raise UnknownRecord(f"no poison message {', '.join(missing)}", code="poison_unknown")
    return [found[poison_id] for poison_id in dict.fromkeys(poison_ids)]


def select_waiting(store: PoisonSource, error_code: str | None) -> Iterator[StoredPoison]:
    """Yield every message that was not fed since it came last, with this code if one is given."""
    for state in (PoisonState.OPEN, PoisonState.BEGUN):
        wanted = PoisonFilter(error_code=error_code, state=state)
        # By id, upwards: one that comes back while this goes on is not met twice.
        after = 0
        while page := store.page(wanted, after=after, size=10 * BATCH):
            after = page[-1].poison_id
            yield from page


class PoisonFeeder:
    """Reads stored messages again and puts into the queue what is understood now."""

    def __init__(
        self,
        store: PoisonSource,
        *,
        queue_name: str,
        read: Reading,
        ids: Callable[[], UUID],
    ) -> None:
        self._store = store
        self._queue_name = queue_name
        self._read = read
        self._ids = ids

    def consider(
        self, messages: Iterable[StoredPoison], *, force: bool = False
    ) -> Iterator[Candidate]:
        """Tell of each message what it gives now and why it would be left out; write nothing."""
        for batch in _batches(messages):
            yield from (candidate for candidate, _ in self._judged(batch, force=force))

    def feed(
        self,
        messages: Iterable[StoredPoison],
        queue: Sender,
        *,
        actor: Acting,
        reason: str,
        force: bool = False,
        named: bool = False,
    ) -> Iterator[Candidate]:
        """Feed messages batch by batch, and tell what became of each.

        Those that somebody named are in the audit log also where they are left out.
        """
        if not name_of(actor).strip() or not reason.strip():
            raise InvalidInput("feeding needs an actor and a reason")
        for batch in _batches(messages):
            judged = self._judged(batch, force=force)
            sent = self._send(
                [pair for pair in judged if not pair[0].left_out], queue, actor, reason
            )
            refused = {c.message.poison_id: c.left_out.value for c, _ in judged if c.left_out}
            if refused and named:
                self._store.refuse_feeding(refused, actor=name_of(actor))
            yield from (
                replace(candidate, sent_as=sent.get(candidate.message.poison_id))
                for candidate, _ in judged
            )

    def _send(
        self, fed: Sequence[tuple[Candidate, bytes]], queue: Sender, actor: Acting, reason: str
    ) -> dict[int, str]:
        """Record the intent, send, confirm; return the message by which each went."""
        if not fed:
            return {}
        feed_id = str(self._ids())
        messages = [candidate.message for candidate, _ in fed]
        self._store.begin_feeding(messages, feed_id=feed_id, actor=actor, reason=reason)
        sent = queue.send([body for _, body in fed])
        by_message = dict(zip((m.poison_id for m in messages), sent, strict=True))
        self._store.confirm_feeding(
            by_message, feed_id=feed_id, actor=name_of(actor), reason=reason
        )
        return by_message

    def _judged(
        self, batch: Sequence[StoredPoison], *, force: bool
    ) -> list[tuple[Candidate, bytes]]:
        bodies = self._store.bodies([message.poison_id for message in batch])
        return [
            (
                self._judge(message, bodies[message.poison_id], force=force),
                bodies[message.poison_id],
            )
            for message in batch
        ]

    def _judge(self, message: StoredPoison, body: bytes, *, force: bool) -> Candidate:
        if message.is_cut:
            return Candidate(message=message, parsed=None, left_out=LeftOut.CUT)
        parsed = self._read(message, body)
        why = None if force else self._objection(message, parsed)
        return Candidate(message=message, parsed=parsed, left_out=why)

    def _objection(self, message: StoredPoison, parsed: ParsedMessage) -> LeftOut | None:
        """Return why it should not be fed, if nobody insists."""
        if message.queue != self._queue_name:
            return LeftOut.OTHER_QUEUE
        if message.state is PoisonState.FED:
            return LeftOut.ALREADY_FED
        if parsed.poison is not None or parsed.deferred is not None:
            return LeftOut.NOT_UNDERSTOOD
        return None


def _batches(messages: Iterable[StoredPoison]) -> Iterator[Sequence[StoredPoison]]:
    iterator = iter(messages)
    while batch := list(islice(iterator, BATCH)):
        yield batch
