"""Backfill and reconcile as background jobs: what buckets hold, and what the ledger knows."""

from contextlib import closing
from datetime import datetime, timedelta
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Response
from pydantic import Field

from tallgrass.api.answers import documents, done
from tallgrass.api.bodies import Body, Words
from tallgrass.api.job_routes import STARTED, started
from tallgrass.api.jobs import Job, JobKind, JobSide
from tallgrass.api.problems import documented
from tallgrass.api.service import Here, Service
from tallgrass.api.sign_in import writer
from tallgrass.bootstrap.backfilling import BackfillRequest, Surroundings, order_of, run_backfill
from tallgrass.bootstrap.reconcile_report import FirstFindings, reconcile_document
from tallgrass.bootstrap.reconciling import ReconcileRequest, Reconciliation
from tallgrass.bootstrap.replay_reporting import recorded
from tallgrass.bootstrap.stores import open_current_stores
from tallgrass.errors import InvalidInput
from tallgrass.governance.actors import Actor, Role
from tallgrass.inventory.backfill import BackfillReport
from tallgrass.views.places import telling_of, told
from tallgrass.views.text import plain
from tallgrass.views.times import time_or_date

_NAME_MAX = 200
_PREFIX_MAX = 1024
_BUCKETS_MAX = 20
_FINDINGS_MAX = 1000
_GRACE_S = 900.0

router = APIRouter(tags=["inventory"])

Name = Annotated[Words, Field(max_length=_NAME_MAX)]
Prefix = Annotated[str, Field(max_length=_PREFIX_MAX)]
#: Of units made due, or of objects compared, in a second.
Rate = Annotated[float, Field(ge=0.001, le=1_000_000)]
Buckets = Annotated[list[Name], Field(max_length=_BUCKETS_MAX)]


class BackfillBody(Body):
    """A backfill: which objects, and why."""

    dataset: Name
    since: Name | None = None
    until: Name | None = None
    prefix: Prefix = ""
    buckets: Buckets = Field(default=[])
    max_events: int | None = Field(default=None, ge=1, le=10_000_000)
    rate: Rate | None = None
    dry_run: bool = False
    reason: Name = "backfill"
    change_ref: Name | None = None
    incident_ref: Name | None = None
    approval_id: Name | None = None

    def request(self) -> BackfillRequest:
        """Return it as the command line would ask for it."""
        return BackfillRequest(
            dataset=self.dataset,
            since=time_or_date(self.since),
            until=time_or_date(self.until),
            prefix=self.prefix,
            buckets=tuple(self.buckets),
            max_events=self.max_events,
            rate=self.rate,
            dry_run=self.dry_run,
            reason=self.reason,
            change_ref=self.change_ref,
            incident_ref=self.incident_ref,
            approval_id=self.approval_id,
        )


class ReconcileBody(Body):
    """What is to be compared."""

    dataset: Name
    since: Name
    until: Name | None = None
    prefix: Prefix = ""
    buckets: Buckets = Field(default=[])
    catalog_only: bool = False
    grace_s: float = Field(default=_GRACE_S, ge=0, le=31_536_000)
    rate: Rate | None = None
    limit: int = Field(default=_FINDINGS_MAX, ge=0, le=_FINDINGS_MAX)

    def request(self, now: datetime) -> ReconcileRequest:
        """Return it as the command line would ask for it."""
        if self.catalog_only and (self.prefix or self.buckets):
            raise InvalidInput("catalog_only asks no bucket: leave out prefix and buckets")
        since, until = time_or_date(self.since), time_or_date(self.until) or now
        if since is None or since >= until:
            raise InvalidInput("since must be before until")
        return ReconcileRequest(
            dataset=self.dataset,
            since=since,
            until=until,
            prefix=self.prefix,
            buckets=tuple(self.buckets),
            catalog_only=self.catalog_only,
            grace=timedelta(seconds=self.grace_s),
            rate=self.rate,
        )


@router.post(
    "/backfill/plans",
    responses=documented(HTTPStatus.CONFLICT, HTTPStatus.UNSUPPORTED_MEDIA_TYPE)
    | documents(
        "The order, for an approval; it is kept here by its hash.", order={"type": "object"}
    ),
    response_class=Response,
)
def plan_backfill(
    here: Here,
    _actor: Annotated[Actor, Depends(writer(Role.OPERATOR, "backfill_plan"))],
    body: BackfillBody,
) -> Response:
    """Write down what a backfill would be; nothing is listed and nothing is changed."""
    order = order_of(here.config, here.catalogue, body.request())
    digest = here.plans.keep([order.plan()])
    return done({"order": plain(order), "plan_sha256": digest})


@router.post(
    "/backfill", responses=STARTED, status_code=HTTPStatus.ACCEPTED, response_class=Response
)
def backfill(
    here: Here,
    actor: Annotated[Actor, Depends(writer(Role.OPERATOR, "backfill"))],
    body: BackfillBody,
) -> Response:
    """Make due what a bucket holds and no notification brought; with `dry_run` only tell."""
    return started(begin_backfill(here, actor, body.request()))


@router.post(
    "/reconcile", responses=STARTED, status_code=HTTPStatus.ACCEPTED, response_class=Response
)
def reconcile(
    here: Here,
    actor: Annotated[Actor, Depends(writer(Role.OPERATOR, "reconcile"))],
    body: ReconcileBody,
) -> Response:
    """Compare bucket, ledger and catalog, and tell what would mend them; nothing is changed."""
    request = body.request(here.clock())
    here.catalogue.named(request.dataset)
    return started(begin_reconcile(here, actor, request, body.limit))


def begin_backfill(here: Service, actor: Actor, request: BackfillRequest) -> Job:
    """Refuse at once what cannot be; list in the background."""
    # A dry run asks no leave, so a refusal of it is none of the log's.
    order_of(here.config, here.catalogue, request)

    def work(side: JobSide) -> dict[str, Any]:
        def tell(report: BackfillReport) -> None:
            side.tell({"listed": report.listed, "due": report.due})

        around = Surroundings(stop=side.stop, progress=tell, sleep=side.sleep, clock=here.clock)
        with (
            recorded(here.config, "backfill") as recorder,
            closing(
                open_current_stores(
                    here.config,
                    read_only=request.dry_run,
                    catalogue=here.catalogue,
                    recorder=recorder,
                )
            ) as stores,
        ):
            by = None if request.dry_run else actor
            report = run_backfill(here.config, stores, here.catalogue, request, around, by=by)
        asked = {"dataset": request.dataset, "dry_run": request.dry_run, "stopped": side.stop()}
        return {**asked, **report.document()}

    return here.jobs.start(JobKind.BACKFILL, request.dataset, work, by=actor.name)


def begin_reconcile(here: Service, actor: Actor, request: ReconcileRequest, limit: int) -> Job:
    """Compare in the background."""

    def work(side: JobSide) -> dict[str, Any]:
        first = FirstFindings(limit)
        with closing(open_current_stores(here.config, read_only=True)) as stores:
            compared = Reconciliation(
                here.config,
                stores,
                request,
                catalogue=here.catalogue,
                progress=lambda number: side.tell({"compared": number}),
                stop=side.stop,
                sleep=side.sleep,
            )
            for finding in compared.findings():
                first.take(finding)
                if side.stop():
                    break
        document: dict[str, Any] = told(
            reconcile_document(request, compared.report, first.findings),
            telling_of(here.policies, request.dataset),
        )
        return document

    return here.jobs.start(JobKind.RECONCILE, request.dataset, work, by=actor.name)
