"""Bodies of requests, which may not be longer than an application can bear."""

from http import HTTPStatus

from starlette.exceptions import HTTPException
from starlette.types import Message, Receive


def bounded(receive: Receive, bytes_max: int, refusal: str) -> Receive:
    """Return what receives a body of at most so many bytes; a longer one is refused."""
    size = 0

    async def receiving() -> Message:
        nonlocal size
        message = await receive()
        size += len(message.get("body", b""))
        if size > bytes_max:
            # The one error that the framework passes on as it reads a body.
            raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, refusal)
        return message

    return receiving
