"""Publish events from a transaction of your own: state, artifact and event commit together.

    publisher = open_publisher(load_config())               # of tallgrass.bootstrap.publishing
    with connection.transaction():                          # psycopg; sqlite3: BEGIN … COMMIT
        connection.execute("UPDATE runs SET state = 'done' WHERE …")
        publisher.publish(connection, Event(…), artifact=Artifact(…))

There is no other way to publish, and this one sends nothing: what was committed is sent by
``tallgrass outbox dispatch``. A repetition of an event returns the rows of the first.
`publish` and `publish_all` read no configuration: routes and rules are what they are given.
"""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tallgrass.clock import Clock, system_clock
from tallgrass.errors import IdempotencyConflict
from tallgrass.outbox.outbox_ids import OutboxIds
from tallgrass.outbox.payload_rules import PayloadRules
from tallgrass.outbox.publication import Admissions, Artifact, Event, Published, prepare
from tallgrass.outbox.routing import Routing
from tallgrass.storage.outbox_publishing import record_publications
from tallgrass.telemetry import names
from tallgrass.telemetry.recorder import NOBODY, Recorder

#: Everything to the default target: a file beside the database.
DEFAULT_ROUTING = Routing()
DEFAULT_RULES = PayloadRules()

_IDS = OutboxIds(lambda: secrets.randbits(62))


def publish(
    transaction: object,
    event: Event,
    *,
    artifact: Artifact | None = None,
    routing: Routing = DEFAULT_ROUTING,
    rules: PayloadRules = DEFAULT_RULES,
    recorder: Recorder = NOBODY,
) -> Published:
    """Record an event, and the artifact that it tells of, in an open transaction.

    `transaction` is one of ours, or a connection of `sqlite3`, `psycopg` or SQLAlchemy (also a
    Session) that has begun one; it is neither committed nor rolled back here.

    `routing` and `rules` are yours to give. Without them an event goes to the default target, and
    of all rules only those hold that need no configuration: plain JSON of 256 KiB, no persons, no
    secrets, places as coarse as the care label asks for. A `Publisher` has those of a
    configuration: ``open_publisher(load_config())``.

    Raises:
        NoTransaction: nothing has begun, or every statement would commit by itself.
        PayloadRefused: the event or its payload must not be published as it is.
        IdempotencyConflict: its key or its artifact's version stands for something else.
        TransientError: another transaction was in the way; roll back and run yours again.
    """
    if artifact is not None:
        event = replace(event, artifact=artifact)
    (published,) = publish_all(
        transaction, [event], routing=routing, rules=rules, recorder=recorder
    )
    return published


def publish_all(
    transaction: object,
    events: Sequence[Event],
    *,
    routing: Routing = DEFAULT_ROUTING,
    rules: PayloadRules = DEFAULT_RULES,
    recorder: Recorder = NOBODY,
    clock: Clock = system_clock,
    ids: OutboxIds = _IDS,
) -> list[Published]:
    """Record events together: all of them or, if one is refused, none.

    They are told in the order given to targets that keep order.
    """
    admissions: Admissions = {}
    wanted = [prepare(event, rules, routing, admissions) for event in events]
    if not wanted:
        return []
    try:
        published = record_publications(transaction, wanted, clock=clock, ids=ids)
    except IdempotencyConflict:
        recorder.count(names.OUTBOX_PUBLICATIONS, len(wanted), outcome="conflict")
        raise
    for outcome, number in _outcomes(published):
        recorder.count(names.OUTBOX_PUBLICATIONS, number, outcome=outcome)
    return published


@dataclass(frozen=True, slots=True, kw_only=True)
class Publisher:
    """Publishes always by the same routes and rules, such as those of a configuration."""

    routing: Routing = field(default_factory=Routing)
    rules: PayloadRules = field(default_factory=PayloadRules)
    recorder: Recorder = NOBODY

    def publish(
        self, transaction: object, event: Event, *, artifact: Artifact | None = None
    ) -> Published:
        """Record an event, and the artifact that it tells of, in an open transaction."""
        return publish(
            transaction,
            event,
            artifact=artifact,
            routing=self.routing,
            rules=self.rules,
            recorder=self.recorder,
        )

    def publish_all(self, transaction: object, events: Sequence[Event]) -> list[Published]:
        """Record events together: all of them or, if one is refused, none."""
        return publish_all(
            transaction, events, routing=self.routing, rules=self.rules, recorder=self.recorder
        )


def _outcomes(published: Sequence[Published]) -> list[tuple[str, int]]:
    repeated = sum(each.duplicate for each in published)
    counts = [("recorded", len(published) - repeated), ("duplicate", repeated)]
    return [(outcome, number) for outcome, number in counts if number]
