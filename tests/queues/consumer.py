"""A consumer in a process of its own: `python -m tests.queues.consumer ROLE ADDRESS`.

It says `ready` and waits for a line of input where the test wants to act. Its clock stands still.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallgrass.storage.queue_store import QueueStore
from tests.queues.harness import open_embedded, open_sqs
from tests.support.backends import ManualClock
from tests.support.process_roles import PausingDatabase, announce

if TYPE_CHECKING:
    from tallgrass.queues.embedded import EmbeddedQueue
    from tallgrass.queues.protocol import Queue

#: No multiple of it is the number of messages, so that a batch is cut at the end.
BATCH = 7


def _pause() -> None:
    announce(step="ready")
    sys.stdin.readline()


def takes_all(queue: Queue, _: Any) -> None:
    """Receive until nothing is visible, deleting nothing; tell what was received."""
    _pause()
    taken: list[tuple[str, str]] = []
    while batch := queue.receive(BATCH):
        taken += [(message.message_id, message.receipt) for message in batch]
    announce(taken=taken)


def stops_inside(queue: EmbeddedQueue, database: Any) -> None:
    """Stop in the middle of a receive: rows are changed, nothing is committed."""
    stopping: Any = PausingDatabase(database, _pause)
    queue._store = QueueStore(stopping)
    queue.receive(BATCH)


def stops_after(queue: Queue, _: Any) -> None:
    """Stop with received messages in hand."""
    queue.receive(BATCH)
    _pause()


if __name__ == "__main__":
    name, address = sys.argv[1:]
    roles: dict[str, Any] = {role.__name__: role for role in (takes_all, stops_inside, stops_after)}
    if address.startswith("["):
        opened: Any = (open_sqs(*json.loads(address)), None)
    else:
        opened = open_embedded(Path(address), ManualClock())
    roles[name](*opened)
