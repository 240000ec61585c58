from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tallgrass.clock import parse_instant
from tallgrass.errors import InvalidInput
from tallgrass.ledger.identity import first_wal_id_of, wal_id
from tests.vectors import make_wal_ids

VECTORS_PATH = Path(__file__).parents[1] / "vectors" / "wal_ids.json"
VECTORS: list[dict[str, str]] = json.loads(VECTORS_PATH.read_text(encoding="utf-8"))

texts = st.text(st.characters(codec="utf-8"), min_size=1, max_size=40)
#: 48 bits of milliseconds since year 1 end in 8920.
instants = st.datetimes(max_value=datetime(8920, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001

#: Prints the ids of all vectors, one a line.
PRINT_IDS = """
import json, sys
from tallgrass.clock import parse_instant
from tallgrass.ledger.identity import wal_id
for v in json.load(open(sys.argv[1], encoding="utf-8")):
    print(wal_id(v["dataset"], v["object_uri"], parse_instant(v["time_range_start"])))
"""


def test_the_vectors_span_1763_to_2100() -> None:
    """At least forty vectors are committed, from NODD's oldest data to the far end."""
    years = {vector["time_range_start"][:4] for vector in VECTORS}
    assert len(VECTORS) >= 40
    assert min(years) == "1763"
    assert max(years) == "2100"


def test_the_vectors_are_those_of_their_generator() -> None:
    """The committed file is what integer arithmetic and `sha256sum` give, untouched by hand."""
    assert make_wal_ids.vectors() == VECTORS


@pytest.mark.conformance("WAL-3.2", "WAL-7.1", "WAL-10.4")
def test_the_committed_vectors_hold() -> None:
    """Each id equals the one that was worked out by other means and committed."""
    for vector in VECTORS:
        start = parse_instant(vector["time_range_start"])
        assert wal_id(vector["dataset"], vector["object_uri"], start) == vector["wal_id"]


@pytest.mark.conformance("WAL-3.2")
def test_every_vector_is_a_version_8_uuid() -> None:
    """An id is a UUID of version 8 and of the RFC's variant, in canonical spelling."""
    for vector in VECTORS:
        parsed = uuid.UUID(vector["wal_id"])
        assert parsed.version == 8
        assert parsed.variant == uuid.RFC_4122
        assert str(parsed) == vector["wal_id"]


@pytest.mark.conformance("WAL-3.2")
@given(texts, texts, instants)
def test_an_id_is_always_a_version_8_uuid(dataset: str, uri: str, start: datetime) -> None:
    """Whatever the triple, its id is a well-formed UUIDv8."""
    parsed = uuid.UUID(wal_id(dataset, uri, start))
    assert (parsed.version, parsed.variant) == (8, uuid.RFC_4122)


@pytest.mark.conformance("WAL-3.2", "WAL-7.1")
@given(texts, texts, instants, texts, texts, instants)
def test_ids_sort_by_data_time(
    dataset: str, uri: str, start: datetime, dataset_2: str, uri_2: str, start_2: datetime
) -> None:
    """Of two units, the one whose data starts a millisecond or more earlier has the smaller id."""
    assume(start_2 - start >= timedelta(milliseconds=1))
    assert wal_id(dataset, uri, start) < wal_id(dataset_2, uri_2, start_2)


@given(texts, texts, instants, instants)
def test_an_id_range_is_a_range_of_data_time(
    dataset: str, uri: str, start: datetime, bound: datetime
) -> None:
    """A unit lies above a bound's first id exactly if it starts in its millisecond or later."""
    bound = bound.replace(microsecond=bound.microsecond // 1000 * 1000)
    assert (wal_id(dataset, uri, start) >= first_wal_id_of(bound)) == (start >= bound)


@pytest.mark.conformance("WAL-7.1")
@given(st.tuples(texts, texts, instants), st.tuples(texts, texts, instants))
def test_ids_are_equal_exactly_for_equal_triples(
    one: tuple[str, str, datetime], other: tuple[str, str, datetime]
) -> None:
    """The same triple gives the same id, another triple another id."""
    assert wal_id(*one) == wal_id(*one)
    assert (wal_id(*one) == wal_id(*other)) == (one == other)


@pytest.mark.conformance("WAL-7.1")
@given(texts, st.integers(0, 39), instants)
def test_a_moved_boundary_between_parts_gives_another_id(
    text: str, cut: int, start: datetime
) -> None:
    """Dataset and address that join to one text are told apart by where they are divided."""
    at = cut % len(text)
    assume(at > 0)
    first = wal_id(text[:at], text[at:] + "x", start)
    second = wal_id(text[: at - 1], text[at - 1 :] + "x", start)
    assert first != second


@pytest.mark.conformance("WAL-7.1")
@pytest.mark.parametrize("separator", ["|", "\x00", ":", "/", "\n", ",", "\x1f", "\\", '"'])
def test_no_separator_can_be_smuggled_in(separator: str) -> None:
    """A separator inside one part never imitates the border of two parts."""
    start = datetime(2026, 6, 1, tzinfo=UTC)
    ids = {
        wal_id(f"a{separator}b", "c", start),
        wal_id("a", f"b{separator}c", start),
        wal_id(f"a{separator}", "bc", start),
        wal_id("a", f"{separator}bc", start),
        wal_id("ab", f"{separator}c", start),
    }
    assert len(ids) == 5


@pytest.mark.conformance("WAL-3.2", "WAL-7.1")
@pytest.mark.parametrize(
    ("seed", "zone"), [("0", "UTC"), ("1", "Asia/Kathmandu"), ("4242", "America/Chicago")]
)
def test_other_processes_compute_the_same_ids(seed: str, zone: str) -> None:
    """Hash seed, time zone and locale of a process do not reach its ids."""
    environment = {**os.environ, "PYTHONHASHSEED": seed, "TZ": zone, "LC_ALL": "C"}
    done = subprocess.run(
        [sys.executable, "-c", PRINT_IDS, str(VECTORS_PATH)],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    assert done.stdout.split() == [vector["wal_id"] for vector in VECTORS]


@pytest.mark.conformance("WAL-7.1")
def test_the_same_instant_in_another_zone_gives_the_same_id() -> None:
    """An id follows the instant, not the zone in which it was written."""
    utc = datetime(2026, 3, 8, 8, 0, tzinfo=UTC)
    kathmandu = utc.astimezone(timezone(timedelta(hours=5, minutes=45)))
    assert wal_id("d", "s3://b/k", utc) == wal_id("d", "s3://b/k", kathmandu)


@pytest.mark.conformance("WAL-7.1")
def test_many_different_units_have_different_ids(*, full_counts: bool) -> None:
    """No two of very many units share an id, also when all start at the same millisecond."""
    count = 1_000_000 if full_counts else 200_000
    start = datetime(2026, 1, 1, tzinfo=UTC)
    same_time = {wal_id("goes-glm", f"s3://noaa-goes19/{n}", start) for n in range(count // 2)}
    over_time = {
        wal_id(f"d{n % 7}", "s3://b/k", start + timedelta(microseconds=n))
        for n in range(count // 2)
    }
    assert len(same_time | over_time) == count


def test_a_start_beyond_48_bits_has_no_id() -> None:
    """The last millisecond that fits has an id; the next one is refused, never wrapped around."""
    last = datetime(1, 1, 1, tzinfo=UTC) + timedelta(milliseconds=2**48 - 1)
    assert wal_id("d", "s3://b/k", last).startswith("ffffffff-ffff-8")
    for late in (last + timedelta(milliseconds=1), datetime(9999, 12, 31, tzinfo=UTC)):
        with pytest.raises(InvalidInput) as refusal:
            wal_id("d", "s3://b/k", late)
        assert refusal.value.code == "invalid_time"


def test_a_start_without_a_zone_has_no_id() -> None:
    """A naive time is refused, never guessed."""
    with pytest.raises(InvalidInput) as refusal:
        wal_id("d", "s3://b/k", datetime(2026, 1, 1))  # noqa: DTZ001 - naive on purpose
    assert refusal.value.code == "invalid_time"
