from __future__ import annotations

import contextlib
import json
import random
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallgrass.datasets.catalogue import Catalogue, default_catalogue
from tallgrass.error_codes import registry
from tallgrass.ledger.identity import wal_id
from tests.intake.notifications import GLM, HRRR, NEXRAD, event, parsed, record, sns
from tests.intake.own_datasets import own_catalogue
from tests.intake.test_corpora import EVENTS
from tests.support.cpu_time import least_cpu_s

if TYPE_CHECKING:
    from tallgrass.intake.message import ParsedMessage

CASES = 20_000
FULL_CASES = 200_000
#: None may take longer, whatever it is.
CPU_S_MAX = 0.05

SEEDS = [
    sns(event(record())),
    event(record(NEXRAD, "unidata-nexrad-level2")).encode(),
    sns(event(record(HRRR, "noaa-hrrr-bdp-pds"), record(f"{HRRR}.idx", "noaa-hrrr-bdp-pds"))),
    event(record(), record(eventName="ObjectRemoved:Delete"), 7).encode(),
    sns(json.dumps({"Event": "s3:TestEvent"})),
    # Every form that there is, good and bad.
    *(json.dumps(case.values[0]["message"]).encode() for case in EVENTS),
]
LOADED = [json.loads(seed) for seed in SEEDS]
#: What stands where something else is expected.
STRANGE: list[Any] = [
    *(None, True, -1, 0, 2**63, 1.5, 1e300, "", " ", "\x00", "\u2028", "%", "+", "é", "a" * 2000),
    *([], {}, [[]], {"": 0}, ["ObjectCreated:Put"], "{", "[]", "e30=", "2.1", "s3:TestEvent"),
    *(
        "ObjectCreated:Put",
        "free-pds",
        "a%2Fb",
        "9" * 19,
        "2026-06-01T12:00:00Z",
        1_780_315_500_000,
    ),
]
#: What breaks readers: structure, escapes, numbers, halves of characters.
PIECES = [
    *(bytes([one]) for one in b'{}[],:"\\'),
    b"\x00",
    b"\xff",
    b"\xed\xa0\x80",
    b"\\u0000",
    b"\\ud800",
    b"\\u2028",
    b"%00",
    b"%FF",
    b"%",
    b"+",
    b"null",
    b"1e400",
    b"-1",
    b"99999999999999999999",
    b"[" * 100,
    b'"Records":',
    GLM.encode(),
    b"9999",
    b"0000",
]


def require_sound(message: ParsedMessage) -> None:
    """Check that an answer is one that a ledger can take as it is."""
    for unit in message.units:
        assert unit.wal_id == wal_id(unit.dataset, unit.object_uri, unit.time_range_start)
        assert unit.time_range_start <= unit.time_range_end
        reference = unit.object_ref
        for text in (unit.object_uri, reference.etag, reference.sequencer, reference.version_id):
            assert text is None or "\x00" not in text
            assert text is None or text.encode()
        assert reference.size is None or 0 <= reference.size < 2**63
    for ignored in message.ignored:
        assert ignored.reason
    if message.poison is not None:
        assert message.poison.code in registry()
        assert message.poison.message.isprintable()
        assert 0 < len(message.poison.message) <= 1_200
    assert message.units or message.ignored or message.poison


def require_soon_answered(body: bytes, catalogue: Catalogue) -> None:
    """Check a body again that seemed slow: once may be the machine's fault."""
    work = partial(parsed, body, catalogue=catalogue)
    assert least_cpu_s(work, CPU_S_MAX) < CPU_S_MAX, body[:2000]


def mutated(dice: random.Random) -> bytes:
    """Return a notification with a few bytes cut, doubled, swapped or put in."""
    data = bytearray(dice.choice(SEEDS))
    for _ in range(dice.randint(1, 6)):
        at = dice.randrange(len(data) + 1)
        match dice.randrange(5):
            case 0:
                data[at:at] = dice.choice(PIECES)
            case 1:
                del data[at : at + dice.randint(1, 20)]
            case 2:
                data[at : at + 1] = bytes([dice.randrange(256)])
            case 3:
                data[at:at] = data[at : at + dice.randint(1, 200)]
            case _:
                data[at : at + dice.randint(1, 6)] = dice.choice(PIECES)
    return bytes(data)


def bent(value: Any, dice: random.Random) -> Any:
    """Return a JSON value of which one part, however deep, is not what it was."""
    if isinstance(value, str) and value.startswith("{"):
        with contextlib.suppress(ValueError):
            return json.dumps(bent(json.loads(value), dice))
    if not value or not isinstance(value, dict | list) or dice.randrange(20) == 0:
        return dice.choice(STRANGE)
    if isinstance(value, list):
        at = dice.randrange(len(value))
        return [*value[:at], bent(value[at], dice), *value[at + 1 :]]
    name = dice.choice(sorted(value))
    if dice.randrange(10) == 0:
        return {key: one for key, one in value.items() if key != name}
    return {**value, name: bent(value[name], dice)}


def bent_body(dice: random.Random) -> bytes:
    """Return a notification that is still JSON."""
    return json.dumps(bent(dice.choice(LOADED), dice)).encode()


def test_mutated_notifications_never_break_the_parser(full_counts: bool) -> None:  # noqa: FBT001
    """Each damaged notification gives units, ignored records or poison, and soon; no error."""
    dice = random.Random(20250407)
    catalogue = Catalogue([*default_catalogue().datasets, *own_catalogue().datasets])
    answers = []
    for _ in range(FULL_CASES if full_counts else CASES):
        body = mutated(dice) if dice.randrange(2) else bent_body(dice)
        began = time.thread_time()
        answers.append(parsed(body, catalogue=catalogue))
        if time.thread_time() - began > CPU_S_MAX:
            require_soon_answered(body, catalogue)
        require_sound(answers[-1])
    # The damage is neither always fatal nor always harmless.
    assert sum(bool(answer.units) for answer in answers) > len(answers) // 20
    assert sum(answer.poison is not None for answer in answers) > len(answers) // 4


@given(st.binary(max_size=400))
def test_any_bytes_get_an_answer(data: bytes) -> None:
    """Bytes of any kind, bare or as the message in an envelope, are answered."""
    require_sound(parsed(data))
    require_sound(parsed(sns(data.decode("utf-8", "replace"))))


strange = st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.lists(st.none())


@given(st.data())
def test_values_of_the_wrong_kind_get_an_answer(data: st.DataObject) -> None:
    """Any field of a record, at any depth, may hold anything."""
    strangest = json.loads(event(record()))
    place = strangest["Records"][0]
    while True:
        name = data.draw(st.sampled_from(sorted(place)))
        if not isinstance(place[name], dict) or data.draw(st.booleans()):
            break
        place = place[name]
    place[name] = data.draw(strange)
    require_sound(parsed(json.dumps(strangest)))


@pytest.mark.parametrize("field", ["key", "eTag", "sequencer", "versionId"])
@given(st.text(max_size=40))
def test_any_text_in_a_field_gets_an_answer(field: str, text: str) -> None:
    """Any text, broken Unicode too, in a field that the ledger keeps is kept whole or refused."""
    require_sound(parsed(json.dumps({"Records": [record(object={field: text})]})))
