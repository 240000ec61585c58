"""The abuse matrix: ways around an approval, by the library and by raw SQL. None leads anywhere.

`tests/corpora/governance.toml` holds them, with the people and the approvals that every case finds.
Ways over the command line are tried in `tests/cli/test_governance_abuse.py`.
"""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.errors import TallgrassError
from tallgrass.governance.actors import Actor, Role
from tallgrass.governance.approvals import Approval, Verdict, release_subject
from tallgrass.governance.references import ReferenceKind
from tallgrass.governance.switches import SwitchScope
from tests.contract.scene import RAW_ERRORS, Scene, run, undone
from tests.corpora.reading import cases
from tests.support.governance import (
    People,
    log_entry,
    plan,
    set_up,
    state_of_tables,
    token_of,
)

if TYPE_CHECKING:
    from tests.support.backends import Backend


@dataclass
class Stage:
    """What every case finds."""

    backend: Backend
    people: People
    unit: str
    other_unit: str
    ready: Approval
    open: Approval
    used: Approval
    rejected: Approval
    release: Approval
    used_release: Approval


APPROVALS = ("ready", "open", "used", "rejected", "release", "used_release")


@pytest.fixture
def stage(backend: Backend) -> Stage:
    """Two quarantined units, and approvals in every state."""
    scene = Scene(backend)
    unit, other_unit = scene.at("quarantined", 0), scene.at("quarantined", 1)
    people = set_up(backend)
    used, rejected = people.approved(plan("used")), people.request(plan("rejected"))
    people.use(used)
    people.stores.approvals.decide(rejected.approval_id, Verdict.REJECT, by=people.bob)
    version = scene.row(unit)["version"]
    releases = [people.approved(release_subject([(unit, version)])) for _ in range(2)]
    people.use(releases[1])
    return Stage(
        backend=backend,
        people=people,
        unit=unit,
        other_unit=other_unit,
        ready=people.approved(plan("ready")),
        open=people.request(plan("open"), by=people.ann),
        used=used,
        rejected=rejected,
        release=releases[0],
        used_release=releases[1],
    )


LIBRARY = {case["what"]: case for case in cases("governance.toml", "library")}
RAW = {case["what"]: case for case in cases("governance.toml", "sql")}


def prepared(stage: Stage, case: dict[str, Any]) -> dict[str, Approval]:
    """Do what comes first in a case; return the approvals that it knows, by their names."""
    people, stores = stage.people, stage.people.stores
    known = {name: getattr(stage, name) for name in APPROVALS}
    for act in case.get("first", ()):
        if act == "two":
            known["two"] = people.approved(plan("two", needed=2))
        elif act == "given":
            known["given"] = people.request(plan("by bob"))
            people.approve(known["given"], by=people.bob)
        elif act == "renew bob":
            stores.actors.rotate("bob", token=token_of("bob2"), by=people.bob)
        elif act == "revoke bob":
            stores.actors.revoke("bob", by=people.ann)
        else:
            assert act == "freeze"
            stores.switches.freeze(actor=people.otto, reason="x")
    return known


def actor_of(people: People, case: dict[str, Any]) -> Actor:
    """Return who tries it: somebody as they are, or with a part that is forged."""
    actor: Actor = getattr(people, case["by"])
    if "proof" in case:
        whose = getattr(people, case["proof"], None)
        actor = replace(actor, proof=whose.proof if whose is not None else "")
    if "role" in case:
        actor = replace(actor, role=Role(case["role"]))
    return replace(actor, name=case.get("name", actor.name))


def hash_of(stage: Stage, subject: str) -> str:
    """Return the hash of what an approval would be used for."""
    if subject == "edited":
        return plan("ready ").sha256
    unit, _, version = subject.partition(" at ")
    if version:
        return release_subject([(getattr(stage, unit), int(version))]).sha256
    return str(getattr(stage, subject).subject_sha256)


def attempt(stage: Stage, case: dict[str, Any], known: dict[str, Approval]) -> None:
    """Try a way by the library."""
    people, stores, verb = stage.people, stage.people.stores, case["do"]
    by: Any = actor_of(people, case) if "by" in case else None
    if verb == "decide":
        verdict = Verdict(case.get("verdict", "approve"))
        stores.approvals.decide(known[case["of"]].approval_id, verdict, by=by)
    elif verb == "request":
        people.request(by=by)
    elif verb == "use":
        changes: dict[str, Any] = {
            name: case[name] for name in ("needed", "purpose") if name in case
        }
        if "subject" in case:
            changes["subject_sha256"] = hash_of(stage, case["subject"])
        people.use(known[case["of"]], **changes)
    elif verb == "add":
        stores.actors.add("otto2", Role.APPROVER, token=token_of("otto2"), by=by)
    elif verb == "rotate":
        stores.actors.rotate(case["whose"], token=token_of("otto2"), by=by)
    elif verb == "revoke":
        stores.actors.revoke(case["whose"], by=by)
    elif verb == "thaw":
        stores.switches.thaw(actor=case["mere"], reason="x")
    elif verb == "switch":
        stores.switches.set(SwitchScope.REPLAY, "*", is_on=True, actor=by, reason="x")
    else:
        assert verb == "open"
        stores.changes.open(ReferenceKind.CHANGE, "CHG-1", title="t", by=case["mere"])


@pytest.mark.conformance("C-49")
@pytest.mark.parametrize("way", LIBRARY)
def test_no_way_leads_around_by_the_library(stage: Stage, way: str) -> None:
    """Each is refused with exit code 3 and its code; every table but the log is as it was."""
    case = LIBRARY[way]
    known = prepared(stage, case)
    before = state_of_tables(stage.backend)
    with pytest.raises(TallgrassError) as refused:
        attempt(stage, case, known)
    assert (refused.value.exit_code, refused.value.code) == (3, case["refused"])
    assert state_of_tables(stage.backend) == before


def names_of(stage: Stage, **changes: str) -> dict[str, str]:
    """Return what stands for the names of a statement: ids, and when approvals were asked for."""
    asked = dict(stage.backend.sql("SELECT approval_id, requested_at FROM approvals"))
    approvals = {name: getattr(stage, name).approval_id for name in APPROVALS}
    times = {f"{name}_at": str(asked[approval_id]) for name, approval_id in approvals.items()}
    units = {"unit": stage.unit, "other_unit": stage.other_unit}
    return {**approvals, **times, **units, **changes}


def forge(connection: Any, case: dict[str, Any], names: dict[str, str]) -> None:
    """Run the statements of a case, after the entry of the log that it forges."""
    if (entry := case.get("log")) is not None:
        subject = f"approval:{names[entry['approval']]}"
        log_entry(connection, entry["actor"], entry["action"], subject)
    for statement in case["run"]:
        run(connection, re.sub(r"\{(\w+)\}", lambda match: names[match[1]], statement))


@pytest.mark.conformance("C-49", "C-08")
@pytest.mark.parametrize("way", RAW)
def test_no_way_leads_around_by_raw_sql(stage: Stage, way: str) -> None:
    """The database itself refuses it, whoever holds the connection."""
    case = RAW[way]
    prepared(stage, case)
    names = names_of(stage)
    connection = stage.backend.connect()
    with undone(connection), pytest.raises(RAW_ERRORS) as refused:
        forge(connection, case, names)
    assert case["refused"] in str(refused.value)


def test_an_approved_way_out_of_quarantine_is_open(stage: Stage) -> None:
    """The guards refuse the wrong ones, not all: the unit that was approved can leave."""
    connection = stage.backend.connect()
    # The same statements, by the approval of this very unit.
    case = RAW["leave quarantine by an approval that is not used"]
    with undone(connection):
        forge(connection, case, names_of(stage, release=stage.used_release.approval_id))


def test_a_forged_actor_is_in_the_log(stage: Stage) -> None:
    """Whoever adds one by SQL must write the log's entry too, where it stays to be found."""
    connection = stage.backend.connect()
    with undone(connection):
        log_entry(connection, "ann", "actor_add", "actor:mal", f'{{"token_sha256":"{"0" * 64}"}}')
        run(
            connection,
            "INSERT INTO actors (name, role, token_sha256, created_by, created_at)"
            " VALUES ('mal', 'approver', ?, 'ann', ?)",
            "0" * 64, "2999-01-01T00:00:00.000000Z",
        )  # fmt: skip


RACER = """
import sys
from tests.support.backends import Backend
name, url, approval_id, sha256, run = sys.argv[1:]
stores = Backend(name, url).open()
sys.stdin.readline()
try:
    stores.runner.run(lambda tx: stores.approvals.use(
        tx, approval_id, purpose="replay", subject_sha256=sha256, used_for=run, by="otto"))
    print("won")
except Exception as error:
    print(error.code)
stores.close()
"""


def test_two_processes_use_an_approval_once(stage: Stage) -> None:
    """They begin together; one runs, the other is told that it is used."""
    racers = [
        subprocess.Popen(
            [
                sys.executable, "-c", RACER, stage.backend.name, stage.backend.url,
                stage.ready.approval_id, stage.ready.subject_sha256, f"run-{number}",
            ],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for number in range(2)
    ]  # fmt: skip
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("\n")
        racer.stdin.flush()
    assert sorted(racer.communicate()[0].strip() for racer in racers) == ["approval_invalid", "won"]
