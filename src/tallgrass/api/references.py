"""Change records and incidents: what a replay or a drain refers to."""

from http import HTTPStatus
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Path, Request, Response
from pydantic import Field

from tallgrass.api.answers import NEXT_CURSOR, answer, documents, done
from tallgrass.api.bodies import Body, Words
from tallgrass.api.etags import Seen, require_tag, tag_of_bytes
from tallgrass.api.paging import LIMIT_DEFAULT, Cursor, Limit, decode_cursor, encode_cursor
from tallgrass.api.paging import next_link as link_to
from tallgrass.api.problems import CHANGING, documented
from tallgrass.api.replay_wish import Word
from tallgrass.api.service import Here, Service
from tallgrass.api.sign_in import Viewer, writer
from tallgrass.bootstrap.stores import Stores
from tallgrass.governance.actors import Actor, Role
from tallgrass.governance.references import Reference, ReferenceKind, require_ref
from tallgrass.views.governance import reference_document
from tallgrass.views.text import json_bytes

_REF_MAX = 100
_TEXT_MAX = 4000
_REFERENCE = {"type": "object"}
#: How each kind is called in addresses.
COLLECTIONS = {ReferenceKind.CHANGE: "changes", ReferenceKind.INCIDENT: "incidents"}

router = APIRouter(tags=["governance"])

Ref = Annotated[str, Path(max_length=_REF_MAX, description="such as CHG-2041")]
State = Literal["open", "closed"]


class NewReference(Body):
    """A change record or an incident to open."""

    ref: Annotated[Word, Field(max_length=_REF_MAX)]
    title: Words
    description: Annotated[str, Field(max_length=_TEXT_MAX)] = ""


class Closing(Body):
    """How a change or an incident ended."""

    resolution: Words


def _add_reading(kind: ReferenceKind) -> None:
    """Add the routes that show references of a kind."""
    name = COLLECTIONS[kind]

    @router.get(
        f"/{name}",
        responses=documented(HTTPStatus.NOT_FOUND)
        | documents(
            f"A page of {name}, newest first.",
            **{name: {"type": "array", "items": _REFERENCE}},
            next_cursor=NEXT_CURSOR,
        ),
        response_class=Response,
        name=f"list_{name}",
        summary=f"List {name}",
    )
    def list_references(
        request: Request,
        here: Here,
        _signed: Viewer,
        *,
        state: State | None = None,
        limit: Limit = LIMIT_DEFAULT,
        cursor: Cursor = None,
    ) -> Response:
        with here.reading.lent() as stores:
            found, following = read_references(
                stores, kind, state=state, cursor=cursor, limit=limit
            )
        document = {name: [reference_document(each) for each in found], "next_cursor": following}
        return answer(request, document, headers=link_to(request, following))

    @router.get(
        f"/{name}/{{ref:path}}",
        responses=documented(HTTPStatus.NOT_FOUND)
        | documents("Its ETag is what closing it must name.", **{kind.value: _REFERENCE}),
        response_class=Response,
        name=f"show_{kind.value}",
        summary=f"Show {kind.words}",
    )
    def show(request: Request, here: Here, _signed: Viewer, ref: Ref) -> Response:
        with here.reading.lent() as stores:
            return answer(request, reference_as_read(stores, kind, ref)[1])


def _add_writing(kind: ReferenceKind) -> None:
    """Add the routes that open and close references of a kind."""
    name = COLLECTIONS[kind]

    @router.post(
        f"/{name}",
        status_code=HTTPStatus.CREATED,
        responses=documented(HTTPStatus.CONFLICT, HTTPStatus.UNSUPPORTED_MEDIA_TYPE)
        | {201: documents("It is open.", **{kind.value: _REFERENCE})[200]},
        response_class=Response,
        name=f"open_{kind.value}",
        summary=f"Open {kind.words}",
    )
    def open_one(
        here: Here,
        actor: Annotated[Actor, Depends(writer(Role.OPERATOR, f"{kind.value}_open"))],
        wish: NewReference,
    ) -> Response:
        opened = open_reference(here, actor, kind, wish)
        return done({kind.value: reference_document(opened)}, status=HTTPStatus.CREATED)

    @router.patch(
        f"/{name}/{{ref:path}}",
        responses=CHANGING
        | documents("It is closed, and stays as it is.", **{kind.value: _REFERENCE}),
        response_class=Response,
        name=f"close_{kind.value}",
        summary=f"Close {kind.words} and say how it ended",
    )
    def close(
        here: Here,
        actor: Annotated[Actor, Depends(writer(Role.OPERATOR, f"{kind.value}_close"))],
        ref: Ref,
        wish: Closing,
        if_match: Seen = None,
    ) -> Response:
        closed = close_reference(here, actor, kind, ref, wish.resolution, seen=if_match)
        return done({kind.value: reference_document(closed)})


for _kind in ReferenceKind:
    _add_reading(_kind)
    _add_writing(_kind)


def read_references(
    stores: Stores,
    kind: ReferenceKind,
    *,
    state: str | None = None,
    cursor: str | None = None,
    limit: int,
) -> tuple[list[Reference], str | None]:
    """Return a page of references, and the cursor of the next."""
    after = decode_cursor(COLLECTIONS[kind], cursor)
    if after is not None:
        require_ref(after)
    is_open = None if state is None else state == "open"
    found = stores.changes.page(kind, is_open=is_open, after=after, size=limit + 1)
    page = list(found[:limit])
    more = len(found) > limit
    return page, encode_cursor(COLLECTIONS[kind], page[-1].ref) if more else None


def open_reference(
    here: Service, actor: Actor, kind: ReferenceKind, wish: NewReference
) -> Reference:
    """Open a change record or an incident."""
    with here.writing.lent() as stores:
        return stores.changes.open(
            kind, wish.ref, title=wish.title, description=wish.description, by=actor
        )


def close_reference(
    here: Service,
    actor: Actor,
    kind: ReferenceKind,
    ref: str,
    resolution: str,
    *,
    seen: str | None,
) -> Reference:
    """Close a reference as it was seen, and say how it ended."""
    with here.writing.lent() as stores:
        tag, now = reference_as_read(stores, kind, ref)
        require_tag(seen, tag, now)
        return stores.changes.close(kind, ref, resolution=resolution, by=actor)


def reference_as_read(stores: Stores, kind: ReferenceKind, ref: str) -> tuple[str, dict[str, Any]]:
    """Return the tag of a reference as the API gives it, and what it is now."""
    now = {kind.value: reference_document(stores.changes.find(kind, require_ref(ref)))}
    return tag_of_bytes(json_bytes(now)), now
