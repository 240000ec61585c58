"""The abuse matrix over the command line; the library's and raw SQL's stand in `tests/contract`.

Every case is a whole command line on a store where ann and bob approve, otto operates and vera
looks; in this process, since one for each would cost a minute (the last test, `test_actors.py` and
`test_switches.py` start real ones).
`{mine}` is a request of ann's, `{used}` an approval that was used, `{ready}` one of otto's that is
approved.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

import pytest

from tallgrass.governance.approvals import Subject, Verdict, release_subject
from tests.cli.command import fill, here, tallgrass
from tests.support.governance import a_plan, plan, set_up, state_of_tables, token_of

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.backends import Backend

FREEZE = ("freeze", "on", "--reason", "x")

#: Way → whose token, the command, and the code of the refusal.
WAYS: dict[str, tuple[str | None, tuple[str, ...], str]] = {
    "act without a token": (None, FREEZE, "unknown_actor"),
    "act without a token, by a name": (None, (*FREEZE, "--actor", "ann"), "unknown_actor"),
    "act with a token that nobody has": ("nobody", FREEZE, "unknown_actor"),
    "act with a token that was revoked": ("rita", FREEZE, "unknown_actor"),
    "act in another's name": ("otto", (*FREEZE, "--actor", "ann"), "not_authorized"),
    "act as a viewer": ("vera", FREEZE, "not_authorized"),
    "turn a switch as a viewer": (
        "vera", ("switches", "off", "--scope", "ingest", "--all", "--reason", "x"),
        "not_authorized"),
    "open a change record as a viewer": (
        "vera", ("changes", "open", "CHG-1", "--title", "t"), "not_authorized"),
    "close an incident by a name": (
        None, ("incidents", "close", "INC-1", "--resolution", "x", "--actor", "ann"),
        "unknown_actor"),
    "approve one's own request": ("ann", ("approvals", "approve", "{mine}"), "self_approval"),
    "reject one's own request": ("ann", ("approvals", "reject", "{mine}"), "self_approval"),
    "approve as an operator": ("otto", ("approvals", "approve", "{mine}"), "not_authorized"),
    "approve with a revoked token": ("rita", ("approvals", "approve", "{mine}"), "unknown_actor"),
    "approve what is approved": ("bob", ("approvals", "approve", "{ready}"), "approval_invalid"),
    "approve twice": ("ann", ("approvals", "reject", "{ready}"), "approval_invalid"),
    "reject what is used": ("bob", ("approvals", "reject", "{used}"), "approval_invalid"),
    "request as a viewer": (
        "vera", ("approvals", "request", "--plan", "{plan}", "--reason", "x"), "not_authorized"),
    "request without a token": (
        None, ("approvals", "request", "--plan", "{plan}", "--reason", "x"), "unknown_actor"),
    "add an approver as an operator": (
        "otto", ("actors", "add", "otto2", "--role", "approver"), "not_authorized"),
    "add an approver without a token": (
        None, ("actors", "add", "otto2", "--role", "approver"), "unknown_actor"),
    "take an approver's token": ("otto", ("actors", "rotate", "ann"), "not_authorized"),
    "revoke an approver as an operator": ("otto", ("actors", "revoke", "ann"), "not_authorized"),
    "feed messages by a name": (
        None, ("poison", "feed", "--all", "--reason", "x", "--actor", "ann"), "unknown_actor"),
    "send events again by a name": (
        None, ("outbox", "requeue", "--all", "--reason", "x", "--actor", "ann"), "unknown_actor"),
    "import a ledger by a name": (
        None, ("wal", "import", "{plan}", "--actor", "ann"), "unknown_actor"),
    "import a ledger as a viewer": ("vera", ("wal", "import", "{plan}"), "not_authorized"),
}  # fmt: skip


@pytest.mark.conformance("C-49")
@pytest.mark.parametrize("way", WAYS)
def test_no_way_leads_around_by_the_command_line(
    backend: Backend, tmp_path: Path, way: str
) -> None:
    """Exit code 3 with the rule's name, every table but the log as it was, the refusal in it."""
    who, command, code = WAYS[way]
    names = stage(backend, tmp_path)
    before = state_of_tables(backend)
    [[logged]] = backend.sql("SELECT count(*) FROM audit_log")
    words = [word.format(**names) for word in command]
    env = {} if who is None else {"TALLGRASS_TOKEN": token_of(who)}
    done = here(*words, at=backend, env=env)
    assert (done.code, done.error["code"]) == (3, code)
    assert state_of_tables(backend) == before
    entries = backend.sql("SELECT action, reason FROM audit_log ORDER BY entry_id")[logged:]
    assert [(action[-8:], reason) for action, reason in entries] == [("_refused", code)]


def stage(backend: Backend, folder: Path) -> dict[str, str]:
    """Set the people and their approvals up; return what the cases call them."""
    people = set_up(backend)
    people.stores.actors.add("rita", people.ann.role, token=token_of("rita"), by=people.ann)
    people.stores.actors.revoke("rita", by=people.ann)
    mine, used = people.request(plan("mine"), by=people.ann), people.approved(plan("used"))
    people.use(used)
    ready = people.approved(plan("ready"))
    people.stores.close()
    (folder / "plan").write_bytes(a_plan())
    return {
        "mine": mine.approval_id,
        "used": used.approval_id,
        "ready": ready.approval_id,
        "plan": str(folder / "plan"),
    }


def test_what_the_matrix_refuses_is_otherwise_possible(backend: Backend) -> None:
    """The guards refuse the wrong ones, not all: bob approves what ann asked for."""
    people = set_up(backend)
    mine = people.request(plan("mine"), by=people.ann)
    people.stores.close()
    done = tallgrass(
        "approvals",
        "approve",
        mine.approval_id,
        at=backend,
        env={"TALLGRASS_TOKEN": token_of("bob")},
    )
    assert done.code == 0
    assert backend.sql("SELECT actor, decision FROM approval_decisions") == [
        ("bob", Verdict.APPROVE.value)
    ]


#: The same for what an approval allows: a plan that runs succeeded units again, and a release.
#: `{good}` is the approval of `{plan}`, `{release}` that of the unit `{held}`.
RUN = ("replay", "--confirm", "--no-work", "--plan", "{plan}")
FREE = ("quarantine", "release", "{held}")
USES: dict[str, tuple[str | None, tuple[str, ...], str]] = {
    "run without an approval": ("otto", RUN, "approval_missing"),
    "run finished units without a plan": (
        "otto", (*RUN[:-2], "--reason", "backfill", "--dataset", "goes-glm", "--include-succeeded",
                 "--force", "--since", "2020-01-01"), "approval_missing"),
    "run what nobody approved": ("otto", (*RUN, "--approval", "{asked}"), "approval_invalid"),
    "run what is used": ("otto", (*RUN, "--approval", "{spent}"), "approval_invalid"),
    "run by the approval of another plan": (
        "otto", (*RUN, "--approval", "{another}"), "plan_changed"),
    "run by the approval of a release": (
        "otto", (*RUN, "--approval", "{release}"), "approval_invalid"),
    "run a plan with a row less": (
        "otto", (*RUN[:-1], "{shorter}", "--approval", "{good}"), "plan_changed"),
    "run a plan that asks for no approval": (
        "otto", (*RUN[:-1], "{cheaper}", "--approval", "{good}"), "plan_changed"),
    "run a plan that was made to ask for none, without one": (
        "otto", (*RUN[:-1], "{cheaper}"), "approval_missing"),
    "run as a viewer": ("vera", (*RUN, "--approval", "{good}"), "not_authorized"),
    "run by a name": (None, (*RUN, "--approval", "{good}", "--actor", "otto"), "unknown_actor"),
    "run with a revoked token": ("rita", (*RUN, "--approval", "{good}"), "unknown_actor"),
    "release without an approval": ("otto", FREE, "approval_missing"),
    "release by the approval of a plan": (
        "otto", (*FREE, "--approval", "{good}"), "approval_invalid"),
    "release by a used approval": (
        "otto", (*FREE, "--approval", "{spent_release}"), "approval_invalid"),
    "release another unit too": (
        "otto", (*FREE, "{failed}", "--approval", "{release}"), "illegal_transition"),
    "release as a viewer": ("vera", (*FREE, "--approval", "{release}"), "not_authorized"),
    "release without a token": (None, (*FREE, "--approval", "{release}"), "unknown_actor"),
}  # fmt: skip


@pytest.mark.conformance("C-49")
@pytest.mark.parametrize("way", USES)
def test_no_way_leads_around_an_approval(backend: Backend, tmp_path: Path, way: str) -> None:
    """Nothing runs and nothing leaves quarantine: exit code 3, the rule's name, and the log."""
    who, command, code = USES[way]
    names = stage_of_uses(backend, tmp_path)
    before = state_of_tables(backend)
    [[logged]] = backend.sql("SELECT count(*) FROM audit_log")
    words = [word.format(**names) for word in command]
    done = here(*words, at=backend, env=token(who))
    error = json.loads(done.err)["error"]
    assert (done.code, error.get("guard", error["code"])) == (3, code)
    assert state_of_tables(backend) == before
    entries = backend.sql("SELECT action FROM audit_log ORDER BY entry_id")[logged:]
    assert entries
    assert all(action.endswith("_refused") for (action,) in entries)


def test_what_was_approved_runs_and_leaves_once(backend: Backend, tmp_path: Path) -> None:
    """The plan as it was, and the unit as it was, by their own approvals; a second time neither."""
    names = stage_of_uses(backend, tmp_path)
    for command in ((*RUN, "--approval", "{good}"), (*FREE, "--approval", "{release}")):
        words = [word.format(**names) for word in command]
        assert here(*words, at=backend, env=token("otto")).code == 0
    again = [word.format(**names) for word in (*FREE, "--approval", "{release}")]
    assert here(*again, at=backend, env=token("otto")).code == 3
    used = backend.sql("SELECT approval_id FROM approvals WHERE used_for <> 'before'")
    assert {each for (each,) in used} == {names["good"], names["release"]}


def token(who: str | None) -> dict[str, str]:
    """Return the environment of a person of the test, or of nobody."""
    return {} if who is None else {"TALLGRASS_TOKEN": token_of(who)}


def stage_of_uses(backend: Backend, folder: Path) -> dict[str, str]:
    """Fill the ledger, write a plan that needs an approval, and approve what the cases need."""
    fill(backend)
    people = set_up(backend)
    people.stores.actors.add("rita", people.ann.role, token=token_of("rita"), by=people.ann)
    people.stores.actors.revoke("rita", by=people.ann)
    written = folder / "plan"
    planned = here(
        "replay", "--dry-run", "--plan-out", str(written), "--reason", "backfill", "--dataset",
        "goes-glm", "--since", "2020-01-01", "--until", "2030-01-01", "--include-succeeded",
        "--force", at=backend, env=token("otto"),
    )  # fmt: skip
    assert planned.json["summary"]["events"] > 0
    lines = written.read_bytes().splitlines(keepends=True)
    (folder / "shorter").write_bytes(b"".join(lines[:-1]))
    cheaper = written.read_bytes().replace(b'"approvals_needed":1', b'"approvals_needed":0')
    (folder / "cheaper").write_bytes(cheaper)
    digest = hashlib.sha256(written.read_bytes()).hexdigest()
    of_plan = Subject(purpose="replay", sha256=digest, summary={})
    held, version = backend.sql(
        "SELECT wal_id, version FROM wal_records WHERE status = 'quarantined'"
    )[0]
    of_unit = release_subject([(held, version)])
    approved = {
        "good": of_plan, "spent": of_plan, "another": plan("another"), "release": of_unit,
        "spent_release": of_unit,
    }  # fmt: skip
    made = {name: people.approved(subject) for name, subject in approved.items()}
    for name in ("spent", "spent_release"):
        people.use(made[name], used_for="before")
    made["asked"] = people.request(of_plan)
    people.stores.close()
    [[failed]] = backend.sql("SELECT wal_id FROM wal_records WHERE last_error_code = 'size_zero'")
    files = {name: str(folder / name) for name in ("plan", "shorter", "cheaper")}
    ids = {name: each.approval_id for name, each in made.items()}
    return {**files, **ids, "held": held, "failed": failed}
