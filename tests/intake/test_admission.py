"""Who may come in is asked for each envelope of a message by itself."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tallgrass.errors import InvalidInput, TransientError
from tallgrass.intake.message import Deferred, ParsedMessage
from tests.intake.notifications import event, parsed, record, sns
from tests.intake.own_datasets import own_catalogue

if TYPE_CHECKING:
    from collections.abc import Mapping


class Gate:
    """Refuses the envelopes of some ids, cannot tell of others, and remembers who asked."""

    def __init__(self, *, refuses: str = "", unsure: str = "") -> None:
        self.asked: list[str | None] = []
        self._refuses = refuses
        self._unsure = unsure

    def __call__(self, envelope: Mapping[str, Any] | None) -> None:
        """Judge one envelope; None is an event that came without."""
        name = None if envelope is None else envelope["MessageId"]
        self.asked.append(name)
        if name == self._refuses:
            raise InvalidInput(f"{name} may not come in", code="unroutable")
        if name == self._unsure:
            raise TransientError(f"{name} cannot be judged")


def envelope(name: str, key: str | None = None) -> dict[str, Any]:
    """Return an SNS envelope around an event of one object."""
    message = event(record(key or name, "free-pds"))
    opened: dict[str, Any] = json.loads(sns(message, MessageId=name))
    return opened


BATCH = json.dumps(
    {
        "Records": [
            {"Sns": envelope("a")},
            {"messageId": "m", "body": json.dumps(envelope("b"))},
            record("raw", "free-pds"),
            {"Sns": envelope("c")},
        ]
    }
)


def read(body: str | bytes, gate: Gate) -> ParsedMessage:
    """Parse a body at a gate."""
    return parsed(body, catalogue=own_catalogue(), admit=gate)


def test_each_envelope_is_asked_for_once() -> None:
    """Every SNS envelope is judged, in order; an event without one is judged as None."""
    gate = Gate()
    assert [unit.object_uri[-3:] for unit in read(BATCH, gate).units] == [
        "s/a",
        "s/b",
        "raw",
        "s/c",
    ]
    assert gate.asked == ["a", "b", None, "c"]
    for body, asked in ((sns(event(record(), record())), 1), (event(record(), record()), 1)):
        gate = Gate()
        read(body, gate)
        assert len(gate.asked) == asked


def test_a_refused_envelope_is_one_fault() -> None:
    """Nothing of it comes in, and its neighbours do."""
    found = read(BATCH, Gate(refuses="b"))
    assert [unit.object_uri for unit in found.units] == [
        "s3://free-pds/a",
        "s3://free-pds/raw",
        "s3://free-pds/c",
    ]
    assert found.poison is not None
    assert (found.poison.code, found.poison.message) == (
        "unroutable",
        "record 2 of 4: b may not come in",
    )
    assert found.faults == (found.poison,)


def test_one_that_cannot_be_judged_yet_defers_the_message() -> None:
    """Then nothing of the message is used: it comes again whole."""
    found = read(BATCH, Gate(unsure="c"))
    assert found == ParsedMessage(
        deferred=Deferred(code="internal_error", message="c cannot be judged")
    )


def test_nobody_asks_for_what_cannot_be_reached() -> None:
    """An envelope that holds no JSON, or asks for a confirmation, is poison unasked."""
    gate = Gate()
    for body in (sns("{"), sns("x", Type="SubscriptionConfirmation"), b"{"):
        assert read(body, gate).poison is not None
    assert gate.asked == []
