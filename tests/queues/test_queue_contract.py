"""What every queue promises, whatever it is made of."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tallgrass.errors import InvalidInput
from tests.queues.harness import MAX_RECEIVE_COUNT, VISIBILITY_S

if TYPE_CHECKING:
    from tallgrass.queues.protocol import QueueMessage
    from tests.queues.harness import Harness

A_MOMENT_S = 1.0

BODIES = (b'{"Type":"Notification"}', "größer als µ – 雷".encode(), b" \t\n{}\r\n ", b"x")


#: moto lets every receipt work that a message ever had; SQS may, and never promises it.
NO_USE_OF_OLD_RECEIPTS = pytest.mark.parametrize(
    "harness", ["embedded", "ministack"], indirect=True
)
#: Both emulators forget the time of a receipt; what SQS answers is in test_sqs_faults.py.
NO_USE_OF_EXPIRED_RECEIPTS = pytest.mark.parametrize("harness", ["embedded"], indirect=True)


def numbered(count: int) -> list[bytes]:
    """Return bodies that can be told apart."""
    return [f"body {number}".encode() for number in range(count)]


def drain(harness: Harness, limit: int = 10) -> list[QueueMessage]:
    """Receive until nothing is visible."""
    batches = iter(lambda: harness.queue.receive(limit), [])
    return list(itertools.chain.from_iterable(batches))


def counts(harness: Harness) -> tuple[int, int, int | None]:
    """Return how many messages are visible, in flight and dead."""
    status = harness.queue.status()
    return status.visible, status.in_flight, status.dead


def test_an_empty_queue_gives_nothing(harness: Harness) -> None:
    """Nothing is received where nothing was sent, and nothing is counted."""
    assert list(harness.queue.receive(10)) == []
    assert counts(harness) == (0, 0, 0)
    assert harness.queue.status().oldest_sent_at is None


def test_bodies_come_as_they_were_sent(harness: Harness) -> None:
    """Text of any script and all its white space comes back byte for byte."""
    harness.queue.send(BODIES)
    assert sorted(message.body for message in drain(harness)) == sorted(BODIES)


def test_any_bytes_come_as_they_were_sent(harness: Harness) -> None:
    """Where a body may be any bytes, all 256 of them come back unchanged."""
    body = bytes(range(256)) * 3
    if not harness.takes_any_bytes:
        with pytest.raises(InvalidInput):
            harness.queue.send([body])
        return
    harness.queue.send([body])
    assert [message.body for message in drain(harness)] == [body]


def test_a_receive_takes_at_most_what_it_asked_for(harness: Harness) -> None:
    """Each receive gives at most its limit, and together they give every message once."""
    harness.queue.send(numbered(25))
    sizes = []
    seen: list[bytes] = []
    while batch := harness.queue.receive(10):
        sizes.append(len(batch))
        seen += [message.body for message in batch]
    assert max(sizes) <= 10
    assert sorted(seen) == sorted(numbered(25))


@pytest.mark.parametrize("limit", [0, -1])
def test_a_receive_of_nothing_is_refused(harness: Harness, limit: int) -> None:
    """A limit below one is a mistake of the caller."""
    with pytest.raises(InvalidInput):
        harness.queue.receive(limit)


def test_equal_bodies_are_separate_messages(harness: Harness) -> None:
    """The same body sent twice is two messages with ids and receipts of their own."""
    harness.queue.send([b"twin", b"twin"])
    first, second = drain(harness)
    assert first.body == second.body == b"twin"
    assert first.message_id != second.message_id
    assert first.receipt != second.receipt
    harness.queue.delete([first.receipt])
    harness.wait(VISIBILITY_S + A_MOMENT_S)
    assert [message.message_id for message in drain(harness)] == [second.message_id]


def test_a_send_tells_the_ids_of_its_messages(harness: Harness) -> None:
    """One id for each body, in order, and it is the id under which the message is received."""
    bodies = numbered(12)
    told = dict(zip(harness.queue.send(bodies), bodies, strict=True))
    assert {message.message_id: message.body for message in drain(harness)} == told
    assert list(harness.queue.send([])) == []


def test_a_message_is_hidden_while_it_is_in_flight(harness: Harness) -> None:
    """Until the visibility timeout ends nobody else is given the message."""
    harness.queue.send([b"one"])
    assert len(harness.queue.receive(10)) == 1
    other = harness.consumer()
    assert list(other.receive(10)) == []
    harness.wait(VISIBILITY_S - A_MOMENT_S)
    assert list(other.receive(10)) == []
    assert counts(harness) == (0, 1, 0)


def test_a_message_that_was_not_deleted_comes_again(harness: Harness) -> None:
    """After the timeout it is the same message, under another receipt, received once more."""
    harness.queue.send([b"one"])
    (first,) = harness.queue.receive(10)
    harness.wait(VISIBILITY_S + A_MOMENT_S)
    (second,) = harness.consumer().receive(10)
    assert (second.message_id, second.body) == (first.message_id, b"one")
    assert second.sent_at == first.sent_at
    assert (first.receive_count, second.receive_count) == (1, 2)
    assert second.receipt != first.receipt


def test_a_deleted_message_never_comes_again(harness: Harness) -> None:
    """A delete is for good, and returns no receipt where all were valid."""
    harness.queue.send(numbered(3))
    receipts = [message.receipt for message in drain(harness)]
    assert list(harness.queue.delete(receipts)) == []
    harness.wait(VISIBILITY_S + A_MOMENT_S)
    assert drain(harness) == []
    assert counts(harness) == (0, 0, 0)


def test_visibility_zero_shows_a_message_at_once(harness: Harness) -> None:
    """Handing a message back lets the next receive have it."""
    harness.queue.send([b"one"])
    (first,) = harness.queue.receive(10)
    assert list(harness.queue.change_visibility([(first.receipt, 0)])) == []
    assert counts(harness)[0] == 1
    (second,) = harness.queue.receive(10)
    assert (second.message_id, second.receive_count) == (first.message_id, 2)


def test_visibility_is_counted_from_the_change(harness: Harness) -> None:
    """A longer time holds from the moment of the change on, not from the receive."""
    harness.queue.send([b"one"])
    (message,) = harness.queue.receive(10)
    harness.wait(VISIBILITY_S / 2)
    assert list(harness.queue.change_visibility([(message.receipt, 2 * VISIBILITY_S)])) == []
    harness.wait(2 * VISIBILITY_S - A_MOMENT_S)
    assert list(harness.queue.receive(10)) == []
    harness.wait(2 * A_MOMENT_S)
    assert len(harness.queue.receive(10)) == 1


def test_visibility_can_be_shortened(harness: Harness) -> None:
    """A message can be shown before its timeout would have ended."""
    harness.queue.send([b"one"])
    (message,) = harness.queue.receive(10)
    harness.queue.change_visibility([(message.receipt, 5)])
    harness.wait(5 + A_MOMENT_S)
    assert len(harness.queue.receive(10)) == 1


def test_a_changed_delivery_can_still_be_deleted(harness: Harness) -> None:
    """Changing how long a message is hidden leaves its receipt valid."""
    harness.queue.send([b"one"])
    (message,) = harness.queue.receive(10)
    harness.queue.change_visibility([(message.receipt, 2 * VISIBILITY_S)])
    harness.wait(VISIBILITY_S + A_MOMENT_S)
    assert list(harness.queue.delete([message.receipt])) == []
    assert counts(harness) == (0, 0, 0)


@pytest.mark.parametrize("seconds", [-1, 43_201, float("nan"), float("inf")])
def test_an_impossible_visibility_is_refused(harness: Harness, seconds: float) -> None:
    """A delivery is hidden for 0 s to 12 h; with anything else nothing of the batch changes."""
    harness.queue.send(numbered(2))
    first, second = drain(harness)
    with pytest.raises(InvalidInput):
        harness.queue.change_visibility([(first.receipt, 0), (second.receipt, seconds)])
    assert counts(harness) == (0, 2, 0)


@NO_USE_OF_OLD_RECEIPTS
def test_the_receipt_of_an_earlier_delivery_does_no_harm(harness: Harness) -> None:
    """Once a message was delivered again, the old receipt neither deletes nor shows it."""
    harness.queue.send([b"one"])
    (first,) = harness.queue.receive(10)
    harness.wait(VISIBILITY_S + A_MOMENT_S)
    (second,) = harness.queue.receive(10)
    assert list(harness.queue.change_visibility([(first.receipt, 0)])) == [first.receipt]
    stale = [first.receipt] if harness.reports_stale_deletes else []
    assert list(harness.queue.delete([first.receipt])) == stale
    assert counts(harness) == (0, 1, 0)
    assert list(harness.queue.delete([second.receipt])) == []
    assert counts(harness) == (0, 0, 0)


@NO_USE_OF_EXPIRED_RECEIPTS
def test_an_expired_receipt_cannot_hide_the_message(harness: Harness) -> None:
    """Who comes after the timeout cannot take the message from others, and is told so."""
    harness.queue.send([b"one"])
    (first,) = harness.queue.receive(10)
    harness.wait(VISIBILITY_S + A_MOMENT_S)
    changes = [(first.receipt, VISIBILITY_S)]
    assert list(harness.queue.change_visibility(changes)) == [first.receipt]
    assert len(harness.queue.receive(10)) == 1


def test_the_receipt_of_a_deleted_message_does_no_harm(harness: Harness) -> None:
    """A second delete, or a change after a delete, brings nothing back."""
    harness.queue.send([b"one"])
    (message,) = harness.queue.receive(10)
    harness.queue.delete([message.receipt])
    stale = [message.receipt] if harness.reports_stale_deletes else []
    assert list(harness.queue.delete([message.receipt])) == stale
    assert list(harness.queue.change_visibility([(message.receipt, 0)])) == [message.receipt]
    assert drain(harness) == []


@NO_USE_OF_OLD_RECEIPTS
def test_each_receipt_of_a_batch_is_judged_by_itself(harness: Harness) -> None:
    """One stale receipt in a batch hinders none of its neighbours."""
    harness.queue.send(numbered(3))
    kept = drain(harness)
    harness.wait(VISIBILITY_S + A_MOMENT_S)
    current = {message.message_id: message for message in drain(harness)}
    stale = kept[0].receipt
    others = [current[message.message_id].receipt for message in kept[1:]]
    assert list(harness.queue.change_visibility([(stale, 0), (others[0], 0)])) == [stale]
    assert counts(harness) == (1, 2, 0)
    reported = list(harness.queue.delete([stale, others[1]]))
    assert reported == ([stale] if harness.reports_stale_deletes else [])
    assert counts(harness) == (1, 1, 0)


@pytest.mark.parametrize("receipt", ["", "nonsense", "1.nonsense", "\u0661.x", "9" * 40 + ".x"])
def test_a_receipt_that_was_never_given_out_is_reported(harness: Harness, receipt: str) -> None:
    """A text that is no receipt changes nothing and is answered as no longer valid."""
    harness.queue.send([b"one"])
    (message,) = harness.queue.receive(10)
    assert list(harness.queue.change_visibility([(receipt, 0)])) == [receipt]
    assert list(harness.queue.delete([receipt])) == [receipt]
    assert list(harness.queue.delete([message.receipt])) == []


def test_a_batch_of_nothing_does_nothing(harness: Harness) -> None:
    """Empty batches are allowed: a caller need not look first."""
    harness.queue.send([])
    assert list(harness.queue.delete([])) == []
    assert list(harness.queue.change_visibility([])) == []
    assert counts(harness) == (0, 0, 0)


@pytest.mark.parametrize("how", ["expiry", "handed back"])
def test_a_message_received_too_often_becomes_a_dead_letter(harness: Harness, how: str) -> None:
    """After its last allowed delivery it is not delivered again, but kept as a dead letter."""
    harness.queue.send([b"bad", b"good"])
    harness.queue.delete([m.receipt for m in harness.queue.receive(10) if m.body == b"good"])
    receipts = []
    for delivery in range(2, MAX_RECEIVE_COUNT + 1):
        harness.wait(VISIBILITY_S + A_MOMENT_S)
        (message,) = harness.queue.receive(10)
        assert (message.body, message.receive_count) == (b"bad", delivery)
        receipts.append(message.receipt)
    if how == "handed back":
        harness.queue.change_visibility([(receipts[-1], 0)])
    else:
        harness.wait(VISIBILITY_S + A_MOMENT_S)
    assert list(harness.queue.receive(10)) == []
    assert counts(harness) == (0, 0, 1)
    assert list(harness.dead_bodies()) == [b"bad"]


def test_a_message_is_not_dead_before_its_last_delivery_ends(harness: Harness) -> None:
    """In its last allowed delivery a message can still be finished."""
    harness.queue.send([b"late"])
    for _ in range(MAX_RECEIVE_COUNT - 1):
        harness.queue.receive(10)
        harness.wait(VISIBILITY_S + A_MOMENT_S)
    (message,) = harness.queue.receive(10)
    assert list(harness.queue.receive(10)) == []
    assert counts(harness) == (0, 1, 0)
    assert list(harness.queue.delete([message.receipt])) == []
    assert counts(harness) == (0, 0, 0)


def test_dead_letters_do_not_hide_what_waits_behind_them(harness: Harness) -> None:
    """A receive that meets only dead letters goes on to living messages."""
    harness.queue.send([b"bad"] * 5)
    for _ in range(MAX_RECEIVE_COUNT):
        assert len(drain(harness)) == 5
        harness.wait(VISIBILITY_S + A_MOMENT_S)
    harness.queue.send(numbered(3))
    assert sorted(message.body for message in drain(harness, limit=2)) == numbered(3)
    assert counts(harness) == (0, 3, 5)


def test_the_status_counts_each_message_where_it_is(harness: Harness) -> None:
    """Visible, in flight and dead add up to what was sent and not deleted."""
    harness.queue.send(numbered(6))
    taken = harness.queue.receive(4)
    harness.queue.delete([taken[0].receipt])
    harness.queue.change_visibility([(taken[1].receipt, 0)])
    assert counts(harness) == (2 + 1, 2, 0)
    harness.wait(VISIBILITY_S + A_MOMENT_S)
    assert counts(harness) == (5, 0, 0)


def test_the_status_tells_how_long_the_oldest_has_waited(harness: Harness) -> None:
    """The oldest message counts until it is deleted, in flight or not."""
    harness.queue.send([b"old"])
    harness.wait(10)
    harness.queue.send([b"young"])
    by_body = {message.body: message for message in drain(harness)}
    old, young = by_body[b"old"], by_body[b"young"]
    assert (young.sent_at - old.sent_at).total_seconds() >= 10
    tells = harness.tells_the_oldest
    assert harness.queue.status().oldest_sent_at == (old.sent_at if tells else None)
    harness.queue.delete([old.receipt])
    assert harness.queue.status().oldest_sent_at == (young.sent_at if tells else None)


@pytest.mark.parametrize("size", [1, 1_048_576])
def test_a_body_within_the_limits_is_taken(harness: Harness, size: int) -> None:
    """One byte and one mebibyte are the ends of what a queue takes."""
    harness.queue.send([b"x" * size])
    assert [len(message.body) for message in drain(harness)] == [size]


@pytest.mark.parametrize("size", [0, 1_048_577])
def test_a_body_outside_the_limits_is_refused_with_its_batch(harness: Harness, size: int) -> None:
    """An empty body, or one of more than a mebibyte, is refused; its neighbours are not sent."""
    with pytest.raises(InvalidInput, match=rf"message 2 of 3 has {size:,} bytes"):
        harness.queue.send([b"good", b"x" * size, b"good"])
    assert counts(harness) == (0, 0, 0)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("send"), st.integers(1, 3)),
        st.tuples(st.just("receive"), st.integers(1, 4)),
        st.tuples(st.just("delete"), st.integers(0, 30)),
        st.tuples(st.just("show"), st.integers(0, 30)),
        st.tuples(st.just("wait"), st.sampled_from([1, 30, 61])),
    ),
    max_size=30,
)


class Model:
    """A queue as it should be: who holds which message, and until when."""

    def __init__(self, harness: Harness) -> None:
        self._harness = harness
        self._dead_before = counts(harness)[2] or 0
        self._now = 0.0
        self._sent = 0
        self._deleted = 0
        self._given_out: list[QueueMessage] = []
        self._held: dict[str, tuple[str, float]] = {}

    def send(self, number: int) -> None:
        """Send so many messages."""
        self._harness.queue.send(numbered(number))
        self._sent += number

    def wait(self, seconds: int) -> None:
        """Let time pass."""
        self._harness.wait(seconds)
        self._now += seconds

    def receive(self, limit: int) -> None:
        """Receive; nobody else may hold what is given out."""
        for message in self._harness.queue.receive(limit):
            assert self._held.get(message.message_id, ("", 0.0))[1] <= self._now
            assert message.receive_count <= MAX_RECEIVE_COUNT
            self._held[message.message_id] = (message.receipt, self._now + VISIBILITY_S)
            self._given_out.append(message)

    def delete(self, number: int) -> None:
        """Delete by one of the receipts ever given out."""
        for message in self._pick(number):
            may_work = self._is_expired(message) and self._harness.expired_receipts_work
            valid = self._let_go(message)
            stale = list(self._harness.queue.delete([message.receipt]))
            if may_work:
                valid = not stale
            self._deleted += valid
            reported = not valid and self._harness.reports_stale_deletes
            assert stale == ([message.receipt] if reported else [])

    def show(self, number: int) -> None:
        """Hand back by one of the receipts ever given out."""
        for message in self._pick(number):
            may_work = self._is_expired(message) and self._harness.expired_receipts_work
            valid = self._let_go(message)
            stale = list(self._harness.queue.change_visibility([(message.receipt, 0)]))
            assert stale == ([] if valid else [message.receipt]) or may_work

    def check(self) -> None:
        """Every message is visible, held, dead or deleted; the held ones are those in flight."""
        visible, in_flight, dead = counts(self._harness)
        dead = (dead or 0) - self._dead_before
        assert visible + in_flight + dead + self._deleted == self._sent
        assert in_flight == sum(until > self._now for _, until in self._held.values())

    def _pick(self, number: int) -> list[QueueMessage]:
        return [self._given_out[number % len(self._given_out)]] if self._given_out else []

    def _is_expired(self, message: QueueMessage) -> bool:
        """Tell whether it is the latest receipt of its message, after its time."""
        receipt, until = self._held.get(message.message_id, ("", 0.0))
        return receipt == message.receipt and until <= self._now

    def _let_go(self, message: QueueMessage) -> bool:
        """Tell whether the receipt is valid; whoever uses it holds the message no more."""
        receipt, until = self._held.get(message.message_id, ("", 0.0))
        valid = receipt == message.receipt and until > self._now
        if valid:
            del self._held[message.message_id]
        return valid


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_whatever_happens_nothing_is_lost_or_held_twice(
    embedded: Harness, steps: list[tuple[str, int]]
) -> None:
    """A message is visible, in one pair of hands, dead, or was deleted by a valid receipt."""
    check_against_the_model(embedded, steps)


@pytest.mark.parametrize("harness", ["ministack"], indirect=True)
@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_whatever_happens_to_sqs_nothing_is_lost_or_held_twice(
    harness: Harness, steps: list[tuple[str, int]]
) -> None:
    """The same, with fewer examples: each of its steps is a request."""
    check_against_the_model(harness, steps)


def check_against_the_model(harness: Harness, steps: list[tuple[str, int]]) -> None:
    """Take the steps on an emptied queue and on the model of it."""
    harness.wait(VISIBILITY_S + A_MOMENT_S)
    harness.queue.delete([message.receipt for message in drain(harness)])
    model = Model(harness)
    for verb, number in steps:
        getattr(model, verb)(number)
        model.check()
