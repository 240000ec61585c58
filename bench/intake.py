"""From the bytes of a message to its units, beside a bare parse, over the messages of a feed.

The floor does what no reader can leave out: parse the envelope and then the event with Python's own
`json`, and match one regular expression on each key. It refuses nothing, decodes nothing and makes
no unit. The same floor on the pipeline's own parser, which refuses keys that come twice, is shown
beside it without a target. The sides alternate, part by part, in one run, and only CPU time counts.
All run with the pipeline's own setting of the garbage collector.
"""

from __future__ import annotations

import json
import re
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import jiter

from bench.report import Row, row
from tallgrass.datasets.catalogue import Catalogue, default_catalogue
from tallgrass.garbage import rare_collections
from tallgrass.intake.parse import open_message, understand
from tallgrass.simulate.feed import Feed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: Messages of a part: many enough for the clock, few enough that a busy machine slows both sides.
PART = 250
CPU_US_MAX = 45.0
RATIO_MAX = 4.0

_SENT_AT = datetime(2026, 6, 1, tzinfo=UTC)
_KEY = re.compile(
    r"""
    GLM-L2-LCFA/\d{4}/\d{3}/\d{2}/
        (?P<environment>[A-Z]{2})_GLM-L2-LCFA_G(?P<satellite>\d{2})
        _s(?P<start>\d{14})_e(?P<end>\d{14})_c(?P<created>\d{14})\.nc
    | \d{4}/\d{2}/\d{2}/(?P<site>[A-Z0-9]{4})/
        [A-Z0-9]{4}(?P<date>\d{8})_(?P<time>\d{6})(?:_V\d{2})?(?:\.gz)?
    | hrrr\.(?P<day>\d{8})/(?P<domain>conus|alaska)/
        hrrr\.t(?P<hour>\d{2})z\.wrf(?P<product>sfc|prs|nat|subh)f(?P<step>\d{2})(?:\.ak)?\.grib2
    """,
    re.VERBOSE,
)


def benchmarks(*, quick: bool) -> list[Row]:
    """Return CPU time a message, alone and beside the floors'."""
    bodies = list(Feed(seed=7, units=2_000 if quick else 10_000).bodies())
    catalogue = default_catalogue()
    sides: list[Callable[[Sequence[bytes]], int]] = [
        lambda part: _read(part, catalogue),
        lambda part: _floor(part, json.loads),
        lambda part: _floor(part, _strict),
    ]
    times: list[list[float]] = [[], [], []]
    with rare_collections():
        for number, at in enumerate(range(0, len(bodies) - PART + 1, PART)):
            part = bodies[at : at + PART]
            # Who comes first meets the bytes cold: they take turns.
            for turn in range(len(sides)):
                side = (number + turn) % len(sides)
                times[side].append(_cpu_s(sides[side], part))
    ours, floor, strict = times
    return [
        row(
            "intake: CPU of a message to its units, in µs",
            [one / PART * 1e6 for one in ours],
            at_most=CPU_US_MAX,
        ),
        row(
            "intake: CPU / that of a bare double parse and one expression",
            [one / bare for one, bare in zip(ours, floor, strict=True)],
            at_most=RATIO_MAX,
        ),
        row(
            "intake: CPU / the same on the strict parser",
            [one / bare for one, bare in zip(ours, strict, strict=True)],
        ),
    ]


def _cpu_s(work: Callable[[Sequence[bytes]], int], part: Sequence[bytes]) -> float:
    began = time.thread_time()
    work(part)
    return time.thread_time() - began


def _read(bodies: Sequence[bytes], catalogue: Catalogue) -> int:
    """Parse messages as the worker does; return how many units they gave."""
    opened = [open_message(body) for body in bodies]
    parsed = [
        understand(
            records, message_id="bench", sent_at=_SENT_AT, queue="bench", catalogue=catalogue
        )
        for records in opened
    ]
    return sum(len(each.units) for each in parsed)


def _floor(bodies: Sequence[bytes], parse: Callable[[bytes | str], Any]) -> int:
    """Parse twice and match; return how many keys are a unit's."""
    return sum(_matches(body, parse) for body in bodies)


def _matches(body: bytes, parse: Callable[[bytes | str], Any]) -> int:
    try:
        event = parse(body)
    except ValueError:
        return 0
    if "Message" in event:
        event = parse(event["Message"])
    records = event.get("Records")
    if not isinstance(records, list):
        return 0  # a test event, or the NaN that `json` lets through
    keys = [record["s3"]["object"].get("key") for record in records]
    return sum(key is not None and _KEY.fullmatch(key) is not None for key in keys)


def _strict(text: bytes | str) -> Any:
    data = text.encode() if isinstance(text, str) else text
    return jiter.from_json(data, allow_inf_nan=False, catch_duplicate_keys=True, cache_mode="keys")
