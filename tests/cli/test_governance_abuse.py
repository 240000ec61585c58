"""The abuse matrix over the command line; the library and raw SQL are tried in `tests/contract`.

`tests/corpora/governance.toml` holds the cases. Each is a whole command line, run in this process,
since a process for each would cost a minute. `test_actors.py` and `test_switches.py` start real
ones.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

import pytest

from tallgrass.governance.approvals import Subject, Verdict, release_subject
from tests.cli.command import fill, here, tallgrass
from tests.corpora.reading import cases
from tests.support.governance import a_plan, plan, set_up, state_of_tables, token_of

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.backends import Backend

#: Way → whose token, the command, and the code of the refusal.
WAYS, USES = (
    {
        case["what"]: (case.get("who"), tuple(case["words"]), case["refused"])
        for case in cases("governance.toml", kind)
    }
    for kind in ("command", "use")
)
#: What the cases of use misuse: a run of a plan, and a release.
RUN = ("replay", "--confirm", "--no-work", "--plan", "{plan}")
FREE = ("quarantine", "release", "{held}")


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
