"""Every error that Tallgrass raises on purpose.

    TallgrassError
    ├── TransientError              the same call may succeed later
    │   ├── DatabaseUnreachable     no server, no file, connection lost
    │   ├── DatabaseLocked          another process holds the writer's lock
    │   ├── DatabaseFull            no room left for the database
    │   ├── TransactionConflict     deadlock or serialization failure
    │   ├── CommitUnknown           the connection broke during COMMIT
    │   ├── CertificateUnreachable  the certificate of a signature cannot be had now
    │   ├── ObjectsUnreachable      no object can be read now
    │   ├── ArchiveFull             no room left for an archive
    │   ├── ListingBroken           a bucket's listing broke off, again and again
    │   ├── NetworkError            a node's call over the network failed
    │   ├── NodeWalFull             no room left for a node's log
    │   ├── RunBusy                 another process works on the run, or on the same node
    │   └── QueueUnavailable        the queue cannot be used now
    │       ├── QueueUnreachable    no answer, or a server that fails
    │       ├── QueueThrottled      too many requests for now
    │       ├── QueueDenied         no credentials, or no right to it
    │       └── QueueMissing        no such queue
    └── PermanentError              the same call will fail again
        ├── InvalidInput            a value that the contract does not allow
        │   ├── ConfigError         the same, in configuration
        │   ├── NoTransaction       a call that must stand in the caller's transaction
        │   ├── ValidationError     a node's inputs or results that its rules do not allow
        │   └── PayloadRefused      an event that must not be published as it is
        ├── UnknownRecord           no such unit in the ledger
        ├── DatabaseUnusable        wrong place, wrong rights, wrong schema
        ├── DataRefused             the database refused a row
        ├── ArchiveUnusable         the place of archives cannot be read or written
        ├── ArchiveDamaged          an archive's file is not what was written to it
        ├── QueueRefused            the queue calls a request wrong
        ├── ListingRefused          a bucket that cannot be listed as it is asked for
        ├── NodeWalUnusable         a node's log cannot be written or read
        │   └── NodeRunUnknown      there is no such run; an UnknownRecord, too
        ├── NodeWalDamaged          a node's log is not what was written to it
        └── Refused                 a guard said no
            ├── IllegalTransition   not one of the seven edges
            ├── VersionConflict     the record moved meanwhile
            ├── WorkerFenced        the lease was lost; nothing may be written
            ├── IdempotencyConflict a key or an artifact's version that stands for something else
            ├── NotAuthorized       who acts is not known, or may not do this
            ├── ApprovalInvalid     the approval is not given for this, or no longer
            ├── GuardRefused        a rule of governance or of replay, which it names
            ├── GovernanceError     a node that governance does not allow
            │   └── NodeParked      the same, until a switch is cleared
            ├── NodeFailed          a node that failed for good in this run
            ├── AuditBroken         the audit chain does not hold
            └── ReleaseBroken       a release's files are not what its list and key say

Each carries a ``code`` of the closed registry in ``error_codes.py``; drivers' errors are translated
in ``storage/`` alone, those of Amazon's library in ``queues/sqs_errors.py``.
"""

from collections.abc import Iterable
from typing import ClassVar

from tallgrass.error_codes import ErrorCode, lookup


class TallgrassError(Exception):
    """Base of all errors; `code` is stable and documented, the text is for people."""

    default_code: ClassVar[str] = "internal_error"
    #: What the CLI returns: 1 error, 2 bad arguments, 3 refused by a guard, 4 backend unreachable.
    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, code: str | None = None) -> None:
        super().__init__(message)
        self.about: ErrorCode = lookup(code or self.default_code)

    @property
    def code(self) -> str:
        """The machine-readable name of what went wrong."""
        return self.about.code


class TransientError(TallgrassError):
    """The same call may succeed later; nothing of it was written."""


class DatabaseUnreachable(TransientError):
    """There is no database to talk to, or the connection was lost before COMMIT."""

    default_code = "database_unreachable"
    exit_code = 4


class DatabaseLocked(TransientError):
    """The writer's lock was not to be had in time."""

    default_code = "database_locked"
    exit_code = 4


class DatabaseFull(TransientError):
    """The disk, or the database's quota, is full."""

    default_code = "database_full"


class TransactionConflict(TransientError):
    """The database chose this transaction to give way: run the whole batch again."""

    default_code = "transaction_conflict"


class CommitUnknown(TransientError):
    """The connection broke during COMMIT: only the database knows whether the batch is in it."""

    default_code = "commit_unknown"
    exit_code = 4


class CertificateUnreachable(TransientError):
    """The certificate that signed a message cannot be had now; the message stays in its queue."""

    default_code = "certificate_unreachable"
    exit_code = 4


class ObjectsUnreachable(TransientError):
    """Object after object could not be read: their store does not answer, or denies all."""

    default_code = "objects_unreachable"
    exit_code = 4


class ListingBroken(TransientError):
    """A bucket's listing broke off and could not be taken up again; what came before stands."""

    default_code = "listing_broken"
    exit_code = 4


class NetworkError(TransientError):
    """A node's call over the network failed; the same call may succeed later."""

    default_code = "node_network_error"
    exit_code = 4


class NodeWalFull(TransientError):
    """There is no room left for a node's log; no success was reported."""

    default_code = "node_wal_full"


class RunBusy(TransientError):
    """Another process works on the same run, or computes the same result."""

    default_code = "node_run_busy"


class ArchiveFull(TransientError):
    """There is no room left for an archive; nothing was removed from the database."""

    default_code = "archive_full"


class QueueUnavailable(TransientError):
    """The queue cannot be used now; what is in it stays there.

    Also a lacking right, or a queue that was deleted: a running worker waits until somebody mends
    it. A command that meets it at its start ends with it.
    """

    default_code = "queue_unreachable"
    exit_code = 4


class QueueUnreachable(QueueUnavailable):
    """The queue's service does not answer, or answers that it fails."""

    default_code = "queue_unreachable"


class QueueThrottled(QueueUnavailable):
    """The queue's service takes no more requests for now."""

    default_code = "queue_throttled"


class QueueDenied(QueueUnavailable):
    """There are no credentials, or they give no right to the queue."""

    default_code = "queue_denied"


class QueueMissing(QueueUnavailable):
    """There is no such queue, or no longer."""

    default_code = "queue_missing"


class PermanentError(TallgrassError):
    """The same call will fail again until something is changed."""


class InvalidInput(PermanentError):
    """A value that the contract does not allow; nothing was written."""

    default_code = "invalid_input"
    exit_code = 2


class ConfigError(InvalidInput):
    """Configuration that cannot be used; says the key, the place and the fix."""

    default_code = "config_invalid"


class NoTransaction(InvalidInput):
    """The call must stand in the transaction of the change that it tells of, and there is none."""

    default_code = "no_transaction"


class PayloadRefused(InvalidInput):
    """An event that must not be published as it is; its code says why."""

    default_code = "payload_invalid"


class ValidationError(InvalidInput):
    """What a node was given, or what it made, is not what its rules allow; never retried."""

    default_code = "node_validation_failed"
    exit_code = 1


class NodeWalUnusable(PermanentError):
    """A node's log cannot be written or read; no success was reported."""

    default_code = "node_wal_unusable"


class NodeWalDamaged(PermanentError):
    """Entries of a node's log that were synced are gone or changed."""

    default_code = "node_wal_damaged"


class UnknownRecord(PermanentError):
    """The ledger has no such unit."""

    default_code = "record_unknown"


class NodeRunUnknown(NodeWalUnusable, UnknownRecord):
    """There is no run of that id in the folder of nodes."""

    default_code = "node_run_unknown"


class DatabaseUnusable(PermanentError):
    """The database is there but must not or cannot be used as it is."""

    default_code = "database_unusable"


class DataRefused(PermanentError):
    """A constraint or trigger of the database refused a row; the batch was rolled back."""

    default_code = "data_refused"


class ArchiveUnusable(PermanentError):
    """The place of archives cannot be read or written."""

    default_code = "archive_unusable"


class ArchiveDamaged(PermanentError):
    """An archive's file is gone, or is not what was written to it."""

    default_code = "archive_damaged"


class QueueRefused(PermanentError):
    """The queue's service calls a request wrong: its answer says why."""

    default_code = "queue_refused"


class ListingRefused(PermanentError):
    """A bucket is not there, not to be listed, or elsewhere; its code says which."""

    default_code = "listing_refused"
    exit_code = 4


class Refused(PermanentError):
    """A guard said no; state is as it was."""

    default_code = "refused"
    exit_code = 3


class IllegalTransition(Refused):
    """The wanted change of status is not one of the seven legal edges."""

    default_code = "illegal_transition"


class VersionConflict(Refused):
    """The record was changed by somebody else since it was read."""

    default_code = "version_conflict"


class WorkerFenced(Refused):
    """This worker lost its lease; it must stop and may write nothing more."""

    default_code = "worker_fenced"


class IdempotencyConflict(Refused):
    """A key, or an artifact's version, was published before for something else."""

    default_code = "idempotency_conflict"


class NotAuthorized(Refused):
    """Who acts could not be proved, or has not the role for it."""

    default_code = "not_authorized"


class ApprovalInvalid(Refused):
    """An approval that was not given for this, was used, ended or refused; or may not be given."""

    default_code = "approval_invalid"


class GuardRefused(Refused):
    """A rule of governance or of replay said no; `guard` is its name."""

    default_code = "guard_refused"

    def __init__(self, message: str, *, guard: str, code: str | None = None) -> None:
        super().__init__(f"{guard}: {message}", code=code)
        self.guard = guard


class GovernanceError(Refused):
    """A node that governance does not allow; `guard` names the rule, where one is known."""

    default_code = "node_governance_refused"

    def __init__(self, message: str, *, guard: str | None = None, code: str | None = None) -> None:
        super().__init__(f"{guard}: {message}" if guard else message, code=code)
        self.guard = guard


class NodeParked(GovernanceError):
    """A switch stops nodes of this dataset; the node did not fail and may run later."""

    default_code = "node_parked"


class NodeFailed(Refused):
    """The node failed for good in this run and stays so until an approval clears it."""

    default_code = "node_failed"


class AuditBroken(Refused):
    """The audit log was edited, cut or reordered."""

    default_code = "audit_broken"
    exit_code = 1


class ReleaseBroken(Refused):
    """Files of a release are missing, added, changed, or not signed by the given key."""

    default_code = "release_broken"
    exit_code = 1


def text_of(error: BaseException) -> str:
    """Return what an error says; nothing where its own class fails at saying it."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - errors are made by others
        return ""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return ``; did you mean …?`` for a mistyped name, or nothing if no known one is near."""
    from difflib import get_close_matches  # noqa: PLC0415 - only for a mistake, keeps start-up light

    close = get_close_matches(name, [str(each) for each in known], n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else ""
