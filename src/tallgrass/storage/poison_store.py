"""Poison messages in the database: kept before they leave the queue, and fed to it again."""

from collections.abc import Iterator, Mapping, Sequence

from tallgrass.canonical_json import sha256_hex
from tallgrass.governance.actors import Acting, Role, name_of
from tallgrass.governance.audit import AuditEntry
from tallgrass.intake.message import PoisonMessage
from tallgrass.intake.poison import POISON_BYTES_MAX, PoisonFilter, PoisonState, StoredPoison
from tallgrass.ledger.redaction import redact
from tallgrass.storage.actor_store import require_acting, run_guarded
from tallgrass.storage.audit_store import write_audit
from tallgrass.storage.rows import instant, instant_or_none
from tallgrass.storage.transaction_runner import TransactionRunner
from tallgrass.storage.unit_of_work import Row, Transaction

_EVERYTHING = PoisonFilter()
#: Of the bodies of one statement, in hexadecimal, and where a row has its body.
_STATEMENT_CHARS_MAX = 16 * 1024 * 1024
_BODY = 2


class PoisonStore:
    """Keeps messages that no unit could be made of. Nothing is ever taken out of it."""

    def __init__(self, runner: TransactionRunner) -> None:
        self._runner = runner

    def put(self, messages: Sequence[PoisonMessage]) -> None:
        """Store messages; one that is there already is counted, and open again."""
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
                for part in _parts(list(batch.values())):
                    tx.write("upsert_poison", part, now=now)

        self._runner.run(work)

    def page(
        self, wanted: PoisonFilter = _EVERYTHING, *, after: int = 0, size: int = 100
    ) -> list[StoredPoison]:
        """Return a page of what is stored, in the order in which it first came."""
        with self._runner.database.reading() as tx:
            rows = tx.select(
                "list_poison",
                after=after,
                size=size,
                queue=wanted.queue,
                error_code=wanted.error_code,
                since=wanted.since,
                state=wanted.state,
            )
            return [_stored(row) for row in rows]

    def find(self, poison_ids: Sequence[int]) -> list[StoredPoison]:
        """Return those of the given messages that there are, by their ids."""
        with self._runner.database.reading() as tx:
            return [_stored(row) for row in tx.select("poison", rows=list(poison_ids))]

    def bodies(self, poison_ids: Sequence[int]) -> dict[int, bytes]:
        """Return the bodies of messages, or as much of each as is kept."""
        with self._runner.database.reading() as tx:
            rows = tx.select("poison_bodies", rows=list(poison_ids))
            return {row["poison_id"]: bytes(row["body"]) for row in rows}

    def counts(self) -> dict[PoisonState, int]:
        """Count the messages by where they stand."""
        with self._runner.database.reading() as tx:
            row = tx.select("count_poison_states")[0]
        return {state: row[state.value] for state in PoisonState}

    def begin_feeding(
        self, messages: Sequence[StoredPoison], *, feed_id: str, actor: Acting, reason: str
    ) -> None:
        """Record, before anything is sent, that messages will be fed, and who wants it why."""

        def work(tx: Transaction) -> None:
            known_by = require_acting(tx, actor, Role.OPERATOR, "feeding messages")
            rows = [(message.poison_id,) for message in messages]
            tx.write("begin_feeding", rows, feed_id=feed_id)
            entries = [
                AuditEntry(
                    actor=name_of(actor),
                    action="poison_feed",
                    subject=subject_of(message.poison_id),
                    reason=reason,
                    detail={
                        **known_by,
                        "feed_id": feed_id,
                        "queue": message.queue,
                        "body_sha256": message.body_sha256,
                        "error_code": message.error_code,
                    },
                )
                for message in messages
            ]
            write_audit(tx, tx.now(), entries)

        run_guarded(self._runner, work, actor, "poison_feed", subject_of(messages[0].poison_id))

    def confirm_feeding(
        self, sent: Mapping[int, str], *, feed_id: str, actor: str, reason: str
    ) -> None:
        """Note by which message each was sent; one that came back meanwhile stays open."""
        entries = [
            AuditEntry(
                actor=actor,
                action="poison_fed",
                subject=subject_of(poison_id),
                reason=reason,
                detail={"feed_id": feed_id, "message_id": message_id},
            )
            for poison_id, message_id in sent.items()
        ]

        def work(tx: Transaction) -> None:
            now = tx.now()
            tx.write("confirm_feeding", list(sent.items()), now=now, feed_id=feed_id)
            write_audit(tx, now, entries)

        self._runner.run(work)

    def refuse_feeding(self, refused: Mapping[int, str], *, actor: str) -> None:
        """Keep in the audit log which messages somebody asked for and did not get fed."""
        entries = [
            AuditEntry(
                actor=actor,
                action="poison_feed_refused",
                subject=subject_of(poison_id),
                reason=why,
            )
            for poison_id, why in sorted(refused.items())
        ]
        self._runner.run(lambda tx: write_audit(tx, tx.now(), entries))


def _parts(rows: list[tuple[object, ...]]) -> Iterator[list[tuple[object, ...]]]:
    """Yield rows in parts that one statement can hold: bodies may be long."""
    part: list[tuple[object, ...]] = []
    size = 0
    for row in rows:
        length = len(str(row[_BODY]))
        if part and size + length > _STATEMENT_CHARS_MAX:
            yield part
            part, size = [], 0
        part.append(row)
        size += length
    yield part


def subject_of(poison_id: int) -> str:
    """Return how the audit log names a poison message."""
    return f"poison:{poison_id}"


def _stored(row: Row) -> StoredPoison:
    return StoredPoison(
        poison_id=row["poison_id"],
        queue=row["queue"],
        body_sha256=row["body_sha256"],
        body_bytes=row["body_bytes"],
        kept_bytes=row["kept_bytes"],
        message_id=row["message_id"],
        error_code=row["error_code"],
        error_message=row["error_message"],
        times_seen=row["times_seen"],
        first_seen_at=instant(row["first_seen_at"]),
        last_seen_at=instant(row["last_seen_at"]),
        feed_id=row["feed_id"],
        fed_at=instant_or_none(row["fed_at"]),
        fed_message_id=row["fed_message_id"],
    )
