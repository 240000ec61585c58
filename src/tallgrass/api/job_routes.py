"""Jobs: what runs in the background of this server, and the results."""

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Request, Response

from tallgrass.api.answers import answer, documents, done
from tallgrass.api.jobs import Job, JobKind, JobState
from tallgrass.api.problems import documented
from tallgrass.api.service import Here, Service
from tallgrass.api.sign_in import Viewer, writer
from tallgrass.governance.actors import Actor, Role
from tallgrass.governance.audit import AuditEntry

_ID_MAX = 80
JOB = {
    "type": "object",
    "required": ["job_id", "kind", "state", "started_by", "started_at"],
    "properties": {
        "job_id": {"type": "string"},
        "kind": {"enum": [kind.value for kind in JobKind]},
        "state": {"enum": [state.value for state in JobState]},
        "progress": {"type": "object"},
        "result": {"type": ["object", "null"]},
        "problem": {"type": ["object", "null"]},
    },
}
#: The answer of a route that starts one.
STARTED = documented(HTTPStatus.CONFLICT, HTTPStatus.UNSUPPORTED_MEDIA_TYPE) | {
    202: {
        "description": "It runs; look at it by /jobs/{job_id}.",
        "content": {
            "application/json": {
                "schema": {"type": "object", "required": ["job"], "properties": {"job": JOB}}
            }
        },
    }
}

router = APIRouter(tags=["jobs"])

JobId = Annotated[str, Path(max_length=_ID_MAX)]


def started(job: Job) -> Response:
    """Answer a request that began a job."""
    where = {"Location": f"/api/v1/jobs/{job.job_id}"}
    return done({"job": job}, status=HTTPStatus.ACCEPTED, headers=where)


@router.get(
    "/jobs",
    responses=documented()
    | documents("What runs, and what ended lately.", jobs={"type": "array", "items": JOB}),
    response_class=Response,
)
def list_jobs(
    request: Request, here: Here, _signed: Viewer, kind: JobKind | None = None
) -> Response:
    """List jobs, the latest first; they are forgotten when the server ends."""
    return answer(request, {"jobs": here.jobs.all(kind)})


@router.get(
    "/jobs/{job_id}",
    responses=documented(HTTPStatus.NOT_FOUND) | documents("One job.", job=JOB),
    response_class=Response,
)
def show_job(request: Request, here: Here, _signed: Viewer, job_id: JobId) -> Response:
    """Tell how far a job is, or what it came to."""
    return answer(request, {"job": here.jobs.find(job_id)})


@router.post(
    "/jobs/{job_id}/stop",
    responses=documented(HTTPStatus.NOT_FOUND, HTTPStatus.UNSUPPORTED_MEDIA_TYPE)
    | documents("The job; it ends after what it has in hand.", job=JOB),
    response_class=Response,
)
def stop_job(
    here: Here, actor: Annotated[Actor, Depends(writer(Role.OPERATOR, "job_stop"))], job_id: JobId
) -> Response:
    """Ask a job to end; what it did stays, and it can be begun again."""
    return done({"job": stop(here, actor, job_id)})


def stop(here: Service, actor: Actor, job_id: str) -> Job:
    """Stop a job and log who did."""
    job = here.jobs.find(job_id)
    entry = AuditEntry(
        actor=actor.name,
        action="job_stop",
        subject=f"job:{job.job_id}",
        reason=f"stop the {job.kind.value}",
        detail={"kind": job.kind.value, "started_by": job.started_by},
    )
    with here.writing.lent() as stores:
        stores.audit.append([entry])
    return here.jobs.stop(job_id)
