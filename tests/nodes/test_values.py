"""Values of nodes are hashed and stored by type, without pickle."""

from __future__ import annotations

import functools
import json
import pickle
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from pathlib import PurePosixPath
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, field_validator

from tallgrass.errors import InvalidInput
from tallgrass.nodes.values import Values, type_name


class Season(Enum):
    """An enum of a user."""

    WET = "wet"
    DRY = "dry"


@dataclass(frozen=True)
class Reach:
    """A dataclass of a user."""

    name: str
    flows: tuple[float, ...]


class Gauge(BaseModel):
    """A pydantic model of a user."""

    site: str
    season: Season


TYPES = Values(types=(Season, Reach, Gauge))

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(alphabet=st.characters(exclude_categories=["Cs"]))
    | st.binary()
    | st.dates()
    | st.timedeltas()
    | st.uuids()
    | st.decimals(allow_nan=False)
    | st.datetimes()
    | st.datetimes(timezones=st.just(UTC))
    | st.times()
)
keys = st.text(alphabet=st.characters(exclude_categories=["Cs"])) | st.integers() | st.booleans()
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.dictionaries(keys, inner)
        | st.frozensets(scalars)
        | st.sets(scalars)
    ),
    max_leaves=20,
)


def shape(value: Any) -> Any:
    """The value with the type of each part, so that 1, 1.0 and True differ when compared."""
    if isinstance(value, dict):
        return "dict", [(shape(key), shape(each)) for key, each in value.items()]
    if isinstance(value, list | tuple):
        return type(value), [shape(each) for each in value]
    if isinstance(value, set | frozenset):
        return type(value), {repr(shape(each)) for each in value}
    return type(value), repr(value)


@given(values)
def test_a_stored_value_comes_back_with_its_types_and_its_order(value: Any) -> None:
    """What goes through bytes and back is the same, down to types and the order of keys."""
    read = TYPES.decode(orjson.loads(orjson.dumps(TYPES.encode(value))))
    assert shape(read) == shape(value)


@given(values, values)
def test_two_values_hash_alike_only_if_they_are_alike(one: Any, other: Any) -> None:
    """Equal values of equal types have one hash, all others another."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return "dict", {repr((plain(key), plain(each))) for key, each in value.items()}
        if isinstance(value, list | tuple):
            return type(value), [plain(each) for each in value]
        return shape(value)

    assert (TYPES.hash_of(one) == TYPES.hash_of(other)) == (repr(plain(one)) == repr(plain(other)))


@pytest.mark.conformance("NR-4.2")
def test_types_count() -> None:
    """1, 1.0 and True are three inputs; so are a list and a tuple, None and nothing."""
    alike = [1, 1.0, True, "1", b"1", Decimal(1), [1], (1,), {1}, frozenset({1}), {"a": 1}, {}]
    alike += [{"a": None}, {"a": 1.0}, {1: "a"}, {"1": "a"}, 0.0, -0.0, None, False, 1 + 0j]
    assert len({TYPES.hash_of(value) for value in alike}) == len(alike)


def test_keys_that_look_like_tags_are_values() -> None:
    """A state may hold any key; none is taken for what the store itself writes."""
    tagged: list[dict[str, Any]] = [{"$tuple": [1]}, {"$map": []}, {"$": {"$bytes": "!"}}]
    for value in [*tagged, {"$enum": ["x", "y"]}]:
        assert TYPES.decode(TYPES.encode(value)) == value


@pytest.mark.parametrize(
    "value",
    [
        Season.DRY,
        Reach(name="Kaw", flows=(1.0, 2.5)),
        Gauge(site="06891000", season=Season.WET),
        datetime(2026, 11, 1, 1, 30, fold=1, tzinfo=ZoneInfo("America/Chicago")),
        datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=-6))),
        time(4, 5, tzinfo=UTC),
        date(1763, 4, 1),
        Decimal("1.10"),
        UUID(int=5),
        PurePosixPath("a/b"),
        float("inf"),
        10**6000,
        -(2**63) - 1,
    ],
    ids=lambda value: type(value).__name__,
)
def test_registered_types_come_back(value: object) -> None:
    """What was registered, and what Python itself brings, is read as what it was."""
    read = TYPES.decode(orjson.loads(orjson.dumps(TYPES.encode(value))))
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize(
    "value",
    [object(), Season.DRY, Reach(name="", flows=()), lambda: None, type, "\ud800", open],
    ids=lambda value: type(value).__name__,
)
def test_what_could_not_be_read_back_is_refused(value: object) -> None:
    """A type that nobody registered is not stored."""
    with pytest.raises(InvalidInput) as refused:
        Values().encode({"deep": [value]})
    assert refused.value.code == "node_result_unstorable"


class Station(BaseModel):
    """A model that is not made of its own fields: names, checks, and what it remembers."""

    model_config = ConfigDict(extra="allow")
    site_no: str = Field(alias="siteNo")
    flow: float = Field(gt=0)
    _asked: int = PrivateAttr(default=0)

    @field_validator("site_no", mode="before")
    @classmethod
    def _numbered(cls, given: str) -> str:
        return f"USGS-{given}"

    @functools.cached_property
    def doubled(self) -> float:
        """Remembered beside the fields."""
        return self.flow * 2


def test_models_come_back_as_they_were() -> None:
    """Aliases, validators, extra and remembered parts: what was stored is what is read."""
    values = Values(types=(Station,))
    station = Station(siteNo="06889000", flow=1.5, river="Kansas")  # type: ignore[call-arg]
    hashed = values.hash_of(station)
    assert station.doubled == 3
    assert values.hash_of(station) == hashed
    back = values.decode(json.loads(json.dumps(values.encode(station))))
    assert (back.site_no, back.flow, back.doubled) == ("USGS-06889000", 1.5, 3)
    assert back.model_extra == {"river": "Kansas"}
    assert values.hash_of(back) == hashed
    dry = values.decode(values.encode(station.model_copy(update={"flow": -1.0})))
    assert dry.flow == -1


class Count(BaseModel):
    """A model that is another one every time it is made."""

    times: int

    def model_post_init(self, _context: Any, /) -> None:
        """Count on."""
        self.times += 1


def test_a_model_that_would_come_back_as_another_is_not_stored() -> None:
    """It is refused when it is stored, not when a resumed run needs it."""
    with pytest.raises(InvalidInput, match="read back as another") as refused:
        Values(types=(Count,)).encode({"counts": [Count(times=1)]})
    assert refused.value.code == "node_result_unstorable"


def test_a_model_that_has_grown_is_not_read() -> None:
    """What was stored before a class had a field is refused, with its name."""
    with pytest.raises(InvalidInput, match=r"not stored: season$"):
        TYPES.decode({"$model": [type_name(Gauge), {"site": "a"}]})


@dataclass
class Halfway:
    """A dataclass that is filled in later."""

    name: str
    flow: float = field(init=False)


def test_a_dataclass_without_all_values_is_refused() -> None:
    """Neither a hash nor a stored form has a hole."""
    values = Values(types=(Halfway,))
    for refused in (values.encode, values.hash_of):
        with pytest.raises(InvalidInput, match="without a value"):
            refused(Halfway("a"))


def test_a_value_that_holds_itself_is_refused() -> None:
    """A loop ends as a refusal, not as an exhausted stack."""
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(InvalidInput, match="holds itself"):
        Values().hash_of(loop)


@pytest.mark.parametrize(
    "stored",
    [
        {"$enum": ["os.system", "x"]},
        {"$data": ["subprocess.Popen", {"args": "x"}]},
        {"$model": ["builtins.eval", {}]},
        {"$pickle": "gASVAAAA"},
        {"$bytes": "not base64!"},
        {"$datetime": ["2026", 0, "zone", "../../etc/passwd"]},
        {"$tuple": 3},
        {"$float": "1.0"},
    ],
    ids=str,
)
def test_stored_bytes_cannot_call_anything(stored: object) -> None:
    """Names in stored bytes are looked up among registered types alone."""
    with pytest.raises(InvalidInput):
        TYPES.decode(stored)


def test_a_pickle_is_no_value() -> None:
    """Planted pickles are bytes, and stay bytes."""
    planted = pickle.dumps({"a": 1})
    assert TYPES.decode(TYPES.encode(planted)) == planted


@pytest.mark.conformance("NR-4.2")
def test_ids_of_messages_do_not_count() -> None:
    """LangGraph draws ids of messages anew in every run; an id that says what to remove counts."""
    messages = pytest.importorskip("langchain_core.messages")
    one, other = (messages.AIMessage("rain", id=each) for each in ("a", "b"))
    assert TYPES.hash_of([one]) == TYPES.hash_of([other])
    assert TYPES.hash_of([one]) != TYPES.hash_of([messages.AIMessage("hail", id="a")])
    assert TYPES.hash_of([one]) != TYPES.hash_of([messages.HumanMessage("rain", id="a")])
    gone, kept = (messages.RemoveMessage(id=each) for each in ("a", "b"))
    assert TYPES.hash_of(gone) != TYPES.hash_of(kept)
