"""Whatever comes from outside is answered, with a value or an error of ours.

`make fuzz` tries more. The messages of queues have a longer test of their own in
`tests/intake/test_fuzz.py`.
"""

from __future__ import annotations

import pytest

from tallgrass.datasets.definition import FileFormat
from tallgrass.errors import ConfigError
from tallgrass.evidence.formats import read_seen
from tallgrass.evidence.header import Seen
from tallgrass.evidence.map_planes import Lambert
from tallgrass.queues.sqs_address import read_address
from tests.fuzz import fuzzing
from tests.fuzz.fuzzing import fuzz
from tests.fuzz.parsers import PARSERS, Parser, read_one
from tests.pipeline.scene import thing

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


@pytest.mark.parametrize("degrees", [95.0, -120.5, 2000.0])
def test_a_grid_that_begins_beyond_the_pole_has_no_place(degrees: float) -> None:
    """Found by fuzzing: a latitude that is none made a complex number, and no answer."""
    latitude, hostile = (
        (round(each * 1e6)).to_bytes(4, "big") for each in (21.138123, abs(degrees))
    )
    if degrees < 0:
        # GRIB2 keeps the sign in the first bit.
        hostile = bytes([hostile[0] | 0x80]) + hostile[1:]
    content = thing(3, dataset="hrrr").content
    assert content.count(latitude) == 1
    told = {}
    for name, data in (("good", content), ("hostile", content.replace(latitude, hostile))):
        seen = Seen(data[:4096], data[-4096:], len(data))
        header, _ = read_seen(FileFormat.GRIB2_GRID, seen)
        told[name] = header
    assert "bbox" in told["good"]
    assert "bbox" not in told["hostile"]


def test_a_cone_ends_at_the_poles() -> None:
    """Neither a parallel nor a place may lie beyond them."""
    plane = Lambert(6_371_229.0, (38.5, 38.5), 38.5, -97.5)
    with pytest.raises(ValueError, match="beyond the pole"):
        plane.to_plane(90.5, 0.0)
    with pytest.raises(ValueError, match="beyond the pole"):
        Lambert(6_371_229.0, (95.0, 95.0), 38.5, -97.5)
