"""One backfill from its order to its report."""

import hashlib
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from tallgrass.bootstrap.datasets import open_policies
from tallgrass.bootstrap.inventory import (
    ListingPace,
    buckets_of,
    listed_pages,
    open_listing,
    pages_of_file,
)
from tallgrass.bootstrap.stores import Stores, ledger_rules
from tallgrass.clock import Clock, system_clock
from tallgrass.config import Config
from tallgrass.datasets.catalogue import Catalogue
from tallgrass.errors import InvalidInput, Refused
from tallgrass.evidence.listing import Page
from tallgrass.evidence.read_ahead import read_ahead
from tallgrass.governance.actors import Acting
from tallgrass.governance.gate import Action, GateRequest, require_admitted
from tallgrass.governance.switches import SwitchedOff
from tallgrass.inventory.backfill import (
    Backfill,
    BackfillOrder,
    BackfillReport,
    Wanted,
    require_backfill_reason,
)
from tallgrass.ledger.vocabulary import Intent
from tallgrass.storage.backfill_orders import BackfillOrders
from tallgrass.storage.inventory_store import InventoryStore

_PIECE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillRequest:
    """What somebody wants backfilled."""

    dataset: str
    since: datetime | None = None
    until: datetime | None = None
    prefix: str = ""
    buckets: tuple[str, ...] = ()
    #: A file that lists objects, in place of the buckets.
    listing: Path | None = None
    max_events: int | None = None
    #: Units made due in a second, at most.
    rate: float | None = None
    dry_run: bool = False
    reason: str = "backfill"
    change_ref: str | None = None
    incident_ref: str | None = None
    approval_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a backfill needs from outside: time, a way to stop it, a callback for progress."""

    stop: Callable[[], bool] = lambda: False
    progress: Callable[[BackfillReport], None] = lambda _report: None
    sleep: Callable[[float], object] = time.sleep
    monotonic: Callable[[], float] = time.monotonic
    clock: Clock = system_clock


def order_of(config: Config, catalogue: Catalogue, request: BackfillRequest) -> BackfillOrder:
    """Return the order of a request; an impossible one, or one that the gate refuses, is raised.

    A kill switch does not stop a backfill: units are recorded, and wait until the switch is off.
    """
    dataset = catalogue.named(request.dataset)
    _require_scope(request)
    require_backfill_reason(request.reason, config.rules.custom_reasons)
    policy = open_policies(config, catalogue).of(dataset.id)
    order = BackfillOrder(
        run_id=str(uuid.uuid4()),
        wanted=Wanted(
            dataset=dataset.id, since=request.since, until=request.until, prefix=request.prefix
        ),
        buckets=buckets_of(dataset, request.buckets),
        listing_sha256=None if request.listing is None else _sha256(request.listing),
        reason=request.reason,
        change_ref=request.change_ref,
        incident_ref=request.incident_ref,
        due_max=request.max_events,
        approvals_needed=0 if policy is None else policy.approvals_needed,
    )
    require_admitted(
        GateRequest(
            action=Action.INGEST, dataset=dataset.id, policy=policy, switched_off=SwitchedOff(())
        )
    )
    return order


def run_backfill(
    config: Config,
    stores: Stores,
    catalogue: Catalogue,
    request: BackfillRequest,
    around: Surroundings,
    *,
    by: Acting | None,
) -> BackfillReport:
    """Make due what the ledger lacks of a listing; a dry run needs nobody and writes nothing."""
    if by is None and not request.dry_run:
        raise InvalidInput("a backfill needs somebody who asks for it")
    orders = BackfillOrders(stores.runner, stores.approvals, config.rules)
    try:
        order = order_of(config, catalogue, request)
    except Refused as error:
        if by is not None:
            orders.refuse(f"backfill:{request.dataset}", error, by=by)
        raise
    pages = _pages(config, catalogue, request, order, around)
    writing_by = None if request.dry_run else by
    if writing_by is not None:
        order = orders.begin(order, by=writing_by, approval_id=request.approval_id)
    backfill = Backfill(
        open_inventory(
            config,
            stores,
            catalogue,
            order.run_id,
            Intent.BACKFILL,
            as_of_now=request.listing is None,
            dry_run=request.dry_run,
        ),
        catalogue,
        order.wanted,
        clock=around.clock,
        providers=config.rules.providers,
        due_max=request.max_events,
    )
    pace = ListingPace(request.rate, sleep=around.sleep, monotonic=around.monotonic)
    whole = _take(backfill, pages, pace, around)
    if writing_by is not None:
        orders.finish(order, backfill.report.document(), by=writing_by, stopped=not whole)
    return backfill.report


def _pages(
    config: Config,
    catalogue: Catalogue,
    request: BackfillRequest,
    order: BackfillOrder,
    around: Surroundings,
) -> Iterator[Page]:
    if request.listing is not None:
        return pages_of_file(request.listing, order.buckets)
    listing = open_listing(config, sleep=around.sleep)
    dataset = catalogue.named(request.dataset)
    return read_ahead(listed_pages(listing, dataset, order.wanted, order.buckets))


def open_inventory(
    config: Config,
    stores: Stores,
    catalogue: Catalogue,
    run_id: str,
    intent: Intent,
    *,
    as_of_now: bool = True,
    dry_run: bool = False,
) -> InventoryStore:
    """Wire the ledger as backfill and follow use it."""
    return InventoryStore(
        stores.runner,
        ledger_rules(config, catalogue),
        worker_id=config.text("worker.id"),
        run_id=run_id,
        intent=intent,
        as_of_now=as_of_now,
        dry_run=dry_run,
        recorder=stores.recorder,
    )


def _take(
    backfill: Backfill, pages: Iterator[Page], pace: ListingPace, around: Surroundings
) -> bool:
    """Take pages until they end or the cap is reached; tell whether nobody said stop."""
    for page in pages:
        for part in pace.parts(page):
            if around.stop():
                return False
            due = backfill.take(part)
            around.progress(backfill.report)
            if backfill.report.capped:
                return True
            pace.rest(due)
    return True


def _require_scope(request: BackfillRequest) -> None:
    """Refuse to list a whole bucket because nobody said what of it."""
    if request.since and request.until and request.since >= request.until:
        raise InvalidInput("--since must be before --until", code="invalid_time")
    bounded = request.since is not None and request.until is not None
    if not (bounded or request.prefix or request.listing):
        raise InvalidInput("say what to list: --since and --until, a --prefix or a --listing")


def _sha256(file: Path) -> str:
    digest = hashlib.sha256()
    with file.open("rb") as opened:
        while piece := opened.read(_PIECE_BYTES):
            digest.update(piece)
    return digest.hexdigest()
