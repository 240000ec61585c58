"""Units that are held for a person: list, show, hold, ask for a release, release."""

from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Request, Response
from pydantic import Field

from tallgrass.api.answers import NEXT_CURSOR, OBJECTS, answer, documents, done
from tallgrass.api.bodies import Body, Words
from tallgrass.api.etags import require_version, tag_of_version
from tallgrass.api.filters import TEXT_MAX, Names, Text
from tallgrass.api.paging import LIMIT_DEFAULT, Cursor, Limit, next_link
from tallgrass.api.problems import ACTING, documented
from tallgrass.api.records import Order, as_told, read_page
from tallgrass.api.service import Here, Service
from tallgrass.api.sign_in import Viewer, writer
from tallgrass.bootstrap.approving import subject_of_release
from tallgrass.bootstrap.governing import (
    Moved,
    held_by,
    held_document,
    release_units,
    released_document,
)
from tallgrass.bootstrap.stores import Stores
from tallgrass.governance.actors import Actor, Role
from tallgrass.governance.approvals import RELEASE_UNITS_MAX, Approval
from tallgrass.ledger.vocabulary import Status
from tallgrass.views.records import record_filter

_URI_MAX = 2100
_ON_UNITS = documented(
    HTTPStatus.NOT_FOUND,
    HTTPStatus.CONFLICT,
    HTTPStatus.PRECONDITION_FAILED,
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
)

router = APIRouter(prefix="/quarantine", tags=["quarantine"])

Name = Annotated[Words, Field(max_length=TEXT_MAX)]


class HeldUnit(Body):
    """A unit, at the version that somebody saw."""

    wal_id: Name
    version: int = Field(ge=0, le=2**63 - 1)


class UnitsBody(Body):
    """Units, at the versions that somebody saw, and why they are to be held or released."""

    units: list[HeldUnit] = Field(min_length=1, max_length=RELEASE_UNITS_MAX)
    reason: Words


class ReleaseBody(Body):
    """A release: exactly the units that its approval names."""

    units: list[Name] = Field(min_length=1, max_length=RELEASE_UNITS_MAX)
    approval_id: Name | None = None


@router.get(
    "",
    responses=documented()
    | documents(
        "Quarantined units in order of data time.",
        units=OBJECTS,
        next_cursor=NEXT_CURSOR,
    ),
    response_class=Response,
)
def list_units(
    request: Request,
    here: Here,
    _signed: Viewer,
    *,
    dataset: Names = [],  # noqa: B006 - FastAPI copies it
    error_code: Text = None,
    limit: Limit = LIMIT_DEFAULT,
    cursor: Cursor = None,
) -> Response:
    """List units that are held for a person."""
    wanted = held_filter(dataset, error_code)
    with here.reading.lent() as stores:
        units, following = read_page(stores, wanted, order=Order.OLDEST, cursor=cursor, limit=limit)
    document = {"units": as_told(here, units), "next_cursor": following}
    return answer(request, document, headers=next_link(request, following))


@router.get(
    "/{wal_id}",
    responses=documented(HTTPStatus.NOT_FOUND)
    | documents(
        "Why it is held; its ETag is its version.",
        record={"type": "object"},
        held={"type": "object"},
        newer_object={"type": ["object", "null"]},
    ),
    response_class=Response,
)
def show_unit(
    request: Request, here: Here, _signed: Viewer, wal_id: Annotated[str, Path(max_length=_URI_MAX)]
) -> Response:
    """Tell why a unit is held, and since when."""
    with here.reading.lent() as stores:
        record = stores.reader.record(wal_id)
        held = held_by(stores, record)
    (record,) = as_told(here, [record])
    document = {"record": record, "held": held, "newer_object": record.next_object}
    return answer(request, document, tag=tag_of_version(record.version))


@router.post(
    "/holds",
    responses=_ON_UNITS
    | documents(
        "The units that are held now, and those that cannot be, each with why.",
        held={"type": "array", "items": {"type": "string"}},
        refused={"type": "object"},
    ),
    response_class=Response,
)
def hold(
    here: Here,
    actor: Annotated[Actor, Depends(writer(Role.OPERATOR, "quarantine"))],
    body: UnitsBody,
) -> Response:
    """Take pending or failed units out of the flow; one whose version has moved on is refused."""
    with here.reading.lent() as stores:
        seen = [
            (_require_as_seen(stores, each.wal_id, each.version), each.version)
            for each in body.units
        ]
    return done(held_document(hold_now(here, actor, seen, body.reason)))


@router.post(
    "/requests",
    responses=_ON_UNITS
    | documents("The approval that was asked for.", approval={"type": "object"}),
    response_class=Response,
)
def ask(
    here: Here,
    actor: Annotated[Actor, Depends(writer(Role.OPERATOR, "approval_request"))],
    body: UnitsBody,
) -> Response:
    """Ask for the approval of a release; one whose version has moved on is refused."""
    units = [(each.wal_id, each.version) for each in body.units]
    return done({"approval": ask_for_release(here, actor, units, body.reason)})


@router.post(
    "/releases",
    responses=ACTING
    | documents(
        "The units that are due now.",
        released={"type": "array", "items": {"type": "string"}},
        approval_id={"type": "string"},
    ),
    response_class=Response,
)
def release(
    here: Here,
    actor: Annotated[Actor, Depends(writer(Role.OPERATOR, "release"))],
    body: ReleaseBody,
) -> Response:
    """Let units go on, all or none, under an approval for exactly these as they are now."""
    return done(release_now(here, actor, body.units, body.approval_id))


def held_filter(datasets: list[str], error_code: str | None) -> Any:
    """Return which held units are meant."""
    return record_filter(
        datasets=datasets, statuses=[Status.QUARANTINED.value], error_code=error_code
    )


def ask_for_release(
    here: Service, actor: Actor, units: list[tuple[str, int]], reason: str
) -> Approval:
    """Ask for the approval of a release of units as somebody saw them."""
    with here.writing.lent() as stores:
        for wal_id, version in units:
            _require_as_seen(stores, wal_id, version)
        subject = subject_of_release(stores, here.policies, [wal_id for wal_id, _ in units])
        return stores.approvals.request(subject, reason=reason, by=actor)


def hold_now(here: Service, actor: Actor, seen: list[tuple[str, int]], reason: str) -> Moved:
    """Hold units at the versions that somebody saw, and tell which cannot be held."""
    with here.writing.lent() as stores:
        return stores.interventions.quarantine(seen, reason=reason, actor=actor)


def release_now(
    here: Service, actor: Actor, units: list[str], approval_id: str | None
) -> dict[str, object]:
    """Release units and tell under whose approval."""
    with here.writing.lent() as stores:
        released = release_units(here.config, stores, units, approval_id=approval_id, by=actor)
    return released_document(released)


def _require_as_seen(stores: Stores, name: str, version: int) -> str:
    record = stores.reader.record(name)
    changed = {"wal_id": record.wal_id, "status": record.status.value, "version": record.version}
    require_version(version, record.version, changed)
    return record.wal_id
