"""Dead letters: classified, planned, drained, reported and closed."""

import io
from collections.abc import Sequence
from contextlib import closing
from http import HTTPStatus
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from fastapi.responses import FileResponse
from pydantic import Field

from tallgrass.api.answers import OBJECTS, answer, documents, done
from tallgrass.api.bodies import Body, Exact, Words
from tallgrass.api.job_routes import STARTED, started
from tallgrass.api.jobs import Job, JobKind, JobSide
from tallgrass.api.problems import ACTING, documented
from tallgrass.api.service import Here, Service
from tallgrass.api.sign_in import Viewer, writer
from tallgrass.bootstrap.drain_preparing import DrainRequest, PreparedDrain, prepare_drain
from tallgrass.bootstrap.draining import DeadLetterDesk, DrainOptions, DrainPlanRequest
from tallgrass.bootstrap.replay_reporting import reported
from tallgrass.bootstrap.stores import Stores, open_current_stores
from tallgrass.errors import InvalidInput
from tallgrass.governance.actors import Actor, Role
from tallgrass.governance.policy import ReplayMode
from tallgrass.queues.replay_queues import replay_queue_url
from tallgrass.replay.dead_letter_plan import DrainPlan, read_plan
from tallgrass.replay.dead_letters import Cause, Wanted
from tallgrass.replay.drain_report import Thresholds
from tallgrass.replay.run import Run
from tallgrass.views.dead_letters import (
    classes_document,
    classified,
    plan_document,
    preview_document,
    wanted_letters,
)
from tallgrass.views.text import hide_credentials

#: Letters that a request looks at together; the command line looks at more.
LETTERS_MAX: Final = 5000
_NAME_MAX = 200
_TIME_MAX = 40
_NAMES_MAX = 50
_COUNTS = {"type": "object", "additionalProperties": {"type": "integer"}}
_ID_MAX = 200

router = APIRouter(prefix="/dead-letters", tags=["dead letters"])

Names = Annotated[list[str], Query(max_length=_NAMES_MAX, description="repeatable")]
Time = Annotated[str | None, Query(max_length=_TIME_MAX, description="a time or a date")]
Borne = Annotated[int, Query(ge=0, le=1_000_000, description="more than so many is too many")]
RunId = Annotated[str, Path(max_length=_ID_MAX)]
Name = Annotated[Words, Field(max_length=_NAME_MAX)]


class PlanBody(Body):
    """Which letters a plan is to be made of."""

    dataset: list[Name] = Field(default=[], max_length=_NAMES_MAX)
    since: Name | None = None
    until: Name | None = None
    code: list[Name] = Field(default=[], max_length=_NAMES_MAX)
    cause: list[Cause] = Field(default=[], max_length=len(Cause))
    max_events: int | None = Field(default=None, ge=1, le=LETTERS_MAX)
    replay_run_id: Name | None = None

    def wanted(self) -> Wanted:
        """Return which letters are meant."""
        return wanted_letters(
            datasets=self.dataset,
            since=self.since,
            until=self.until,
            codes=self.code,
            causes=[cause.value for cause in self.cause],
        )


class DrainBody(Body):
    """A drain, and on what grounds."""

    plan_sha256: str | None = Field(default=None, pattern="^[0-9a-f]{64}$")
    plan: Exact | None = Field(
        default=None, min_length=1, description="the plan itself, JSON Lines"
    )
    change_ref: Name | None = None
    incident_ref: Name | None = None
    remediation: Words | None = None
    approval_id: Name | None = None
    to_replay_queue: bool = False
    batch: int | None = Field(default=None, ge=1, le=LETTERS_MAX)
    rate: float | None = Field(default=None, ge=0.001, le=1_000_000)
    max_events: int | None = Field(default=None, ge=1, le=LETTERS_MAX)
    dry_run: bool = False


@router.get(
    "",
    responses=documented(HTTPStatus.CONFLICT)
    | documents(
        "Letters by cause, dataset and code; `truncated`: there are more than were looked at.",
        queue={"type": "string"},
        letters={"type": "integer"},
        truncated={"type": "boolean"},
        by_cause=_COUNTS,
        classes=OBJECTS,
    ),
    response_class=Response,
)
def classify(
    request: Request,
    here: Here,
    _signed: Viewer,
    *,
    dataset: Names = [],  # noqa: B006 - FastAPI copies it
    since: Time = None,
    until: Time = None,
    code: Names = [],  # noqa: B006
    cause: Annotated[list[Cause], Query(max_length=len(Cause))] = [],  # noqa: B006
    letters_max: Annotated[int, Query(ge=1, le=LETTERS_MAX)] = LETTERS_MAX,
) -> Response:
    """Sort dead letters by what stands behind them; none is taken away."""
    wanted = wanted_letters(
        datasets=dataset,
        since=since,
        until=until,
        codes=code,
        causes=[each.value for each in cause],
    )
    return answer(request, look(here, wanted, letters_max=letters_max))


@router.post(
    "/plans",
    responses=documented(HTTPStatus.CONFLICT, HTTPStatus.UNSUPPORTED_MEDIA_TYPE)
    | documents(
        "The plan, kept here by its hash for a while.",
        plan_sha256={"type": "string"},
        letters={"type": "integer"},
        by_action=_COUNTS,
        by_reason=_COUNTS,
        header={"type": "object"},
    ),
    response_class=Response,
)
def make_plan(
    here: Here, _actor: Annotated[Actor, Depends(writer(Role.OPERATOR, "dlq_plan"))], body: PlanBody
) -> Response:
    """Write down what a drain would do with each letter; nothing is changed."""
    return done(plan_document(plan(here, body)))


@router.get(
    "/plans/{sha256}",
    responses=documented(HTTPStatus.NOT_FOUND)
    | {
        200: {
            "description": "The plan as its approval is bound to it, byte for byte.",
            "content": {"application/jsonl": {"schema": {"type": "string"}}},
        }
    },
    response_class=Response,
)
def download_plan(here: Here, _signed: Viewer, sha256: RunId) -> Response:
    """Return a plan that was made here."""
    path = here.plans.path(sha256)
    return FileResponse(path, media_type="application/jsonl", filename=f"drain-{sha256[:12]}.jsonl")


@router.post(
    "/drains",
    responses=STARTED
    | documented(HTTPStatus.NOT_FOUND)
    | documents("With dry_run: what a drain of the plan would do now.", by_action=_COUNTS),
    response_class=Response,
)
def drain(
    here: Here,
    actor: Annotated[Actor, Depends(writer(Role.OPERATOR, "dlq_drain"))],
    body: DrainBody,
) -> Response:
    """Take letters out by a plan: record, send, confirm, then delete.

    Broken off at any point, the same call goes on. Without a plan, an open reference and a word on
    what was mended it is refused.
    """
    if body.dry_run:
        return done(preview(here, actor, body))
    return started(begin_drain(here, actor, body))


@router.get(
    "/drains",
    responses=documented() | documents("The latest drains.", drains=OBJECTS),
    response_class=Response,
)
def list_drains(request: Request, here: Here, _signed: Viewer) -> Response:
    """List the drains among the latest runs."""
    with here.reading.lent() as stores:
        return answer(request, {"drains": [drain_line(run) for run in latest_drains(stores)]})


@router.get(
    "/drains/{run_id}",
    responses=documented(HTTPStatus.NOT_FOUND)
    | documents("What came of the letters and of their units.", replay_run_id={"type": "string"}),
    response_class=Response,
)
def report(
    request: Request,
    here: Here,
    _signed: Viewer,
    run_id: RunId,
    *,
    max_duplicates: Borne = 0,
    max_lineage_regressions: Borne = 0,
    max_mismatches: Borne = 0,
) -> Response:
    """Tell what a drain has come to; `exceeded` names what is above what is borne."""
    borne = Thresholds(
        duplicates=max_duplicates,
        lineage_regressions=max_lineage_regressions,
        mismatches=max_mismatches,
    )
    with here.reading.lent() as stores:
        desk = desk_of(here, stores)
        return answer(request, desk.report(desk.find(run_id), borne).document())


@router.post(
    "/drains/{run_id}/close",
    responses=ACTING
    | documents(
        "The report, and whether the queue of the run was removed.",
        queue_removed={"type": "boolean"},
    ),
    response_class=Response,
)
def close(
    here: Here, actor: Annotated[Actor, Depends(writer(Role.OPERATOR, "dlq_close"))], run_id: RunId
) -> Response:
    """End a drain: remove its replay queue if that is empty, and settle its records."""
    return done(close_drain(here, actor, run_id))


def desk_of(here: Service, stores: Stores, *, letters_max: int = LETTERS_MAX) -> DeadLetterDesk:
    """Return who looks at dead letters, over some stores."""
    return DeadLetterDesk(
        here.config, stores, here.catalogue, clock=here.clock, letters_max=letters_max
    )


def look(here: Service, wanted: Wanted, *, letters_max: int) -> dict[str, Any]:
    """Return what the wanted letters died of."""
    with here.reading.lent() as stores:
        desk = desk_of(here, stores, letters_max=letters_max)
        classes = classified(desk.each(wanted))
    name = here.config.text("queue.name")
    return classes_document(name, classes, truncated=desk.truncated)


def plan(here: Service, body: PlanBody) -> DrainPlan:
    """Make a plan and keep it."""
    request = DrainPlanRequest(
        wanted=body.wanted(), max_events=body.max_events, replay_run_id=body.replay_run_id
    )
    with here.reading.lent() as stores:
        made = desk_of(here, stores).plan(request)
    here.plans.keep(made.lines())
    return made


def kept_plan(here: Service, sha256: str) -> DrainPlan:
    """Return a plan that was made here."""
    with here.plans.path(sha256).open("rb") as lines:
        return read_plan(lines)


def preview(here: Service, actor: Actor, body: DrainBody) -> dict[str, object]:
    """Tell what a drain would do now; every guard is asked."""
    with here.writing.lent() as stores:
        prepared = _prepare(here, stores, actor, body)
        fates = desk_of(here, stores).preview(prepared.plan)
    return preview_document(prepared.plan, fates)


def begin_drain(here: Service, actor: Actor, body: DrainBody) -> Job:
    """Ask every guard and register the run at once; take the letters out in the background."""
    here.jobs.require_free(JobKind.DRAIN)
    with here.writing.lent() as stores:
        prepared = _prepare(here, stores, actor, body)
        run = desk_of(here, stores).begin(prepared, by=actor)
    run_id, letters = prepared.order.replay_run_id, len(prepared.plan.rows)

    def work(side: JobSide) -> dict[str, Any]:
        options = DrainOptions(
            to_replay_queue=body.to_replay_queue,
            batch=body.batch,
            rate=body.rate,
            max_events=body.max_events,
            stop=side.stop,
            progress=lambda taken: side.tell({"letters": letters, "done": taken}),
            sleep=side.sleep,
        )
        with (
            reported(here.config, "dlq drain") as recorder,
            closing(
                open_current_stores(here.config, catalogue=here.catalogue, recorder=recorder)
            ) as stores,
        ):
            report = desk_of(here, stores).drain(prepared, options, by=actor, run=run)
        if not body.to_replay_queue:
            return report.document()
        queue = replay_queue_url(here.config.text("queue.url"), run_id)
        return {**report.document(), "replay_queue": hide_credentials(queue)}

    return here.jobs.start(JobKind.DRAIN, run_id, work, by=actor.name)


def close_drain(here: Service, actor: Actor, run_id: str) -> dict[str, object]:
    """Settle a drain and remove its queue."""
    with here.writing.lent() as stores:
        desk = desk_of(here, stores)
        found, removed = desk.close(desk.find(run_id), by=actor)
    return {**found.document(), "queue_removed": removed}


def latest_drains(stores: Stores) -> Sequence[Run]:
    """Return the drains among the latest runs."""
    return [run for run in stores.replay_runs.each() if run.order.mode is ReplayMode.DLQ]


def drain_line(run: Run) -> dict[str, object]:
    """Return what a list tells of a drain."""
    return {
        "replay_run_id": run.order.replay_run_id,
        "actor": run.actor,
        "started_at": run.started_at,
        "finished_at": run.finished_at,
        "change_ref": run.order.change_ref,
        "incident_ref": run.order.incident_ref,
        "plan_sha256": run.order.plan_sha256,
    }


def _prepare(here: Service, stores: Stores, actor: Actor, body: DrainBody) -> PreparedDrain:
    request = DrainRequest(
        plan=_plan_of(here, body),
        change_ref=body.change_ref,
        incident_ref=body.incident_ref,
        remediation=body.remediation,
        approval_id=body.approval_id,
    )
    return prepare_drain(here.config, stores, here.catalogue, request, by=actor)


def _plan_of(here: Service, body: DrainBody) -> DrainPlan | None:
    if body.plan_sha256 is not None and body.plan is not None:
        raise InvalidInput("plan or plan_sha256, not both")
    if body.plan_sha256 is not None:
        return kept_plan(here, body.plan_sha256)
    return None if body.plan is None else read_plan(io.BytesIO(body.plan.encode()))
