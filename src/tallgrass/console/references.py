"""Change records and incidents: opened, looked at, closed."""

from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, Request, Response
from pydantic import ValidationError

from tallgrass.api.references import (
    COLLECTIONS,
    NewReference,
    close_reference,
    open_reference,
    read_references,
    reference_as_read,
)
from tallgrass.api.service import Here
from tallgrass.api.sign_in import Viewer
from tallgrass.console.forms import Sent, back_to
from tallgrass.console.pages import next_page, page
from tallgrass.errors import InvalidInput
from tallgrass.governance.actors import Role
from tallgrass.governance.references import ReferenceKind, require_ref

_PAGE = 25
_CURSOR_MAX = 500
_EXAMPLES = {ReferenceKind.CHANGE: "CHG-2041", ReferenceKind.INCIDENT: "INC-7"}

router = APIRouter()


def _add_pages(kind: ReferenceKind) -> None:
    """Add the pages of one kind of reference."""
    path = f"/governance/{COLLECTIONS[kind]}"

    @router.get(path)
    def list_them(request: Request, here: Here, signed: Viewer) -> Response:
        query = request.query_params
        state = _state(query.get("state", ""))
        cursor = query.get("cursor", "")[:_CURSOR_MAX] or None
        with here.reading.lent() as stores:
            found, following = read_references(
                stores, kind, state=state, cursor=cursor, limit=_PAGE
            )
        return page(
            request,
            "references.html",
            found=found,
            state=state,
            following=next_page(path, {"state": state}, following),
            example=_EXAMPLES[kind],
            done=query.get("done", "")[:200],
            **_shared(here, signed, kind, path),
        )

    @router.post(path)
    def open_one(here: Here, sent: Sent) -> Response:
        actor = sent.actor(Role.OPERATOR, f"{kind.value}_open")
        try:
            wish = NewReference(
                ref=sent.text("ref"),
                title=sent.text("title"),
                description=sent.text("description", needed=False),
            )
        except ValidationError as exc:
            raise InvalidInput(exc.errors()[0]["msg"]) from None
        opened = open_reference(here, actor, kind, wish)
        return back_to(f"{path}/{quote(opened.ref)}", f"{opened.ref} is open.")

    @router.get(f"{path}/{{ref:path}}")
    def show(request: Request, here: Here, signed: Viewer, ref: str) -> Response:
        with here.reading.lent() as stores:
            seen, _ = reference_as_read(stores, kind, ref)
            reference = stores.changes.find(kind, require_ref(ref))
        return page(
            request,
            "reference.html",
            reference=reference,
            seen=seen,
            done=request.query_params.get("done", "")[:200],
            **_shared(here, signed, kind, path),
        )

    @router.post(f"{path}/{{ref:path}}")
    def close(here: Here, sent: Sent, ref: str) -> Response:
        actor = sent.actor(Role.OPERATOR, f"{kind.value}_close")
        seen = sent.text("seen", needed=False) or None
        closed = close_reference(here, actor, kind, ref, sent.text("resolution"), seen=seen)
        return back_to(f"{path}/{quote(closed.ref)}", f"{closed.ref} is closed.")


for _kind in ReferenceKind:
    _add_pages(_kind)


def _shared(here: Here, signed: Viewer, kind: ReferenceKind, path: str) -> dict[str, Any]:
    return {
        "signed": signed,
        "place": "Governance",
        "part": path,
        "kind": kind,
        "collection": COLLECTIONS[kind],
        "may_act": signed.role.includes(Role.OPERATOR),
        "now": here.clock(),
    }


def _state(text: str) -> str | None:
    if text not in {"", "open", "closed"}:
        raise InvalidInput(f"open or closed, not {text[:50]!r}")
    return text or None
