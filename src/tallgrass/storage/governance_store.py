"""Kill switches and poison messages in the database."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from tallgrass.canonical_json import sha256_hex
from tallgrass.errors import InvalidInput
from tallgrass.governance.audit import AuditEntry
from tallgrass.governance.switches import KillSwitch, SwitchedOff, SwitchScope
from tallgrass.intake.message import PoisonMessage
from tallgrass.ledger.redaction import redact
from tallgrass.storage.audit_store import write_audit
from tallgrass.storage.rows import instant
from tallgrass.storage.transaction_runner import TransactionRunner
from tallgrass.storage.unit_of_work import Transaction

#: As much of a poison body is kept; its hash and length tell the rest.
POISON_BYTES_MAX = 262_144


class SwitchStore:
    """Sets and reads kill switches; every change is in the audit log."""

    def __init__(self, runner: TransactionRunner) -> None:
        self._runner = runner

    def set(
        self, scope: SwitchScope, dataset: str, *, is_on: bool, actor: str, reason: str
    ) -> None:
        """Turn a switch on (work stops) or off, and note who did it why."""
        if not actor.strip() or not reason.strip() or not dataset.strip():
            raise InvalidInput("a switch needs a dataset (or *), an actor and a reason")

        def work(tx: Transaction) -> None:
            now = tx.now()
            tx.execute(
                "upsert_switch",
                now=now,
                scope=scope.value,
                dataset=dataset,
                is_on=is_on,
                actor=actor,
                reason=reason,
            )
            action = "switch_on" if is_on else "switch_off"
            subject = f"{scope.value}:{dataset}"
            write_audit(
                tx, now, [AuditEntry(actor=actor, action=action, subject=subject, reason=reason)]
            )

        self._runner.run(work)

    def switches(self) -> list[KillSwitch]:
        """Return all switches ever set, as they stand."""
        with self._runner.database.reading() as tx:
            return [
                KillSwitch(
                    scope=SwitchScope(row["scope"]),
                    dataset=row["dataset"],
                    is_on=bool(row["is_on"]),
                    actor=row["actor"],
                    reason=row["reason"],
                    changed_at=instant(row["changed_at"]),
                )
                for row in tx.select("list_switches")
            ]

    def switched_off(self, scope: SwitchScope) -> SwitchedOff:
        """Return what is off in a scope. If it cannot be read, the error stops the work."""
        with self._runner.database.reading() as tx:
            rows = tx.select("switched_off", scope=scope.value)
            return SwitchedOff(row["dataset"] for row in rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPoison:
    """A poison message as it is kept: once, however often it came."""

    poison_id: int
    queue: str
    body: bytes
    body_sha256: str
    #: Length of the whole body; `body` holds at most POISON_BYTES_MAX of it.
    body_bytes: int
    message_id: str | None
    error_code: str
    error_message: str
    times_seen: int
    first_seen_at: datetime
    last_seen_at: datetime


class PoisonStore:
    """Keeps messages before they leave the queue."""

    def __init__(self, runner: TransactionRunner) -> None:
        self._runner = runner

    def put(self, messages: Sequence[PoisonMessage]) -> None:
        """Store messages; one that is there already is counted."""
        if not messages:
            return
        # One statement must not meet a row twice: equal bodies of a batch go in rounds.
        rounds: list[dict[tuple[str, str], tuple[object, ...]]] = []
        for message in messages:
            digest = sha256_hex(message.body)
            key = (message.queue, digest)
            place = next((r for r in rounds if key not in r), None)
            if place is None:
                place = {}
                rounds.append(place)
            place[key] = (
                message.queue,
                digest,
                message.body[:POISON_BYTES_MAX].hex(),
                len(message.body),
                message.message_id,
                message.error_code,
                redact(message.error_message),
            )

        def work(tx: Transaction) -> None:
            now = tx.now()
            for batch in rounds:
                tx.write("upsert_poison", list(batch.values()), now=now)

        self._runner.run(work)

    def messages(self, *, after: int = 0, size: int = 100) -> list[StoredPoison]:
        """Return a page of what is stored."""
        with self._runner.database.reading() as tx:
            return [
                StoredPoison(
                    poison_id=row["poison_id"],
                    queue=row["queue"],
                    body=bytes(row["body"]),
                    body_sha256=row["body_sha256"],
                    body_bytes=row["body_bytes"],
                    message_id=row["message_id"],
                    error_code=row["error_code"],
                    error_message=row["error_message"],
                    times_seen=row["times_seen"],
                    first_seen_at=instant(row["first_seen_at"]),
                    last_seen_at=instant(row["last_seen_at"]),
                )
                for row in tx.select("list_poison", after=after, size=size)
            ]
