"""Explains codes; the `type` of a problem document leads here."""

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Path, Request, Response

from tallgrass.api.answers import OBJECTS, answer, documents
from tallgrass.api.problems import documented
from tallgrass.api.sign_in import Viewer
from tallgrass.error_codes import nearest, registry
from tallgrass.errors import UnknownRecord

router = APIRouter(tags=["codes"])


@router.get(
    "/codes",
    responses=documented() | documents("The whole registry.", codes=OBJECTS),
    response_class=Response,
)
def list_codes(request: Request, _signed: Viewer) -> Response:
    """List all codes."""
    return answer(request, {"codes": list(registry().values())})


@router.get(
    "/codes/{code}",
    responses=documented(HTTPStatus.NOT_FOUND)
    | documents(
        "An entry of the registry.",
        code={"type": "string"},
        meaning={"type": "string"},
        remedy={"type": "string"},
    ),
    response_class=Response,
)
def explain(
    request: Request, _signed: Viewer, code: Annotated[str, Path(max_length=64)]
) -> Response:
    """Explain a code."""
    found = registry().get(code)
    if found is None:
        raise UnknownRecord(f"no code {code!r}{nearest(code)}", code="unknown_code")
    return answer(request, found)
