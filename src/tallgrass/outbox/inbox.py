"""For consumers: remember the events that were handled, so that a repetition does nothing.

Delivery is at least once: an event may come again. A consumer that notes its key in the transaction
of its own change handles it effectively once:

    with connection.transaction():                          # psycopg; sqlite3: BEGIN … COMMIT
        if not handled(connection, "catalog", key):
            connection.execute("UPDATE …")

The key is the event's `idempotency_key`; every delivery repeats it. The table lies in the
consumer's own database: `create_inbox` makes it once.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from tallgrass.clock import Clock, system_clock
from tallgrass.errors import InvalidInput
from tallgrass.outbox.keys import INDEXED_BYTES_MAX, indexed_bytes_beyond
from tallgrass.storage.caller_transactions import CallerTransaction, caller_transaction

__all__ = ["create_inbox", "handled", "handling"]


def create_inbox(transaction: object) -> None:
    """Make the table, if it is not there, in an open transaction of the consumer's database."""
    caller_transaction(transaction).execute("create_inbox")


def handled(
    transaction: object, consumer: str, event_key: str, *, clock: Clock = system_clock
) -> bool:
    """Tell whether a consumer has handled an event; if not, note that it does so now.

    The note is part of the open transaction: it is kept if the consumer's change is. While another
    transaction handles the same event, this waits for its end.

    Raises:
        NoTransaction: the note would be kept whatever becomes of the change.
    """
    return not _note(caller_transaction(transaction, clock), consumer, event_key)


@contextmanager
def handling(
    transaction: object, consumer: str, event_key: str, *, clock: Clock = system_clock
) -> Iterator[bool]:
    """Handle one event among several of a transaction; give whether it is new.

        with handling(connection, "catalog", key) as is_new:
            if is_new:
                connection.execute("UPDATE …")

    If the body raises, its changes and the note are undone, and the transaction can go on.
    """
    tx = caller_transaction(transaction, clock)
    with tx.savepoint():
        yield _note(tx, consumer, event_key)


def _note(tx: CallerTransaction, consumer: str, event_key: str) -> bool:
    """Note an event as handled; return whether it is new."""
    given: tuple[tuple[str, object], ...] = (("consumer", consumer), ("event_key", event_key))
    for name, text in given:
        if not isinstance(text, str) or not text.strip():
            raise InvalidInput(f"{name} must be a text that is not blank, not {text!r}")
        if not _is_storable(text):
            raise InvalidInput(f"{name} holds a NUL or half a character: {text!r}")
    if size := indexed_bytes_beyond(consumer, event_key):
        raise InvalidInput(
            f"consumer and event_key have {size:,} bytes together; "
            f"at most {INDEXED_BYTES_MAX:,} are kept"
        )
    return tx.write("insert_handled", [(consumer, event_key)], now=tx.now()) == 1


def _is_storable(text: str) -> bool:
    """Tell what every database keeps as it is: no NUL, no half of a character."""
    return "\0" not in text and not any("\ud800" <= char <= "\udfff" for char in text)
