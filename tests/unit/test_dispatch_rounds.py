"""One batch of a dispatcher: how much it claims, what it sends, and what it learns of a target."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tallgrass.errors import DatabaseUnreachable
from tallgrass.governance.policy import GovernanceDefaults, Policies, Policy
from tallgrass.outbox.dispatch_rules import AttemptOutcome
from tallgrass.sinks.protocol import Delivered
from tallgrass.telemetry import names
from tests.support.events import down, event_id
from tests.support.shelf import NOON, Scene

#: An event that is labelled `public`, as all here are, must not leave under this one.
SENSITIVE = Policy.of("soil", GovernanceDefaults(care_label="sensitive", sensitivity="low"))


def outcomes(scene: Scene) -> list[str]:
    """Return how the attempts ended, in order."""
    return [each.outcome.value for each in scene.shelf.written]


def test_a_batch_tells_what_came_of_it() -> None:
    """Its claims, what became of each, and that it was written."""
    scene = Scene(2)
    scene.sink.answers = [Delivered(duplicate=True)]
    batch = scene.dispatcher.run()
    assert [each.event.outbox_id for each in batch.claims] == [event_id(1), event_id(2)]
    assert [each.duplicate for each in batch.settlements] == [True, False]
    assert batch.settled is not None
    assert batch.settled.at == NOON


def test_with_nothing_due_nothing_is_written() -> None:
    """Whoever waits for work does not take the writers' turn."""
    scene = Scene()
    assert scene.dispatcher.run().is_empty
    assert scene.shelf.calls == ["claim"]


@pytest.mark.parametrize(
    ("batch_max", "batch_size", "claimed"),
    [(1, 100, 10), (0, 100, 10), (2, 100, 20), (2, 7, 7), (100, 100, 100)],
)
def test_no_claim_is_larger_than_ten_sends(batch_max: int, batch_size: int, claimed: int) -> None:
    """A target that takes one event at a time must not keep hundreds from other dispatchers."""
    scene = Scene(120, batch_max=batch_max, batch_size=batch_size)
    scene.dispatcher.run()
    assert scene.shelf.limits == [claimed]
    assert sum(scene.sink.sizes) == claimed
    assert max(scene.sink.sizes) == min(max(batch_max, 1), claimed)


def test_a_slow_target_gets_fewer_events_each_time_and_more_when_it_is_quick() -> None:
    """Half as many, down to one, and twice as many, up to the setting."""
    scene = Scene(100, batch_size=8, takes_s=20.0)
    for _ in range(5):
        scene.dispatcher.run()
    scene.sink.takes_s = 0.0
    for _ in range(5):
        scene.dispatcher.run()
    assert scene.shelf.limits == [8, 4, 2, 1, 1, 1, 2, 4, 8, 8]


def test_a_send_begins_within_a_quarter_of_the_lease() -> None:
    """15 of 60 seconds are in time; after 22.5 the rest is given back."""
    scene = Scene(5, batch_max=1, takes_s=7.5)
    scene.dispatcher.run()
    assert outcomes(scene) == ["dispatched"] * 3 + ["released"] * 2


# --- a target that is down ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("watched", "ends"), [(True, ["failed"] * 6 + ["released"] * 6), (False, ["failed"] * 12)]
)
def test_three_sends_in_vain_end_a_batch(*, watched: bool, ends: list[str]) -> None:
    """However many events each took; where targets are never left alone, all are sent."""
    scene = Scene(12, batch_max=2, watched=watched)
    scene.sink.answers = [down()] * 12
    scene.dispatcher.run()
    assert outcomes(scene) == ends


def test_only_the_event_that_tried_a_target_waits_for_it() -> None:
    """Those of the batch that found it down wait as chance says; here not at all."""
    scene = Scene(2, watched=True)
    scene.sink.answers = [down()] * 3
    scene.dispatcher.run()
    scene.time.seconds += 0.5
    scene.shelf.put(3)
    scene.dispatcher.run()
    # The second pause is at least half of two seconds.
    assert [each.wait_s for each in scene.shelf.written] == [0.0, 0.0, 1.0]


def test_a_target_with_nothing_due_is_tried_when_something_is() -> None:
    """Whoever was to try it and had nothing to send keeps nobody waiting."""
    scene = Scene(1, watched=True)
    scene.sink.answers = [down()]
    scene.dispatcher.run()
    scene.time.seconds += 0.5
    scene.dispatcher.run()
    scene.shelf.put(2, 3, 4)
    scene.dispatcher.run()
    scene.dispatcher.run()
    assert scene.shelf.limits == [100, 1, 1, 100]
    assert scene.sink.sizes == [1, 1, 2]


def test_while_one_tries_a_target_no_other_does() -> None:
    """From the claim on, not only from its answer."""
    scene = Scene(1, watched=True)
    scene.sink.answers = [down()]
    scene.dispatcher.run()
    scene.time.seconds += 0.5
    scene.shelf.put(2, 3)
    trying = scene.dispatcher.claim()
    assert (trying.probe, len(trying.claims)) == (True, 1)
    assert scene.another().claim().is_empty
    assert scene.shelf.limits == [100, 1]


def test_an_event_that_is_held_back_tells_nothing_of_its_target() -> None:
    """The target has not seen it: it is no more up than before, and the next event tries it."""
    scene = Scene(1, watched=True, policies=Policies([SENSITIVE]))
    scene.sink.answers = [down()]
    scene.dispatcher.run()
    scene.time.seconds += 0.5
    scene.shelf.put(2, dataset="soil")
    scene.shelf.put(3, 4)
    scene.dispatcher.run()
    held = scene.shelf.written[-1]
    assert (held.error_code, held.exhausted) == ("guard_refused", True)
    assert scene.told(names.TARGET_RESUMED) == []
    scene.dispatcher.run()
    scene.dispatcher.run()
    assert scene.shelf.limits == [100, 1, 1, 100]
    assert scene.sink.sent == [event_id(1), event_id(3), event_id(4)]
    assert scene.told(names.TARGET_PAUSED, names.TARGET_RESUMED) == [
        names.TARGET_PAUSED, names.TARGET_RESUMED,
    ]  # fmt: skip


def test_a_late_try_that_fails_is_an_outage_of_its_own() -> None:
    """What another sent meanwhile arrived: the target was up, and is told to be down anew."""
    scene = Scene(2, watched=True, batch_size=1)
    scene.sink.answers = [down(), Delivered(), down()]
    other = scene.another()
    sent_before = other.claim()
    scene.dispatcher.run()
    scene.time.seconds += 0.5
    scene.shelf.put(3, 4)
    trying = scene.dispatcher.claim()
    other.send(sent_before)
    scene.time.seconds += 10
    scene.dispatcher.send(trying)
    scene.time.seconds += 0.5
    scene.dispatcher.run()
    told = [(name, fields.get("paused_s")) for name, fields in scene.recorder.events]
    assert [each for each in told if each[0].startswith("target_")] == [
        (names.TARGET_PAUSED, None),
        (names.TARGET_RESUMED, 0.5),
        (names.TARGET_PAUSED, None),
        (names.TARGET_RESUMED, 0.5),
    ]


# --- what is asked once, and what is told ---------------------------------------------------------


class CountingPolicies(Policies):
    """Policies that count how often they are asked."""

    def __init__(self) -> None:
        super().__init__([SENSITIVE])
        self.asked: list[str] = []

    def of(self, dataset: str) -> Policy | None:
        """Return a dataset's policy."""
        self.asked.append(dataset)
        return super().of(dataset)


def test_the_gate_is_asked_once_for_events_alike() -> None:
    """Asking for each of a thousand took a fifth of the time; each still gets its own answer."""
    policies = CountingPolicies()
    scene = Scene(2, policies=policies)
    scene.shelf.put(3, dataset="soil")
    scene.shelf.put(4)
    scene.shelf.put(5, dataset="soil")
    scene.dispatcher.run()
    assert policies.asked == ["d", "soil"]
    assert scene.sink.sent == [event_id(1), event_id(2), event_id(4)]
    held = [each.event.outbox_id for each in scene.shelf.written if each.exhausted]
    assert held == [event_id(3), event_id(5)]


def test_a_sink_is_not_called_for_nothing() -> None:
    """Where all of a piece is held back there is no send, not one of no events."""
    scene = Scene(policies=Policies([SENSITIVE]))
    scene.shelf.put(1, 2, dataset="soil")
    scene.dispatcher.run()
    assert scene.sink.sizes == []
    assert outcomes(scene) == ["failed"] * 2


@pytest.mark.parametrize(
    ("raised", "code"),
    [
        (DatabaseUnreachable("the consumer's"), "database_unreachable"),
        (TimeoutError("late"), "sink_timeout"),
        (ConnectionResetError("gone"), "sink_unreachable"),
        (ValueError("odd"), "sink_error"),
    ],
)
def test_what_a_sink_raises_is_told_by_its_code(raised: Exception, code: str) -> None:
    """Its own if it has one."""
    scene = Scene(1)
    scene.sink.answers = [raised]
    scene.dispatcher.run()
    (one,) = scene.shelf.written
    assert (one.outcome, one.error_code) == (AttemptOutcome.FAILED, code)
    assert one.error == f"{type(raised).__name__}: {raised}"


def test_the_span_of_a_send_begins_with_its_claim() -> None:
    """It ends when the results are written, by the database's clock."""
    scene = Scene(1, takes_s=5.0)
    scene.dispatcher.run()
    (span,) = scene.recorder.spans
    assert (span.started_at, span.ended_at) == (NOON - timedelta(seconds=5), NOON)
