"""Answers with documents: one JSON form, an ETag each, and 304 for a client that has it already."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

from fastapi import Request, Response

from tallgrass.api.etags import matches, tag_of_bytes
from tallgrass.views.text import json_bytes

#: A tag may be asked for again; a shared cache must keep nothing.
_CACHING = "private, no-cache"

#: In descriptions: a list of objects, and where the next page begins.
OBJECTS: Final = {"type": "array", "items": {"type": "object"}}
NEXT_CURSOR: Final = {"type": ["string", "null"]}


def answer(
    request: Request,
    document: object,
    *,
    tag: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Answer with a document, or with 304 where the client has it."""
    body = json_bytes(document)
    tag = tag or tag_of_bytes(body)
    told = {**(headers or {}), "ETag": tag, "Cache-Control": _CACHING}
    if matches(request.headers.get("if-none-match"), tag):
        return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=told)
    return Response(body, media_type="application/json", headers=told)


def done(
    document: object,
    *,
    status: HTTPStatus = HTTPStatus.OK,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Answer a write with what came of it."""
    told = {**(headers or {}), "Cache-Control": "no-store"}
    body = json_bytes(document)
    return Response(body, status_code=status, media_type="application/json", headers=told)


def documents(description: str, **properties: Any) -> dict[int | str, dict[str, Any]]:
    """Return the OpenAPI description of an answer that is an object with these properties."""
    schema = {"type": "object", "required": list(properties), "properties": properties}
    return {
        200: {"description": description, "content": {"application/json": {"schema": schema}}},
        304: {"description": "Not Modified"},
    }
