"""A freeze clears what it set; change records and incidents stay what they were."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tallgrass.errors import InvalidInput, Refused, TallgrassError, UnknownRecord
from tallgrass.governance.references import ReferenceKind
from tallgrass.governance.switches import SwitchScope
from tests.contract.scene import RAW_ERRORS, Scene
from tests.support.builders import unit

if TYPE_CHECKING:
    from tests.support.backends import Backend

KINDS = list(ReferenceKind)


def on(backend: Backend) -> set[tuple[str, str]]:
    """Return the switches that are on, by raw SQL."""
    return set(backend.sql("SELECT scope, dataset FROM kill_switches WHERE is_on = (1 = 1)"))


def test_a_freeze_stops_every_scope_and_its_end_lets_it_go(backend: Backend) -> None:
    """All four, for all datasets; each change is one entry in the log that names the scopes."""
    switches = backend.open().switches
    assert switches.freeze(actor="ann", reason="INC-7") == list(SwitchScope)
    assert on(backend) == {(scope.value, "*") for scope in SwitchScope}
    assert switches.freeze(actor="ann", reason="again") == []
    assert sorted(switches.thaw(actor="ann", reason="over")) == sorted(SwitchScope)
    assert on(backend) == set()
    assert switches.thaw(actor="ann", reason="again") == []
    assert backend.sql("SELECT action, reason FROM audit_log ORDER BY entry_id") == [
        ("freeze_on", "INC-7"), ("freeze_on", "again"),
        ("freeze_off", "over"), ("freeze_off", "again"),
    ]  # fmt: skip


def test_the_end_of_a_freeze_clears_no_other_switch(backend: Backend) -> None:
    """One that was on before, one of a dataset, and one that was turned by hand since stay on."""
    switches = backend.open().switches
    for scope, dataset in ((SwitchScope.INGEST, "*"), (SwitchScope.REPLAY, "hrrr")):
        switches.set(scope, dataset, is_on=True, actor="ann", reason="before")
    assert SwitchScope.INGEST not in switches.freeze(actor="bob", reason="INC-7")
    switches.set(SwitchScope.NODES, "*", is_on=True, actor="ann", reason="mine now")
    assert sorted(switches.thaw(actor="bob", reason="over")) == ["dispatch", "replay"]
    assert on(backend) == {("ingest", "*"), ("replay", "hrrr"), ("nodes", "*")}
    [ingest] = [each for each in switches.switches() if each.scope is SwitchScope.INGEST]
    assert (ingest.actor, ingest.reason, ingest.by_freeze) == ("ann", "before", False)


@pytest.mark.conformance("C-49")
def test_switches_that_cannot_be_read_stop_work(backend: Backend) -> None:
    """Without its table nothing is taken as off: the error ends the batch, and nothing starts."""
    scene = Scene(backend)
    backend.sql("ALTER TABLE kill_switches RENAME TO hidden")
    with pytest.raises(TallgrassError):
        scene.announce(unit(0))
    for scope in SwitchScope:
        with pytest.raises(TallgrassError):
            scene.stores.switches.switched_off(scope)
    assert backend.sql("SELECT count(*) FROM wal_attempts") == [(0,)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_reference_is_opened_and_closed_once(backend: Backend, kind: ReferenceKind) -> None:
    """By somebody, with a title and a resolution; then it stays, and the log tells of both."""
    changes = backend.open().changes
    opened = changes.open(kind, "REF-1", title="New calibration", description="more", by="ann")
    assert (opened.ref, opened.opened_by, opened.closed_at) == ("REF-1", "ann", None)
    with pytest.raises(Refused) as twice:
        changes.open(kind, "REF-1", title="other", by="bob")
    assert twice.value.code == "reference_exists"
    closed = changes.close(kind, "REF-1", resolution="replayed", by="bob")
    assert (closed.closed_by, closed.resolution) == ("bob", "replayed")
    with pytest.raises(Refused) as again:
        changes.close(kind, "REF-1", resolution="no", by="bob")
    assert again.value.code == "reference_closed"
    assert changes.find(kind, "REF-1") == closed
    assert backend.sql("SELECT actor, action, subject, reason FROM audit_log") == [
        ("ann", f"{kind.value}_open", f"{kind.value}:REF-1", "New calibration"),
        ("bob", f"{kind.value}_open_refused", f"{kind.value}:REF-1", "reference_exists"),
        ("bob", f"{kind.value}_close", f"{kind.value}:REF-1", "replayed"),
        ("bob", f"{kind.value}_close_refused", f"{kind.value}:REF-1", "reference_closed"),
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_references_are_refused_that_say_nothing(backend: Backend, kind: ReferenceKind) -> None:
    """No blank reference, title, resolution or name, and none that does not exist."""
    changes = backend.open().changes
    for ref, title, by in (
        (" ", "t", "ann"), ("", "t", "ann"), ("A B", "t", "ann"), ("A\n", "t", "ann"),
        ("A", " ", "ann"), ("A", "t", " "), ("A", "t" * 1001, "ann"),
    ):  # fmt: skip
        with pytest.raises(InvalidInput):
            changes.open(kind, ref, title=title, by=by)
    changes.open(kind, "A", title="t", by="ann")
    with pytest.raises(InvalidInput):
        changes.close(kind, "A", resolution=" ", by="ann")
    with pytest.raises(UnknownRecord) as unknown:
        changes.find(kind, "B")
    assert unknown.value.code == "reference_unknown"
    with pytest.raises(UnknownRecord):
        changes.close(kind, "B", resolution="r", by="ann")


@pytest.mark.parametrize("kind", KINDS)
def test_references_are_listed_newest_first(backend: Backend, kind: ReferenceKind) -> None:
    """Page after page, all of them, or those that are open or closed."""
    changes = backend.open().changes
    for ref in ("B", "C", "A"):
        changes.open(kind, ref, title="t", by="ann")
    changes.close(kind, "C", resolution="r", by="ann")

    def refs(*, is_open: bool | None = None, after: str | None = None, size: int = 9) -> list[str]:
        return [r.ref for r in changes.page(kind, is_open=is_open, after=after, size=size)]

    assert refs() == ["A", "C", "B"]
    assert refs(size=2) == ["A", "C"]
    assert refs(after="C") == ["B"]
    assert (refs(is_open=True), refs(is_open=False)) == (["A", "B"], ["C"])


CLOSED_AT_ONCE = (
    "INSERT INTO {table} ({ref}, title, description, opened_by, opened_at, closed_by, closed_at,"
    " resolution) VALUES ('Z', 't', '', 'a', '{now}', 'a', '{now}', 'r')"
)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE {table} SET title = 'other'",
        "UPDATE {table} SET description = 'other'",
        "UPDATE {table} SET opened_by = 'bob'",
        "DELETE FROM {table}",
        CLOSED_AT_ONCE,
    ],
)
@pytest.mark.parametrize("kind", KINDS)
def test_raw_sql_does_not_change_a_reference(
    backend: Backend, kind: ReferenceKind, statement: str
) -> None:
    """What was written down stays; only closing it is open."""
    backend.open().changes.open(kind, "A", title="t", by="ann")
    table = {"change": "change_records", "incident": "incidents"}[kind.value]
    with pytest.raises(RAW_ERRORS, match="append_only"):
        backend.sql(
            statement.format(
                table=table, ref=f"{kind.value}_ref", now="2026-06-01T00:00:00.000000Z"
            )
        )
