"""`tallgrass approvals`: from the request to the decision, as an approver sees it."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import pytest

from tallgrass.governance.approvals import Verdict, release_sha256
from tests.cli.command import here, tallgrass
from tests.cli.test_actors import by
from tests.support.governance import a_plan, plan, set_up

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.command import Done
    from tests.support.backends import Backend

NOBODY = "00e6e7b5-0000-8000-8000-00000000dead"
ROWS = (
    ("00e6e7b5-0000-8000-8000-000000000001", 3, "replay"),
    ("00e6e7b5-0000-8000-8000-000000000002", 3, "replay"),
    ("00e6e7b5-0000-8000-8000-000000000003", 5, "hit"),
)


@pytest.fixture
def people(backend: Backend) -> Backend:
    """A store with two approvers, an operator and a viewer."""
    set_up(backend).stores.close()
    return backend


def approvals(at: Backend, name: str, *args: str) -> Done:
    """Run a command as somebody; its answer is JSON."""
    return tallgrass("approvals", *args, "--output", "json", at=at, env=by(name))


def test_a_plan_is_submitted_and_decided_on(people: Backend, tmp_path: Path) -> None:
    """Bound to the file's hash, with what its rows come to; another approves, with a note."""
    file = tmp_path / "plan.jsonl"
    file.write_bytes(a_plan(*ROWS, needed=2))
    asked = approvals(people, "otto", "request", "--plan", str(file), "--reason", "CHG-1").json
    assert asked["subject_sha256"] == hashlib.sha256(file.read_bytes()).hexdigest()
    assert (asked["state"], asked["needed"], asked["purpose"]) == ("requested", 2, "replay")
    assert asked["summary"]["actions"] == {"hit": 1, "replay": 2}
    assert (asked["requested_by"], asked["reason"]) == ("otto", "CHG-1")
    number = asked["approval_id"]
    first = approvals(people, "ann", "approve", number, "--note", "read it").json
    assert (first["state"], first["approvals"]) == ("requested", 1)
    second = approvals(people, "bob", "approve", number).json
    assert (second["state"], second["approvals"]) == ("approved", 2)
    notes = people.sql("SELECT actor, note FROM approval_decisions ORDER BY actor")
    assert notes == [("ann", "read it"), ("bob", "")]
    text = tallgrass("approvals", "show", number, at=people).out
    for shown in ("approved", "CHG-1", asked["subject_sha256"], '{"hit":1,"replay":2}', "read it"):
        assert shown in text
    assert approvals(people, "ann", "show", number).json["state"] == "approved"


def test_how_long_it_lasts_is_a_setting(people: Backend, tmp_path: Path) -> None:
    """One hour instead of a day."""
    file = tmp_path / "plan.jsonl"
    file.write_bytes(a_plan(*ROWS))
    done = tallgrass(
        "approvals", "request", "--plan", str(file), "--reason", "x", "--output", "json",
        at=people, env={**by("otto"), "TALLGRASS_GOVERNANCE_APPROVAL_HOURS": "1"},
    ).json  # fmt: skip
    assert done["requested_at"][11:13] != done["expires_at"][11:13]
    assert done["requested_at"][14:] == done["expires_at"][14:]


def test_a_release_names_what_is_quarantined(filled: Backend) -> None:
    """Bound to the units as they are, whose objects and codes the approver sees."""
    set_up(filled).stores.close()
    [(held, version)] = filled.sql(
        "SELECT wal_id, version FROM wal_records WHERE status = 'quarantined'"
    )
    [[failed]] = filled.sql("SELECT wal_id FROM wal_records WHERE last_error_code = 'size_zero'")
    done = approvals(filled, "otto", "request", "--release", held, "--reason", "mended").json
    assert done["purpose"] == "release"
    assert done["summary"]["units"] == [[held, version]]
    assert done["summary"]["codes"] == {held: "governance_hard_fail"}
    assert done["subject_sha256"] == release_sha256([(held, version)])
    wrong = approvals(
        filled, "otto", "request", "--release", held, "--release", failed, "--reason", "x"
    )
    assert (wrong.code, wrong.error["code"]) == (2, "invalid_input")
    assert "failed, not quarantined" in wrong.error["message"]
    unknown = approvals(filled, "otto", "request", "--release", NOBODY, "--reason", "x")
    assert unknown.error["code"] == "record_unknown"
    assert filled.sql("SELECT count(*) FROM approvals") == [(1,)]


def test_approvals_are_listed_by_state_and_purpose(backend: Backend) -> None:
    """Each filter, the size of a page, and the way on."""
    people = set_up(backend)
    asked = [people.request(plan(str(number))).approval_id for number in range(3)]
    people.stores.approvals.decide(asked[0], Verdict.REJECT, by=people.ann)
    people.stores.close()

    def listed(*args: str) -> list[int]:
        done = here("approvals", "list", *args, at=backend).json
        return [asked.index(each["approval_id"]) for each in done["approvals"]]

    assert listed() == [2, 1, 0]
    assert listed("--state", "rejected") == [0]
    assert listed("--state", "requested", "--limit", "1") == [2]
    assert listed("--after", asked[2], "--state", "requested") == [1]
    assert listed("--purpose", "release") == []
    page = tallgrass("approvals", "list", "--limit", "2", at=backend).out
    assert f"More: --after {asked[1]}" in page


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (("request", "--reason", "x"), "invalid_input"),
        (("request", "--plan", "{plan}", "--release", "a", "--reason", "x"), "invalid_input"),
        (("request", "--plan", "{plan}", "--reason", " "), "invalid_input"),
        (("request", "--plan", "{broken}", "--reason", "x"), "plan_invalid"),
        (("request", "--plan", "{empty}", "--reason", "x"), "plan_invalid"),
        (("request", "--plan", "missing", "--reason", "x"), "invalid_input"),
        (("show", "no-id"), "invalid_input"),
        (("approve", "3f0a5b1c-2d3e-4cc1-9d7e-0190c7e85f4e"), "approval_unknown"),
    ],
)
def test_what_says_nothing_is_refused(
    people: Backend, tmp_path: Path, args: tuple[str, ...], code: str
) -> None:
    """Nothing or two things to approve, no reason, no plan, no such approval."""
    files = {"plan": a_plan(*ROWS), "broken": a_plan(*reversed(ROWS)), "empty": b""}
    for name, body in files.items():
        (tmp_path / name).write_bytes(body)
    paths = {name: str(tmp_path / name) for name in files}
    words = [arg.format(**paths) for arg in args]
    done = here("approvals", *words, at=people, env=by("ann"))
    assert done.error["code"] == code
    assert done.code == (1 if code == "approval_unknown" else 2)
    assert people.sql("SELECT count(*) FROM approvals") == [(0,)]
