"""Poison that is fed again: recorded, sent, confirmed; a crash in between loses nothing."""

from __future__ import annotations

import json
import random
import uuid
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.bootstrap.workers import open_feeder
from tallgrass.datasets.catalogue import Catalogue, default_catalogue
from tallgrass.errors import DatabaseUnreachable, InvalidInput, QueueUnreachable
from tallgrass.intake.poison import PoisonState
from tallgrass.poison_feeding import BATCH, LeftOut, select_named, select_waiting
from tallgrass.queues.protocol import BODY_BYTES_MAX
from tallgrass.simulate.feed_messages import s3_message
from tests.pipeline.scene import Pipeline, assert_effects_follow_the_ledger, message_of, thing

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tallgrass.poison_feeding import Candidate
    from tests.support.backends import Backend

WHO: dict[str, Any] = {"actor": "ann", "reason": "the dataset is there now"}


def older_catalogue() -> Catalogue:
    """Return the datasets of a time when none claimed the bucket of the objects here."""
    bucket = thing().place.bucket
    return Catalogue(d for d in default_catalogue().datasets if bucket not in d.buckets)


class Scene:
    """A pipeline whose worker did not know a dataset and stored its message as poison."""

    def __init__(self, backend: Backend, folder: Path) -> None:
        self.pipeline = Pipeline(backend, folder)
        self.store = self.pipeline.stores.poison
        self.run_without_the_dataset()

    def run_without_the_dataset(self) -> None:
        """Announce an object to a worker that does not know its bucket."""
        if not self.pipeline.queue.status().visible:
            self.pipeline.feed(thing())
        self.pipeline.new_worker("old", catalogue=older_catalogue())
        self.pipeline.drain()

    def state(self) -> PoisonState:
        """Tell where the message stands."""
        (message,) = self.store.page()
        return message.state

    def feed(self, queue: Any = None, **flags: Any) -> list[Candidate]:
        """Feed all that waits."""
        feeder = open_feeder(self.pipeline.config, self.pipeline.stores)
        chosen = select_waiting(self.store, None)
        return list(feeder.feed(chosen, queue or self.pipeline.queue, **{**WHO, **flags}))


class BrokenQueue:
    """A queue that breaks before a message is in it, or after."""

    def __init__(self, queue: Any, *, sends: bool) -> None:
        self._queue = queue
        self._sends = sends

    def send(self, bodies: Sequence[bytes]) -> Sequence[str]:
        """Fail."""
        if self._sends:
            self._queue.send(bodies)
        raise QueueUnreachable("the connection broke")


@pytest.fixture
def scene(backend: Backend, tmp_path: Path) -> Scene:
    """One message that was poison when it came, and is understood now."""
    return Scene(backend, tmp_path)


def test_a_message_that_a_new_dataset_claims_becomes_an_item(
    scene: Scene, backend: Backend
) -> None:
    """Unroutable when it came, fed once its dataset is there, in the catalog at the end."""
    (before,) = scene.store.page()
    assert (before.error_code, scene.pipeline.left()) == ("unroutable", (0, 0, 0))
    (fed,) = scene.feed()
    assert [unit.object_uri for unit in fed.parsed.units] == [thing().uri]  # type: ignore[union-attr]
    assert scene.state() is PoisonState.FED
    scene.pipeline.new_worker("new")
    scene.pipeline.drain()
    assert scene.pipeline.row(thing())["status"] == "succeeded"
    (attempt,) = scene.pipeline.attempts(thing())
    assert attempt["sqs_message_id"] == fed.sent_as
    assert scene.state() is PoisonState.FED
    assert_effects_follow_the_ledger(backend)


def test_the_longest_message_that_a_queue_takes_is_fed_again(
    backend: Backend, tmp_path: Path
) -> None:
    """One record of it was unroutable; it is kept whole, and claimed later it becomes an item."""
    pipeline = Pipeline(backend, tmp_path)
    known, late = thing(1, dataset="hrrr"), thing()
    for each in (known, late):
        pipeline.put(each)
    message = json.loads(s3_message((known.event(), late.event()), random.Random(1)))
    room = BODY_BYTES_MAX - len(json.dumps({**message, "room": ""}))
    body = json.dumps({**message, "room": "x" * room}).encode()
    assert len(body) == 1_048_576
    pipeline.queue.send([body])
    pipeline.new_worker("old", catalogue=older_catalogue())
    pipeline.drain()
    assert pipeline.statuses() == {"succeeded": 1}
    store = pipeline.stores.poison
    (kept,) = store.page()
    assert (kept.error_code, kept.is_cut, kept.kept_bytes) == ("unroutable", False, len(body))
    feeder = open_feeder(pipeline.config, pipeline.stores)
    (fed,) = feeder.feed(select_waiting(store, None), pipeline.queue, **WHO)
    assert fed.left_out is None
    pipeline.new_worker("new")
    pipeline.drain()
    assert pipeline.row(late)["status"] == "succeeded"
    assert pipeline.row(known)["attempts"] == 1
    assert_effects_follow_the_ledger(backend)


def test_a_message_that_is_poison_again_is_open_again(scene: Scene) -> None:
    """A worker that still does not know the dataset stores it once more: counted, and open."""
    scene.feed()
    scene.run_without_the_dataset()
    (again,) = scene.store.page()
    assert (again.state, again.times_seen) == (PoisonState.OPEN, 2)
    assert scene.pipeline.left() == (0, 0, 0)


@pytest.mark.parametrize("sends", [False, True], ids=["before it is sent", "after it was sent"])
def test_a_queue_that_breaks_loses_nothing(scene: Scene, backend: Backend, *, sends: bool) -> None:
    """The intent is recorded; feeding again doubles the message at most, never the unit."""
    with pytest.raises(QueueUnreachable):
        scene.feed(BrokenQueue(scene.pipeline.queue, sends=sends))
    assert scene.state() is PoisonState.BEGUN
    actions = backend.sql("SELECT action, actor FROM audit_log WHERE subject = 'poison:1'")
    assert actions == [("poison_feed", "ann")]
    assert scene.pipeline.left()[0] == int(sends)
    (fed,) = scene.feed()
    assert fed.sent_as is not None
    assert scene.pipeline.left()[0] == 1 + int(sends)
    scene.pipeline.new_worker("new")
    scene.pipeline.drain()
    assert scene.pipeline.statuses() == {"succeeded": 1}
    assert scene.pipeline.row(thing())["attempts"] == 1
    assert scene.state() is PoisonState.FED
    assert_effects_follow_the_ledger(backend)


def test_nothing_is_sent_that_was_not_recorded_first(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the intent cannot be written, no message goes out."""

    def fails(*_: object, **__: object) -> None:
        raise DatabaseUnreachable("the connection broke")

    monkeypatch.setattr(scene.store.__class__, "begin_feeding", fails)
    with pytest.raises(DatabaseUnreachable):
        scene.feed()
    assert scene.pipeline.left() == (0, 0, 0)
    assert scene.state() is PoisonState.OPEN


def test_a_confirmation_that_is_lost_leaves_the_feeding_begun(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message is in the queue and still stored; whoever feeds again makes it certain."""

    def fails(*_: object, **__: object) -> None:
        raise DatabaseUnreachable("the connection broke")

    with monkeypatch.context() as patch:
        patch.setattr(scene.store.__class__, "confirm_feeding", fails)
        with pytest.raises(DatabaseUnreachable):
            scene.feed()
    assert scene.pipeline.left() == (1, 0, 0)
    assert scene.state() is PoisonState.BEGUN
    scene.feed()
    scene.pipeline.new_worker("new")
    scene.pipeline.drain()
    assert scene.pipeline.statuses() == {"succeeded": 1}


def test_many_messages_are_fed_in_batches(backend: Backend, tmp_path: Path) -> None:
    """Each is sent once, whatever their number, and those still not understood stay behind."""
    pipeline = Pipeline(backend, tmp_path)
    known = [message_of(thing(n).event(), number=n) for n in range(2 * BATCH + 7)]
    pipeline.queue.send([*known, *(b"%d" % n for n in range(BATCH))])
    pipeline.new_worker("old", catalogue=older_catalogue())
    pipeline.drain()
    feeder = open_feeder(pipeline.config, pipeline.stores)
    done = list(feeder.feed(select_waiting(pipeline.stores.poison, None), pipeline.queue, **WHO))
    assert sum(one.sent_as is not None for one in done) == len(known)
    assert sum(one.left_out is LeftOut.NOT_UNDERSTOOD for one in done) == BATCH
    assert sorted(m.body for m in pipeline.queue.receive(1000)) == sorted(known)
    assert pipeline.stores.poison.counts() == {
        PoisonState.OPEN: BATCH, PoisonState.BEGUN: 0, PoisonState.FED: len(known),
    }  # fmt: skip


def test_a_name_given_twice_is_fed_once(scene: Scene) -> None:
    """A repetition on the command line is no second message."""
    chosen = select_named(scene.store, [1, 1])
    feeder = open_feeder(scene.pipeline.config, scene.pipeline.stores, ids=lambda: uuid.UUID(int=7))
    assert len(list(feeder.feed(chosen, scene.pipeline.queue, **WHO))) == 1
    assert scene.store.find([1])[0].feed_id == str(uuid.UUID(int=7))


@pytest.mark.parametrize("missing", ["actor", "reason"])
def test_nobody_feeds_without_a_name_and_a_reason(scene: Scene, missing: str) -> None:
    """Both are for the audit log; blanks are none."""
    with pytest.raises(InvalidInput):
        scene.feed(**{missing: "  "})
    assert scene.state() is PoisonState.OPEN
