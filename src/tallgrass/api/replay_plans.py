"""Plans of replays: what a run would do, before anything is done."""

from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from pydantic import Field

from tallgrass.api.answers import OBJECTS, answer, documents, done
from tallgrass.api.bodies import Body
from tallgrass.api.etags import Seen, require_tag
from tallgrass.api.problems import documented
from tallgrass.api.replay_wish import PlanText, ReplayWish
from tallgrass.api.service import Here, Service
from tallgrass.api.sign_in import Signed, Viewer, require_beginning, writer
from tallgrass.bootstrap.approving import subject_of_plan
from tallgrass.bootstrap.plan_making import MadePlan, compare_plan, make_plan
from tallgrass.governance.actors import Actor, Role
from tallgrass.governance.approvals import Subject
from tallgrass.governance.audit import AuditEntry
from tallgrass.replay.selection_file import render_selection

ROWS_SHOWN = 100
_ROWS_MAX = 1000
_SHA256_MAX = 64
_PLAN = {
    "header": {"type": "object"},
    "summary": {"type": "object"},
    "guards": OBJECTS,
    "scope": {"type": ["object", "null"]},
    "plan_sha256": {"type": "string"},
    "rows": OBJECTS,
}

router = APIRouter(tags=["replay"])

Sha256 = Annotated[str, Path(max_length=_SHA256_MAX, description="of the plan's bytes")]


class PlanQuestion(ReplayWish):
    """A wish for a replay, and how many rows of its plan to return."""

    rows: Annotated[int, Field(ge=0, le=_ROWS_MAX)] = ROWS_SHOWN
    compare: bool = Field(default=False, description="also tell what a re-run would change")


class BroughtPlan(Body):
    """A plan that was written elsewhere, as `replay --dry-run --plan-out` writes it."""

    plan: PlanText


@router.get(
    "/replay/plan",
    responses=documented(HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT)
    | documents("The plan; its ETag is its SHA-256. Nothing was changed.", **_PLAN),
    response_class=Response,
)
def look_at_plan(
    request: Request, here: Here, signed: Viewer, question: Annotated[PlanQuestion, Query()]
) -> Response:
    """Make the plan of a replay and no more: a dry run."""
    require_prefix(request, signed, question)
    made, preview = dry_run(here, question, rows=question.rows, compare=question.compare)
    document = {**made.document, "rows": made.rows}
    if preview is not None:
        document["preview"] = preview
    return answer(request, document, tag=f'"{made.sha256}"')


@router.get(
    "/replay/selection",
    responses=documented()
    | {
        200: {
            "description": "The selection as a file that `--selection-file` takes.",
            "content": {"application/yaml": {"schema": {"type": "string"}}},
        }
    },
    response_class=Response,
)
def save_selection(here: Here, _signed: Viewer, wish: Annotated[ReplayWish, Query()]) -> Response:
    """Give the selection of a wish as a file, for later or for somebody else."""
    asked = wish.request()
    text = render_selection(asked.selection, env=here.config.text("env"), reason=asked.reason)
    told = {"Content-Disposition": 'attachment; filename="selection.yaml"'}
    return Response(text.encode(), media_type="application/yaml", headers=told)


def require_prefix(request: Request, signed: Signed, wish: ReplayWish) -> None:
    """Refuse a wish whose prefix could tell a place digit by digit to who may not know it."""
    require_beginning(request, signed, wish.selected().selection.bucket_prefix, "replay_plan")


def dry_run(
    here: Service, wish: ReplayWish, *, rows: int, compare: bool
) -> tuple[MadePlan, dict[str, Any] | None]:
    """Plan a wish by reading only; with `compare`, tell what a re-run would change."""
    asked = wish.request()
    with here.reading.lent() as stores:
        made = make_plan(here.config, stores, here.catalogue, asked, rows_max=rows)
        preview = (
            compare_plan(here.config, stores, here.catalogue, asked, made) if compare else None
        )
    return made, preview


@router.post(
    "/replay/plans",
    status_code=HTTPStatus.CREATED,
    responses=documented(
        HTTPStatus.NOT_FOUND,
        HTTPStatus.CONFLICT,
        HTTPStatus.PRECONDITION_FAILED,
        HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    )
    | {
        201: {
            "description": "The plan is kept under its SHA-256, for an approval and for its run.",
            "content": {
                "application/json": {
                    "schema": {
                        "type": "object",
                        "required": ["plan_sha256"],
                        "properties": {"plan_sha256": {"type": "string"}},
                    }
                }
            },
        }
    },
    response_class=Response,
)
def keep_plan(
    here: Here,
    actor: Annotated[Actor, Depends(writer(Role.OPERATOR, "plan_keep"))],
    wish: ReplayWish | BroughtPlan,
    if_match: Seen = None,
) -> Response:
    """Make a plan and keep it, or keep one that is brought.

    With If-Match, a plan that is no longer the one that was looked at is refused.
    """
    if isinstance(wish, BroughtPlan):
        subject = keep_brought(here, actor, wish.plan.encode(errors="replace"))
        document: dict[str, Any] = {"plan_sha256": subject.sha256, "header": subject.summary}
    else:
        made = keep_made(here, actor, wish, seen=if_match)
        document = {**made.document, "rows": made.rows}
    where = {"Location": f"/api/v1/replay/plans/{document['plan_sha256']}"}
    return done(document, status=HTTPStatus.CREATED, headers=where)


def keep_made(here: Service, actor: Actor, wish: ReplayWish, *, seen: str | None) -> MadePlan:
    """Make a plan again and keep it; one that is not as it was seen is refused."""
    asked = wish.request()
    with here.writing.lent() as stores:
        made = make_plan(
            here.config, stores, here.catalogue, asked, rows_max=ROWS_SHOWN, keeping=here.plans
        )
        if seen is not None:
            changed = {"plan_sha256": made.sha256, "summary": made.document["summary"]}
            require_tag(seen, f'"{made.sha256}"', changed)
        stores.audit.append([_kept(actor, made.sha256, made.replay_run_id)])
    return made


def keep_brought(here: Service, actor: Actor, plan: bytes) -> Subject:
    """Keep a plan of whatever purpose that somebody brings; what is none is refused."""
    digest = here.plans.keep([plan])
    try:
        with here.plans.path(digest).open("rb") as lines:
            subject = subject_of_plan(lines)
    except BaseException:
        here.plans.path(digest).unlink()
        raise
    with here.writing.lent() as stores:
        stores.audit.append([_kept(actor, digest, str(subject.summary.get("replay_run_id", "")))])
    return subject


def _kept(actor: Actor, digest: str, run_id: str) -> AuditEntry:
    detail = {"replay_run_id": run_id} if run_id else {}
    subject = f"plan:{digest}"
    return AuditEntry(
        actor=actor.name, action="plan_keep", subject=subject, reason="", detail=detail
    )


@router.get(
    "/replay/plans/{sha256}",
    responses=documented(HTTPStatus.NOT_FOUND)
    | {
        200: {
            "description": "The plan as it is approved and run: JSON Lines.",
            "content": {"application/x-ndjson": {"schema": {"type": "string"}}},
        }
    },
    response_class=Response,
)
def show_plan(here: Here, _signed: Viewer, sha256: Sha256) -> Response:
    """Give a kept plan whole; `tallgrass replay --plan FILE` takes it."""
    body = here.plans.path(sha256).read_bytes()
    told = {
        "Content-Disposition": f'attachment; filename="plan-{sha256[:12]}.jsonl"',
        "Cache-Control": "private, no-cache",
        "ETag": f'"{sha256}"',
    }
    return Response(body, media_type="application/x-ndjson", headers=told)
