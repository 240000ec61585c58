"""Replay runs: begun, taken up again, and what they came to, field by field."""

from collections.abc import Iterable
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from pydantic import Field

from tallgrass.api.answers import NEXT_CURSOR, OBJECTS, answer, documents
from tallgrass.api.bodies import Body
from tallgrass.api.job_routes import STARTED, started
from tallgrass.api.paging import LIMIT_DEFAULT, Cursor, Limit, decode_cursor, encode_cursor
from tallgrass.api.paging import next_link as link_to
from tallgrass.api.problems import ACTING, documented
from tallgrass.api.replay_starting import Pacing, job_of, resuming, start_replay
from tallgrass.api.replay_wish import Word
from tallgrass.api.service import Here, Service
from tallgrass.api.sign_in import Viewer, writer
from tallgrass.bootstrap.replay_preparing import ReplayRequest
from tallgrass.bootstrap.replay_runs import (
    find_run,
    page_of_changes,
    page_of_records,
    page_of_runs,
    replayed_records,
    report_run,
)
from tallgrass.bootstrap.stores import Stores
from tallgrass.governance.actors import Actor, Role
from tallgrass.replay.run import Run, RunRecord, RunReport
from tallgrass.views.places import changes_as_told
from tallgrass.views.records import require_cursor
from tallgrass.views.replays import run_document, run_record_document

#: Each run is added up for the list.
RUNS_MAX = 100
_ID_MAX = 128
_MISMATCHES_MAX = 1_000_000
_RATE_MAX = 1_000_000.0

router = APIRouter(tags=["replay"])

RunId = Annotated[str, Path(max_length=_ID_MAX)]
Operator = Annotated[Actor, Depends(writer(Role.OPERATOR, "replay_run"))]


class Pace(Body):
    """How a run is carried out."""

    rate: Annotated[float, Field(ge=0.001, le=_RATE_MAX)] | None = Field(
        None, description="units a second; can only lower replay.max_records_per_second"
    )
    max_mismatches: Annotated[int, Field(ge=0, le=_MISMATCHES_MAX)] = 0
    work: bool = Field(default=True, description="false: leave the units to workers of ingest")

    def pacing(self) -> Pacing:
        """Return it as a run takes it."""
        return Pacing(records_per_s=self.rate, mismatches_max=self.max_mismatches, work=self.work)


class NewRunWish(Pace):
    """Which plan is run, and by which approval."""

    plan_sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    approval_id: Word | None = None


@router.get(
    "/replay/runs",
    responses=documented(HTTPStatus.NOT_FOUND)
    | documents("A page of runs, newest first.", runs=OBJECTS, next_cursor=NEXT_CURSOR),
    response_class=Response,
)
def list_runs(
    request: Request,
    here: Here,
    _signed: Viewer,
    limit: Annotated[int, Query(ge=1, le=RUNS_MAX)] = 20,
    cursor: Cursor = None,
) -> Response:
    """List replay runs."""
    with here.reading.lent() as stores:
        runs, following = read_runs(stores, cursor=cursor, limit=limit)
    document = {"runs": [run_document(*each) for each in runs], "next_cursor": following}
    return answer(request, document, headers=link_to(request, following))


def read_runs(
    stores: Stores, *, cursor: str | None, limit: int
) -> tuple[list[tuple[Run, RunReport]], str | None]:
    """Return a page of runs, each added up, and the cursor of the next."""
    after = decode_cursor("runs", cursor)
    if after is not None:
        find_run(stores, after)
    runs, following = page_of_runs(stores, after=after, limit=limit)
    return runs, following and encode_cursor("runs", following)


@router.get(
    "/replay/runs/{run_id}",
    responses=documented(HTTPStatus.NOT_FOUND)
    | documents("One run, and the job that works on it here.", run={"type": "object"}),
    response_class=Response,
)
def show_run(request: Request, here: Here, _signed: Viewer, run_id: RunId) -> Response:
    """Tell what a run was for and what it has come to."""
    with here.reading.lent() as stores:
        run = find_run(stores, run_id)
        document = run_document(run, report_run(stores, run))
    return answer(request, {"run": document, "job": job_of(here, run_id)})


@router.get(
    "/replay/runs/{run_id}/records",
    responses=documented(HTTPStatus.NOT_FOUND)
    | documents("What came of each record.", records=OBJECTS, next_cursor=NEXT_CURSOR),
    response_class=Response,
)
def list_run_records(
    request: Request,
    here: Here,
    _signed: Viewer,
    run_id: RunId,
    limit: Limit = LIMIT_DEFAULT,
    cursor: Cursor = None,
) -> Response:
    """List the records of a run, in order of wal_id."""
    after = _after(cursor)
    with here.reading.lent() as stores:
        find_run(stores, run_id)
        found, place = page_of_records(stores, run_id, after=after, limit=limit)
    following = place and encode_cursor("run-records", place)
    document = {"records": _told(here, found), "next_cursor": following}
    return answer(request, document, headers=link_to(request, following))


@router.get(
    "/replay/runs/{run_id}/changes",
    responses=documented(HTTPStatus.NOT_FOUND)
    | documents(
        "Records that changed something, field by field; a page may be empty and have a next.",
        records=OBJECTS,
        next_cursor=NEXT_CURSOR,
    ),
    response_class=Response,
)
def list_run_changes(
    request: Request,
    here: Here,
    _signed: Viewer,
    run_id: RunId,
    *,
    unexpected: Annotated[bool, Query(description="only records that mismatch")] = False,
    limit: Limit = LIMIT_DEFAULT,
    cursor: Cursor = None,
) -> Response:
    """Tell field by field what a run changed."""
    after = _after(cursor)
    with here.reading.lent() as stores:
        find_run(stores, run_id)
        found, place = page_of_changes(
            stores, run_id, after=after, limit=limit, unexpected=unexpected
        )
    following = place and encode_cursor("run-records", place)
    document = {"records": _told(here, found), "next_cursor": following}
    return answer(request, document, headers=link_to(request, following))


@router.get(
    "/replay/units/{wal_id}/changes",
    responses=documented(HTTPStatus.NOT_FOUND)
    | documents("What each run changed in a unit, oldest first.", records=OBJECTS),
    response_class=Response,
)
def list_unit_changes(
    request: Request, here: Here, _signed: Viewer, wal_id: Annotated[str, Path(max_length=_ID_MAX)]
) -> Response:
    """Tell field by field what runs changed in a unit."""
    with here.reading.lent() as stores:
        name = stores.reader.record(wal_id).wal_id
        found = [each for each in replayed_records(stores, name) if each.changes or each.mismatch]
    return answer(request, {"records": _told(here, found)})


@router.post(
    "/replay/runs",
    status_code=HTTPStatus.ACCEPTED,
    responses=STARTED | ACTING,
    response_class=Response,
)
def start_run(here: Here, actor: Operator, wish: NewRunWish) -> Response:
    """Run a kept plan in the background; without the approvals that it needs it is refused."""
    request = ReplayRequest(
        plan_file=here.plans.path(wish.plan_sha256), approval_id=wish.approval_id
    )
    return started(start_replay(here, actor, request, wish.pacing()))


@router.post(
    "/replay/runs/{run_id}/resume",
    status_code=HTTPStatus.ACCEPTED,
    responses=STARTED | ACTING,
    response_class=Response,
)
def resume_run(here: Here, actor: Operator, run_id: RunId, wish: Pace) -> Response:
    """Go on with a run that was stopped, cut off or held by a switch."""
    with here.reading.lent() as stores:
        request = resuming(here, stores, run_id)
    return started(start_replay(here, actor, request, wish.pacing()))


def _told(here: Service, records: Iterable[RunRecord]) -> list[dict[str, Any]]:
    return [run_record_document(each) for each in changes_as_told(here.policies, records)]


def _after(cursor: str | None) -> str | None:
    after = decode_cursor("run-records", cursor)
    if after is not None:
        require_cursor(after)
    return after
