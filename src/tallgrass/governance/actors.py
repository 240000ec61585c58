"""Who may act: names, roles, and the tokens that prove them (pure).

A token is shown once, when it is made; the store keeps its hash. Its randomness is 256 bits, so the
hash needs no salt and tells nothing.
"""

import base64
import re
from dataclasses import dataclass, field
from enum import StrEnum

from tallgrass.canonical_json import sha256_hex
from tallgrass.errors import InvalidInput, NotAuthorized

TOKEN_BYTES = 32
_TOKEN_PREFIX = "tg_"  # noqa: S105 - what secret scanners know it by
_NAME = re.compile(r"[a-z0-9][a-z0-9._@-]{0,63}", re.ASCII)

#: Writes the first actor; nobody else may be called so.
BOOTSTRAP = "bootstrap"
#: In the log, whoever came with no token that the store knows.
UNKNOWN = "unknown"
_RESERVED = frozenset({BOOTSTRAP, UNKNOWN})


class Role(StrEnum):
    """What an actor may do; each includes the ones before it."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    APPROVER = "approver"

    def includes(self, other: "Role") -> bool:
        """Tell whether this role may do what the other may."""
        order = list(Role)
        return order.index(self) >= order.index(other)


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    """Somebody whose token was checked.

    Without `proof`, which only the check of a token gives, every store refuses the actor.
    """

    name: str
    role: Role
    #: Hash of the token that was shown: once it is rotated or revoked, the actor is nobody.
    proof: str = field(default="", repr=False)


#: Who does something: a proved actor, or a mere name where no actor is set up.
Acting = Actor | str


def name_of(acting: Acting) -> str:
    """Return the name under which an act is logged."""
    return acting if isinstance(acting, str) else acting.name


def require_name(name: str) -> str:
    """Return the name of a new actor; one that could pass for another is refused."""
    if not _NAME.fullmatch(name):
        message = (
            f"{name!r} cannot be an actor's name: lower-case letters, digits and . _ @ - only,"
            " at most 64"
        )
        raise InvalidInput(message)
    if name in _RESERVED:
        raise InvalidInput(f"{name!r} is a name that the log itself uses")
    return name


def make_token(random: bytes) -> str:
    """Return the token made of random bytes; as many as `TOKEN_BYTES`, from a safe source."""
    if len(random) != TOKEN_BYTES:
        raise InvalidInput(f"a token is made of {TOKEN_BYTES} random bytes, not {len(random)}")
    return _TOKEN_PREFIX + base64.urlsafe_b64encode(random).decode().rstrip("=")


def token_sha256(token: str) -> str:
    """Return what the store keeps of a token; one of bytes that are no text is nobody's."""
    return sha256_hex(token.strip().encode(errors="surrogatepass"))


def require_role(actor: Actor, role: Role, what: str) -> None:
    """Refuse an actor whose role does not include the one that is needed."""
    if not actor.role.includes(role):
        message = f"{actor.name} is {_a(actor.role)}: {what} needs {_a(role)}"
        raise NotAuthorized(message)


def _a(role: Role) -> str:
    return f"{'a' if role is Role.VIEWER else 'an'} {role.value}"
