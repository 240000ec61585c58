"""Plans that a server keeps: whole or not at all, found by their hash, never without bound."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING

import pytest

from tallgrass.bootstrap import kept_plans
from tallgrass.bootstrap.kept_plans import KeptPlans
from tallgrass.errors import InvalidInput, UnknownRecord

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LINES = [b'{"a":1}\n', b'{"b":2}\n']
SHA256 = hashlib.sha256(b"".join(LINES)).hexdigest()


def test_a_plan_is_found_by_its_hash_also_later(tmp_path: Path) -> None:
    """Another server over the same folder finds the same bytes."""
    assert KeptPlans(tmp_path / "plans").keep(LINES) == SHA256
    later = KeptPlans(tmp_path / "plans")
    assert later.has(SHA256)
    assert later.path(SHA256).read_bytes() == b"".join(LINES)


def test_half_a_plan_is_never_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that breaks off, or is too large, leaves nothing behind."""
    plans = KeptPlans(tmp_path)

    def broken() -> Iterator[bytes]:
        yield LINES[0]
        raise InvalidInput("no more")

    with pytest.raises(InvalidInput):
        plans.keep(broken())
    monkeypatch.setattr(kept_plans, "PLAN_BYTES_MAX", 10)
    with pytest.raises(InvalidInput, match="10 bytes"):
        plans.keep(LINES)
    assert list(tmp_path.iterdir()) == []


def test_the_oldest_go_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So many are kept and no more."""
    monkeypatch.setattr(kept_plans, "PLANS_MAX", 2)
    plans = KeptPlans(tmp_path)
    names = [plans.keep([b"0\n"]), plans.keep([b"1\n"])]
    for age, name in enumerate(names):
        os.utime(plans.path(name), ns=(age, age))
    names.append(plans.keep([b"2\n"]))
    assert [plans.has(name) for name in names] == [False, True, True]


@pytest.mark.parametrize("name", ["", "..", "../x", SHA256.upper(), f"{SHA256}/../x", "\0"])
def test_what_is_no_hash_names_no_file(tmp_path: Path, name: str) -> None:
    """Nothing but a hash is ever looked for."""
    (tmp_path / "x.jsonl").write_bytes(b"secret\n")
    plans = KeptPlans(tmp_path / "plans")
    plans.keep(LINES)
    assert not plans.has(name)
    with pytest.raises(UnknownRecord):
        plans.path(name)
