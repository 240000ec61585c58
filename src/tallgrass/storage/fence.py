"""The fence: each transaction of a worker first finds it unfenced, and so holds the fence off."""

from tallgrass.errors import WorkerFenced
from tallgrass.ledger.claim import WorkerLease
from tallgrass.storage.unit_of_work import Transaction


def require_unfenced(tx: Transaction, worker: WorkerLease) -> None:
    """Refuse a worker that lost its lease; hold the fence off until this transaction ends."""
    rows = tx.select("hold_worker", incarnation=worker.incarnation)
    if not rows or rows[0]["fenced_at"] is not None or rows[0]["stopped_at"] is not None:
        raise WorkerFenced(f"worker {worker.worker_id} ({worker.incarnation}) lost its lease")


def await_ended(tx: Transaction, worker: WorkerLease) -> None:
    """Wait until no transaction of the worker is still committing; each holds the worker's row."""
    tx.lock("lock_worker", [worker.incarnation])
