"""Quarantine by the API and by its page: what is held, and the approved way out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tallgrass.api import quarantine
from tallgrass.console import units
from tallgrass.governance.approvals import Verdict
from tests.cli.command import uri
from tests.contract.scene import Scene

if TYPE_CHECKING:
    import pytest

    from tests.support.backends import Backend
    from tests.support.console import Console
    from tests.support.governance import People

API = "/api/v1/quarantine"
HELD = uri(12, "hrrr")


def held(backend: Backend) -> dict[str, Any]:
    """Return the record of the unit that is held, by plain SQL."""
    return backend.rows("SELECT * FROM wal_records WHERE object_uri = ?", HELD)[0]


def test_what_is_held_is_listed_and_shown(
    console: Console, people: People, backend: Backend
) -> None:
    """The one unit, with its code, and the edge that took it there; filters narrow it."""
    vera = console.program("vera")
    found = vera.get(API).json()
    assert [each["object_uri"] for each in found["units"]] == [HELD]
    assert vera.get(f"{API}?dataset=goes-glm").json()["units"] == []
    assert vera.get(f"{API}?error_code=size_zero").json()["units"] == []
    assert vera.get(f"{API}?error_code=size_zer").json()["code"] == "unknown_code"
    wal_id = found["units"][0]["wal_id"]
    shown = vera.get(f"{API}/{wal_id}")
    assert (shown.json()["held"]["kind"], shown.json()["newer_object"]) == ("quarantine", None)
    assert shown.headers["etag"] == f'"{held(backend)["version"]}"'
    other = backend.sql("SELECT wal_id FROM wal_records WHERE object_uri = ?", uri(0))[0][0]
    assert vera.get(f"{API}/{other}").status_code == 400


def test_a_unit_leaves_under_somebody_elses_approval(
    console: Console, people: People, backend: Backend
) -> None:
    """Asked for by the operator, refused without the approval, given by another, used once."""
    otto = console.program("otto")
    unit = held(backend)
    wish = {
        "units": [{"wal_id": str(unit["wal_id"]), "version": unit["version"]}],
        "reason": "mended",
    }
    asked = otto.post(f"{API}/requests", json=wish)
    assert asked.status_code == 200, asked.text
    approval_id = asked.json()["approval"]["approval_id"]
    release = {"units": [str(unit["wal_id"])], "approval_id": approval_id}
    none = otto.post(f"{API}/releases", json={"units": release["units"]})
    assert (none.status_code, none.json()["guard"]) == (409, "approval_missing")
    assert otto.post(f"{API}/releases", json=release).status_code == 409
    assert held(backend)["status"] == "quarantined"
    people.stores.approvals.decide(approval_id, Verdict.APPROVE, by=people.ann)
    done = otto.post(f"{API}/releases", json=release)
    assert (done.status_code, done.json()["released"]) == (200, [str(unit["wal_id"])])
    assert (done.json()["requested_by"], done.json()["approved_by"]) == ("otto", ["ann"])
    assert held(backend)["status"] == "pending"
    assert otto.post(f"{API}/releases", json=release).status_code == 409
    assert ("otto",) in backend.sql("SELECT actor FROM audit_log WHERE action = 'release'")


def test_who_was_revoked_has_not_approved_a_release(
    console: Console, people: People, backend: Backend
) -> None:
    """The word of an approver who was revoked counts no more, and is not named as one that did."""
    otto, unit = console.program("otto"), str(held(backend)["wal_id"])
    asked = otto.post("/api/v1/approvals", json={"release": [unit], "reason": "mended"})
    approval_id = asked.json()["approval"]["approval_id"]
    release = {"units": [unit], "approval_id": approval_id}
    people.stores.approvals.decide(approval_id, Verdict.APPROVE, by=people.bob)
    people.stores.actors.revoke("bob", by=people.ann)
    assert otto.post(f"{API}/releases", json=release).status_code == 409
    people.stores.approvals.decide(approval_id, Verdict.APPROVE, by=people.ann)
    done = otto.post(f"{API}/releases", json=release)
    assert (done.status_code, done.json()["approved_by"]) == (200, ["ann"])


def test_a_unit_that_moved_on_is_not_asked_for(
    console: Console, people: People, backend: Backend
) -> None:
    """A wish on the ground of an older version is 412, and says what the unit is now."""
    unit = held(backend)
    stale = {"wal_id": str(unit["wal_id"]), "version": unit["version"] - 1}
    answer = console.program("otto").post(
        f"{API}/requests", json={"units": [stale], "reason": "mended"}
    )
    assert (answer.status_code, answer.json()["code"]) == (412, "version_conflict")
    assert answer.json()["changed"]["version"] == unit["version"]
    assert backend.sql("SELECT count(*) FROM approvals") == [(0,)]


def test_a_viewer_releases_nothing(console: Console, people: People, backend: Backend) -> None:
    """403 for both acts, and the log says so."""
    vera = console.program("vera")
    unit = held(backend)
    units = [{"wal_id": str(unit["wal_id"]), "version": unit["version"]}]
    assert vera.post(f"{API}/requests", json={"units": units, "reason": "x"}).status_code == 403
    assert vera.post(f"{API}/releases", json={"units": [str(unit["wal_id"])]}).status_code == 403
    assert held(backend)["status"] == "quarantined"


def test_people_release_by_the_page(console: Console, people: People, backend: Backend) -> None:
    """The operator ticks and asks; once another has approved, a button releases."""
    browser = console.browser_of(people.otto)
    unit = held(backend)
    assert HELD.rsplit("/", 1)[-1] in browser.get("/quarantine").text
    box = f"{unit['wal_id']}:{unit['version']}"
    asked = browser.send_form("/quarantine/requests", unit=box, reason="<b>mended</b>")
    assert asked.status_code == 303, asked.text
    assert browser.send_form("/quarantine/requests", reason="none ticked").status_code == 400
    [(approval_id,)] = backend.sql("SELECT approval_id FROM approvals")
    page = browser.get("/quarantine").text
    assert "waits for an approval" in page
    assert "Release 1" not in page
    people.stores.approvals.decide(str(approval_id), Verdict.APPROVE, by=people.bob)
    page = browser.get("/quarantine").text
    assert "Release 1" in page
    assert "<b>mended" not in page
    assert "&lt;b&gt;mended" in page
    released = browser.send_form("/quarantine/releases", approval_id=str(approval_id))
    assert released.status_code == 303, released.text
    assert held(backend)["status"] == "pending"
    assert "No unit is in quarantine" in browser.get(released.headers["location"]).text
    assert "Ask for their release" not in console.browser_of(people.vera).get("/quarantine").text


def test_a_unit_is_held_as_it_was_seen(console: Console, people: People, backend: Backend) -> None:
    """The version that was read must be the one that there is; what cannot be held is told."""
    otto = console.program("otto")
    query = "SELECT wal_id, version FROM wal_records WHERE status = ? ORDER BY wal_id"
    failed, done = (
        {"wal_id": str(row[0]), "version": row[1]}
        for row in (backend.sql(query, "failed")[0], backend.sql(query, "succeeded")[0])
    )
    older = {**failed, "version": failed["version"] - 1}
    stale = otto.post(f"{API}/holds", json={"units": [older], "reason": "look"})
    assert stale.status_code == 412
    assert console.program("vera").post(f"{API}/holds", json={"units": [failed], "reason": "x"}
                                        ).status_code == 403  # fmt: skip
    held = otto.post(f"{API}/holds", json={"units": [failed, done], "reason": "look"})
    assert (held.status_code, held.json()["held"]) == (200, [failed["wal_id"]])
    assert held.json()["refused"][done["wal_id"]]["code"] == "illegal_transition"
    moved = backend.sql(
        "SELECT actor, reason FROM wal_transitions WHERE wal_id = ? AND kind = 'quarantine'",
        failed["wal_id"],
    )
    assert moved == [("otto", "look")]


def test_a_unit_that_moves_while_it_is_being_held_is_not_held(
    console: Console, people: People, backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker tried it once more after the look at its version: nobody saw it so."""
    sql = "SELECT wal_id, version, status FROM wal_records WHERE object_uri = ?"
    moving = uri(10, "hrrr")
    hold_now = quarantine.hold_now

    def too_late(*given: Any) -> Any:
        scene = Scene(backend)
        scene.fail(10, dataset="hrrr")
        scene.stores.close()
        return hold_now(*given)

    monkeypatch.setattr(quarantine, "hold_now", too_late)
    monkeypatch.setattr(units, "hold_now", too_late)
    wal_id, version, _ = backend.sql(sql, moving)[0]
    body = {"units": [{"wal_id": str(wal_id), "version": version}], "reason": "look"}
    answer = console.program("otto").post(f"{API}/holds", json=body)
    assert (answer.status_code, answer.json()["held"]) == (200, [])
    assert answer.json()["refused"][str(wal_id)]["code"] == "version_conflict"
    # Pending again, in progress, failed: three versions.
    assert backend.sql(sql, moving) == [(wal_id, version + 3, "failed")]
    by_page = console.browser_of(people.otto).send_form(
        f"/records/{wal_id}/hold", version=str(version + 3), reason="look"
    )
    assert (by_page.status_code, "version" in by_page.text) == (409, True)
    assert backend.sql(sql, moving) == [(wal_id, version + 6, "failed")]
