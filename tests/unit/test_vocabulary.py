from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tallgrass.errors import InvalidInput
from tallgrass.ledger.vocabulary import (
    AttemptStatus,
    CheckStatus,
    Intent,
    ProvenanceStatus,
    StacStatus,
    Status,
    word,
)

if TYPE_CHECKING:
    from enum import StrEnum

#: Written out from the specifications.
WORDS: dict[type[StrEnum], list[str]] = {
    Status: ["pending", "in_progress", "succeeded", "failed", "quarantined"],
    AttemptStatus: ["pending", "applied", "failed", "rolled_back"],
    Intent: ["ingest", "reingest", "repair", "backfill"],
    CheckStatus: ["unknown", "ok", "suspect", "failed"],
    StacStatus: ["unknown", "created", "updated", "no-op", "failed"],
    ProvenanceStatus: ["unknown", "ok", "partial", "failed"],
}


@pytest.mark.conformance("WAL-4.1")
def test_a_record_has_exactly_five_statuses() -> None:
    """The statuses of a unit are the five of the specification, no more and no fewer."""
    assert sorted(Status) == ["failed", "in_progress", "pending", "quarantined", "succeeded"]


@pytest.mark.conformance("WAL-3.9", "WAL-3.11", "WAL-4.1", "RP-3.8")
@pytest.mark.parametrize("vocabulary", WORDS, ids=lambda v: v.__name__)
def test_each_vocabulary_is_closed(vocabulary: type[StrEnum]) -> None:
    """Each vocabulary holds the specification's words and nothing else."""
    assert list(vocabulary) == WORDS[vocabulary]
    assert [word(vocabulary, text) for text in WORDS[vocabulary]] == list(vocabulary)


@pytest.mark.conformance("WAL-3.9", "WAL-3.11", "WAL-4.1", "RP-3.8")
@pytest.mark.parametrize("vocabulary", WORDS, ids=lambda v: v.__name__)
@pytest.mark.parametrize("text", ["", "OK", "Pending", "done", " pending", "no_op", "None"])
def test_another_word_is_refused_with_the_allowed_ones(
    vocabulary: type[StrEnum], text: str
) -> None:
    """An unknown word is refused by an error that lists every allowed one."""
    with pytest.raises(InvalidInput) as refusal:
        word(vocabulary, text)
    assert refusal.value.code == "unknown_status"
    assert ", ".join(WORDS[vocabulary]) in str(refusal.value)
