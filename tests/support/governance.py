"""People with tokens, and what they ask for: short words for the tests of governance."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tallgrass.governance.actors import Actor, Role, make_token
from tallgrass.governance.approvals import Approval, Subject, Verdict
from tallgrass.governance.policy import ReplayMode
from tallgrass.ledger.vocabulary import Intent
from tallgrass.replay.guards import Caps
from tallgrass.replay.plan import PlanHeader
from tallgrass.replay.selection import Selection
from tests.contract.scene import run

if TYPE_CHECKING:
    from tallgrass.bootstrap.stores import Stores
    from tests.support.backends import Backend

TABLES = {
    "actors": "name",
    "approvals": "approval_id",
    "approval_decisions": "approval_id, actor",
    "change_records": "change_ref",
    "incidents": "incident_ref",
    "kill_switches": "scope, dataset",
    "wal_records": "wal_id",
    "wal_attempts": "wal_id, attempt_no",
    "wal_transitions": "transition_id",
    "replay_runs": "replay_run_id",
    "replay_run_records": "replay_run_id, wal_id",
    "outbox_delivery": "outbox_id",
    "poison_messages": "poison_id",
}


def token_of(name: str) -> str:
    """Return the token that a person of a test has."""
    return make_token(hashlib.sha256(name.encode()).digest())


@dataclass
class People:
    """A store with two approvers, an operator and a viewer, all proved."""

    stores: Stores
    ann: Actor
    bob: Actor
    otto: Actor
    vera: Actor

    def request(self, subject: Subject | None = None, by: Actor | None = None) -> Approval:
        """Ask for an approval, as the operator."""
        return self.stores.approvals.request(
            subject or plan(), reason="CHG-2041", by=by or self.otto
        )

    def approve(self, approval: Approval, by: Actor | None = None) -> None:
        """Approve it, as ann."""
        self.stores.approvals.decide(approval.approval_id, Verdict.APPROVE, by=by or self.ann)

    def approved(self, subject: Subject | None = None) -> Approval:
        """Return an approval that is ready to be used."""
        approval = self.request(subject)
        self.approve(approval)
        return approval

    def use(self, approval: Approval, **changes: Any) -> Approval:
        """Use an approval for what it was given for, or for something else."""
        wanted = {
            "approval_id": approval.approval_id,
            "purpose": approval.purpose,
            "subject_sha256": approval.subject_sha256,
            "used_for": "run-1",
            "by": self.otto,
            **changes,
        }
        return self.stores.runner.run(lambda tx: self.stores.approvals.use(tx, **wanted))


def set_up(backend: Backend, **injected: Any) -> People:
    """Set up the people of a test."""
    stores = backend.open(**injected)
    ann = stores.actors.add("ann", Role.APPROVER, token=token_of("ann"), by=None)

    def add(name: str, role: Role) -> Actor:
        return stores.actors.add(name, role, token=token_of(name), by=ann)

    return People(
        stores=stores,
        ann=ann,
        bob=add("bob", Role.APPROVER),
        otto=add("otto", Role.OPERATOR),
        vera=add("vera", Role.VIEWER),
    )


def plan(text: str = "a plan", needed: int = 1) -> Subject:
    """Return what a plan with that content asks for."""
    digest = hashlib.sha256(text.encode()).hexdigest()
    return Subject(purpose="replay", sha256=digest, summary={"plan": text}, needed=needed)


def state_of_tables(backend: Backend) -> dict[str, list[dict[str, Any]]]:
    """Return everything that a refusal must leave as it is: all but the log."""
    return {
        name: backend.rows(f"SELECT * FROM {name} ORDER BY {keys}") for name, keys in TABLES.items()
    }


def log_entry(connection: Any, actor: str, action: str, subject: str, detail: str = "{}") -> Any:
    """Write an entry into the log by raw SQL, as a forger would have to."""
    return run(
        connection,
        "INSERT INTO audit_log (occurred_at, actor, action, subject, reason, detail)"
        " VALUES (?, ?, ?, ?, 'forged', ?)",
        "2026-06-01T00:00:00.000000Z", actor, action, subject, detail,
    )  # fmt: skip


def a_plan(*rows: tuple[str, int, str], needed: int = 1) -> bytes:
    """Return the bytes of a plan with these rows."""
    header = PlanHeader(
        replay_run_id="run-1",
        env="dev",
        mode=ReplayMode.RANGE,
        intent=Intent.INGEST,
        reason="incident",
        selection=Selection(datasets=("goes-glm",)),
        code_version="1",
        config_version="c",
        approvals_needed=needed,
        caps=Caps(max_events=5000, batch=500, max_candidates=100_000, max_records_per_second=0.0),
    )
    documents = [
        {"action": action, "version": version, "wal_id": wal_id} for wal_id, version, action in rows
    ]
    lines = (json.dumps(each, separators=(",", ":")).encode() + b"\n" for each in documents)
    return header.line() + b"".join(lines)
