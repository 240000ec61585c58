"""The life of one unit, and what one can do about it."""

from typing import Annotated, Any

from fastapi import APIRouter, Path, Request, Response

from tallgrass.api.etags import require_version
from tallgrass.api.quarantine import ask_for_release, hold_now, release_now
from tallgrass.api.service import Here, Service
from tallgrass.api.sign_in import Signed, Viewer
from tallgrass.bootstrap.stores import Stores
from tallgrass.bootstrap.units import read_activities, read_changes, read_unit
from tallgrass.console.forms import Sent, back_to
from tallgrass.console.graphs import provenance, sentences
from tallgrass.console.maps import Shape, view_of, world_map
from tallgrass.console.pages import instant, page
from tallgrass.error_codes import registry
from tallgrass.governance.actors import Role
from tallgrass.governance.approvals import RELEASE, release_sha256
from tallgrass.ledger.record import WalRecord
from tallgrass.ledger.vocabulary import Status
from tallgrass.views.places import box_of_item, in_words
from tallgrass.views.provenance_graph import prov_graph
from tallgrass.views.unit_steps import NextStep, next_steps

_NAME_MAX = 2100
#: The operators whose verdicts an attempt carries, with the word for people.
OPERATORS = (
    ("integrity_status", "Integrity"),
    ("metadata_status", "Metadata"),
    ("stac_status", "STAC"),
    ("provenance_status", "Provenance"),
)
#: Degrees that the small map is wide at least: coasts say where one is.
_SPAN = 60.0
#: Replays whose changes a page shows, the newest ones.
_RUNS_MAX = 10

router = APIRouter()

Name = Annotated[str, Path(max_length=_NAME_MAX)]


@router.get("/records/{wal_id}")
def show_unit(request: Request, here: Here, signed: Viewer, wal_id: Name) -> Response:
    """Show the life of one unit."""
    with here.reading.lent() as stores:
        unit = read_unit(stores, here.policies, wal_id)
        record: WalRecord = unit["record"]
        graph = prov_graph(read_activities(stores, here.policies, record))
        steps = _steps(stores, signed, record)
        replays = read_changes(stores, here.policies, record)
    return page(
        request,
        "unit.html",
        signed=signed,
        place="Records",
        now=here.clock(),
        unit=unit,
        record=record,
        attempts=_with_waits(unit["attempts"])[::-1],
        operators=OPERATORS,
        code=registry().get(record.last_error_code or ""),
        steps=steps,
        replays=replays[-_RUNS_MAX:],
        document={"record": unit["record"], "lineage": unit["lineage"]},
        graph=provenance(graph, name="Provenance"),
        relations=sentences(graph),
        done=request.query_params.get("done", "")[:200],
        **_place(unit["item"]),
    )


@router.post("/records/{wal_id}/hold")
def hold(here: Here, sent: Sent, wal_id: Name) -> Response:
    """Take the unit out of the flow, as the page showed it."""
    actor = sent.actor(Role.OPERATOR, "quarantine")
    reason, version = sent.text("reason"), sent.version()
    name = _require_as_shown(here, wal_id, version)
    held = hold_now(here, actor, [(name, version)], reason)
    for error in held.refused.values():
        raise error
    return back_to(f"/records/{name}", "Held. It waits for a person until it is released.")


@router.post("/records/{wal_id}/ask-for-release")
def ask(here: Here, sent: Sent, wal_id: Name) -> Response:
    """Ask for the approval of a release of the unit as the page showed it."""
    actor = sent.actor(Role.OPERATOR, "approval_request")
    reason, version = sent.text("reason"), sent.version()
    name = _require_as_shown(here, wal_id, version)
    ask_for_release(here, actor, [(name, version)], reason)
    return back_to(f"/records/{name}", "Asked for. Somebody else decides on it in Governance.")


@router.post("/records/{wal_id}/release")
def release(here: Here, sent: Sent, wal_id: Name) -> Response:
    """Release the unit as the page showed it, under its approval."""
    actor = sent.actor(Role.OPERATOR, "release")
    approval_id = sent.text("approval_id")
    name = _require_as_shown(here, wal_id, sent.version())
    release_now(here, actor, [name], approval_id)
    return back_to(f"/records/{name}", "Released. It is due now: a running worker takes it.")


def _steps(stores: Stores, signed: Signed, record: WalRecord) -> list[NextStep]:
    approvals = []
    if record.status is Status.QUARANTINED:
        sha256 = release_sha256([(record.wal_id, record.version)])
        approvals = stores.approvals.of_subject(RELEASE, sha256)
    switches = stores.switches.switches()
    return next_steps(record, role=signed.role, approvals=approvals, switches=switches)


def _require_as_shown(here: Service, name: str, version: int) -> str:
    """Refuse an action on a unit that moved on since the page; say what happened to it."""
    with here.reading.lent() as stores:
        record = stores.reader.record(name)
        changed: dict[str, object] = {"state": record.status.value, "version": record.version}
        if version != record.version:
            for event in stores.reader.history(record.wal_id):
                if event.version > version:
                    words = f"{event.kind} at {instant(event.occurred_at)} by {event.actor}"
                    changed[f"version {event.version}"] = words
    require_version(version, record.version, changed)
    return record.wal_id


def _with_waits(attempts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return attempts, each with the seconds since the one before it ended."""
    ends = [None, *(each["closed_at"] for each in attempts)]
    return [
        {
            **each,
            "waited_s": None if ended is None else (each["claimed_at"] - ended).total_seconds(),
        }
        for each, ended in zip(attempts, ends, strict=False)
    ]


def _place(item: dict[str, Any] | None) -> dict[str, Any]:
    """Return the picture of where an item lies, and the same in words."""
    box = None if item is None else box_of_item(item)
    if item is None or box is None or item["geometry"] is None:
        return {"picture": None, "where": "", "cells": None}
    shape = Shape(geometry=item["geometry"], kind="kind-0", title=item["id"])
    picture = world_map(
        [shape], view_of(box, least=_SPAN), name="Where it lies", told=in_words(box)
    )
    cells = item["properties"].get("anon:size")
    return {"picture": picture, "where": in_words(box), "cells": cells}
