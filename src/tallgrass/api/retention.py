"""Old rows: what may leave, what left, and a run that lets them leave."""

from contextlib import closing
from http import HTTPStatus
from itertools import islice
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from pydantic import Field

from tallgrass.api.answers import OBJECTS, answer, documents
from tallgrass.api.bodies import Body
from tallgrass.api.job_routes import STARTED, started
from tallgrass.api.jobs import Job, JobKind, JobSide
from tallgrass.api.paging import LIMIT_DEFAULT, Limit
from tallgrass.api.problems import documented
from tallgrass.api.service import Here, Service
from tallgrass.api.sign_in import Viewer, require_exact, writer
from tallgrass.bootstrap.retaining import Step, count_expirable, open_retention
from tallgrass.bootstrap.retention_run import (
    RATE,
    RetentionAround,
    RetentionRequest,
    apply_retention,
    archive_search,
)
from tallgrass.bootstrap.stores import open_current_stores
from tallgrass.governance.actors import Actor, Role
from tallgrass.inventory.retention import ArchiveKind, kinds_named
from tallgrass.views.retention import archive_document, plan_document

_TEXT_MAX = 100
_ARCHIVES_MAX = 1000
_NUMBER_MAX = 2**63 - 1

router = APIRouter(prefix="/retention", tags=["retention"])

Kinds = Annotated[list[ArchiveKind], Query(max_length=len(ArchiveKind))]
Text = Annotated[str | None, Query(max_length=_TEXT_MAX)]


class ApplyBody(Body):
    """What may leave, and how fast."""

    kinds: list[ArchiveKind] = Field(default=[], max_length=len(ArchiveKind))
    with_items: bool = True
    rows_max: int | None = Field(default=None, ge=1, le=_NUMBER_MAX)
    rate: float = Field(default=RATE, ge=0.001, le=1_000_000)


@router.get(
    "/plan",
    responses=documented()
    | documents("What may leave now, by kind.", plan=OBJECTS, expirable={"type": "object"}),
    response_class=Response,
)
def plan(
    request: Request,
    here: Here,
    _signed: Viewer,
    kind: Kinds = [],  # noqa: B006 - FastAPI copies it
) -> Response:
    """Count what is older than retention.*_days and may leave; nothing is written."""
    with here.reading.lent() as stores:
        found = open_retention(here.config, stores).plan(_kinds(kind))
        items = count_expirable(here.config, stores)
    document = {"plan": [plan_document(each) for each in found], "expirable": items}
    return answer(request, document)


@router.get(
    "/archives",
    responses=documented() | documents("Archives, oldest first.", archives=OBJECTS),
    response_class=Response,
)
def archives(
    request: Request,
    here: Here,
    _signed: Viewer,
    kind: Kinds = [],  # noqa: B006 - FastAPI copies it
) -> Response:
    """List archives with their ranges and hashes."""
    wanted = _kinds(kind)
    with here.reading.lent() as stores:
        found = [
            archive_document(each)
            for each in islice(open_retention(here.config, stores).archives(), _ARCHIVES_MAX)
            if each.file.kind in wanted
        ]
    return answer(request, {"archives": found})


@router.get(
    "/archives/{archive_id}",
    responses=documented(HTTPStatus.NOT_FOUND)
    | documents("An archive and its first rows.", archive={"type": "object"}, rows=OBJECTS),
    response_class=Response,
)
def show(
    request: Request,
    here: Here,
    signed: Viewer,
    archive_id: Annotated[int, Path(ge=1, le=_NUMBER_MAX)],
    limit: Limit = LIMIT_DEFAULT,
) -> Response:
    """Check an archive's file against its recorded hash, and show its first rows."""
    require_exact(request, signed, "retention_show")
    with here.reading.lent() as stores:
        retention = open_retention(here.config, stores)
        archive = retention.archive(archive_id)
        rows = list(islice(retention.rows(archive), limit))
    return answer(request, {"archive": archive_document(archive), "rows": rows})


@router.get(
    "/search",
    responses=documented() | documents("Archived rows, as they are found.", rows=OBJECTS),
    response_class=Response,
)
def search(  # noqa: PLR0913 - one a filter
    request: Request,
    here: Here,
    signed: Viewer,
    *,
    wal_id: Text = None,
    event: Text = None,
    since: Text = None,
    until: Text = None,
    kind: ArchiveKind | None = None,
    limit: Limit = LIMIT_DEFAULT,
) -> Response:
    """Find archived attempts of a unit, an archived event, or rows of a time."""
    require_exact(request, signed, "retention_search")
    wanted = archive_search(wal_id=wal_id, event=event, since=since, until=until, kind=kind)
    with here.reading.lent() as stores:
        found = open_retention(here.config, stores).search(wanted)
        rows = [
            {"archive": archive.archive_id, "kind": archive.file.kind.value, "row": row}
            for archive, row in islice(found, limit)
        ]
    return answer(request, {"rows": rows})


@router.post("/runs", responses=STARTED, status_code=HTTPStatus.ACCEPTED, response_class=Response)
def apply(
    here: Here,
    actor: Annotated[Actor, Depends(writer(Role.OPERATOR, "archive_record"))],
    body: ApplyBody,
) -> Response:
    """Write what is old to archives, read them back, and remove what they hold."""
    return started(begin_retention(here, actor, body))


def begin_retention(here: Service, actor: Actor, body: ApplyBody) -> Job:
    """Let old rows leave, in the background; stopped or cut off, the next run goes on."""
    request = RetentionRequest(
        kinds=_kinds(body.kinds),
        with_items=body.with_items,
        rows_max=body.rows_max,
        rate=body.rate,
    )

    def work(side: JobSide) -> dict[str, Any]:
        removed = 0

        def tell(step: Step) -> None:
            nonlocal removed
            removed += step.rows if step.what == "removed" else 0
            side.tell({"removed": removed})

        around = RetentionAround(stop=side.stop, sleep=side.sleep, tell=tell)
        with closing(open_current_stores(here.config)) as stores:
            done, items = apply_retention(here.config, stores, request, around, by=actor)
        return {"archives": [archive_document(each) for each in done], "expired": items}

    return here.jobs.start(JobKind.RETENTION, "retention", work, by=actor.name)


def _kinds(kinds: list[ArchiveKind]) -> tuple[ArchiveKind, ...]:
    return kinds_named([kind.value for kind in kinds])
