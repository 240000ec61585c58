"""What the command line can do, the API can do, or a reason is written down."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest

from tallgrass.api.app import ROUTERS
from tallgrass.cli.main import cli

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
#: By verb: the route that does the same, through the same functions.
ROUTES = {
    "actors add": "POST /actors",
    "actors list": "GET /actors",
    "actors revoke": "POST /actors/{name}/revoke",
    "actors rotate": "POST /actors/{name}/rotate",
    "approvals approve": "POST /approvals/{approval_id}/decision",
    "approvals list": "GET /approvals",
    "approvals reject": "POST /approvals/{approval_id}/decision",
    "approvals request": "POST /approvals",
    "approvals show": "GET /approvals/{approval_id}",
    "audit list": "GET /audit",
    "audit seal": "POST /audit/seal",
    "audit verify": "POST /audit/check",
    "backfill": "POST /backfill",
    "changes close": "PATCH /changes/{ref:path}",
    "changes list": "GET /changes",
    "changes open": "POST /changes",
    "changes show": "GET /changes/{ref:path}",
    "config check": "GET /config/check",
    "config show": "GET /config",
    "datasets check": "POST /datasets/check",
    "datasets list": "GET /datasets",
    "datasets show": "GET /datasets/{dataset}",
    "db check": "GET /database",
    "dlq classify": "GET /dead-letters",
    "dlq close": "POST /dead-letters/drains/{run_id}/close",
    "dlq drain": "POST /dead-letters/drains",
    "dlq plan": "POST /dead-letters/plans",
    "dlq report": "GET /dead-letters/drains/{run_id}",
    "doctor": "GET /doctor",
    "explain": "GET /codes/{code}",
    "freeze off": "PUT /freeze",
    "freeze on": "PUT /freeze",
    "incidents close": "PATCH /incidents/{ref:path}",
    "incidents list": "GET /incidents",
    "incidents open": "POST /incidents",
    "incidents show": "GET /incidents/{ref:path}",
    "inspect key": "GET /inspect/key",
    "inspect message": "POST /inspect/message",
    "metrics serve": "GET /metrics",
    "nodes budget": "GET /nodes/budgets",
    "nodes cache clear": "POST /nodes/cache/clear",
    "nodes cache prune": "POST /nodes/cache/prune",
    "nodes cache stats": "GET /nodes/cache",
    "nodes clear-failed": "POST /nodes/runs/{run_id}/nodes/{node_id}/clear",
    "nodes plan-clear": "GET /nodes/runs/{run_id}/nodes/{node_id}/clear-plan",
    "nodes plan-rerun": "GET /nodes/runs/{run_id}/nodes/{node_id}/rerun-plan",
    "nodes runs": "GET /nodes/runs",
    "nodes show": "GET /nodes/runs/{run_id}",
    "outbox ledger export": "GET /outbox/ledger",
    "outbox list": "GET /outbox/events",
    "outbox requeue": "POST /outbox/requeue",
    "outbox show": "GET /outbox/events/{outbox_id}",
    "outbox status": "GET /outbox/status",
    "poison feed": "POST /poison/feed",
    "poison list": "GET /poison",
    "poison show": "GET /poison/{poison_id}",
    "quarantine hold": "POST /quarantine/holds",
    "quarantine list": "GET /quarantine",
    "quarantine release": "POST /quarantine/releases",
    "quarantine show": "GET /quarantine/{wal_id}",
    "queue status": "GET /queue",
    "reconcile": "POST /reconcile",
    "replay": "POST /replay/runs",
    "replay diff": "GET /replay/runs/{run_id}/changes",
    "replay runs list": "GET /replay/runs",
    "replay runs show": "GET /replay/runs/{run_id}",
    "retention apply": "POST /retention/runs",
    "retention list": "GET /retention/archives",
    "retention plan": "GET /retention/plan",
    "retention search": "GET /retention/search",
    "retention show": "GET /retention/archives/{archive_id}",
    "slo": "GET /slo",
    "stac collections refresh": "POST /catalog/collections/refresh",
    "stac validate": "POST /catalog/validations",
    "status": "GET /status",
    "switches list": "GET /switches",
    "switches off": "PUT /switches/{scope}/{dataset}",
    "switches on": "PUT /switches/{scope}/{dataset}",
    "telemetry export": "GET /telemetry",
    "verify": "POST /verify",
    "wal annotate": "POST /records/{wal_id}/notes",
    "wal export": "GET /ledger/export",
    "wal history": "GET /ledger/history/{wal_id}",
    "wal list": "GET /records",
    "wal show": "GET /records/{wal_id}",
    "wal stats": "GET /ledger/stats",
}
#: By verb: why no route does it.
REASONS = {
    "aws plan": "writes down what to set up in an account; nothing of this server goes into it",
    "console": "is this server",
    "datasets new": "prints a file to begin with; it is edited and kept where one works",
    "db backup": "copies files of the machine where it is typed to a folder there",
    "db migrate": "changes the tables that this server stands on; it is run before the server",
    "demo": "makes a store of its own, and plays a feed to it",
    "follow": "a process that runs on and on, beside the server",
    "ingest": "a process that runs on and on; its workers must not share the server's fate",
    "init": "writes a configuration file where one works",
    "inspect object": "reads a file of the machine where it is typed",
    "nodes rebuild": "mends files of a runner where they lie, while no run is at work",
    "outbox dispatch": "a process that runs on and on, with the rights to reach the targets",
    "release verify": "checks a folder of the machine where it is typed",
    "simulate": "a feed of its own, for trials",
    "stac export": "writes a catalog as files; /stac gives the same by paging",
    "stac project": "a process with a large memory of its own; its lag is at /catalog/projection",
    "stac serve": "the STAC API is at /stac already",
    "wal import": "takes a file of any size, once, into an empty ledger; bodies here are small",
}


def verbs(command: click.Command, words: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield every verb of the command line that does something by itself."""
    if not isinstance(command, click.Group):
        yield " ".join(words)
        return
    if words and command.invoke_without_command:
        yield " ".join(words)
    context = click.Context(command)
    for name in command.list_commands(context):
        below = command.get_command(context, name)
        assert below is not None
        yield from verbs(below, (*words, name))


def routes() -> set[str]:
    """Return every route of the API, without its prefix."""
    return {
        f"{method} {route.path}"  # type: ignore[attr-defined]
        for router in ROUTERS
        for route in router.routes
        for method in route.methods  # type: ignore[attr-defined]
    }


def test_every_verb_has_a_route_or_a_written_reason() -> None:
    """A new verb without either fails here; one that is gone must go from the table, too."""
    known = set(verbs(cli))
    assert len(known) > 90, "the tree of commands was not walked"
    assert not set(ROUTES) & set(REASONS)
    assert known == set(ROUTES) | set(REASONS)


@pytest.mark.parametrize(("verb", "route"), ROUTES.items(), ids=ROUTES)
def test_the_route_of_a_verb_is_there(verb: str, route: str) -> None:
    """A route that was renamed or removed fails for the verb that needs it."""
    assert route in routes(), verb


def test_every_reason_says_something() -> None:
    """No verb is passed over in silence."""
    assert all(len(reason.split()) > 2 for reason in REASONS.values())


def test_the_documentation_has_the_same_table() -> None:
    """Every verb is in the reference, with its route or its reason."""
    text = (ROOT / "docs" / "reference" / "api.md").read_text(encoding="utf-8")
    told = dict(re.findall(r"^\| `tallgrass ([^`]+)` \| `?([^|`]+?)`? \|$", text, re.MULTILINE))
    routes_told = {verb: route.replace(":path", "") for verb, route in ROUTES.items()}
    assert told == routes_told | REASONS
