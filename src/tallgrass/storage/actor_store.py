"""Actors in the database, and the check that every act of a person stands behind.

A name and a role count only as the store has them at the moment of the write: a token that was
rotated or revoked meanwhile proves nothing.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from tallgrass.errors import InvalidInput, NotAuthorized, Refused, UnknownRecord
from tallgrass.governance.actors import (
    BOOTSTRAP,
    UNKNOWN,
    Acting,
    Actor,
    Role,
    name_of,
    require_name,
    require_role,
    token_sha256,
)
from tallgrass.governance.audit import AuditEntry
from tallgrass.storage.audit_store import write_audit
from tallgrass.storage.rows import instant, instant_or_none
from tallgrass.storage.transaction_runner import TransactionRunner
from tallgrass.storage.unit_of_work import Row, Transaction

Result = TypeVar("Result")

#: Of a name that nobody proves.
_NAME_CHARS_MAX = 200

_NO_DETAIL: Mapping[str, object] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredActor:
    """An actor as the store has it; never the token."""

    name: str
    role: Role
    created_by: str
    created_at: datetime
    rotated_at: datetime | None
    revoked_at: datetime | None


class ActorStore:
    """Adds, rotates and revokes actors; tells whose a token is."""

    def __init__(self, runner: TransactionRunner) -> None:
        self._runner = runner

    def any(self) -> bool:
        """Tell whether an actor was ever set up."""
        with self._runner.database.reading() as tx:
            return bool(tx.select("any_actor"))

    def list(self) -> list[StoredActor]:
        """Return all actors by name, the revoked ones too."""
        with self._runner.database.reading() as tx:
            return [_stored(row) for row in tx.select("list_actors")]

    def authenticate(self, token: str, *, action: str) -> Actor:
        """Return whose token it is; one that is nobody's, or revoked, is refused and logged."""
        proof = token_sha256(token)
        with self._runner.database.reading() as tx:
            found = tx.select("actor_by_token", token_sha256=proof)
        if found and found[0]["revoked_at"] is None:
            return Actor(name=found[0]["name"], role=Role(found[0]["role"]), proof=proof)
        name = found[0]["name"] if found else UNKNOWN
        why = f"the token of {name} was revoked" if found else "nobody is known by this token"
        raise self.refuse(
            name, action, NotAuthorized(why, code="unknown_actor"), subject=f"actor:{name}"
        )

    def current(self, actor: Actor) -> Actor | None:
        """Return an actor as the store has them now; None once their token is void."""
        with self._runner.database.reading() as tx:
            try:
                return require_proved(tx, actor, Role.VIEWER, "reading")
            except NotAuthorized:
                return None

    def refuse(self, name: str, action: str, error: Refused, *, subject: str) -> Refused:
        """Log that somebody was refused something; return the error to raise."""
        entry = refusal_entry(name, action, subject, error)
        self._runner.run(lambda tx: write_audit(tx, tx.now(), [entry]))
        return error

    def add(self, name: str, role: Role, *, token: str, by: Actor | None) -> Actor:
        """Add an actor on an approver's word; the very first needs none, and is an approver."""
        require_name(name)
        proof = token_sha256(token)

        def work(tx: Transaction) -> Actor:
            creator = _creator(tx, role, by)
            if tx.select("actor_by_name", actor=name):
                raise Refused(f"there is an actor {name}", code="actor_exists")
            now = tx.now()
            detail = {"role": role.value, "token_sha256": proof}
            self._log(tx, now, creator, "actor_add", name, detail)
            tx.execute(
                "insert_actor",
                now=now,
                actor=name,
                role=role.value,
                token_sha256=proof,
                created_by=creator,
            )
            return Actor(name=name, role=role, proof=proof)

        return run_guarded(self._runner, work, by or UNKNOWN, "actor_add", f"actor:{name}")

    def rotate(self, name: str, *, token: str, by: Actor) -> Actor:
        """Give an actor another token: their own wish, or an approver's. The old one is void."""
        proof = token_sha256(token)

        def work(tx: Transaction) -> Actor:
            lock_governance(tx)
            checked = require_proved(tx, by, Role.VIEWER, "a new token")
            if by.name != name:
                require_role(checked, Role.APPROVER, "a new token for somebody else")
            row = _open_actor(tx, name)
            now = tx.now()
            self._log(tx, now, by.name, "actor_rotate", name, {"token_sha256": proof})
            tx.execute("rotate_actor", now=now, actor=name, token_sha256=proof)
            return Actor(name=name, role=Role(row["role"]), proof=proof)

        return run_guarded(self._runner, work, by, "actor_rotate", f"actor:{name}")

    def revoke(self, name: str, *, by: Actor) -> None:
        """Take an actor's rights for good; the last approver's cannot be taken."""

        def work(tx: Transaction) -> None:
            lock_governance(tx)
            require_proved(tx, by, Role.APPROVER, "revoking an actor")
            row = _open_actor(tx, name)
            rows = tx.select("list_actors")
            left = [
                each
                for each in rows
                if each["name"] != name
                and each["role"] == Role.APPROVER.value
                and each["revoked_at"] is None
            ]
            if row["role"] == Role.APPROVER.value and not left:
                raise Refused(f"{name} is the last approver", code="last_approver")
            now = tx.now()
            self._log(tx, now, by.name, "actor_revoke", name, {"role": row["role"]})
            tx.execute("revoke_actor", now=now, actor=name)

        run_guarded(self._runner, work, by, "actor_revoke", f"actor:{name}")

    @staticmethod
    def _log(
        tx: Transaction,
        now: datetime,
        by: str,
        action: str,
        name: str,
        detail: Mapping[str, object],
    ) -> None:
        # Before the row itself: the database refuses an actor that the log does not know.
        entry = AuditEntry(
            actor=by, action=action, subject=f"actor:{name}", reason="", detail=detail
        )
        write_audit(tx, now, [entry])


def lock_governance(tx: Transaction) -> None:
    """Exclude other changes of actors and approvals until the transaction ends."""
    tx.lock("lock_governance", [1])


def require_proved(tx: Transaction, actor: Actor, role: Role, what: str) -> Actor:
    """Return the actor as the store has them now; refuse one whose token is void, or too weak."""
    found = tx.select("actor_by_name", actor=actor.name)
    if not found or not actor.proof or found[0]["token_sha256"] != actor.proof:
        raise NotAuthorized(f"{actor.name} has not proved who it is", code="unknown_actor")
    if found[0]["revoked_at"] is not None:
        raise NotAuthorized(f"the token of {actor.name} was revoked", code="unknown_actor")
    stored = Actor(name=actor.name, role=Role(found[0]["role"]), proof=actor.proof)
    require_role(stored, role, what)
    return stored


def require_acting(tx: Transaction, acting: Acting, role: Role, what: str) -> dict[str, object]:
    """Let somebody act; return what the log keeps of how they are known.

    A mere name suffices only while no actor is set up, and is logged as not proved.
    """
    if isinstance(acting, Actor):
        return {"role": require_proved(tx, acting, role, what).role.value}
    if not acting.strip():
        raise InvalidInput("who does it? an actor is needed")
    if not acting.isprintable() or len(acting) > _NAME_CHARS_MAX:
        raise InvalidInput(f"a name is one line of at most {_NAME_CHARS_MAX} characters")
    if tx.select("any_actor"):
        raise NotAuthorized(f"{acting} has not proved who it is", code="unknown_actor")
    return {"proved": False}


def run_guarded(
    runner: TransactionRunner,
    work: Callable[[Transaction], Result],
    acting: Acting,
    action: str,
    subject: str,
    detail: Mapping[str, object] = _NO_DETAIL,
) -> Result:
    """Run work in one transaction; if a guard refuses it, nothing stays but that in the log."""
    try:
        return runner.run(work)
    except Refused as error:
        entry = refusal_entry(name_of(acting), action, subject, error, detail)
        runner.run(lambda tx: write_audit(tx, tx.now(), [entry]))
        raise


def refusal_entry(
    name: str,
    action: str,
    subject: str,
    error: Refused,
    detail: Mapping[str, object] = _NO_DETAIL,
) -> AuditEntry:
    """Return the log's entry for something that somebody did not get."""
    return AuditEntry(
        actor=name or UNKNOWN,
        action=f"{action}_refused",
        subject=subject,
        reason=error.code,
        detail=detail,
    )


def _creator(tx: Transaction, role: Role, by: Actor | None) -> str:
    lock_governance(tx)
    if by is not None:
        return require_proved(tx, by, Role.APPROVER, "adding an actor").name
    if tx.select("any_actor"):
        raise NotAuthorized("adding an actor needs an approver's token", code="unknown_actor")
    if role is not Role.APPROVER:
        raise InvalidInput("the first actor must be an approver: only those add others")
    return BOOTSTRAP


def _open_actor(tx: Transaction, name: str) -> Row:
    found = tx.select("actor_by_name", actor=name)
    if not found:
        raise UnknownRecord(f"there is no actor {name}", code="actor_unknown")
    if found[0]["revoked_at"] is not None:
        raise Refused(f"{name} is revoked, for good", code="not_authorized")
    return found[0]


def _stored(row: Row) -> StoredActor:
    return StoredActor(
        name=row["name"],
        role=Role(row["role"]),
        created_by=row["created_by"],
        created_at=instant(row["created_at"]),
        rotated_at=instant_or_none(row["rotated_at"]),
        revoked_at=instant_or_none(row["revoked_at"]),
    )
