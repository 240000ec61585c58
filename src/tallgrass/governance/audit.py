"""The audit log's chain: each seal binds an entry to all entries before it.

Editing an entry changes its hash; removing, adding or reordering one breaks every later link; a cut
tail is found by an anchor: the chain's head, written down outside the database.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from tallgrass.canonical_json import canonical_bytes, sha256_hex
from tallgrass.clock import format_instant

#: What the first entry is chained to.
GENESIS = "0" * 64


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """Something that somebody did, or was refused."""

    actor: str
    action: str
    #: What it was done to: a wal_id, a switch, a migration …
    subject: str
    reason: str
    approval_ref: str | None = None
    detail: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredEntry:
    """An entry as the log holds it; `detail` is canonical JSON."""

    entry_id: int
    occurred_at: datetime
    actor: str
    action: str
    subject: str
    reason: str
    approval_ref: str | None
    detail: str
    #: Its place in the chain; None while it waits for the sealer.
    position: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Seal:
    """One link of the chain."""

    position: int
    entry_id: int
    entry_hash: str
    chain_hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchor:
    """The head of the chain at some time, kept outside the database."""

    position: int
    chain_hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A place where log and chain disagree."""

    position: int
    what: str


def entry_hash(entry: StoredEntry) -> str:
    """Return the hash of everything that an entry says."""
    return sha256_hex(
        canonical_bytes(
            [
                entry.entry_id,
                format_instant(entry.occurred_at),
                entry.actor,
                entry.action,
                entry.subject,
                entry.reason,
                entry.approval_ref,
                entry.detail,
            ]
        )
    )


def chain_hash(previous: str, position: int, hash_of_entry: str) -> str:
    """Return the link that binds an entry, at its position, to the chain before it."""
    return hashlib.sha256(f"{previous}:{position}:{hash_of_entry}".encode()).hexdigest()


def seal(entries: Iterable[StoredEntry], head: Anchor | None) -> list[Seal]:
    """Chain committed entries to the head, in the order given."""
    position, previous = (head.position, head.chain_hash) if head else (0, GENESIS)
    seals = []
    for entry in entries:
        position += 1
        hash_of_entry = entry_hash(entry)
        previous = chain_hash(previous, position, hash_of_entry)
        seals.append(
            Seal(
                position=position,
                entry_id=entry.entry_id,
                entry_hash=hash_of_entry,
                chain_hash=previous,
            )
        )
    return seals


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedRange:
    """A part of the chain that left for an archive, by what the record of that tells."""

    archive_id: int
    first_position: int
    last_position: int
    #: The link before the first entry, and that of the last.
    before_hash: str
    head_hash: str
    #: Whether the log tells the same; None where its entry may have been archived later.
    is_told: bool | None


class ChainVerifier:
    """Walks the chain once, in order, and collects every fault."""

    def __init__(self, anchors: Iterable[Anchor] = ()) -> None:
        self._anchors = {anchor.position: anchor.chain_hash for anchor in anchors}
        self._previous = GENESIS
        self.position = 0
        self.faults: list[Fault] = []

    @classmethod
    def behind(cls, head: Anchor) -> "ChainVerifier":
        """Return one that goes on behind a head that is known to be right."""
        verifier = cls()
        verifier.position, verifier._previous = head.position, head.chain_hash
        return verifier

    @property
    def head(self) -> Anchor | None:
        """The end of the chain as far as it was walked."""
        return Anchor(position=self.position, chain_hash=self._previous) if self.position else None

    def walk(self, seal: Seal, entry: StoredEntry | None) -> None:
        """Check the next seal against its entry, its predecessor and the anchors."""
        expected = self.position + 1
        if seal.position != expected:
            self._fault(expected, f"seals {expected} to {seal.position - 1} were removed")
        if entry is None:
            self._fault(seal.position, f"entry {seal.entry_id} was removed")
        elif entry_hash(entry) != seal.entry_hash:
            self._fault(seal.position, f"entry {seal.entry_id} was edited")
        link = chain_hash(self._previous, seal.position, seal.entry_hash)
        if link != seal.chain_hash:
            self._fault(seal.position, "does not follow from the seal before: edited or reordered")
        anchored = self._anchors.pop(seal.position, None)
        if anchored is not None and anchored != seal.chain_hash:
            self._fault(seal.position, "is not what the anchor says: the chain was written anew")
        self.position, self._previous = seal.position, seal.chain_hash

    def enter(self, archived: ArchivedRange) -> None:
        """Check that archived entries follow where the chain stands, and that the log tells it."""
        expected, first = self.position + 1, archived.first_position
        if first != expected:
            self._fault(expected, f"seals {expected} to {first - 1} were removed")
        if archived.before_hash != self._previous:
            what = f"archive {archived.archive_id} does not follow from the seal before"
            self._fault(first, what)
        if archived.is_told is False:
            self._fault(first, f"archive {archived.archive_id} is not what the log tells of it")

    def leave(self, archived: ArchivedRange, *, was_read: bool) -> None:
        """Go on behind archived entries: by their own links if they were read, else by the record.

        Anchors within a part that was not read cannot be checked; its end can.
        """
        last, head = archived.last_position, archived.head_hash
        if was_read and (self.position, self._previous) != (last, head):
            self._fault(last, f"archive {archived.archive_id} does not end where its record says")
        for position in [p for p in self._anchors if archived.first_position <= p <= last]:
            anchored = self._anchors.pop(position)
            if position == last and anchored != head:
                self._fault(last, "is not what the anchor says: the chain was written anew")
        self.position, self._previous = last, head

    def finish(self) -> None:
        """Report anchors beyond the end: the tail was cut off."""
        for position in sorted(self._anchors):
            self._fault(
                position, f"the anchor knows seal {position}, the log ends at {self.position}"
            )

    def _fault(self, position: int, what: str) -> None:
        self.faults.append(Fault(position=position, what=what))
