"""``tallgrass quarantine`` as a real process: what is held, and the approved way out."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.governance.actors import Role, make_token
from tallgrass.governance.approvals import Verdict, release_subject
from tallgrass.governance.switches import SwitchScope
from tests.cli.command import Done, fill, tallgrass, uri

if TYPE_CHECKING:
    from tests.support.backends import Backend

TOKENS = {name: make_token(name[0].encode() * 32) for name in ("ann", "olga", "vic")}
HELD = uri(12, "hrrr")


@dataclass
class Desk:
    """A ledger with one unit in quarantine, and people."""

    backend: Backend

    def as_(self, who: str, *args: str) -> Done:
        """Run a command as somebody."""
        return tallgrass(*args, at=self.backend, env={"TALLGRASS_TOKEN": TOKENS[who]})

    def approval(self) -> str:
        """Have the release of the held unit asked for by olga and approved by ann."""
        stores = self.backend.open()
        olga, ann = (stores.actors.authenticate(TOKENS[n], action="test") for n in ("olga", "ann"))
        subject = release_subject([(str(self.row()["wal_id"]), self.row()["version"])])
        asked = stores.approvals.request(subject, reason="mended", by=olga)
        stores.approvals.decide(asked.approval_id, Verdict.APPROVE, by=ann)
        return asked.approval_id

    def one(self, status: str) -> str:
        """Return a unit of a status."""
        found = self.backend.sql(
            "SELECT wal_id FROM wal_records WHERE status = ? ORDER BY wal_id", status
        )
        return str(found[0][0])

    def row(self) -> dict[str, Any]:
        """Return the record of the unit that is held."""
        return self.backend.rows("SELECT * FROM wal_records WHERE object_uri = ?", HELD)[0]


@pytest.fixture
def desk(backend: Backend) -> Desk:
    """Return a filled ledger whose actors are set up."""
    fill(backend)
    actors = backend.open().actors
    ann = actors.add("ann", Role.APPROVER, token=TOKENS["ann"], by=None)
    actors.add("olga", Role.OPERATOR, token=TOKENS["olga"], by=ann)
    actors.add("vic", Role.VIEWER, token=TOKENS["vic"], by=ann)
    return Desk(backend)


def test_list_and_show(desk: Desk) -> None:
    """What is held, since when and why, for people and for programs; no token is needed."""
    at = desk.backend
    found = tallgrass("quarantine", "list", "--output", "json", at=at).json
    [unit] = found["units"]
    assert (unit["object_uri"], unit["status"]) == (HELD, "quarantined")
    assert unit["last_error_code"] == "governance_hard_fail"
    assert found["next_cursor"] is None
    assert HELD in tallgrass("quarantine", "list", at=at).out
    shown = tallgrass("quarantine", "show", HELD, "--output", "json", at=at).json
    assert shown["record"]["wal_id"] == unit["wal_id"]
    assert (shown["held"]["kind"], shown["newer_object"]) == ("quarantine", None)
    text = tallgrass("quarantine", "show", unit["wal_id"], at=at).out
    assert f"tallgrass approvals request --release {unit['wal_id']}" in text


def test_filters(desk: Desk) -> None:
    """Each of them changes what is listed."""

    def count(*args: str) -> int:
        done = tallgrass("quarantine", "list", *args, "--output", "json", at=desk.backend)
        assert done.code == 0, done.err
        return len(done.json["units"])

    assert count("--dataset", "hrrr", "--limit", "1") == 1
    assert count("--dataset", "goes-glm") == 0
    assert count("--error-code", "governance_hard_fail") == 1
    assert count("--error-code", "io_error") == 0
    assert count("--after", str(desk.row()["wal_id"])) == 0
    unknown = tallgrass("quarantine", "list", "--error-code", "io_eror", at=desk.backend)
    assert (unknown.code, "io_error" in unknown.err) == (2, True)
    empty = tallgrass("quarantine", "list", "--dataset", "goes-glm", at=desk.backend)
    assert "No unit in quarantine matches." in empty.out


def test_show_only_what_is_held(desk: Desk) -> None:
    """A unit that is not in quarantine, one that is unknown, and no id at all."""
    for name, code in ((uri(0), 2), (uri(99), 1), ("what", 2)):
        assert tallgrass("quarantine", "show", name, at=desk.backend).code == code


@pytest.mark.conformance("WAL-5.7", "SM-7.4a")
def test_a_release_with_an_approval_is_done_once(desk: Desk) -> None:
    """It is pending and due; the same approval does nothing more."""
    wal_id = str(desk.row()["wal_id"])
    asked = desk.as_("olga", "approvals", "request", "--release", wal_id, "--reason", "mended")
    assert asked.code == 0, asked.err
    [(approval,)] = desk.backend.sql("SELECT approval_id FROM approvals")
    assert desk.as_("ann", "approvals", "approve", approval).code == 0
    done = desk.as_(
        "olga", "quarantine", "release", wal_id, "--approval", approval, "--output", "json"
    )
    assert done.code == 0, done.err
    assert done.json == {
        "released": [wal_id],
        "approval_id": approval,
        "reason": "mended",
        "requested_by": "olga",
        "approved_by": ["ann"],
    }
    row = desk.row()
    assert (row["status"], row["budget_from"]) == ("pending", row["attempts"])
    again = desk.as_("olga", "quarantine", "release", wal_id, "--approval", approval)
    assert again.code == 3
    assert desk.row() == row


def test_a_release_says_what_it_did(desk: Desk) -> None:
    """By the object's address too."""
    approval = desk.approval()
    done = desk.as_("ann", "quarantine", "release", HELD, "--approval", approval)
    assert f"Released {desk.row()['wal_id']}." in done.out


@pytest.mark.conformance("WAL-4.5", "WAL-5.7")
def test_refusals_change_nothing_and_are_in_the_log(desk: Desk) -> None:
    """No token, somebody who may only look, no approval, one that is no good."""
    before = desk.row()
    wal_id = str(before["wal_id"])
    approval = desk.approval()
    unapproved = "00000000-0000-4000-8000-000000000000"
    release = ("quarantine", "release", wal_id)
    nobody = tallgrass(*release, "--approval", approval, at=desk.backend)
    assert (nobody.code, "unknown_actor" in nobody.err) == (3, True)
    viewer = desk.as_("vic", *release, "--approval", approval)
    assert (viewer.code, "not_authorized" in viewer.err) == (3, True)
    bare = desk.as_("olga", *release, "--output", "json")
    assert bare.code == 3
    assert json.loads(bare.err)["error"]["guard"] == "approval_missing"
    unknown = desk.as_("olga", *release, "--approval", unapproved)
    assert (unknown.code, "approval_unknown" in unknown.err) == (1, True)
    assert desk.as_("olga", *release, "--approval", "what").code == 2
    assert desk.as_("olga", "quarantine", "release", uri(0), "--approval", approval).code == 3
    assert desk.row() == before
    log = set(desk.backend.sql("SELECT actor, action, reason FROM audit_log"))
    assert ("vic", "release_refused", "not_authorized") in log
    assert {why for who, what, why in log if (who, what) == ("olga", "release_refused")} == {
        "guard_refused",
        "illegal_transition",
    }


def test_a_switch_stops_a_release(desk: Desk) -> None:
    """The guard is named, in text and in JSON; the approval is not spent."""
    wal_id = str(desk.row()["wal_id"])
    approval = desk.approval()
    stores = desk.backend.open()
    olga = stores.actors.authenticate(TOKENS["olga"], action="test")
    scope = SwitchScope.REPLAY
    stores.switches.set(scope, "hrrr", is_on=True, actor=olga, reason="INC-7")
    release = ("quarantine", "release", wal_id, "--approval", approval)
    refused = desk.as_("olga", *release, "--output", "json")
    assert refused.code == 3
    assert json.loads(refused.err)["error"]["guard"] == "kill_switch_active"
    assert "kill_switch_active: replay of hrrr is switched off" in desk.as_("olga", *release).err
    stores.switches.set(scope, "hrrr", is_on=False, actor=olga, reason="INC-7 is closed")
    assert desk.as_("olga", *release).code == 0


class TestHold:
    """A person takes units out of the flow."""

    def test_a_failed_unit_is_held_with_its_reason(self, desk: Desk) -> None:
        """It is in quarantine, and the journal names who and why; a release needs an approval."""
        failed = desk.one("failed")
        done = desk.as_("olga", "quarantine", "hold", failed, "--reason", "wrong calibration")
        assert done.code == 0, done.err
        assert done.out.strip() == f"Held {failed}."
        row = desk.backend.rows("SELECT * FROM wal_records WHERE wal_id = ?", failed)[0]
        assert row["status"] == "quarantined"
        told = desk.backend.sql(
            "SELECT from_status, to_status, actor, reason FROM wal_transitions WHERE wal_id = ?"
            " ORDER BY to_version DESC",
            failed,
        )
        assert told[0] == ("failed", "quarantined", "olga", "wrong calibration")
        assert desk.as_("olga", "quarantine", "release", failed).code == 3

    def test_what_cannot_be_held_is_told_beside_what_is(self, desk: Desk) -> None:
        """A finished unit stays as it is; the other one is held, and the command ends with 1."""
        failed, finished = desk.one("failed"), desk.one("succeeded")
        done = desk.as_(
            "olga", "quarantine", "hold", failed, finished, "--reason", "x", "--output", "json"
        )
        assert done.code == 1
        found = json.loads(done.out)
        assert found["held"] == [failed]
        assert found["refused"][finished]["code"] == "illegal_transition"
        assert desk.one("succeeded") == finished
        again = desk.as_("olga", "quarantine", "hold", finished, "--reason", "x")
        assert (again.code, "Not held" in again.out) == (1, True)

    def test_who_holds_is_proved(self, desk: Desk) -> None:
        """A viewer may not, nobody may not, and another's name may not; nothing is held then."""
        failed = desk.one("failed")
        hold = ("quarantine", "hold", failed, "--reason", "x")
        assert desk.as_("vic", *hold).code == 3
        assert desk.as_("olga", *hold, "--actor", "ann").code == 3
        assert tallgrass(*hold, "--actor", "ann", at=desk.backend).code == 3
        assert tallgrass(*hold, at=desk.backend).code == 2
        assert desk.one("failed") == failed

    def test_a_name_suffices_while_no_actor_is_set_up(self, backend: Backend) -> None:
        """As for kill switches: whoever is there first may stop a unit."""
        fill(backend)
        [(failed, *_), *_] = backend.sql("SELECT wal_id FROM wal_records WHERE status = 'failed'")
        hold = ("quarantine", "hold", str(failed), "--reason", "x", "--actor", "j.doe")
        assert tallgrass(*hold, at=backend).code == 0
        [(actor,)] = backend.sql("SELECT actor FROM wal_transitions WHERE kind = 'quarantine'"
                                 " AND wal_id = ?", failed)  # fmt: skip
        assert actor == "j.doe"

    def test_words_that_are_missing(self, desk: Desk) -> None:
        """No unit, an unknown one, no reason, a reason of blanks."""
        failed = desk.one("failed")
        for args, code in (
            (("--reason", "x"), 2),
            ((uri(99), "--reason", "x"), 1),
            ((failed,), 2),
            ((failed, "--reason", "  "), 2),
        ):
            assert desk.as_("olga", "quarantine", "hold", *args).code == code
