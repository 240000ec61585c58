"""The overview: whether data flows, on one page, live."""

from typing import Any, Final

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse

from tallgrass.api.service import Here, Service
from tallgrass.api.sign_in import Viewer
from tallgrass.clock import age_s
from tallgrass.console.pages import page
from tallgrass.ledger.vocabulary import Status
from tallgrass.views.attention import Subject, attention
from tallgrass.views.status import Overview, oldest_event

#: Where one click leads from what asks for attention.
LINKS: Final = {
    Subject.SLO: "/#promises",
    Subject.DATASETS: "/#datasets",
    Subject.DEAD_LETTERS: "/dead-letters",
    Subject.FAILED: "/records?status=failed",
    Subject.QUARANTINED: "/records?status=quarantined",
    Subject.STALE: "/records?stale=true",
    Subject.POISON: "/dead-letters#poison",
    Subject.OUTBOX: "/outbox",
    Subject.SWITCHES: "/governance",
    Subject.WORKERS: "/#waiting",
}

router = APIRouter()


@router.get("/")
def overview(request: Request, here: Here, signed: Viewer) -> Response:
    """Show the whole page."""
    values = _values(here, here.figures.recent())
    return page(request, "overview.html", signed=signed, place="Overview", **values)


@router.get("/fragments/overview")
def fragment(request: Request, here: Here, _signed: Viewer) -> Response:
    """Show the live part of the page, the same for everybody: it is rendered once a look."""
    number, found = here.figures.recent_look()

    def make() -> bytes:
        values = _values(here, found)
        return bytes(page(request, "overview_figures.html", signed=None, **values).body)

    return HTMLResponse(here.figures.fragments.get(number, "overview", make))


def _values(here: Service, found: Overview) -> dict[str, Any]:
    health = found.health
    return {
        "found": found,
        "attention": attention(found),
        "links": LINKS,
        "statuses": [status.value for status in Status],
        "ordered": {
            name: {status.value: counts.get(status.value, 0) for status in Status}
            for name, counts in found.stats.by_dataset.items()
        },
        "units": sum(found.by_status.values()),
        "throughput": here.figures.throughput(),
        "due_lag_s": age_s(found.stats.oldest_due_at, found.now),
        "message_lag_s": None
        if found.queue is None
        else age_s(found.queue.oldest_sent_at, found.now),
        "outbox_lag_s": age_s(oldest_event(found.undelivered), found.now),
        "freshness": health.freshness(),
        "lag_s": {name: age_s(one.data_until, found.now) for name, one in health.datasets.items()},
        "heard_s": {
            name: age_s(one.times.heard_at, found.now) for name, one in health.datasets.items()
        },
        "done_s": {
            name: age_s(one.times.done_at, found.now) for name, one in health.datasets.items()
        },
    }
