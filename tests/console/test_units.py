from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tallgrass.governance.actors import Role
from tallgrass.ledger.record_filter import RecordFilter
from tallgrass.ledger.vocabulary import Status
from tallgrass.views.unit_steps import Step, next_steps
from tests.cli.command import uri
from tests.console.test_pages import words
from tests.contract.scene import Scene
from tests.support.builders import unit

if TYPE_CHECKING:
    from tests.support.backends import Backend
    from tests.support.console import Client, Console
    from tests.support.governance import People


def place_of(backend: Backend, number: int, dataset: str = "goes-glm") -> str:
    """Return the address of a unit's page."""
    sql = "SELECT wal_id FROM wal_records WHERE object_uri = ?"
    return f"/records/{backend.sql(sql, uri(number, dataset))[0][0]}"


def shown_version(client: Client, path: str) -> str:
    """Return the version that the forms of a page carry."""
    found = re.search(r'name="version" value="(\d+)"', client.get(path).text)
    assert found is not None
    return found[1]


def test_a_release_is_asked_for_approved_and_done_by_pages(
    console: Console, people: People, backend: Backend
) -> None:
    """Otto asks, the page says that somebody else decides; approved, it offers the release."""
    otto, path = console.browser_of(people.otto), place_of(backend, 12, "hrrr")
    version = shown_version(otto, path)
    assert "Ask for a release" in otto.get(path).text
    asked = otto.send_form(f"{path}/ask-for-release", version=version, reason="it was mended")
    assert asked.status_code == 303, asked.text
    page = otto.get(asked.headers["location"]).text
    assert "otto asked for a release: it was mended." in words(page)
    assert "Ask for a release" not in page
    (approval, _) = next(iter(people.stores.approvals.each()))
    people.approve(approval)
    page = otto.get(path).text
    assert "Approved by ann" in words(page)
    released = otto.send_form(f"{path}/release", version=version, approval_id=approval.approval_id)
    assert released.status_code == 303, released.text
    sql = "SELECT status FROM wal_records WHERE object_uri = ?"
    assert backend.sql(sql, uri(12, "hrrr")) == [("pending",)]
    logged = backend.sql("SELECT actor FROM audit_log WHERE action = 'release'")
    assert logged == [("otto",)]
    stale = otto.send_form(f"{path}/ask-for-release", version=version, reason="again")
    assert stale.status_code == 412
    told = words(stale.text)
    assert "pending" in told
    assert "override" in told
    assert "by otto" in told


@pytest.mark.parametrize(("number", "dataset"), [(10, "hrrr"), (20, "nexrad-l2")])
def test_a_unit_is_held_by_its_page(
    console: Console, people: People, backend: Backend, number: int, dataset: str
) -> None:
    """Failed or pending, it waits for a person then; a page that is behind is refused."""
    otto, path = console.browser_of(people.otto), place_of(backend, number, dataset)
    version = shown_version(otto, path)
    held = otto.send_form(f"{path}/hold", version=version, reason="wrong calibration")
    assert held.status_code == 303, held.text
    page = otto.get(held.headers["location"]).text
    assert "Held. It waits for a person" in words(page)
    assert "Ask for a release" in page
    assert "Hold it" not in page
    told = backend.sql("SELECT actor, reason FROM wal_transitions WHERE kind = 'quarantine'"
                       " AND reason = 'wrong calibration'")  # fmt: skip
    assert told == [("otto", "wrong calibration")]
    assert otto.send_form(f"{path}/hold", version=version, reason="again").status_code == 412
    done = place_of(backend, 0)
    finished = otto.send_form(f"{done}/hold", version=now_at(backend, done), reason="x")
    assert (finished.status_code, "illegal" in finished.text) == (409, True)


def now_at(backend: Backend, path: str) -> str:
    """Return the version that a unit has now."""
    wal_id = path.rpartition("/")[2]
    return str(backend.sql("SELECT version FROM wal_records WHERE wal_id = ?", wal_id)[0][0])


def test_who_may_not_is_told_why(console: Console, people: People, backend: Backend) -> None:
    """A viewer sees the button disabled with the reason; the form itself is refused."""
    path = place_of(backend, 12, "hrrr")
    vera = console.browser_of(people.vera)
    page = vera.get(path).text
    assert "An operator may do this; you are signed in as a viewer." in words(page)
    assert re.search(r"<button[^>]* disabled[^>]*>Ask for a release", page)
    version = shown_version(vera, path)
    answer = vera.send_form(f"{path}/ask-for-release", version=version, reason="please")
    assert answer.status_code == 403
    assert backend.sql("SELECT count(*) FROM approvals") == [(0,)]
    guest = console.browser_of()
    assert guest.send_form(f"{path}/release", version=version, approval_id="x").status_code == 403


def test_a_unit_tells_its_life(console: Console, people: People, backend: Backend) -> None:
    """Attempts with verdicts and evidence, notes, events, the remedy of its error, a replay."""
    browser = console.browser_of()
    text = words(browser.get(place_of(backend, 0)).text)
    for said in ("Attempt 1", "Integrity ok", "Provenance ok", "Evidence", "j.doe", "looked at",
                 "Nothing needs to be done", "All of it as JSON"):  # fmt: skip
        assert said in text
    failed = browser.get(place_of(backend, 11, "hrrr")).text
    assert "size_zero" in failed
    assert "A replay puts it back" in words(failed)
    assert "/replay/new?wal_id=" not in failed
    otto = console.browser_of(people.otto)
    for number, dataset in ((11, "hrrr"), (0, "goes-glm")):
        page = otto.get(place_of(backend, number, dataset)).text
        (link,) = re.findall(r'href="(/replay/new\?wal_id=[^"]+)"', page)
        assert otto.get(link.replace("&amp;", "&")).status_code == 200
    listed = browser.get("/records?status=failed&dataset=hrrr").text
    assert 'href="/replay/new?dataset=hrrr"' in listed
    assert "/replay/new" not in browser.get("/records?status=pending").text
    parked = words(browser.get(place_of(backend, 20, "nexrad-l2")).text)
    assert "ingest of nexrad-l2 is switched off by j.doe: maintenance" in parked
    assert "w works on it" in words(browser.get(place_of(backend, 30)).text)


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_each_state_has_its_next_step(backend: Backend) -> None:
    """A failed unit is replayed, a succeeded one run again, the others wait; two may be held."""
    scene = Scene(backend)
    scene.claim(unit(1))
    record = scene.stores.reader.page(RecordFilter()).records[0]
    for status, step in (
        (Status.PENDING, Step.WAIT),
        (Status.IN_PROGRESS, Step.WAIT),
        (Status.SUCCEEDED, Step.RUN_AGAIN),
        (Status.FAILED, Step.REPLAY),
        (Status.QUARANTINED, Step.ASK_FOR_RELEASE),
    ):
        first, *others = next_steps(replace(record, status=status), role=Role.OPERATOR)
        assert (first.step, first.refusal) == (step, None)
        can_be_held = status in {Status.PENDING, Status.FAILED}
        assert [each.step for each in others] == [Step.HOLD] * can_be_held
        for found in next_steps(replace(record, status=status), role=Role.VIEWER):
            assert (found.refusal is None) is (found.step is Step.WAIT)
