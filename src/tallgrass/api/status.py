"""The state of the pipeline, and of its promises."""

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from tallgrass.api.answers import OBJECTS, answer, documents
from tallgrass.api.problems import documented
from tallgrass.api.service import Here
from tallgrass.api.sign_in import Viewer
from tallgrass.bootstrap.health import read_slos
from tallgrass.telemetry.slo import WINDOW_DAYS
from tallgrass.views.slo import SAMPLE, SAMPLE_MAX, slo_document, slos_document
from tallgrass.views.status import Overview, status_document

_DAYS_MAX = 366
#: Units whose times are read for one answer: a quarter of a second.
TIMES_MAX = 20_000
_COUNT = {"type": "integer", "minimum": 0}
_COUNTS = {"type": "object", "additionalProperties": _COUNT}

router = APIRouter(tags=["status"])


@router.get(
    "/status",
    responses=documented()
    | documents(
        "The whole pipeline, as `tallgrass status` tells it, with the error budgets.",
        at={"type": "string", "format": "date-time"},
        units=_COUNT,
        by_status=_COUNTS,
        by_dataset={"type": "object", "additionalProperties": _COUNTS},
        due=_COUNT,
        outbox={"type": "object"},
        slos=OBJECTS,
    ),
    response_class=Response,
)
def status(request: Request, here: Here, _signed: Viewer) -> Response:
    """Tell where everything stands."""
    return answer(request, figures_document(here.figures.overview()))


def figures_document(found: Overview) -> dict[str, object]:
    """Return the figures that the overview shows and the live events bring."""
    return {
        "at": found.now,
        **status_document(found),
        "slos": [slo_document(one) for one in found.health.slos],
    }


@router.get(
    "/slo",
    responses=documented()
    | documents(
        "Each promise and its error budget, as `tallgrass slo` tells it.",
        judged_at={"type": "string", "format": "date-time"},
        days={"type": "number"},
        slos=OBJECTS,
    ),
    response_class=Response,
)
def slo(
    request: Request,
    here: Here,
    _signed: Viewer,
    days: Annotated[float, Query(gt=0, le=_DAYS_MAX)] = WINDOW_DAYS,
    sample: Annotated[int, Query(ge=1, le=SAMPLE_MAX)] = SAMPLE,
) -> Response:
    """Judge the promises by units whose data are of the last days.

    Times are those of the newest units of each dataset, 20,000 of all together at most.
    """
    now = here.clock()
    with here.reading.lent() as stores:
        states = read_slos(
            stores, here.catalogue, now=now, sample=sample, window_days=days, most=TIMES_MAX
        )
    return answer(request, slos_document(states, judged_at=now, days=days))
