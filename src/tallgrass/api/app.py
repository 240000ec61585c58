"""The application: the API below `/api/v1`, the STAC read API below `/stac`, behind the guards."""

from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter, Depends, FastAPI, Request, Response

import tallgrass
from tallgrass.api import (
    actors,
    approvals,
    audit,
    catalog,
    codes,
    datasets,
    dead_letters,
    footprints,
    freeze,
    inventory,
    job_routes,
    ledger,
    live,
    nodes,
    outbox,
    poison,
    quarantine,
    records,
    references,
    replay_plans,
    replays,
    retention,
    status,
    switches,
    system,
)
from tallgrass.api.answers import answer
from tallgrass.api.guards import Guards, SignedInOnly
from tallgrass.api.parameters import only_known_parameters
from tallgrass.api.problems import API, SCHEMA, add_problem_answers
from tallgrass.api.service import Service
from tallgrass.api.sign_in import Viewer
from tallgrass.web.app import build_app
from tallgrass.web.heads import Heads

TITLE = "Tallgrass"
DESCRIPTION = "What the command line can do, for programs: the ledger, its catalog, its governance."

#: Every part of the API, in the order of the document.
ROUTERS: Sequence[APIRouter] = (
    status.router,
    live.router,
    records.router,
    footprints.router,
    replay_plans.router,
    replays.router,
    switches.router,
    freeze.router,
    approvals.router,
    references.router,
    actors.router,
    audit.router,
    dead_letters.router,
    quarantine.router,
    poison.router,
    outbox.router,
    nodes.router,
    ledger.router,
    datasets.router,
    inventory.router,
    retention.router,
    catalog.router,
    system.router,
    job_routes.router,
    codes.router,
)


def create_app(service: Service) -> FastAPI:
    """Return the application of a server; whoever made the server closes it."""
    app = FastAPI(
        title=TITLE,
        description=DESCRIPTION,
        version=tallgrass.__version__,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
    )
    app.state.service = service
    for router in ROUTERS:
        app.include_router(router, prefix=API, dependencies=[Depends(only_known_parameters)])
    app.add_api_route(f"{API}/openapi.json", _openapi, methods=["GET"], include_in_schema=False)
    app.mount("/stac", SignedInOnly(build_app(service.items)))
    add_problem_answers(app)
    app.add_middleware(Guards)
    app.add_middleware(Heads)
    return app


def _openapi(request: Request, _signed: Viewer) -> Response:
    """Answer with the document of this API."""
    return answer(request, openapi(request.app))


def openapi(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI document: routes below the API's prefix alone."""
    if app.openapi_schema is None:
        document = app.openapi()
        document["paths"] = {
            path: each for path, each in document["paths"].items() if path.startswith(API)
        }
        document.setdefault("components", {}).setdefault("schemas", {})["Problem"] = SCHEMA
    found: dict[str, Any] = app.openapi()
    return found
