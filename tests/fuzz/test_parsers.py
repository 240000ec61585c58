"""Whatever comes from outside is answered, with a value or an error of ours.

`make fuzz` tries more. The messages of queues have a longer test of their own in
`tests/intake/test_fuzz.py`.
"""

from __future__ import annotations

import pytest

from tallgrass.errors import ConfigError
from tallgrass.queues.sqs_address import read_address
from tests.fuzz import fuzzing
from tests.fuzz.fuzzing import fuzz
from tests.fuzz.parsers import PARSERS, Parser, read_one

#: Of each parser; with the 20,000 of the intake.
CASES = 100
#: Of each parser, by plain chance.
QUICK_CASES = 500


@pytest.mark.parametrize("name", PARSERS)
def test_whatever_comes_is_answered(name: str) -> None:
    """No input makes a parser fail in another way than with an error of the package."""
    answers = fuzz(PARSERS[name], CASES, 1)
    # Hypothesis may end early where there is little to draw; a finding may make it draw again.
    assert answers.total() >= CASES // 2


@pytest.mark.parametrize("name", PARSERS)
def test_plain_chance_finds_nothing_either(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same with inputs that nobody is cunning about, and more of them."""
    monkeypatch.setattr(fuzzing, "BY_HYPOTHESIS_MAX", 1)
    assert fuzz(PARSERS[name], QUICK_CASES, 2).total() >= QUICK_CASES


@pytest.mark.parametrize("name", PARSERS)
def test_what_is_valid_is_read(name: str) -> None:
    """The premise: the examples that mutations begin with are understood, at least one of them."""
    assert "value" in [read_one(PARSERS[name], seed) for seed in PARSERS[name].seeds]


def test_a_parser_that_crashes_is_found() -> None:
    """The fuzzing can fail: an error that is not the package's is told with its input."""

    def crashes(data: bytes) -> object:
        return data.decode()

    with pytest.raises(UnicodeDecodeError):
        fuzz(Parser(name="crashes", read=crashes, seeds=[b"text"]), 500, 1)


def test_an_address_with_a_lost_bracket_is_refused() -> None:
    """Found by fuzzing: the library of addresses raises an error of its own for it."""
    with pytest.raises(ConfigError, match="neither the ARN nor the address"):
        read_address("https://sqs[.us-east-1.amazonaws.com/123456789012/nodd")
