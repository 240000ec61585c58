"""Change records and incidents in the database: what a replay or a drain refers to."""

from collections.abc import Sequence

from tallgrass.errors import InvalidInput, Refused, UnknownRecord
from tallgrass.governance.actors import Acting, Role, name_of
from tallgrass.governance.audit import AuditEntry
from tallgrass.governance.references import Reference, ReferenceKind, require_ref
from tallgrass.storage.actor_store import lock_governance, require_acting, run_guarded
from tallgrass.storage.audit_store import write_audit
from tallgrass.storage.rows import instant, instant_or_none
from tallgrass.storage.transaction_runner import TransactionRunner
from tallgrass.storage.unit_of_work import Row, Transaction

TITLE_CHARS_MAX = 1000


class ChangeStore:
    """Opens and closes references; a closed one stays as it is."""

    def __init__(self, runner: TransactionRunner) -> None:
        self._runner = runner

    def open(
        self, kind: ReferenceKind, ref: str, *, title: str, description: str = "", by: Acting
    ) -> Reference:
        """Open a change record or an incident under a reference that is free."""
        require_ref(ref)
        if not title.strip():
            raise InvalidInput(f"{kind.words} needs a title")
        if len(title) > TITLE_CHARS_MAX:
            raise InvalidInput(f"a title has at most {TITLE_CHARS_MAX} characters")

        def work(tx: Transaction) -> Reference:
            lock_governance(tx)
            known_by = require_acting(tx, by, Role.OPERATOR, f"opening {kind.words}")
            if tx.select(f"{kind.value}_by_ref", ref=ref):
                raise Refused(f"{ref} is there already", code="reference_exists")
            now = tx.now()
            tx.execute(
                f"insert_{kind.value}",
                now=now,
                ref=ref,
                title=title,
                description=description,
                opened_by=name_of(by),
            )
            entry = AuditEntry(
                actor=name_of(by),
                action=f"{kind.value}_open",
                subject=f"{kind.value}:{ref}",
                reason=title,
                detail=known_by,
            )
            write_audit(tx, now, [entry])
            return _read(tx, kind, ref)

        return run_guarded(self._runner, work, by, f"{kind.value}_open", f"{kind.value}:{ref}")

    def close(self, kind: ReferenceKind, ref: str, *, resolution: str, by: Acting) -> Reference:
        """Close it, and say how it ended."""
        if not resolution.strip():
            raise InvalidInput(f"closing {kind.words} needs a resolution")

        def work(tx: Transaction) -> Reference:
            lock_governance(tx)
            known_by = require_acting(tx, by, Role.OPERATOR, f"closing {kind.words}")
            if _read(tx, kind, ref).closed_at is not None:
                raise Refused(f"{ref} is closed", code="reference_closed")
            now = tx.now()
            tx.execute(
                f"close_{kind.value}",
                now=now,
                ref=ref,
                closed_by=name_of(by),
                resolution=resolution,
            )
            entry = AuditEntry(
                actor=name_of(by),
                action=f"{kind.value}_close",
                subject=f"{kind.value}:{ref}",
                reason=resolution,
                detail=known_by,
            )
            write_audit(tx, now, [entry])
            return _read(tx, kind, ref)

        return run_guarded(self._runner, work, by, f"{kind.value}_close", f"{kind.value}:{ref}")

    def find(self, kind: ReferenceKind, ref: str) -> Reference:
        """Return one by its reference."""
        with self._runner.database.reading() as tx:
            return _read(tx, kind, ref)

    def page(
        self, kind: ReferenceKind, *, is_open: bool | None, after: str | None, size: int
    ) -> Sequence[Reference]:
        """Return a page of them, newest first."""
        with self._runner.database.reading() as tx:
            rows = tx.select(f"page_{kind.value}s", after=after, size=size, is_open=is_open)
            return [_reference(kind, row) for row in rows]


def require_open(tx: Transaction, *, change_ref: str | None, incident_ref: str | None) -> None:
    """Refuse references that are unknown or closed; one that is not given is none."""
    for kind, ref in ((ReferenceKind.CHANGE, change_ref), (ReferenceKind.INCIDENT, incident_ref)):
        if ref is not None and _read(tx, kind, ref).closed_at is not None:
            raise Refused(f"{ref} is closed", code="reference_closed")


def _read(tx: Transaction, kind: ReferenceKind, ref: str) -> Reference:
    found = tx.select(f"{kind.value}_by_ref", ref=ref)
    if not found:
        raise UnknownRecord(f"there is no {kind.noun} {ref}", code="reference_unknown")
    return _reference(kind, found[0])


def _reference(kind: ReferenceKind, row: Row) -> Reference:
    return Reference(
        kind=kind,
        ref=row["ref"],
        title=row["title"],
        description=row["description"],
        opened_by=row["opened_by"],
        opened_at=instant(row["opened_at"]),
        closed_by=row["closed_by"],
        closed_at=instant_or_none(row["closed_at"]),
        resolution=row["resolution"],
    )
