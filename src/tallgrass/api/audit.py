"""The audit log: its entries, the check of its chain, and the verification of the catalog."""

from collections.abc import Callable, Mapping
from contextlib import closing
from enum import StrEnum
from http import HTTPStatus
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import Field

from tallgrass.api.answers import NEXT_CURSOR, OBJECTS, answer, documents, done
from tallgrass.api.bodies import Body
from tallgrass.api.job_routes import STARTED, started
from tallgrass.api.jobs import Job, JobKind, JobSide
from tallgrass.api.paging import LIMIT_DEFAULT, Cursor, Limit, decode_cursor, encode_cursor
from tallgrass.api.paging import next_link as link_to
from tallgrass.api.problems import documented
from tallgrass.api.replay_wish import UnitWish
from tallgrass.api.service import Here, Service
from tallgrass.api.sign_in import Viewer, writer
from tallgrass.bootstrap.auditing import check_audit, heads_to_check, heads_to_extend, seal_audit
from tallgrass.bootstrap.stores import Stores, open_current_stores
from tallgrass.bootstrap.verifying import VerifyRequest, verify
from tallgrass.errors import InvalidInput
from tallgrass.governance.actors import Actor, Role
from tallgrass.governance.audit import AuditEntry, StoredEntry
from tallgrass.views.governance import entry_document
from tallgrass.views.places import judgement_as_told, telling_of

_TEXT_MAX = 300
_SAMPLE_MAX = 100_000
_SEED_MAX = 2**53
#: Told of a chain that is broken at many places.
FAULTS_MAX: Final = 100

router = APIRouter(tags=["governance"])

Text = Annotated[str | None, Query(max_length=_TEXT_MAX)]


class EntryOrder(StrEnum):
    """The order of entries, by the time at which they were written."""

    OLDEST = "oldest"
    NEWEST = "newest"


class CheckWish(Body):
    """How far the check goes."""

    archives: bool = Field(default=False, description="also read archived entries back")


class VerifyWish(UnitWish):
    """Which units are made again and compared; without a condition all."""

    reread: bool = Field(default=False, description="read each object again, too")
    sample: Annotated[int, Field(ge=1, le=_SAMPLE_MAX)] | None = None
    seed: Annotated[int, Field(ge=-_SEED_MAX, le=_SEED_MAX)] = 0


class _Stopped(Exception):
    """Raised to end a walk that somebody stopped; the job catches it."""


@router.get(
    "/audit",
    responses=documented()
    | documents("A page of entries.", entries=OBJECTS, next_cursor=NEXT_CURSOR),
    response_class=Response,
)
def list_entries(
    request: Request,
    here: Here,
    _signed: Viewer,
    *,
    actor: Text = None,
    action: Text = None,
    subject: Text = None,
    order: EntryOrder = EntryOrder.OLDEST,
    limit: Limit = LIMIT_DEFAULT,
    cursor: Cursor = None,
) -> Response:
    """List entries of the log; all filters hold together."""
    given = {"actor": actor, "action": action, "subject": subject}
    with here.reading.lent() as stores:
        entries, following = read_entries(stores, given, order=order, cursor=cursor, limit=limit)
    document = {"entries": [entry_document(each) for each in entries], "next_cursor": following}
    return answer(request, document, headers=link_to(request, following))


def read_entries(
    stores: Stores,
    given: Mapping[str, str | None],
    *,
    order: EntryOrder,
    cursor: str | None,
    limit: int,
) -> tuple[list[StoredEntry], str | None]:
    """Return a page of entries, and the cursor of the next."""
    kind = f"audit-{order.value}"
    place = _place(decode_cursor(kind, cursor))
    if order is EntryOrder.NEWEST:
        found = stores.audit.latest(before=place, size=limit + 1, **given)
    else:
        found = stores.audit.entries(after=place or 0, size=limit + 1, **given)
    page = found[:limit]
    more = len(found) > limit
    return page, encode_cursor(kind, str(page[-1].entry_id)) if more else None


@router.post(
    "/audit/seal",
    responses=documented(HTTPStatus.CONFLICT, HTTPStatus.UNSUPPORTED_MEDIA_TYPE)
    | documents("The chain's head, and where it is written down.", head={"type": "object"}),
    response_class=Response,
)
def seal(
    here: Here, actor: Annotated[Actor, Depends(writer(Role.OPERATOR, "audit_seal"))]
) -> Response:
    """Chain all entries and write the head to the server's anchor file (audit.anchor_file)."""
    return done(sealed(here, actor))


def sealed(here: Service, actor: Actor) -> dict[str, Any]:
    """Seal the log, the entry of who did it last."""
    heads = heads_to_extend(here.config)
    entry = AuditEntry(actor=actor.name, action="audit_seal", subject="audit:*", reason="")
    with here.writing.lent() as stores:
        stores.audit.append([entry])
        return seal_audit(stores, heads, clock=here.clock).document()


@router.post(
    "/audit/check",
    status_code=HTTPStatus.ACCEPTED,
    responses=STARTED,
    response_class=Response,
)
def check(
    here: Here,
    actor: Annotated[Actor, Depends(writer(Role.VIEWER, "audit_check"))],
    wish: CheckWish,
) -> Response:
    """Walk the whole chain in the background; the job's result names every fault."""
    return started(start_check(here, actor, archives=wish.archives))


def start_check(here: Service, actor: Actor, *, archives: bool = False) -> Job:
    """Begin a walk over the chain."""
    heads = heads_to_check(here.config)

    def work(side: JobSide) -> Mapping[str, Any]:
        def walk(stores: Stores, tell: Callable[[int], None]) -> Mapping[str, Any]:
            report = check_audit(here.config, stores, heads, archives=archives, progress=tell)
            return {
                **report.document(faults_max=FAULTS_MAX),
                "faults_total": len(report.faults),
            }

        return _walking(here, side, walk, "checked")

    return here.jobs.start(JobKind.AUDIT_CHECK, "the audit log", work, by=actor.name)


@router.post(
    "/verify",
    status_code=HTTPStatus.ACCEPTED,
    responses=STARTED,
    response_class=Response,
    tags=["replay"],
)
def verify_catalog(
    here: Here,
    actor: Annotated[Actor, Depends(writer(Role.OPERATOR, "verify"))],
    wish: VerifyWish,
) -> Response:
    """Make items again of the kept evidence in the background, and compare the bytes."""
    return started(start_verify(here, actor, wish))


def start_verify(here: Service, actor: Actor, wish: VerifyWish) -> Job:
    """Begin to verify; a selection that is none is refused at once."""
    request = VerifyRequest(
        selection=wish.selected().selection,
        reread=wish.reread,
        sample=wish.sample,
        seed=wish.seed,
    )

    def work(side: JobSide) -> Mapping[str, Any]:
        def walk(stores: Stores, tell: Callable[[int], None]) -> Mapping[str, Any]:
            report = verify(here.config, stores, request, catalogue=here.catalogue, progress=tell)
            document = report.document()
            units = [
                judgement_as_told(each, telling_of(here.policies, each["dataset"]))
                for each in document["units"]
            ]
            return {"holds": report.holds, **document, "units": units}

        return _walking(here, side, walk, "verified")

    title = f"{'a sample of ' if wish.sample else ''}{', '.join(wish.dataset) or 'all datasets'}"
    return here.jobs.start(JobKind.VERIFY, title, work, by=actor.name)


_Walk = Callable[[Stores, Callable[[int], None]], Mapping[str, Any]]


def _walking(here: Service, side: JobSide, walk: _Walk, what: str) -> Mapping[str, Any]:
    """Read on with a connection of the job's own until the end, or until somebody says stop."""
    done_so_far = 0

    def tell(number: int) -> None:
        nonlocal done_so_far
        done_so_far = number
        side.tell({what: number})
        if side.stop():
            raise _Stopped

    with closing(open_current_stores(here.config, read_only=True)) as stores:
        try:
            return walk(stores, tell)
        except _Stopped:
            return {what: done_so_far, "stopped": True}


def _place(text: str | None) -> int | None:
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > len(str(2**62)):
        raise InvalidInput("cursor: not one that a page of this list ended with")
    return int(text)
