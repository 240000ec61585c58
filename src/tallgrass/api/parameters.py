"""Refuses parameters that a route does not know: a mistyped filter would be ignored in silence."""

from typing import Any

from fastapi import Request

from tallgrass.api.problems import API
from tallgrass.errors import InvalidInput

_SHOWN = 80


async def only_known_parameters(request: Request) -> None:
    """Refuse a parameter that the document of this API does not list for the route."""
    asked = set(request.query_params)
    if not asked:
        return
    known = _known(request)
    unknown = sorted(asked - known)
    if unknown:
        there_are = f"there are {', '.join(sorted(known))}" if known else "there are none here"
        raise InvalidInput(f"there is no parameter {unknown[0][:_SHOWN]!r}: {there_are}")


def _known(request: Request) -> set[str]:
    path = f"{API}{request.scope['route'].path_format.removeprefix(API)}"
    operation: dict[str, Any] = request.app.openapi()["paths"][path][request.method.lower()]
    return {each["name"] for each in operation.get("parameters", ()) if each["in"] == "query"}
