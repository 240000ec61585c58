"""What every handler works with: configuration, stores, sessions, limits, live figures."""

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Annotated

from fastapi import Depends, Request

from tallgrass.api.figures import RECENT_S, Figures
from tallgrass.api.hosts import LOOPBACK_NAMES
from tallgrass.api.jobs import Jobs
from tallgrass.api.limits import FAILURES_PER_MINUTE, Buckets
from tallgrass.api.sessions import Sessions
from tallgrass.bootstrap.catalog import SharedCatalog
from tallgrass.bootstrap.datasets import open_catalogue, open_policies
from tallgrass.bootstrap.health_metrics import collecting_health
from tallgrass.bootstrap.kept_plans import KeptPlans
from tallgrass.bootstrap.overview import read_overview
from tallgrass.bootstrap.store_pool import StorePool
from tallgrass.bootstrap.stores import open_current_stores
from tallgrass.clock import Clock, system_clock
from tallgrass.config import Config
from tallgrass.datasets.catalogue import Catalogue
from tallgrass.governance.policy import Policies
from tallgrass.telemetry.series import Collect, Series
from tallgrass.views.status import Overview

_SECRET_BYTES = 32
_SIGNING_MAX = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """Everything that belongs to one running server; `close` ends it."""

    config: Config
    catalogue: Catalogue
    policies: Policies
    #: Connections that only read, and those of acts.
    reading: StorePool
    writing: StorePool
    #: Connections of sign-ins: they read, and write down those that fail.
    signing: StorePool
    items: SharedCatalog
    sessions: Sessions
    #: Requests by address and by actor; sign-ins that failed, by address.
    requests: Buckets
    failures: Buckets
    figures: Figures
    #: What Prometheus asks for; one reading for all who ask at about the same time.
    gauges: Collect
    #: Work that outlives a request.
    jobs: Jobs
    #: Plans of replays that wait for an approval, or for the rest of their run.
    plans: KeptPlans
    #: Names that a Host header may have.
    hosts: frozenset[str]
    clock: Clock

    def close(self) -> None:
        """Stop jobs and the reader, and close all connections."""
        self.jobs.close()
        self.figures.close()
        self.items.close()
        self.reading.close()
        self.writing.close()
        self.signing.close()


def open_service(
    config: Config,
    *,
    hosts: frozenset[str] = frozenset(),
    clock: Clock = system_clock,
    monotonic: Callable[[], float] = time.monotonic,
    figures_age_s: float = 1.0,
    figures_recent_s: float = RECENT_S,
) -> Service:
    """Wire a server over the configured database; nothing is connected to yet."""
    catalogue = open_catalogue(config)
    reading = StorePool(lambda: open_current_stores(config, read_only=True))

    def look() -> Overview:
        with reading.lent() as stores:
            return read_overview(config, stores, catalogue, clock=clock)

    figures = Figures(look, monotonic=monotonic, age_s=figures_age_s, recent_s=figures_recent_s)
    configured = config.text("console.allowed_hosts").lower().split()
    return Service(
        config=config,
        catalogue=catalogue,
        policies=open_policies(config, catalogue),
        reading=reading,
        # Who has done something sees it at the next page.
        writing=StorePool(
            lambda: open_current_stores(config, catalogue=catalogue), after=figures.expire
        ),
        signing=StorePool(lambda: open_current_stores(config), size=_SIGNING_MAX),
        items=SharedCatalog(config),
        sessions=Sessions(
            lifetime=timedelta(hours=config.number("console.session_hours")),
            clock=clock,
            secret=lambda: secrets.token_urlsafe(_SECRET_BYTES),
        ),
        requests=Buckets(config.number("console.requests_per_minute"), monotonic=monotonic),
        failures=Buckets(FAILURES_PER_MINUTE, monotonic=monotonic),
        figures=figures,
        gauges=collecting_health(config, every_s=figures_age_s, monotonic=monotonic)(
            Series(config.text("env"))
        ),
        jobs=Jobs(clock=clock),
        plans=KeptPlans(Path(config.text("console.plans_folder"))),
        hosts=LOOPBACK_NAMES | hosts | frozenset(configured),
        clock=clock,
    )


def service_of(request: Request) -> Service:
    """Return the server that a request came to."""
    service: Service = request.app.state.service
    return service


#: The server, as a parameter of a handler.
Here = Annotated[Service, Depends(service_of)]
