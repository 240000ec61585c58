"""The audit log."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.governance.audit import Anchor, AuditEntry
from tests.contract.scene import Scene, run

if TYPE_CHECKING:
    from tests.support.backends import Backend

INSERT_AUDIT = (
    "INSERT INTO audit_log (occurred_at, actor, action, subject, reason, detail)"
    " VALUES ('2026-01-01T00:00:00.000000Z', 'late', 'act', 'subject', 'why', '{}')"
)


def entries(count: int, first: int = 0) -> list[AuditEntry]:
    """Return entries that differ."""
    return [
        AuditEntry(actor="ann", action="act", subject=f"s-{n}", reason="why", detail={"n": n})
        for n in range(first, first + count)
    ]


def sealed(backend: Backend) -> list[tuple[Any, ...]]:
    """Return (position, entry) of the chain."""
    return backend.sql("SELECT position, entry_id FROM audit_seals ORDER BY position")


def test_sealing_chains_all_entries_once(backend: Backend) -> None:
    """Positions are 1 to n, a second seal adds only what is new, the whole chain holds."""
    audit = Scene(backend).stores.audit
    assert audit.seal() is None
    audit.append(entries(3))
    head = audit.seal()
    assert audit.seal() == head
    audit.append(entries(2, first=3))
    last = audit.seal()
    assert (head.position, last.position) == (3, 5)  # type: ignore[union-attr]
    assert [position for position, _ in sealed(backend)] == [1, 2, 3, 4, 5]
    verifier, unsealed = audit.verify([head, last])  # type: ignore[list-item]
    assert (verifier.faults, unsealed, verifier.head) == ([], 0, last)


def test_a_chain_longer_than_a_page_holds(backend: Backend) -> None:
    """More entries than one transaction seals are chained by several."""
    audit = Scene(backend).stores.audit
    audit.append(entries(2100))
    head = audit.seal()
    assert head is not None
    assert head.position == 2100
    verifier, unsealed = audit.verify()
    assert (verifier.faults, verifier.position, unsealed) == ([], 2100, 0)


def test_the_chain_is_made_of_what_the_entries_say(backend: Backend) -> None:
    """Each link is SHA-256 over the link before, the position and the entry's hash."""
    audit = Scene(backend).stores.audit
    audit.append(entries(3))
    audit.seal()
    before = "0" * 64
    rows = backend.sql("SELECT position, entry_hash, chain_hash FROM audit_seals ORDER BY 1")
    for position, entry_hash, chain_hash in rows:
        before = hashlib.sha256(f"{before}:{position}:{entry_hash}".encode()).hexdigest()
        assert chain_hash == before
    assert len({row[1] for row in rows}) == 3


def test_an_entry_that_commits_late_is_sealed_later(backend: Backend) -> None:
    """A lower id that was not yet committed is not lost: the next seal takes it."""
    audit = Scene(backend).stores.audit
    if backend.name == "postgres":
        late = backend.connect()
        late.execute("BEGIN")
        run(late, INSERT_AUDIT)
        audit.append(entries(1))
        audit.seal()
        assert sealed(backend) == [(1, 2)]
        late.execute("COMMIT")
    else:
        # One writer at a time: an id can only be left out by hand.
        backend.sql(INSERT_AUDIT.replace("(occurred_at", "(entry_id, occurred_at").replace(
            "VALUES (", "VALUES (2, "
        ))  # fmt: skip
        audit.seal()
        assert sealed(backend) == [(1, 2)]
        backend.sql(INSERT_AUDIT.replace("(occurred_at", "(entry_id, occurred_at").replace(
            "VALUES (", "VALUES (1, "
        ))  # fmt: skip
    audit.seal()
    assert sealed(backend) == [(1, 2), (2, 1)]
    verifier, unsealed = audit.verify()
    assert (verifier.faults, unsealed) == ([], 0)


def without_guards(backend: Backend, *statements: str) -> None:
    """Do what only somebody with the owner's rights can: lift the guard, change, put it back."""
    connection = backend.connect()
    if backend.name == "postgres":
        connection.execute("SET session_replication_role = replica")
    else:
        names = ("audit_log_not_updated", "audit_log_not_deleted", "audit_seals_not_deleted")
        for name in names:
            connection.execute(f"DROP TRIGGER {name}")
    for statement in statements:
        connection.execute(statement)


@pytest.mark.parametrize(
    ("tampering", "told"),
    [
        (["UPDATE audit_log SET actor = 'bob' WHERE entry_id = 2"], "was edited"),
        (["UPDATE audit_log SET detail = '{}' WHERE entry_id = 1"], "was edited"),
        (["DELETE FROM audit_log WHERE entry_id = 2"], "was removed"),
        (["DELETE FROM audit_seals WHERE position = 2"], "were removed"),
        (
            [
                "DELETE FROM audit_seals WHERE position = 3",
                "DELETE FROM audit_log WHERE entry_id = 3",
            ],
            "the log ends at 2",
        ),
    ],
    ids=["edited", "edited-detail", "removed", "unsealed", "cut"],
)
def test_tampering_is_found(backend: Backend, tampering: list[str], told: str) -> None:
    """An edited, removed, unsealed or cut-off entry shows in the chain or at its anchor."""
    audit = Scene(backend).stores.audit
    audit.append(entries(3))
    anchor = audit.seal()
    assert anchor is not None
    without_guards(backend, *tampering)
    verifier, _ = audit.verify([anchor])
    assert any(told in fault.what for fault in verifier.faults)


def test_a_chain_written_anew_is_found_by_its_anchor(backend: Backend) -> None:
    """Whoever seals again from the start cannot meet an anchor that was kept elsewhere."""
    audit = Scene(backend).stores.audit
    audit.append(entries(2))
    audit.seal()
    foreign = Anchor(position=2, chain_hash="f" * 64)
    assert any("written anew" in f.what for f in audit.verify([foreign])[0].faults)


def test_the_log_is_listed_by_page_and_filter(backend: Backend) -> None:
    """Pages follow each other by id; filters hold together."""
    audit = Scene(backend).stores.audit
    audit.append(entries(5))
    audit.append([AuditEntry(actor="bob", action="act", subject="s-0", reason="r")])
    first = audit.entries(size=4)
    rest = audit.entries(after=first[-1].entry_id, size=4)
    assert [entry.entry_id for entry in first + rest] == [1, 2, 3, 4, 5, 6]
    assert [e.actor for e in audit.entries(subject="s-0")] == ["ann", "bob"]
    assert [e.entry_id for e in audit.entries(subject="s-0", actor="bob")] == [6]
    assert audit.entries(action="nothing") == []
    assert [e.entry_id for e in audit.entries(actor="bob")] == [6]
    assert [e.entry_id for e in audit.entries(action="act", after=4)] == [5, 6]
    assert [e.entry_id for e in audit.latest(action="act", before=6, size=2)] == [5, 4]
    assert [e.entry_id for e in audit.latest(actor="ann", subject="s-0")] == [1]
    assert [e.entry_id for e in audit.latest(actor="ann", action="act", before=3)] == [2, 1]
    assert first[0].detail == '{"n":0}'
