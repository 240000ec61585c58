"""Hostile messages, kept as files, each with what must come of it."""

from __future__ import annotations

import base64
import json
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.error_codes import registry
from tests.intake.notifications import parsed, sns
from tests.intake.own_datasets import own_catalogue
from tests.support.cpu_time import least_cpu_s

if TYPE_CHECKING:
    from collections.abc import Iterator

CORPUS = Path(__file__).parent / "corpus"
CPU_S_MAX = 0.05


def cases(name: str) -> list[Any]:
    """Return the cases of a file, one a line."""
    lines = (CORPUS / name).read_text(encoding="utf-8").splitlines()
    return [pytest.param(case, id=case["name"]) for case in map(json.loads, lines)]


EVENTS = cases("events.jsonl")


@pytest.mark.parametrize("case", EVENTS)
def test_each_event_gives_what_its_line_says(case: dict[str, Any]) -> None:
    """Units in order, reasons in order, the code of the first fault, and the references."""
    found = parsed(json.dumps(case["message"]), catalogue=own_catalogue())
    assert [unit.object_uri for unit in found.units] == case["units"]
    assert [one.reason for one in found.ignored] == case["ignored"]
    code = None if found.poison is None else found.poison.code
    assert code == case["poison"], found.poison
    assert code is None or code in registry()
    if "references" in case:
        assert [asdict(unit.object_ref) for unit in found.units] == case["references"]


def test_the_corpus_of_events_is_large_enough() -> None:
    """No family of cases was lost."""
    assert len(EVENTS) >= 200


def expanded(pieces: list[Any]) -> bytes:
    """Return the bytes that pieces stand for: each is a content, and how often it comes.

    A content is text, bytes in hexadecimal, pieces, or pieces in base64.
    """
    return b"".join(_content(content) * times for content, times in pieces)


def _content(content: Any) -> bytes:
    if isinstance(content, str):
        return content.encode()
    if isinstance(content, list):
        return expanded(content)
    if "hex" in content:
        return bytes.fromhex(content["hex"])
    return base64.b64encode(expanded(content["base64"]))


BOMBS = cases("bombs.jsonl")


def wrapped(body: bytes) -> Iterator[bytes]:
    """Yield a body alone, and in each envelope that can carry it."""
    yield body
    yield json.dumps({"attributes": {}, "data": base64.b64encode(body).decode()}).encode()
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return
    yield sns(text)
    yield json.dumps({"Records": [{"messageId": "m", "body": text}] * 3}).encode()


@pytest.mark.parametrize("case", BOMBS)
def test_each_bomb_is_poison_and_soon_answered(case: dict[str, Any]) -> None:
    """Bare and in every envelope, it is refused with a short reason, in 50 ms of CPU."""
    for body in wrapped(expanded(case["pieces"])):
        found = parsed(body, catalogue=own_catalogue())
        assert (found.units, found.ignored, found.deferred) == ((), (), None)
        assert found.poison is not None
        assert found.poison.code in {
            "invalid_input",
            "invalid_object_uri",
            "missing_required_field",
        }
        assert found.poison.message.isprintable()
        assert 0 < len(found.poison.message) <= 1_200
        work = partial(parsed, body, catalogue=own_catalogue())
        assert least_cpu_s(work, CPU_S_MAX) < CPU_S_MAX


def test_the_corpus_of_bombs_is_large_enough() -> None:
    """No family of cases was lost."""
    assert len(BOMBS) >= 100
