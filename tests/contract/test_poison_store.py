"""Poison messages: kept before they leave the queue, listed, and fed again without being lost."""

from __future__ import annotations

import hashlib
import uuid
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.clock import parse_instant
from tallgrass.intake.message import PoisonMessage
from tallgrass.intake.poison import PoisonFilter, PoisonState
from tallgrass.storage.migrations import migrate, shipped_migrations
from tests.contract.scene import Scene, accepts
from tests.support.backends import Backend

if TYPE_CHECKING:
    from tallgrass.bootstrap.stores import Stores

FEED_ID = str(uuid.UUID(int=1))
BY = {"actor": "ann", "reason": "the dataset is there now"}


def poison(body: bytes, **changes: Any) -> PoisonMessage:
    """Return a message that nothing could be made of."""
    values: dict[str, Any] = {
        "queue": "q",
        "body": body,
        "message_id": "m-1",
        "error_code": "missing_required_field",
        "error_message": "token=abcdef123456 no bucket",
    }
    return PoisonMessage(**{**values, **changes})


def kept(stores: Stores) -> dict[tuple[str, bytes], Any]:
    """Return all that is stored, by queue and body."""
    found = stores.poison.page()
    bodies = stores.poison.bodies([message.poison_id for message in found])
    return {(message.queue, bodies[message.poison_id]): message for message in found}


def test_a_poison_message_is_kept_once_and_counted(backend: Backend) -> None:
    """Its bytes, hash and length are exact; coming again, also in one batch, only counts."""
    stores = Scene(backend).stores
    body = bytes(range(256))
    stores.poison.put([poison(body), poison(body), poison(b"other"), poison(body, queue="q2")])
    stores.poison.put([poison(body)])
    stores.poison.put([])
    found = kept(stores)
    assert {key: message.times_seen for key, message in found.items()} == {
        ("q", body): 3,
        ("q", b"other"): 1,
        ("q2", body): 1,
    }
    message = found["q", body]
    assert message.body_sha256 == hashlib.sha256(body).hexdigest()
    assert (message.body_bytes, message.message_id) == (256, "m-1")
    assert "abcdef123456" not in message.error_message
    assert message.first_seen_at <= message.last_seen_at
    assert not message.is_cut


def test_a_huge_poison_body_is_cut_but_known_whole(backend: Backend) -> None:
    """At most 1 MiB is kept; length and hash are those of all of it."""
    stores = Scene(backend).stores
    body = b"x" * 1_100_000
    stores.poison.put([poison(body)])
    stores.poison.put([poison(b"y" * 1_048_576)])
    cut, whole = stores.poison.page()
    bodies = stores.poison.bodies([cut.poison_id])
    assert (len(bodies[cut.poison_id]), cut.body_bytes) == (1_048_576, 1_100_000)
    assert cut.body_sha256 == hashlib.sha256(body).hexdigest()
    assert (cut.is_cut, whole.is_cut) == (True, False)


def test_a_message_that_was_cut_is_whole_when_it_comes_again(backend: Backend) -> None:
    """Of rows from a time when less was kept."""
    stores = Scene(backend).stores
    body = b"z" * 300_000
    stores.poison.put([poison(body)])
    backend.sql("UPDATE poison_messages SET body = ?", body[:262_144])
    (cut,) = stores.poison.page()
    assert (cut.is_cut, cut.kept_bytes) == (True, 262_144)
    stores.poison.put([poison(body)])
    (whole,) = stores.poison.page()
    assert (whole.is_cut, whole.times_seen) == (False, 2)
    assert stores.poison.bodies([whole.poison_id]) == {whole.poison_id: body}


def test_long_bodies_are_stored_in_parts(backend: Backend) -> None:
    """Twenty of the longest in one call: more than one statement should hold."""
    stores = Scene(backend).stores
    bodies = [b"%02d" % number + b"p" * 1_048_574 for number in range(20)]
    stores.poison.put([poison(body) for body in bodies])
    assert [each.kept_bytes for each in stores.poison.page()] == [1_048_576] * 20


def test_poison_is_listed_by_page(backend: Backend) -> None:
    """Each message is on exactly one page, in the order in which it first came."""
    stores = Scene(backend).stores
    for number in range(5):
        stores.poison.put([poison(f"{number}".encode())])
    first = stores.poison.page(size=3)
    rest = stores.poison.page(after=first[-1].poison_id, size=3)
    bodies = stores.poison.bodies([m.poison_id for m in first + rest])
    assert [bodies[m.poison_id] for m in first + rest] == [b"0", b"1", b"2", b"3", b"4"]
    assert [m.poison_id for m in stores.poison.find([5, 2, 99])] == [2, 5]


def test_each_condition_of_a_listing_counts(backend: Backend) -> None:
    """Queue, code, time of the last delivery and state: all that are given hold together."""
    stores = Scene(backend).stores
    for number, (queue, code) in enumerate(
        [("q", "unroutable"), ("q2", "unroutable"), ("q", "invalid_input"), ("q", "unroutable")]
    ):
        stores.poison.put([poison(f"{number}".encode(), queue=queue, error_code=code)])
        backend.sql(
            "UPDATE poison_messages SET last_seen_at = ? WHERE poison_id = ?",
            f"2026-06-0{number + 1}T00:00:00.000000Z",
            number + 1,
        )
    stores.poison.begin_feeding(stores.poison.find([3, 4]), feed_id=FEED_ID, **BY)
    stores.poison.confirm_feeding({4: "m-9"}, feed_id=FEED_ID, **BY)

    def listed(**wanted: Any) -> list[int]:
        return [m.poison_id for m in stores.poison.page(PoisonFilter(**wanted))]

    assert listed() == [1, 2, 3, 4]
    assert listed(queue="q") == [1, 3, 4]
    assert listed(error_code="unroutable") == [1, 2, 4]
    assert listed(since=parse_instant("2026-06-02T00:00:00Z")) == [2, 3, 4]
    assert listed(state=PoisonState.OPEN) == [1, 2]
    assert listed(state=PoisonState.BEGUN) == [3]
    assert listed(state=PoisonState.FED) == [4]
    assert listed(queue="q", error_code="unroutable", state=PoisonState.OPEN) == [1]
    assert stores.poison.counts() == {
        PoisonState.OPEN: 2, PoisonState.BEGUN: 1, PoisonState.FED: 1,
    }  # fmt: skip


def test_a_feeding_is_recorded_before_and_confirmed_after(backend: Backend) -> None:
    """Begun, then fed, each with an audit entry that names who, why and by which message."""
    scene = Scene(backend)
    store = scene.stores.poison
    store.put([poison(b"one")])
    store.put([poison(b"two")])
    store.begin_feeding(store.find([1]), feed_id=FEED_ID, **BY)
    (begun,) = store.find([1])
    assert (begun.state, begun.feed_id, begun.fed_at) == (PoisonState.BEGUN, FEED_ID, None)
    store.confirm_feeding({1: "m-9"}, feed_id=FEED_ID, **BY)
    (fed,) = store.find([1])
    assert (fed.state, fed.fed_message_id) == (PoisonState.FED, "m-9")
    assert fed.fed_at is not None
    assert fed.fed_at >= fed.last_seen_at
    assert scene.audit("poison:1") == [
        ("ann", "poison_feed", "the dataset is there now"),
        ("ann", "poison_fed", "the dataset is there now"),
    ]
    details = backend.sql("SELECT detail FROM audit_log ORDER BY entry_id")
    assert FEED_ID in details[0][0]
    assert hashlib.sha256(b"one").hexdigest() in details[0][0]
    assert '"message_id":"m-9"' in details[1][0]
    assert store.find([2])[0].state is PoisonState.OPEN


def test_a_refused_feeding_is_in_the_audit_log(backend: Backend) -> None:
    """Who asked for it, and why it was not done; the message stays as it is."""
    scene = Scene(backend)
    scene.stores.poison.put([poison(b"one")])
    scene.stores.poison.refuse_feeding({1: "not_understood"}, actor="ann")
    assert scene.audit("poison:1") == [("ann", "poison_feed_refused", "not_understood")]
    assert scene.stores.poison.find([1])[0].state is PoisonState.OPEN


def test_poison_that_comes_again_is_open_again(backend: Backend) -> None:
    """It counts, its newest error is shown, and the row of before goes on."""
    store = Scene(backend).stores.poison
    store.put([poison(b"one")])
    store.begin_feeding(store.find([1]), feed_id=FEED_ID, **BY)
    store.confirm_feeding({1: "m-9"}, feed_id=FEED_ID, **BY)
    store.put([poison(b"one", error_code="unroutable", message_id="m-9")])
    (again,) = store.page()
    assert (again.poison_id, again.times_seen, again.error_code) == (1, 2, "unroutable")
    assert again.state is PoisonState.OPEN
    assert (again.feed_id, again.fed_at, again.fed_message_id) == (None, None, None)


def test_one_that_came_back_before_its_confirmation_stays_open(backend: Backend) -> None:
    """A worker can be quicker than whoever fed the message: the confirmation changes nothing."""
    store = Scene(backend).stores.poison
    store.put([poison(b"one")])
    store.begin_feeding(store.find([1]), feed_id=FEED_ID, **BY)
    store.put([poison(b"one")])
    store.confirm_feeding({1: "m-9"}, feed_id=FEED_ID, **BY)
    (again,) = store.page()
    assert (again.state, again.times_seen) == (PoisonState.OPEN, 2)


@pytest.mark.parametrize(
    "change",
    [
        "fed_at = '2026-06-01T00:00:00.000000Z', fed_message_id = 'm'",
        f"feed_id = '{FEED_ID}', fed_at = '2026-06-01T00:00:00.000000Z'",
        f"feed_id = '{FEED_ID}', fed_message_id = 'm'",
    ],
    ids=["without feeding", "without message", "without time"],
)
def test_the_database_refuses_a_half_told_feeding(backend: Backend, change: str) -> None:
    """Fed means feeding, time and message together."""
    Scene(backend).stores.poison.put([poison(b"one")])
    statement = f"UPDATE poison_messages SET {change} WHERE poison_id = 1"
    assert not accepts(backend.connect(), statement)
    whole = f"feed_id = '{FEED_ID}', fed_at = '2026-06-01T00:00:00.000000Z', fed_message_id = 'm'"
    assert accepts(backend.connect(), f"UPDATE poison_messages SET {whole} WHERE poison_id = 1")


def test_poison_of_an_older_release_is_open_after_the_upgrade(
    request: pytest.FixtureRequest, backend: Backend, tmp_path: Any
) -> None:
    """What was stored before messages could be fed is there, unchanged, and can be fed."""
    if backend.name == "sqlite":
        old = Backend("sqlite", f"sqlite:///{tmp_path / 'old.db'}")
    else:
        old = Backend("postgres", request.getfixturevalue("postgres_databases").create())
    stores = old.open()
    migrate(stores.database, shipped_migrations(backend.name)[:2])
    old.sql(
        "INSERT INTO poison_messages (queue, body_sha256, body, body_bytes, error_code,"
        " error_message, times_seen, first_seen_at, last_seen_at)"
        " VALUES ('q', ?, ?, 3, 'unroutable', 'why', 7, ?, ?)",
        hashlib.sha256(b"one").hexdigest(),
        b"one",
        *["2026-06-01T00:00:00.000000Z"] * 2,
    )
    assert "0003_poison_feeding" in migrate(stores.database).applied
    (message,) = stores.poison.page()
    assert (message.state, message.times_seen) == (PoisonState.OPEN, 7)
    stores.poison.begin_feeding([message], feed_id=FEED_ID, **BY)
    assert stores.poison.find([1])[0].state is PoisonState.BEGUN
    old.close()
    if backend.name == "postgres":
        request.getfixturevalue("postgres_databases").drop(old.url)


def test_a_listing_does_not_read_bodies(backend: Backend) -> None:
    """What a listing passes over is in an index of its own, so a million rows stay quick."""
    stores = Scene(backend).stores
    stores.poison.put([poison(f"{number}".encode()) for number in range(50)])
    inner = (
        "SELECT poison_id FROM poison_messages {hint} WHERE poison_id > 0"
        " AND (error_code = 'rare') AND last_seen_at >= '2026-06-01T00:00:00.000000Z'"
        " AND CASE WHEN fed_at IS NOT NULL THEN 'fed' WHEN feed_id IS NOT NULL THEN 'begun'"
        " ELSE 'open' END = 'open' AND queue = 'q' ORDER BY poison_id LIMIT 50"
    )
    if backend.name == "sqlite":
        hint = "INDEXED BY poison_messages_listed"
        plan = backend.sql(f"EXPLAIN QUERY PLAN {inner.format(hint=hint)}")
        assert "COVERING INDEX poison_messages_listed" in str(plan)
        return
    connection = backend.connect()
    for statement in ("VACUUM ANALYZE poison_messages", "SET enable_seqscan = off"):
        connection.execute(statement)
    plan = connection.execute(f"EXPLAIN {inner.format(hint='')}").fetchall()
    assert "Index Only Scan using poison_messages_listed" in str(plan)
