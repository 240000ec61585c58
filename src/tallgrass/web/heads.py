"""HEAD, which balancers and monitors ask: answered as GET is, without the body.

The routes know GET alone, so that the description of an API has each operation once.
"""

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_BODY = "http.response.body"
_START = "http.response.start"
_METHOD_NOT_ALLOWED = 405
#: In the scope of a request that is answered as GET and was none.
_ASKED_AS_HEAD = "tallgrass.head"


class Heads:
    """Lets an application answer HEAD wherever it answers GET, and names it where GET is named."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on; of HEAD the answer ends with its headers."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        is_head = scope["method"] == "HEAD"

        async def sending(message: Message) -> None:
            if message["type"] == _START:
                _name_head(message)
                await send(message)
                if is_head:
                    # At once: it also tells a stream, which may have no end, to stop.
                    await send({"type": _BODY, "body": b"", "more_body": False})
            elif not is_head:
                await send(message)

        asked = {**scope, "method": "GET", _ASKED_AS_HEAD: True} if is_head else scope
        await self._app(asked, receive, sending)


def is_asked_as_head(scope: Scope) -> bool:
    """Tell whether nobody will see the answer's body: what can be used once is not to be used."""
    return _ASKED_AS_HEAD in scope


def _name_head(message: Message) -> None:
    """Add HEAD to the methods that a refusal names as allowed, beside GET."""
    if message["status"] != _METHOD_NOT_ALLOWED:
        return
    headers = MutableHeaders(scope=message)
    allowed = [each.strip() for each in headers.get("allow", "").split(",")]
    if "GET" in allowed and "HEAD" not in allowed:
        headers["allow"] = ", ".join([*allowed, "HEAD"])
