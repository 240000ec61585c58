"""The catalog's upkeep: collections, validation, the copy in pgstac. Items are at `/stac`."""

from contextlib import closing
from dataclasses import asdict
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request, Response
from pydantic import Field

from tallgrass.api.answers import answer, documents, done
from tallgrass.api.bodies import Body, Words
from tallgrass.api.job_routes import STARTED, started
from tallgrass.api.jobs import Job, JobKind, JobSide
from tallgrass.api.problems import documented
from tallgrass.api.service import Here, Service
from tallgrass.api.sign_in import Viewer, writer
from tallgrass.bootstrap.catalog import refresh_collections
from tallgrass.bootstrap.schemas import default_cache, open_validator
from tallgrass.bootstrap.stores import open_current_stores
from tallgrass.bootstrap.validating import ValidationReport, judge_catalog
from tallgrass.governance.actors import Actor, Role
from tallgrass.governance.audit import AuditEntry
from tallgrass.views.text import plain

_NAME_MAX = 200
_NAMES_MAX = 100
#: Told while it runs, after so many documents.
_TELL_EVERY = 100

router = APIRouter(prefix="/catalog", tags=["catalog"])


class ValidateBody(Body):
    """Which collections to validate; all if none is named."""

    collections: list[Annotated[Words, Field(max_length=_NAME_MAX)]] = Field(
        default=[], max_length=_NAMES_MAX
    )


@router.get(
    "/projection",
    responses=documented()
    | documents(
        "How far the copy in pgstac is behind; null where there is none.",
        projection={"type": ["object", "null"]},
    ),
    response_class=Response,
)
def projection(request: Request, here: Here, _signed: Viewer) -> Response:
    """Tell the lag of the copy."""
    with here.reading.lent() as stores:
        return answer(request, {"projection": plain(stores.catalog.projection_lag())})


@router.post(
    "/collections/refresh",
    responses=documented(HTTPStatus.UNSUPPORTED_MEDIA_TYPE)
    | documents(
        "How many there are, and how many changed.",
        collections={"type": "integer"},
        changed={"type": "integer"},
    ),
    response_class=Response,
)
def refresh(
    here: Here, actor: Annotated[Actor, Depends(writer(Role.OPERATOR, "collections_refresh"))]
) -> Response:
    """Renew extents and summaries from the items, and words from the dataset files."""
    with here.writing.lent() as stores:
        number, changed = refresh_collections(stores, here.catalogue)
        entry = AuditEntry(
            actor=actor.name,
            action="collections_refresh",
            subject="catalog",
            reason="asked for by the API",
            detail={"changed": changed},
        )
        stores.audit.append([entry])
    return done({"collections": number, "changed": changed})


@router.post(
    "/validations", responses=STARTED, status_code=HTTPStatus.ACCEPTED, response_class=Response
)
def validate(
    here: Here,
    actor: Annotated[Actor, Depends(writer(Role.OPERATOR, "stac_validate"))],
    body: ValidateBody,
) -> Response:
    """Check the catalog against STAC and every extension; no schema is fetched for it."""
    return started(begin_validation(here, actor, body.collections))


def begin_validation(here: Service, actor: Actor, collections: list[str]) -> Job:
    """Judge the catalog in the background."""
    validator = open_validator(cache=default_cache())

    def work(side: JobSide) -> dict[str, Any]:
        report = ValidationReport()
        with closing(open_current_stores(here.config, read_only=True)) as stores:
            for checked in judge_catalog(stores, here.catalogue, collections, validator, report):
                if checked % _TELL_EVERY == 0:
                    side.tell({"checked": checked})
                if side.stop():
                    break
        return asdict(report)

    return here.jobs.start(JobKind.VALIDATE, "catalog", work, by=actor.name)
