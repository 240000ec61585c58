"""Names, roles and tokens."""

from __future__ import annotations

import hashlib

import pytest

from tallgrass.errors import InvalidInput, NotAuthorized
from tallgrass.governance.actors import (
    Actor,
    Role,
    make_token,
    name_of,
    require_name,
    require_role,
    token_sha256,
)


def test_each_role_includes_the_ones_before_it() -> None:
    """A viewer looks, an operator acts as well, an approver also decides."""
    table = {(have, need): have.includes(need) for have in Role for need in Role}
    assert [need.value for have, need in table if have is Role.VIEWER and table[have, need]] == [
        "viewer"
    ]
    assert [need.value for have, need in table if have is Role.OPERATOR and table[have, need]] == [
        "viewer", "operator",
    ]  # fmt: skip
    assert all(table[Role.APPROVER, need] for need in Role)
    with pytest.raises(NotAuthorized) as refused:
        require_role(Actor(name="vera", role=Role.VIEWER), Role.OPERATOR, "a freeze")
    assert refused.value.code == "not_authorized"
    assert refused.value.exit_code == 3


@pytest.mark.parametrize("name", ["j.doe", "a", "night-shift_2", "j.doe@example.org", "7" * 64])
def test_a_name_is_plain(name: str) -> None:
    """Letters, digits and a few marks."""
    assert require_name(name) == name


@pytest.mark.parametrize(
    "name",
    [
        "", " ", "Ann", "ann ", "\u0430nn", "ann\u200b", "ann\n", ".ann", "a" * 65, "ann;",
        "bootstrap", "unknown",
    ],
)  # fmt: skip
def test_a_name_cannot_pass_for_another(name: str) -> None:
    """No capitals, blanks, look-alikes or hidden marks, nor a name that the log itself uses."""
    with pytest.raises(InvalidInput):
        require_name(name)


def test_a_token_is_its_random_bytes() -> None:
    """256 bits in a form that can be typed; what is kept is the SHA-256 of the whole text."""
    token = make_token(bytes(range(32)))
    assert token == "tg_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"  # noqa: S105
    assert token_sha256(token) == hashlib.sha256(token.encode()).hexdigest()
    assert token_sha256(f" {token}\n") == token_sha256(token)
    for size in (0, 16, 31, 33):
        with pytest.raises(InvalidInput):
            make_token(bytes(size))


def test_the_proof_is_not_printed() -> None:
    """Whoever logs an actor logs a name and a role."""
    actor = Actor(name="ann", role=Role.VIEWER, proof="secret")
    assert "secret" not in repr(actor)
    assert (name_of(actor), name_of("j.doe")) == ("ann", "j.doe")
