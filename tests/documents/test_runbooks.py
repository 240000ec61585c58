"""The runbooks, held to their word: every command of them is carried out, in its order."""

from __future__ import annotations

import ast
import re
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from tests.documents.markdown import DOCS, ROOT, links, read, section
from tests.documents.runbook_world import (
    FORECAST,
    OBJECTS,
    RUNBOOKS,
    World,
    steps,
    world,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SECTIONS = [
    "Purpose & Severity",
    "Preconditions & Safety",
    "Detection & Triage",
    "Stabilize",
    "Diagnose",
    "Remediate",
    "Verify",
    "Postmortem & Governance",
]
NAMES = [
    "backfill",
    "capacity",
    "delayed-queue",
    "delivery",
    "dlq-drain",
    "error-budget",
    "incident-replay",
    "parked-units",
    "quarantine-release",
    "rollback",
    "silent-telemetry",
    "validation-errors",
]
ROLES = re.compile(r"operator|approver|data steward")
REPLAY = DOCS / "replay"


# --- what the documents are -----------------------------------------------------------------------


@pytest.mark.conformance("RP-2.1", "C-52")
def test_the_replay_documents_lie_in_one_tree() -> None:
    """Ledger, engine and runbooks, each in its folder below docs/replay, and nothing else."""
    found = {path.relative_to(REPLAY).as_posix() for path in REPLAY.rglob("*") if path.is_file()}
    assert found == {
        "README.md",
        *(f"wal/{name}.md" for name in
          ("README", "wal-record-model", "wal-state-machine", "wal-storage-backends")),
        "replay-engine/replay-cli-usage.md",
        "replay-engine/replay-engine.md",
        *(f"runbooks/{name}-runbook.md" for name in NAMES),
    }  # fmt: skip
    overview = read(REPLAY / "README.md")
    layout = section(overview, "Layout")
    for path in found:
        assert path.rpartition("/")[2] in layout, path
    listed = {link for link in links(overview) if link.startswith("runbooks/")}
    assert listed == {f"runbooks/{name}-runbook.md" for name in NAMES}


@pytest.mark.conformance("RP-2.1")
def test_no_script_goes_round_the_engine() -> None:
    """Tools and examples reach ledger and queue through the package, never behind its back."""
    scripts = [*(ROOT / "tools").rglob("*.py"), *(ROOT / "examples").rglob("*.py")]
    assert len(scripts) > 5, "the premise: there are scripts"
    tables = re.compile(r"\b(wal_\w+|stac_items|outbox_\w+|dead_letters|replay_runs)\b")
    behind = ("boto3", "botocore", "tallgrass.storage", "tallgrass.queues")
    for path in scripts:
        for node in ast.walk(ast.parse(read(path))):
            names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            assert not [name for name in names if name.startswith(behind)], path.name
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found = re.search(r"\b(INSERT|UPDATE|DELETE)\b", node.value)
                assert not (found and tables.search(node.value)), (path.name, node.value)


@pytest.mark.conformance("C-52")
@pytest.mark.parametrize("name", NAMES)
def test_each_runbook_has_its_fixed_sections(name: str) -> None:
    """Eight sections in order; owners by role; automated and manual steps apart; its history."""
    text = re.sub(
        r"^```.*?^```$", "", read(RUNBOOKS / f"{name}-runbook.md"), flags=re.DOTALL | re.MULTILINE
    )
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == SECTIONS
    head = text.partition("\n## ")[0]
    for field in ("Owner", "Decides"):
        cell = re.search(rf"^\| {field} \| (.*) \|$", head, re.MULTILINE)
        assert cell is not None
        assert ROLES.search(cell[1]), cell[1]
    for heading in ("Stabilize", "Remediate"):
        assert re.findall(r"^### (.*)$", section(text, heading), re.MULTILINE) == [
            "Automated", "Manual",
        ]  # fmt: skip
    last = section(text, "Postmortem & Governance")
    assert re.search(r"^\| \d+\.\d+\.\d+ \| \d{4}-\d{2}-\d{2} \|", last, re.MULTILINE)
    governing = {(RUNBOOKS / link).resolve() for link in links(last)}
    assert {ROOT / "CONTRIBUTING.md", DOCS / "concepts" / "decisions.md"} <= governing


# --- what the commands do -------------------------------------------------------------------------


def damage(here: World) -> None:
    """Eight units went through; two failed twice, and their messages are dead letters."""
    here.put(*OBJECTS[:8])
    for each in OBJECTS[8:]:
        here.put(each, content=b"x" * len(each.content))
    here.announce(*OBJECTS)
    for _ in range(100):  # a message whose unit backs off is hidden for that long
        here.ingest()
        if here.dead() == 2:
            break
    assert (here.statuses(), here.dead()) == ({"succeeded": 8, "failed": 2}, 2)
    (wal_id,) = here.backend.sql(
        "SELECT wal_id FROM wal_records WHERE object_uri = ?", OBJECTS[9].uri
    )[0]
    here.names["WAL_ID"] = wal_id
    here.names["OBJECT_URI"] = OBJECTS[9].uri
    # The cause is mended: the objects are whole.
    here.put(*OBJECTS)


def refused_and_damaged(here: World) -> None:
    """The same, and a message came that nobody understood."""
    here.announce(body=b'{"of": "nobody"}')
    damage(here)


def unannounced(here: World) -> None:
    """Ten objects lie in the bucket, of two no notification came."""
    here.put(*OBJECTS)
    here.announce(*OBJECTS[:8])
    here.ingest()
    here.age_objects(timedelta(hours=1))


def backlog(here: World) -> None:
    """Messages of two datasets wait."""
    here.put(*OBJECTS, FORECAST)
    here.announce(*OBJECTS, FORECAST)


def held(here: World) -> None:
    """A unit is in quarantine whose reason is gone."""
    here.put(OBJECTS[0])
    here.hold(OBJECTS[0])


def ingested(here: World) -> None:
    """Everything is well."""
    here.put(*OBJECTS)
    here.announce(*OBJECTS)
    here.ingest()


def old_attempts(here: World) -> None:
    """Units with more attempts than their items need, made long ago; and work that waits."""
    damage(here)
    here.make_attempts_old(timedelta(days=60))
    here.put(FORECAST)
    here.announce(FORECAST)
    here.command("operator", "audit", "seal", "--anchor", "anchors.jsonl")


def undelivered(here: World) -> None:
    """All events of ten units were given up: where they were to go, nothing could be written."""
    ingested(here)
    target = here.folder / "tallgrass-events.jsonl"
    target.mkdir()
    for _ in range(100):  # an event that failed rests for a moment
        assert here.command("operator", "outbox", "dispatch", "--drain").code == 0
        if not here.backend.sql("SELECT 1 FROM outbox_delivery WHERE due_at IS NOT NULL"):
            break
    given_up = "SELECT outbox_id FROM outbox_delivery WHERE status = 'failed' AND due_at IS NULL"
    exhausted = here.backend.sql(given_up)
    assert len(exhausted) == 10
    here.names["EVENT_ID"] = str(exhausted[3][0])
    # The cause is mended.
    target.rmdir()


def switched_off(here: World) -> None:
    """A dataset was switched off before its message came; all others went through."""
    here.put(*OBJECTS, FORECAST)
    switch = ("switches", "on", "--scope", "ingest", "--dataset", "hrrr", "--reason", "a test")
    assert here.command("operator", *switch).code == 0
    here.announce(*OBJECTS, FORECAST)
    here.ingest()
    assert here.statuses() == {"succeeded": 10, "pending": 1}


def all_succeeded(here: World, units: int = 10) -> None:
    """Every unit is in the catalog."""
    assert here.statuses() == {"succeeded": units}
    assert here.backend.sql("SELECT count(*) FROM stac_items") == [(units,)]


def drained(here: World) -> None:
    """Every unit is in the catalog, and no letter is left."""
    all_succeeded(here)
    assert here.dead() == 0
    runs = here.backend.sql("SELECT replay_run_id, reason FROM replay_runs ORDER BY 1")
    assert runs == [("INC-7-pilot", "dlq-drain"), ("INC-7-rest", "dlq-drain")]


def repaired(here: World) -> None:
    """Every unit was run again, by one approved run."""
    all_succeeded(here)
    (again,) = here.backend.sql(
        "SELECT count(*) FROM wal_attempts WHERE intent = 'repair' AND status = 'applied'"
    )
    assert again == (10,)


def worked_off(here: World) -> None:
    """Both datasets are in the catalog; no switch is on."""
    all_succeeded(here, 11)
    assert here.backend.sql("SELECT count(*) FROM kill_switches WHERE is_on = 1") == [(0,)]


def fed_and_replayed(here: World) -> None:
    """The units are in the catalog; the message that nobody understands is still open."""
    all_succeeded(here)
    assert here.backend.sql("SELECT count(*) FROM poison_messages") == [(1,)]


def released(here: World) -> None:
    """The held unit is in the catalog, by an approval that is used up."""
    all_succeeded(here, 1)
    actions = {action for (action,) in here.backend.sql("SELECT action FROM audit_log")}
    assert any("release" in action for action in actions)


def archived(here: World) -> None:
    """The waiting unit went through; attempts that nobody needs lie in an archive."""
    assert here.statuses() == {"succeeded": 9, "failed": 2}
    (archives,) = here.backend.sql("SELECT count(*) FROM archives")
    assert archives == (1,)
    assert len(list((here.folder / "archives").rglob("*.*"))) >= 1


def delivered(here: World) -> None:
    """Each event stands once in the file, and nothing is given up."""
    lines = (here.folder / "tallgrass-events.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(lines) == len(set(lines)) == 10
    assert here.backend.sql("SELECT DISTINCT status FROM outbox_delivery") == [("dispatched",)]


def exported(here: World) -> None:
    """What waited is done, and its figures lie in a file."""
    all_succeeded(here, 11)
    assert len(list((here.folder / "telemetry").rglob("nodd-sns-telemetry.json"))) == 1


SCENES: dict[str, tuple[Callable[[World], None], Callable[[World], None]]] = {
    "backfill": (unannounced, all_succeeded),
    "capacity": (old_attempts, archived),
    "delayed-queue": (backlog, worked_off),
    "delivery": (undelivered, delivered),
    "dlq-drain": (damage, drained),
    "error-budget": (damage, all_succeeded),
    "incident-replay": (damage, repaired),
    "parked-units": (switched_off, worked_off),
    "quarantine-release": (held, released),
    "rollback": (ingested, repaired),
    "silent-telemetry": (backlog, exported),
    "validation-errors": (refused_and_damaged, fed_and_replayed),
}


@pytest.mark.conformance("RP-1.3")
@pytest.mark.parametrize("name", NAMES)
def test_every_command_is_carried_out(name: str, tmp_path: Path) -> None:
    """In the order of the runbook, by the role that it names, each ends as it says."""
    before, after = SCENES[name]
    commands = steps(name)
    assert len(commands) >= 10
    with world(tmp_path) as here:
        before(here)
        for step in commands:
            assert step.role in {"operator", "approver"}, step
            here.carry_out(step)
        after(here)


def test_a_dead_letter_leaves_by_the_runbook_alone(tmp_path: Path) -> None:
    """Without a plan, a reference or a word on what was mended the drain is refused."""
    with world(tmp_path) as here:
        damage(here)
        drain = ("dlq", "drain", "--yes")
        for flags in (
            (),
            ("--incident-ref", "INC-7", "--remediation", "mended"),
            ("--plan", "tallgrass.toml", "--remediation", "mended"),
        ):
            done = here.command("operator", *drain, *flags)
            assert done.code in {2, 3}, done
        assert here.dead() == 2
