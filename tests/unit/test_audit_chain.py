"""The audit chain finds whatever was done to a sealed log."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tallgrass.governance.audit import (
    GENESIS,
    Anchor,
    ArchivedRange,
    ChainVerifier,
    Fault,
    Seal,
    StoredEntry,
    chain_hash,
    entry_hash,
    seal,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

START = datetime(2026, 6, 1, 12, tzinfo=UTC)
words = st.text(st.characters(codec="utf-8"), max_size=8)

Log = list[tuple[Seal, StoredEntry | None]]


@st.composite
def entries(draw: st.DrawFn, min_size: int = 1) -> list[StoredEntry]:
    """A log of distinct entries, in the order in which they were sealed."""
    count = draw(st.integers(min_size, 8))
    return [
        StoredEntry(
            entry_id=number + 1,
            occurred_at=START + timedelta(seconds=draw(st.integers(0, 9))),
            actor=draw(words),
            action=draw(words),
            subject=draw(words),
            reason=draw(words),
            approval_ref=draw(st.none() | words),
            detail=draw(words),
        )
        for number in range(count)
    ]


def sealed(log: list[StoredEntry]) -> tuple[Log, Anchor]:
    """Return the log with its seals, and the anchor of its head."""
    seals = seal(log, None)
    head = Anchor(position=seals[-1].position, chain_hash=seals[-1].chain_hash)
    return list(zip(seals, log, strict=True)), head


def faults(log: Log, *anchors: Anchor) -> list[Fault]:
    """Walk a log and return what does not fit."""
    verifier = ChainVerifier(anchors)
    for link, entry in log:
        verifier.walk(link, entry)
    verifier.finish()
    return verifier.faults


@given(entries())
def test_an_untouched_log_has_no_fault(log: list[StoredEntry]) -> None:
    """A log as it was sealed is found whole, with any of its heads as anchor."""
    links, _ = sealed(log)
    anchors = [Anchor(position=s.position, chain_hash=s.chain_hash) for s, _ in links]
    assert faults(links, *anchors) == []


@given(entries(min_size=2), st.integers(1, 7))
def test_sealing_in_parts_gives_the_same_chain(log: list[StoredEntry], cut: int) -> None:
    """It does not matter how often the sealer ran."""
    at = cut % len(log)
    assume(at > 0)
    first = seal(log[:at], None)
    head = Anchor(position=first[-1].position, chain_hash=first[-1].chain_hash)
    assert first + seal(log[at:], head) == seal(log, None)


edits = st.sampled_from(
    [
        ("entry_id", 99),
        ("occurred_at", START + timedelta(days=1)),
        ("actor", "another actor"),
        ("action", "another action"),
        ("subject", "another subject"),
        ("reason", "another reason"),
        ("approval_ref", "another approval"),
        ("detail", "another detail"),
    ]
)


@given(entries(), st.integers(0, 7), edits)
def test_an_edited_entry_is_found(
    log: list[StoredEntry], place: int, edit: tuple[str, Any]
) -> None:
    """A change of any field of any entry shows, even without an anchor."""
    links, _ = sealed(log)
    at = place % len(links)
    link, entry = links[at]
    assert entry is not None
    links[at] = (link, replace(entry, **dict([edit])))
    found = faults(links)
    assert [fault.position for fault in found] == [at + 1]
    assert "edited" in found[0].what


@given(entries(), st.integers(0, 7), edits)
def test_an_edit_with_its_own_seal_renewed_is_found(
    log: list[StoredEntry], place: int, edit: tuple[str, Any]
) -> None:
    """Whoever edits an entry and its seal is found by the next seal, or by the anchor."""
    links, head = sealed(log)
    at = place % len(links)
    link, entry = links[at]
    assert entry is not None
    changed = replace(entry, **dict([edit]))
    before = links[at - 1][0].chain_hash if at else GENESIS
    new_hash = entry_hash(changed)
    links[at] = (
        replace(
            link,
            entry_hash=new_hash,
            chain_hash=chain_hash(before, link.position, new_hash),
            entry_id=changed.entry_id,
        ),
        changed,
    )
    assert faults(links, head)


@given(entries(), edits, st.integers(0, 7))
def test_a_chain_written_anew_is_found_by_its_anchor(
    log: list[StoredEntry], edit: tuple[str, Any], place: int
) -> None:
    """Whoever forges the whole chain from an entry on cannot forge the head kept elsewhere."""
    _, head = sealed(log)
    at = place % len(log)
    forged = list(log)
    forged[at] = replace(forged[at], **dict([edit]))
    links, _ = sealed(forged)
    assert faults(links) == []
    assert "anchor" in faults(links, head)[0].what


@given(entries(), st.integers(0, 7))
def test_a_removed_entry_is_found(log: list[StoredEntry], place: int) -> None:
    """An entry that is gone while its seal stands is named."""
    links, _ = sealed(log)
    at = place % len(links)
    links[at] = (links[at][0], None)
    assert [(fault.position, fault.what) for fault in faults(links)] == [
        (at + 1, f"entry {at + 1} was removed")
    ]


@given(entries(min_size=2), st.integers(0, 7))
def test_an_entry_removed_with_its_seal_is_found(log: list[StoredEntry], place: int) -> None:
    """A hole in the middle shows by itself; one at the end shows by the anchor."""
    links, head = sealed(log)
    at = place % len(links)
    del links[at]
    assert faults(links, head)
    if at < len(links):
        assert "removed" in faults(links)[0].what


@given(entries(min_size=2), st.integers(1, 7))
def test_a_cut_tail_is_found_by_its_anchor(log: list[StoredEntry], kept: int) -> None:
    """A shorter log is a valid one in itself; the anchor knows how long it was."""
    links, head = sealed(log)
    short = links[: kept % len(links)]
    assert faults(short) == []
    found = faults(short, head)
    assert [fault.position for fault in found] == [len(links)]
    assert f"the log ends at {len(short)}" in found[0].what


@given(entries(min_size=2), st.integers(0, 7), st.integers(0, 7))
def test_two_swapped_entries_are_found(log: list[StoredEntry], one: int, other: int) -> None:
    """Entries that changed places no longer fit their seals."""
    links, _ = sealed(log)
    i, j = one % len(links), other % len(links)
    assume(i != j)
    (seal_i, entry_i), (seal_j, entry_j) = links[i], links[j]
    links[i], links[j] = (seal_i, entry_j), (seal_j, entry_i)
    assert {fault.position for fault in faults(links)} == {i + 1, j + 1}


@given(entries(min_size=2), st.permutations(range(8)))
def test_reordered_seals_are_found(log: list[StoredEntry], order: list[int]) -> None:
    """Seals and entries moved together, with their positions rewritten, break the links."""
    links, head = sealed(log)
    moved = [links[i] for i in order if i < len(links)]
    assume(moved != links)
    renumbered: Log = [
        (replace(link, position=place), entry) for place, (link, entry) in enumerate(moved, 1)
    ]
    assert faults(moved, head)
    assert faults(renumbered, head)


@given(entries(min_size=2), st.integers(0, 7))
def test_an_inserted_entry_is_found(log: list[StoredEntry], place: int) -> None:
    """An entry slipped in, sealed as well as can be, breaks the seal after it or the anchor."""
    links, head = sealed(log)
    at = place % (len(links) + 1)
    false = replace(log[0], entry_id=77, reason="never happened")
    before = links[at - 1][0].chain_hash if at else GENESIS
    new_hash = entry_hash(false)
    slipped = Seal(
        position=at + 1,
        entry_id=77,
        entry_hash=new_hash,
        chain_hash=chain_hash(before, at + 1, new_hash),
    )
    later: Log = [(replace(link, position=link.position + 1), entry) for link, entry in links[at:]]
    tampered = [*links[:at], (slipped, false), *later]
    # Appended at the end it is an ordinary new entry: the anchor says how far the log was known.
    assert bool(faults(tampered, head)) == (at < len(links))


@pytest.mark.parametrize("field", ["position", "entry_hash", "chain_hash"])
def test_an_edited_seal_is_found(field: str) -> None:
    """A seal itself cannot be changed unseen."""
    log = [
        StoredEntry(
            entry_id=number,
            occurred_at=START,
            actor="a",
            action="b",
            subject="c",
            reason="d",
            approval_ref=None,
            detail="{}",
        )
        for number in (1, 2, 3)
    ]
    links, head = sealed(log)
    changed = {"position": 7, "entry_hash": "f" * 64, "chain_hash": "f" * 64}[field]
    links[1] = (replace(links[1][0], **{field: changed}), links[1][1])  # type: ignore[arg-type]
    assert faults(links, head)


def test_the_chain_is_plain_sha256() -> None:
    """A seal is sha256('previous:position:entry hash'), so that any tool can check a log."""
    # printf '%064d:1:%064d' 0 0 | sha256sum
    assert (
        chain_hash("0" * 64, 1, "0" * 64)
        == "05a37e1ea54878700828e3fdc9cab2e8de82e3faa9bc8c5580bf05620186e10d"
    )


#: A log whose first entries are archived.
ENTRIES = [
    StoredEntry(
        entry_id=number,
        occurred_at=START,
        actor="ann",
        action="act",
        subject=f"subject-{number}",
        reason="",
        approval_ref=None,
        detail="{}",
    )
    for number in range(1, 7)
]


def archived(**changes: Any) -> ArchivedRange:
    """Return the first three links of the chain as an archive's record tells them."""
    links = seal(ENTRIES[:3], None)
    values: dict[str, Any] = {
        "archive_id": 1,
        "first_position": 1,
        "last_position": 3,
        "before_hash": GENESIS,
        "head_hash": links[2].chain_hash,
        "is_told": None,
    }
    return ArchivedRange(**{**values, **changes})


def walked(part: ArchivedRange, anchors: Sequence[Anchor] = ()) -> list[Fault]:
    """Pass over an archived part, then walk the rest of the chain; return the faults."""
    verifier = ChainVerifier(anchors)
    verifier.enter(part)
    verifier.leave(part, was_read=False)
    links = seal(ENTRIES, None)
    for link, entry in zip(links[3:], ENTRIES[3:], strict=True):
        verifier.walk(link, entry)
    verifier.finish()
    return verifier.faults


def test_the_chain_goes_on_behind_an_archived_range() -> None:
    """By the record's links alone; an anchor at its end is compared, one within it cannot be."""
    links = seal(ENTRIES, None)
    anchors = [Anchor(position=link.position, chain_hash=link.chain_hash) for link in links]
    assert walked(archived(), anchors) == []
    wrong = Anchor(position=3, chain_hash="0" * 64)
    assert [fault.position for fault in walked(archived(), [wrong])] == [3]


def test_an_archived_range_must_follow_the_chain() -> None:
    """Another link before it, a gap before it, or a log that tells otherwise: each is a fault."""
    assert [fault.position for fault in walked(archived(before_hash="1" * 64))] == [1]
    assert [fault.position for fault in walked(archived(is_told=False))] == [1]
    assert "removed" in walked(archived(first_position=2))[0].what
    assert [fault.position for fault in walked(archived(head_hash="1" * 64))] == [4]
