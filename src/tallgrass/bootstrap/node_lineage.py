"""Lineage of nodes into the transactional outbox, by the configuration's routes and rules."""

import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager

from tallgrass.bootstrap.publishing import open_publisher
from tallgrass.bootstrap.stores import open_current_stores
from tallgrass.config import Config
from tallgrass.nodes.lineage import event_of
from tallgrass.nodes.lineage_documents import LineageDocument
from tallgrass.outbox.publishing import Publisher
from tallgrass.storage.transaction_runner import TransactionRunner


class OutboxLineage:
    """Records documents as outbox events, those of one execution in one transaction.

    Provenance goes where routes send ``node.provenance``, or to the default target; OpenLineage
    events only where a route wants them. What was recorded before is a duplicate and changes
    nothing.
    """

    kept_in = "outbox"

    def __init__(
        self,
        runner: TransactionRunner,
        publisher: Publisher,
        *,
        lock: AbstractContextManager[object] | None = None,
    ) -> None:
        self._runner = runner
        self._publisher = publisher
        # A connection serves one thread at a time, and nodes run in many.
        self._lock = lock or threading.Lock()

    def hand_on(self, documents: Sequence[LineageDocument]) -> int:
        """Record all of them or none; return how many were not there yet."""
        routing = self._publisher.routing
        wanted = [
            event_of(each)
            for each in documents
            if routing.targets_for(each.event_name, each.dataset_id, each.care_label)
        ]
        if not wanted:
            return 0
        with self._lock:
            published = self._runner.run(
                lambda transaction: self._publisher.publish_all(transaction, wanted),
                # Repeating it is harmless: its keys make it a duplicate.
                landed=lambda _transaction, _published: False,
            )
        return sum(not each.duplicate for each in published)

    def close(self) -> None:
        """Close the connection."""
        self._runner.database.close()


def open_node_lineage(config: Config) -> OutboxLineage:
    """Return the configured outbox as a place for the lineage of nodes; close it at the end."""
    stores = open_current_stores(config)
    return OutboxLineage(stores.runner, open_publisher(config))
