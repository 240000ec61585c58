"""Every page of the console and every GET route of its API, with the filters that people set.

Places in addresses are filled from what the API itself lists. A route that is neither here nor
left out with a reason is an error: a new page is measured from its first day.
"""

from __future__ import annotations

from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

from bench.console_rows import PARKED, RARE, RARE_ACTION, RARE_ACTOR
from tallgrass.api.app import ROUTERS as API_ROUTERS
from tallgrass.api.problems import API
from tallgrass.console.app import ROUTERS as PAGE_ROUTERS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    Document = dict[str, Any]
    Get = Callable[[str], Document]

#: Routes that are not asked here, and why.
LEFT_OUT: Mapping[str, str] = {
    "/sign-in": "of nobody who is signed in",
    f"{API}/events": "goes on and on",
    f"{API}/outbox/ledger": "a whole table, line by line",
    f"{API}/ledger/export": "the whole ledger, line by line",
    f"{API}/telemetry": "counts the whole ledger for a release's file, as an export does",
    f"{API}/replay/plans/{{sha256}}": "there is none before somebody makes one",
    f"{API}/dead-letters/plans/{{sha256}}": "there is none before somebody makes one",
    "/dead-letters/plans/{sha256}": "there is none before somebody makes one",
    f"{API}/jobs/{{job_id}}": "there is none before somebody starts one",
    f"{API}/nodes/runs/{{run_id}}/nodes/{{node_id}}/clear-plan": "for operators",
    f"{API}/nodes/runs/{{run_id}}/nodes/{{node_id}}/rerun-plan": "for operators",
    f"{API}/retention/archives/{{archive_id}}": "its file is not here",
    f"{API}/retention/search": "its files are not here",
}

_RECORDS = (
    "", "?order=newest", "?order=oldest", "?status=failed", "?status=quarantined",
    "?status=pending", "?status=in_progress", "?dataset=nexrad-l2",
    "?dataset=nexrad-l2&status=failed", f"?dataset={PARKED}&dataset=gfs&status=pending",
    "?stale=true", "?stale=true&dataset=gfs",
    f"?error_code={RARE}", f"?error_code={RARE}&status=failed&dataset=nexrad-l2",
    "?error_code=etag_mismatch", "?intent=backfill", "?intent=repair",
    "?since={day}", "?until={day}", "?since={day}&status=failed", "?find={wal_id}", "?find={begin}",
    "?find=s3%3A%2F%2Fnoaa-nexrad-l2%2F", "?find=nexrad-l2_", "?find=no-such-item",
    "?order=newest&cursor={records_cursor}", "?order=oldest&status=failed&cursor={failed_cursor}",
)  # fmt: skip
_EVENTS = (
    "", "?state=pending", "?state=in_flight", "?state=retrying", "?state=exhausted",
    "?state=dispatched", "?target=webhook", "?target=nobody", "?dataset=wsa-enlil",
    "?dataset=gfs&state=exhausted", "?code=sink_refused", "?code=dispatcher_lost",
    "?cursor={events_cursor}",
)  # fmt: skip
_AUDIT = (
    "", f"?actor={RARE_ACTOR}", f"?action={RARE_ACTION}",
    f"?actor={RARE_ACTOR}&action={RARE_ACTION}",
    "?actor=nobody", "?action=nothing", "?subject=run:run-00001", "?subject=nothing",
    "?actor=person-01&action=approve", "?order=newest&cursor={audit_cursor}",
)  # fmt: skip
_MAP = (
    "", "?dataset=nexrad-l2", "?dataset=wsa-enlil", "?since={day}", "?until={day}",
    "?dataset=gfs&since={day}&until={day2}", "?limit=500", "?dataset=nexrad-l2&cursor={map_cursor}",
)  # fmt: skip
_POISON = (
    "",
    "?code=unsupported_schema_version",
    "?code=size_zero",
    "?state=open",
    "?state=fed",
    "?since={day}",
)
_REFERENCES = ("", "?state=open", "?state=closed")

#: By route: what is asked of it beside the bare address.
ASKED: Mapping[str, tuple[str, ...]] = {
    f"{API}/records": (*_RECORDS, "?limit=1000"),
    "/records": _RECORDS,
    f"{API}/outbox/events": (*_EVENTS, "?event=nodd.item.updated", "?event=nothing"),
    "/outbox": _EVENTS,
    f"{API}/audit": (*_AUDIT, "?order=newest&action=freeze", "?order=oldest&limit=1000"),
    "/governance/audit": _AUDIT,
    f"{API}/footprints": (*_MAP, "?bbox=-100,30,-95,35", "?bbox=-100,30,-95,35&since={day}"),
    "/map": (*_MAP, "?window=found"),
    f"{API}/poison": (*_POISON, "?queue=nobody"),
    "/poison": _POISON,
    f"{API}/quarantine": ("", "?dataset=gfs", f"?error_code={RARE}", "?dataset=wsa-enlil"),
    "/quarantine": ("", "?dataset=gfs", f"?error_code={RARE}", "?error_code=etag_mismatch"),
    f"{API}/approvals": ("", "?purpose=release"),
    f"{API}/changes": _REFERENCES,
    f"{API}/incidents": _REFERENCES,
    f"{API}/slo": ("", "?days=1", "?days=366", "?sample=100000"),
    f"{API}/dead-letters": ("", "?dataset=goes-glm", "?letters_max=5000"),
    "/dead-letters": ("", "?looked=true&dataset=goes-glm"),
    f"{API}/nodes/runs": ("", "?status=failed"),
    "/nodes": ("", "?status=failed"),
    f"{API}/inspect/key": ("?uri=s3%3A%2F%2Fnoaa-goes19%2Fx.nc",),
    f"{API}/replay/plan": (
        "?dataset=gfs&since={day}&until={day2}",
        "?dataset=nexrad-l2&since={day}",
    ),
    f"{API}/replay/selection": ("?dataset=gfs&since={day}",),
    "/replay/plan": ("?dataset=gfs&since={day}&until={day2}", "?dataset=nexrad-l2&since={day}"),
    f"{API}/retention/plan": ("", "?kind=attempts"),
}


#: Places that mean something else on these routes.
_OWN: Mapping[str, Mapping[str, str]] = {
    "/nodes/": {"run_id": "run-7"},
    "/drains/": {"run_id": "run-00000"},
    "/incidents/": {"ref": "INC-000001"},
}


def paths_of(get: Get) -> list[str]:
    """Return every address that is measured; `get` reads a document of the API."""
    places = dict(_places(get))
    found = []
    for route in routes():
        own = next((each for part, each in _OWN.items() if part in route), {})
        if f"{API}/quarantine/" in route:
            own = {"wal_id": places["quarantined"]}
        asked = () if route in LEFT_OUT else ASKED.get(route, ("",))
        found += [f"{route}{each}".format(**{**places, **own}) for each in asked]
    return found


def routes() -> Iterator[str]:
    """Yield the addresses of all GET routes, as they are declared."""
    for prefix, routers in ((API, API_ROUTERS), ("", PAGE_ROUTERS)):
        for router in routers:
            for route in router.routes:
                if "GET" in getattr(route, "methods", ()):
                    # What a path parameter may hold is not part of its name.
                    yield prefix + str(getattr(route, "path", "")).replace(":path", "")


def _places(get: Get) -> Iterator[tuple[str, str]]:
    """Yield what stands in the addresses: names of things that are there, and deep cursors."""
    failed = get(f"{API}/records?status=failed&limit=1000")
    wal_id = failed["records"][-1]["wal_id"]
    yield from (("wal_id", wal_id), ("begin", wal_id[:8]))
    yield "failed_cursor", _deep(get, f"{API}/records?status=failed")
    held = get(f"{API}/quarantine?limit=1")
    yield "quarantined", held["units"][0]["wal_id"]
    yield "day", failed["records"][len(failed["records"]) // 2]["time_range_start"][:10]
    last_day = date.fromisoformat(failed["records"][-1]["time_range_start"][:10])
    yield "day2", str(last_day + timedelta(days=1))
    yield "records_cursor", _deep(get, f"{API}/records?order=newest")
    yield "events_cursor", _deep(get, f"{API}/outbox/events?")
    yield "audit_cursor", _deep(get, f"{API}/audit?order=newest")
    yield "map_cursor", _deep(get, f"{API}/footprints?dataset=nexrad-l2")
    yield "run_id", get(f"{API}/replay/runs")["runs"][0]["replay_run_id"]
    yield "approval_id", get(f"{API}/approvals")["approvals"][0]["approval_id"]
    yield "ref", "CHG-000001"
    yield "name", "person-01"
    yield "poison_id", "7"
    yield (
        "outbox_id",
        get(f"{API}/outbox/events?state=dispatched&limit=1")["events"][0]["outbox_id"],
    )
    yield from (("dataset", "gfs"), ("code", "io_error"), ("node_id", "shape"))


def _deep(get: Get, path: str) -> str:
    """Return the cursor of a page far behind the first."""
    for limit in (500, 5):
        page = f"{path}&limit={limit}"
        cursor = get(page)["next_cursor"]
        for _ in range(2):
            cursor = cursor and get(f"{page}&cursor={cursor}")["next_cursor"]
        if cursor:
            return str(cursor)
    raise AssertionError(f"{path} has next to nothing")
