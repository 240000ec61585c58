"""The installation itself: configuration, database, what the doctor finds, metrics."""

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

import tallgrass
from tallgrass.api.answers import OBJECTS, answer, documents
from tallgrass.api.problems import documented
from tallgrass.api.service import Here
from tallgrass.api.sign_in import Viewer
from tallgrass.bootstrap.audit_anchors import read_anchors
from tallgrass.bootstrap.config_report import check_config, config_document
from tallgrass.bootstrap.stores import check_database
from tallgrass.bootstrap.telemetry_files import ingest_telemetry
from tallgrass.doctor.diagnosis import diagnose, is_healthy, without_credentials
from tallgrass.doctor.gathering import gather
from tallgrass.views.database import health_document

_NAME_MAX = 100

router = APIRouter(tags=["system"])


@router.get(
    "/config",
    responses=documented()
    | documents(
        "Each value and where it came from; no credentials.",
        config_version={"type": ["string", "null"]},
        settings={"type": "object"},
    ),
    response_class=Response,
)
def config(request: Request, here: Here, _signed: Viewer) -> Response:
    """Show the configuration that this server runs with."""
    return answer(request, config_document(here.config, here.catalogue))


@router.get(
    "/config/check",
    responses=documented() | documents("It is good.", ok={"type": "boolean"}),
    response_class=Response,
)
def config_check(request: Request, here: Here, _signed: Viewer) -> Response:
    """Check the configuration; what cannot be used is named with its place."""
    return answer(request, check_config(here.config))


@router.get(
    "/doctor",
    responses=documented()
    | documents(
        "What was looked at, each with its fix.",
        ok={"type": "boolean"},
        findings=OBJECTS,
    ),
    response_class=Response,
)
def doctor(request: Request, here: Here, _signed: Viewer, *, network: bool = False) -> Response:
    """Find what would stop the pipeline; with `network` SQS and other machines are asked too."""
    facts = gather(
        here.config, skip_network=not network, clock=here.clock, read_anchors=read_anchors
    )
    findings = without_credentials(diagnose(facts))
    return answer(request, {"ok": is_healthy(findings), "findings": findings})


@router.get(
    "/database",
    responses=documented()
    | documents(
        "What the database is, and whether this release can use it.",
        dialect={"type": "string"},
        place={"type": "string"},
        schema={"type": "object"},
    ),
    response_class=Response,
)
def database(request: Request, here: Here, _signed: Viewer) -> Response:
    """Tell the state of the database."""
    return answer(request, health_document(check_database(here.config)))


@router.get(
    "/telemetry",
    responses=documented()
    | documents(
        "The telemetry of ingest, as the release's file has it.", release={"type": "string"}
    ),
    response_class=Response,
)
def telemetry(
    request: Request,
    here: Here,
    _signed: Viewer,
    release: Annotated[
        str, Query(min_length=1, max_length=_NAME_MAX)
    ] = f"v{tallgrass.__version__}",
) -> Response:
    """Return what `telemetry export` writes of ingest."""
    with here.reading.lent() as stores:
        found = ingest_telemetry(here.config, stores, release, clock=here.clock)
    return answer(request, found)


@router.get(
    "/metrics",
    responses=documented()
    | {
        200: {
            "description": "The gauges of the whole pipeline, as Prometheus reads them.",
            "content": {"text/plain": {"schema": {"type": "string"}}},
        }
    },
    response_class=Response,
)
def metrics(here: Here, _signed: Viewer) -> Response:
    """Tell where the pipeline stands; a scraper sends a viewer's token."""
    from tallgrass.telemetry.prometheus_endpoint import exposition  # noqa: PLC0415 - optional extra

    body, kind = exposition(here.gauges)
    return Response(body, headers={"Content-Type": kind})
