from __future__ import annotations

import random
import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from tallgrass.outbox.outbox_ids import OutboxIds

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)


@pytest.mark.conformance("OB-2.1", "C-33")
def test_a_million_ids_grow_without_a_collision() -> None:
    """Each is larger than the one before, whatever the clock does: none comes twice."""
    ids = OutboxIds(random.Random(1).getrandbits(62).__index__)
    steps = (timedelta(0), timedelta(microseconds=1), timedelta(milliseconds=-5))
    now, last = NOON, ""
    for number in range(1_000_000):
        if not number % 10:
            now += steps[number // 10 % 3]
        given = ids.several(now, 1)[0]
        assert given > last
        last = given


@pytest.mark.conformance("OB-2.1", "C-33")
def test_an_id_is_a_uuid_of_version_7() -> None:
    """Its first 48 bits are the milliseconds since 1970; the rest is by chance."""
    chance = random.Random(2)
    ids = OutboxIds(lambda: chance.getrandbits(128))
    seen = set()
    for number in range(2000):
        now = NOON + timedelta(milliseconds=number)
        parsed = uuid.UUID(ids.several(now, 1)[0])
        assert (parsed.version, parsed.variant) == (7, uuid.RFC_4122)
        assert parsed.int >> 80 == round(now.timestamp() * 1000)
        seen.add(parsed.int & ((1 << 62) - 1))
    assert len(seen) == 2000


def test_threads_share_a_source() -> None:
    """Two threads never get the same id."""
    ids = OutboxIds(lambda: 0)
    with ThreadPoolExecutor(4) as pool:
        given = list(pool.map(lambda _: ids.several(NOON, 1)[0], range(4000)))
    assert len(set(given)) == 4000


@pytest.mark.conformance("OB-2.1", "C-33")
def test_ids_that_are_made_together_grow_and_differ() -> None:
    """They share what is by chance, so their times must differ, and from those before too."""
    chance = random.Random(3)
    ids = OutboxIds(lambda: chance.getrandbits(128))
    given = [each for count in (1, 500, 0, 3, 500) for each in ids.several(NOON, count)]
    assert len(given) == 1004
    assert given == sorted(set(given))
    assert {uuid.UUID(each).version for each in given} == {7}
