"""Who is signed in at a browser: in memory alone, so that nothing of it outlives the server.

A session begins with a one-time link, which is printed in the terminal of whoever started the
server, or with an actor's token. It ends after a time, by signing out, or when the actor's token is
void. Ids and links are kept as hashes, so that nobody who reads the server's memory learns a usable
one.
"""

import hmac
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from tallgrass.canonical_json import sha256_hex
from tallgrass.clock import Clock
from tallgrass.governance.actors import Actor

#: A link that nobody used in this time is void.
LINK_LIFETIME = timedelta(hours=1)
_SESSIONS_MAX = 1000
#: How somebody is shown who came by the link and has no token.
GUEST = "viewer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One browser."""

    #: Hash of what the cookie holds.
    key: str
    #: None for a viewer without a token, who can never write.
    actor: Actor | None
    expires_at: datetime
    #: Each form and each write by script must show it; the cookie alone proves no intent.
    csrf: str = field(repr=False)

    @property
    def name(self) -> str:
        """Who it is."""
        return GUEST if self.actor is None else self.actor.name

    def has_csrf(self, given: str | None) -> bool:
        """Tell whether a write shows this session's token."""
        return given is not None and hmac.compare_digest(given.encode(), self.csrf.encode())


class Sessions:
    """All sessions and links of a server."""

    def __init__(self, *, lifetime: timedelta, clock: Clock, secret: Callable[[], str]) -> None:
        self.lifetime = lifetime
        self._clock = clock
        self._secret = secret
        self._links: dict[str, tuple[Actor | None, datetime]] = {}
        self._sessions: OrderedDict[str, Session] = OrderedDict()
        self._lock = threading.Lock()

    def make_link(self, actor: Actor | None) -> str:
        """Return the secret of a link that signs somebody in once."""
        secret = self._secret()
        with self._lock:
            self._links[_key(secret)] = (actor, self._clock() + LINK_LIFETIME)
        return secret

    def redeem(self, secret: str) -> str | None:
        """Begin the session of a link; return what the cookie holds, None if it is void."""
        with self._lock:
            actor, until = self._links.pop(_key(secret), (None, None))
        if until is None or self._clock() >= until:
            return None
        return self.begin(actor)

    def begin(self, actor: Actor | None) -> str:
        """Begin a session; return what the cookie holds."""
        secret = self._secret()
        session = Session(
            key=_key(secret),
            actor=actor,
            expires_at=self._clock() + self.lifetime,
            csrf=self._secret(),
        )
        with self._lock:
            self._sessions[session.key] = session
            while len(self._sessions) > _SESSIONS_MAX:
                self._sessions.popitem(last=False)
        return secret

    def find(self, secret: str | None) -> Session | None:
        """Return the session of a cookie; None where it ended or never was."""
        return None if not secret else self.alive(_key(secret))

    def alive(self, key: str) -> Session | None:
        """Return a session that has not ended."""
        with self._lock:
            session = self._sessions.get(key)
            if session is not None and self._clock() >= session.expires_at:
                del self._sessions[key]
                session = None
        return session

    def end(self, session: Session) -> None:
        """End a session."""
        with self._lock:
            self._sessions.pop(session.key, None)


def _key(secret: str) -> str:
    return sha256_hex(secret.encode())
