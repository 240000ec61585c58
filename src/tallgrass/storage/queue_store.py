"""The embedded queue's messages in a SQLite file of their own (schema `sqlite_queue`)."""

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime, timedelta

from tallgrass.clock import format_instant
from tallgrass.queues.dead_letters import DeadLetterStatus
from tallgrass.queues.embedded import DeadLetter, Delivery, TakenMessage
from tallgrass.queues.protocol import QueueStatus
from tallgrass.storage.rows import instant, instant_or_none
from tallgrass.storage.unit_of_work import Database, Row, Transaction


class QueueStore:
    """A `MessageStore` on a database. Each verb is one transaction, whatever its size."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def close(self) -> None:
        """Close the connection; the next use opens a new one."""
        self._database.close()

    def add(self, messages: Sequence[tuple[str, bytes]]) -> None:
        """Append messages, each an id and a body, visible at once."""
        with self._database.transaction() as tx:
            now = tx.now()
            first = tx.select("last_position")[0]["position"] + 1
            numbered = [
                (position, message_id, body)
                for position, (message_id, body) in enumerate(messages, start=first)
            ]
            tx.write("insert_messages", numbered, now=now)
            tx.write("insert_deliveries", [(row[0],) for row in numbered], now=now)

    def take(
        self, limit: int, *, delivery_id: str, visibility_s: float, max_receive_count: int
    ) -> Sequence[TakenMessage]:
        """Hide and return visible messages; bury on the way those that were received too often."""
        taken: list[Row] = []
        with self._database.transaction() as tx:
            now = tx.now()
            visible_at = now + timedelta(seconds=visibility_s)
            while len(taken) < limit:
                rows = tx.select("visible_messages", now=now, size=limit - len(taken))
                alive = [row for row in rows if row["receive_count"] < max_receive_count]
                tx.write(
                    "deliver_messages",
                    [(row["position"],) for row in alive],
                    visible_at=visible_at,
                    delivery_id=delivery_id,
                )
                taken += alive
                if len(alive) == len(rows):
                    break
                dead = [row for row in rows if row["receive_count"] >= max_receive_count]
                _bury(tx, now, [(row["position"],) for row in dead])
        return [
            TakenMessage(
                position=row["position"],
                message_id=row["message_id"],
                body=row["body"],
                receive_count=row["receive_count"] + 1,
                sent_at=instant(row["sent_at"]),
            )
            for row in taken
        ]

    def remove(self, deliveries: Sequence[Delivery]) -> AbstractSet[Delivery]:
        """Remove messages by deliveries that are in flight; return those."""
        with self._database.transaction() as tx:
            valid = _in_flight(tx, tx.now(), deliveries)
            tx.write("delete_messages", [(position,) for position, _ in sorted(valid)])
        return valid

    def hide(self, changes: Mapping[Delivery, float]) -> AbstractSet[Delivery]:
        """Hide deliveries that are in flight for so many seconds from now; return those."""
        with self._database.transaction() as tx:
            now = tx.now()
            valid = _in_flight(tx, now, list(changes))
            rows = [
                (delivery[0], format_instant(now + timedelta(seconds=changes[delivery])))
                for delivery in sorted(valid)
            ]
            tx.write("change_visibility", rows)
        return valid

    def status(self) -> QueueStatus:
        """Count what is there."""
        with self._database.reading() as tx:
            row = tx.select("queue_status", now=tx.now())[0]
        return QueueStatus(
            visible=row["visible"],
            in_flight=row["in_flight"],
            dead=row["dead"],
            oldest_sent_at=instant_or_none(row["oldest_sent_at"]),
            oldest_dead_at=instant_or_none(row["oldest_dead_at"]),
        )

    def dead_letters(self, after: int, size: int) -> Sequence[DeadLetter]:
        """Return a page of dead letters in the order of their death."""
        with self._database.reading() as tx:
            rows = tx.select("list_dead_letters", after=after, size=size)
        return [_dead_letter(row) for row in rows]

    def take_dead(
        self, limit: int, *, delivery_id: str, visibility_s: float
    ) -> Sequence[DeadLetter]:
        """Hide and return letters that nobody holds, oldest death first."""
        with self._database.transaction() as tx:
            now = tx.now()
            rows = tx.select("free_dead_letters", now=now, size=limit)
            tx.write(
                "hold_dead_letters",
                [(row["position"],) for row in rows],
                hidden_until=now + timedelta(seconds=visibility_s),
                delivery_id=delivery_id,
            )
        return [_dead_letter(row) for row in rows]

    def remove_dead(self, deliveries: Sequence[Delivery]) -> AbstractSet[Delivery]:
        """Remove letters by deliveries that are in hand; return those."""
        with self._database.transaction() as tx:
            valid = _in_hand(tx, tx.now(), deliveries)
            tx.write("delete_dead_letters", [(position,) for position, _ in sorted(valid)])
        return valid

    def hide_dead(self, changes: Mapping[Delivery, float]) -> None:
        """Hide letters in hand for so many seconds from now."""
        with self._database.transaction() as tx:
            now = tx.now()
            for position, delivery_id in sorted(_in_hand(tx, now, list(changes))):
                tx.write(
                    "hold_dead_letters",
                    [(position,)],
                    hidden_until=now + timedelta(seconds=changes[position, delivery_id]),
                    delivery_id=delivery_id,
                )

    def release_dead(self, deliveries: Sequence[Delivery]) -> None:
        """Let letters in hand be seen again."""
        with self._database.transaction() as tx:
            valid = _in_hand(tx, tx.now(), deliveries)
            tx.write("free_letters", [(position,) for position, _ in sorted(valid)])

    def dead_status(self) -> DeadLetterStatus:
        """Count the letters."""
        with self._database.reading() as tx:
            row = tx.select("dead_status", now=tx.now())[0]
        return DeadLetterStatus(visible=row["visible"], in_flight=row["in_flight"])

    def drop_dead(self, letters: Sequence[DeadLetter]) -> None:
        """Remove letters that are kept elsewhere."""
        with self._database.transaction() as tx:
            tx.write("delete_dead_letters", [(letter.position,) for letter in letters])

    def remove_if_empty(self, remove: Callable[[], None]) -> bool:
        """Let the queue be removed if nothing is in it; nobody can write to it meanwhile."""
        with self._database.transaction() as tx:
            found = tx.select("queue_status", now=tx.now())[0]
            is_empty = not (found["visible"] or found["in_flight"] or found["dead"])
            if is_empty:
                remove()
        return is_empty

    def bury(self, letters: Sequence[DeadLetter]) -> None:
        """Take in letters that died elsewhere; one that is here already is left as it is."""
        rows = [
            (
                letter.message_id,
                format_instant(letter.sent_at),
                format_instant(letter.died_at),
                letter.receive_count,
                letter.body,
            )
            for letter in letters
        ]
        with self._database.transaction() as tx:
            tx.write("bury_letters", rows)


def _dead_letter(row: Row) -> DeadLetter:
    return DeadLetter(
        position=row["position"],
        message_id=row["message_id"],
        body=row["body"],
        receive_count=row["receive_count"],
        sent_at=instant(row["sent_at"]),
        died_at=instant(row["died_at"]),
    )


def _in_hand(tx: Transaction, now: datetime, deliveries: Sequence[Delivery]) -> set[Delivery]:
    """Return the deliveries that still hold their letter."""
    rows = tx.select("letters_in_hand", now=now, rows=[position for position, _ in deliveries])
    return {(row["position"], row["delivery_id"]) for row in rows}.intersection(deliveries)


def _in_flight(tx: Transaction, now: datetime, deliveries: Sequence[Delivery]) -> set[Delivery]:
    """Return the deliveries that still hold their message: the latest of it, and not expired."""
    positions = [position for position, _ in deliveries]
    rows = tx.select("deliveries_in_flight", now=now, rows=positions)
    current = {(row["position"], row["delivery_id"]) for row in rows}
    return current.intersection(deliveries)


def _bury(tx: Transaction, now: datetime, positions: Sequence[tuple[int]]) -> None:
    tx.write("insert_dead_letters", positions, now=now)
    tx.write("delete_messages", positions)
