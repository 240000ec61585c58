"""Actors in the store: who they are is proved at each write, on both databases."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.errors import InvalidInput, NotAuthorized, Refused, UnknownRecord
from tallgrass.governance.actors import Actor, Role, token_sha256
from tallgrass.governance.switches import SwitchScope
from tests.support.governance import set_up, token_of

if TYPE_CHECKING:
    from tests.support.backends import Backend


def audit(backend: Backend) -> list[tuple[Any, ...]]:
    """Return who did what to whom, and why."""
    return backend.sql("SELECT actor, action, subject, reason FROM audit_log ORDER BY entry_id")


def test_the_first_actor_is_an_approver_and_needs_nobody(backend: Backend) -> None:
    """Later ones need an approver; the store keeps hashes, and the log says who added whom."""
    stores = backend.open()
    assert not stores.actors.any()
    with pytest.raises(InvalidInput):
        stores.actors.add("otto", Role.OPERATOR, token=token_of("otto"), by=None)
    assert not stores.actors.any()
    ann = stores.actors.add("ann", Role.APPROVER, token=token_of("ann"), by=None)
    with pytest.raises(NotAuthorized) as refused:
        stores.actors.add("bob", Role.APPROVER, token=token_of("bob"), by=None)
    assert refused.value.code == "unknown_actor"
    otto = stores.actors.add("otto", Role.OPERATOR, token=token_of("otto"), by=ann)
    with pytest.raises(NotAuthorized):
        stores.actors.add("bob", Role.VIEWER, token=token_of("bob"), by=otto)
    with pytest.raises(Refused) as twice:
        stores.actors.add("otto", Role.VIEWER, token=token_of("other"), by=ann)
    assert twice.value.code == "actor_exists"
    rows = backend.sql("SELECT name, role, token_sha256, created_by FROM actors ORDER BY name")
    assert rows == [
        ("ann", "approver", token_sha256(token_of("ann")), "bootstrap"),
        ("otto", "operator", token_sha256(token_of("otto")), "ann"),
    ]
    assert audit(backend) == [
        ("bootstrap", "actor_add", "actor:ann", ""),
        ("unknown", "actor_add_refused", "actor:bob", "unknown_actor"),
        ("ann", "actor_add", "actor:otto", ""),
        ("otto", "actor_add_refused", "actor:bob", "not_authorized"),
        ("ann", "actor_add_refused", "actor:otto", "actor_exists"),
    ]
    assert not any(token_of(name) in str(rows) for name in ("ann", "otto"))


def test_a_token_proves_name_and_role(backend: Backend) -> None:
    """What the store has; a token that it does not know is nobody's, and that is logged."""
    people = set_up(backend)
    found = people.stores.actors.authenticate(token_of("otto"), action="freeze_on")
    assert (found.name, found.role) == ("otto", Role.OPERATOR)
    for wrong in ("", "tg_", token_of("nobody"), token_sha256(token_of("ann"))):
        with pytest.raises(NotAuthorized) as refused:
            people.stores.actors.authenticate(wrong, action="freeze_on")
        assert refused.value.code == "unknown_actor"
    assert audit(backend)[-1] == ("unknown", "freeze_on_refused", "actor:unknown", "unknown_actor")


def test_a_new_token_voids_the_old_one(backend: Backend) -> None:
    """Also for whoever was checked with it before; one may renew one's own, an approver any."""
    people = set_up(backend)
    actors = people.stores.actors
    renewed = actors.rotate("vera", token=token_of("vera2"), by=people.vera)
    with pytest.raises(NotAuthorized):
        actors.authenticate(token_of("vera"), action="x")
    with pytest.raises(NotAuthorized):
        actors.rotate("vera", token=token_of("vera3"), by=people.vera)
    assert actors.authenticate(token_of("vera2"), action="x") == renewed
    actors.rotate("otto", token=token_of("otto2"), by=people.bob)
    with pytest.raises(NotAuthorized):
        people.request(by=people.otto)
    with pytest.raises(NotAuthorized):
        actors.rotate("ann", token=token_of("mine"), by=renewed)
    with pytest.raises(UnknownRecord):
        actors.rotate("nobody", token=token_of("x"), by=people.ann)


def test_a_revoked_actor_is_nobody_for_good(backend: Backend) -> None:
    """No token, no second revocation, no new token, and the name is never given again."""
    people = set_up(backend)
    actors = people.stores.actors
    actors.revoke("bob", by=people.ann)
    with pytest.raises(NotAuthorized) as refused:
        actors.authenticate(token_of("bob"), action="approval_approve")
    assert refused.value.code == "unknown_actor"
    for again in (
        lambda: actors.revoke("bob", by=people.ann),
        lambda: actors.rotate("bob", token=token_of("b2"), by=people.ann),
        lambda: actors.add("bob", Role.APPROVER, token=token_of("b2"), by=people.ann),
    ):
        with pytest.raises(Refused):
            again()
    assert [each.name for each in actors.list() if each.revoked_at] == ["bob"]
    assert ("bob", "approval_approve_refused", "actor:bob", "unknown_actor") in audit(backend)


def test_the_last_approver_stays(backend: Backend) -> None:
    """Whoever is left must be able to add others; with a second approver either can go."""
    people = set_up(backend)
    people.stores.actors.revoke("ann", by=people.bob)
    with pytest.raises(Refused) as refused:
        people.stores.actors.revoke("bob", by=people.bob)
    assert refused.value.code == "last_approver"
    people.stores.actors.add("cleo", Role.APPROVER, token=token_of("cleo"), by=people.bob)
    people.stores.actors.revoke("bob", by=people.bob)


@pytest.mark.parametrize("name", ["ann\nbob", "a" * 201, "\x1b[2J"])
def test_a_mere_name_is_one_short_line(backend: Backend, name: str) -> None:
    """A name that nobody proves is read by people in the log: it must not spoil that."""
    stores = backend.open()
    with pytest.raises(InvalidInput, match="one line"):
        stores.switches.set(SwitchScope.INGEST, "*", is_on=True, actor=name, reason="x")
    assert backend.sql("SELECT actor FROM audit_log") == []


def test_a_mere_name_acts_only_while_no_actor_is_set_up(backend: Backend) -> None:
    """It is logged as not proved; later every store refuses it, and one that claims a role."""
    stores = backend.open()
    stores.switches.set(SwitchScope.INGEST, "*", is_on=True, actor="j.doe", reason="x")
    assert backend.sql("SELECT detail FROM audit_log") == [('{"proved":false}',)]
    people = set_up(backend)
    forged = Actor(name="ann", role=Role.APPROVER)
    wrong = Actor(name="ann", role=Role.APPROVER, proof=people.bob.proof)
    risen = Actor(name="vera", role=Role.APPROVER, proof=people.vera.proof)
    for actor in ("ann", "j.doe", forged, wrong, risen, people.vera):
        with pytest.raises(NotAuthorized):
            stores.switches.set(SwitchScope.INGEST, "*", is_on=False, actor=actor, reason="x")
    assert stores.switches.switched_off(SwitchScope.INGEST).everything
    stores.switches.set(SwitchScope.INGEST, "*", is_on=False, actor=people.otto, reason="x")
    assert backend.sql("SELECT detail FROM audit_log ORDER BY entry_id DESC LIMIT 1") == [
        ('{"role":"operator"}',)
    ]
