"""Dead letters by the API: looked at, planned, drained, reported, closed; on both databases."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.api.jobs import JobState
from tests.pipeline.scene import thing, things
from tests.replay.letters import Letters
from tests.support.console import console_at
from tests.support.governance import set_up, state_of_tables
from tests.support.replay_console import console_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.backends import Backend
    from tests.support.console import Client, Console

API = "/api/v1/dead-letters"
GROUNDS = {"change_ref": "CHG-1", "remediation": "the store answers again"}
LONG_S = 120.0


@pytest.fixture
def letters(backend: Backend, tmp_path: Path) -> Letters:
    """A pipeline whose messages die."""
    return Letters(backend, tmp_path, console__plans_folder=str(tmp_path / "plans"))


@pytest.fixture
def console(letters: Letters) -> Iterator[Console]:
    """The console of that pipeline."""
    with console_of(letters.config) as made:
        yield made


def planned(client: Client, **chosen: Any) -> dict[str, Any]:
    """Make a plan."""
    answer = client.post(f"{API}/plans", json=chosen)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def drained(console: Console, client: Client, sha256: str, **changes: Any) -> dict[str, Any]:
    """Drain by a plan, and return what came of it."""
    answer = client.post(f"{API}/drains", json={"plan_sha256": sha256, **GROUNDS, **changes})
    assert answer.status_code == 202, answer.text
    job = console.service.jobs.wait(answer.json()["job"]["job_id"], LONG_S)
    assert job.state is JobState.DONE, job
    assert job.result is not None
    return dict(job.result)


def test_letters_are_sorted_and_none_is_taken(letters: Letters, console: Console) -> None:
    """By cause, dataset and code, as `dlq classify` does; each filter narrows it."""
    letters.fail(*things(3))
    letters.fail(thing(10), code="stac_validation_failed")
    before = letters.dead()
    vera = console.program("vera")
    found = vera.get(API).json()
    assert (found["letters"], found["by_cause"]["connectivity"]) == (4, 3)
    for query, number in (
        ("dataset=hrrr", 1),
        ("cause=schema", 1),
        ("code=transient_network_error", 3),
        ("since=2027-01-01", 0),
        ("until=2027-01-01", 4),
        ("letters_max=2", 2),
    ):
        assert vera.get(f"{API}?{query}").json()["letters"] == number, query
    assert vera.get(f"{API}?letters_max=2").json()["truncated"] is True
    assert letters.dead() == before


def test_letters_are_planned_drained_worked_off_and_reported(
    letters: Letters, console: Console, backend: Backend
) -> None:
    """The whole way by the API; the plan's hash is that of its bytes, the log has who drained."""
    letters.fail(*things(3))
    otto = console.program("otto")
    plan = planned(otto)
    assert (plan["letters"], plan["by_action"]["replay"]) == (3, 3)
    sha256 = plan["plan_sha256"]
    body = otto.get(f"{API}/plans/{sha256}")
    assert hashlib.sha256(body.content).hexdigest() == sha256
    dry = otto.post(f"{API}/drains", json={"plan_sha256": sha256, **GROUNDS, "dry_run": True})
    assert (dry.status_code, dry.json()["by_action"]["replay"]) == (200, 3)
    assert (len(letters.dead()), letters.waiting()) == (3, 0)
    report = drained(console, otto, sha256)
    assert (report["sent"], report["left"]) == (3, 0)
    assert (letters.dead(), letters.waiting()) == ([], 3)
    assert letters.work() == 3
    run_id = plan["header"]["replay_run_id"]
    after = otto.get(f"{API}/drains/{run_id}").json()
    assert (after["units"]["done"], after["units"]["due"], after["duplicates"]) == (3, 0, 0)
    assert [each["replay_run_id"] for each in otto.get(f"{API}/drains").json()["drains"]] == [
        run_id
    ]
    closed = otto.post(f"{API}/drains/{run_id}/close", json={})
    assert (closed.status_code, closed.json()["queue_removed"]) == (200, False)
    logged = backend.sql("SELECT action, actor FROM audit_log WHERE subject = ?", run_id)
    assert ("dlq_close", "otto") in logged


def test_a_plan_that_was_downloaded_can_be_sent_back(letters: Letters, console: Console) -> None:
    """The bytes count, wherever they were kept."""
    letters.fail(*things(1))
    otto = console.program("otto")
    sha256 = planned(otto)["plan_sha256"]
    text = otto.get(f"{API}/plans/{sha256}").text
    answer = otto.post(f"{API}/drains", json={"plan": text, **GROUNDS})
    assert answer.status_code == 202, answer.text
    assert console.service.jobs.wait(answer.json()["job"]["job_id"], LONG_S).result is not None
    assert letters.dead() == []
    both = {"plan": text, "plan_sha256": sha256, **GROUNDS}
    assert otto.post(f"{API}/drains", json=both).status_code == 400


@pytest.mark.parametrize(
    ("changes", "guard"),
    [
        ({"change_ref": None}, "reference_missing"),
        ({"change_ref": "CHG-9"}, "reference_not_open"),
        ({"remediation": None}, "remediation_missing"),
        ({"plan_sha256": None}, "plan_missing"),
    ],
)
def test_a_drain_without_grounds_is_refused_and_logged(
    letters: Letters, console: Console, changes: dict[str, Any], guard: str
) -> None:
    """No plan, no open reference, no remedy: 409 with the rule, and every letter stays."""
    letters.fail(*things(1))
    otto = console.program("otto")
    body = {"plan_sha256": planned(otto)["plan_sha256"], **GROUNDS, **changes}
    before = letters.dead()
    answer = otto.post(f"{API}/drains", json=body)
    assert answer.status_code == 409, answer.text
    told = answer.json()
    assert guard in {told.get("guard"), told["code"]}, told
    assert letters.dead() == before
    refusals = letters.backend.sql("SELECT actor FROM audit_log WHERE action LIKE ?", "%refused")
    assert refusals == [("otto",)]


def test_a_drain_whose_policy_asks_for_approval_needs_one(letters: Letters) -> None:
    """Refused without it; the requester cannot give it; somebody else's lets it run, once."""
    letters.fail(thing(0))
    folder = letters.config.text("console.plans_folder")
    table = {"goes-glm": {"approvals_needed": 1}}
    with console_of(letters.configured(table, console__plans_folder=folder)) as console:
        otto, ann = console.program("otto"), console.program("ann")
        plan = planned(otto)
        assert plan["header"]["approvals_needed"] == 1
        body = {"plan_sha256": plan["plan_sha256"], **GROUNDS}
        refused = otto.post(f"{API}/drains", json=body)
        assert (refused.status_code, refused.json()["guard"]) == (409, "approval_missing")
        assert (len(letters.dead()), console.service.jobs.all()) == (1, [])
        wish = {"plan_sha256": plan["plan_sha256"], "reason": "CHG-1"}
        asked = otto.post("/api/v1/approvals", json=wish)
        assert asked.status_code in {200, 201}, asked.text
        approval_id = asked.json()["approval"]["approval_id"]
        path = f"/api/v1/approvals/{approval_id}"
        for client, status in ((otto, 403), (ann, 200)):
            told = {"If-Match": client.get(path).headers["etag"]}
            decided = client.post(f"{path}/decision", json={"verdict": "approve"}, headers=told)
            assert decided.status_code == status, decided.text
        report = drained(console, otto, plan["plan_sha256"], approval_id=approval_id)
        assert (report["sent"], letters.dead()) == (1, [])


@pytest.mark.parametrize(
    ("who", "status"), [("vera", 403), ("otto", 202), ("ann", 202), (None, 401)]
)
def test_only_operators_drain(
    letters: Letters, console: Console, who: str | None, status: int
) -> None:
    """A viewer and a stranger change nothing at all."""
    letters.fail(*things(1))
    sha256 = planned(console.program("otto"))["plan_sha256"]
    before = letters.dead()
    client = console.client() if who is None else console.program(who)
    answer = client.post(f"{API}/drains", json={"plan_sha256": sha256, **GROUNDS})
    assert answer.status_code == status, answer.text
    if status == 202:
        console.service.jobs.wait(answer.json()["job"]["job_id"], LONG_S)
        assert letters.dead() == []
    else:
        assert letters.dead() == before


def test_a_plan_that_nobody_keeps_is_not_found(letters: Letters, console: Console) -> None:
    """404, by its code."""
    otto = console.program("otto")
    body = {"plan_sha256": "0" * 64, **GROUNDS}
    for answer in (otto.post(f"{API}/drains", json=body), otto.get(f"{API}/plans/{'0' * 64}")):
        assert (answer.status_code, answer.json()["code"]) == (404, "plan_unknown")


# --- the pages ------------------------------------------------------------------------------------


def test_a_person_drains_by_the_pages(letters: Letters, console: Console) -> None:
    """Look, plan, drain, see the report, close: five pages, without a script."""
    letters.fail(*things(3))
    browser = console.browser_of(letters.people.otto)
    page = browser.get("/dead-letters").text
    assert "connectivity" in page
    assert "Make a plan" in page
    there = browser.send_form("/dead-letters/plans", cause="connectivity")
    assert there.status_code == 303, there.text
    plan = there.headers["location"]
    assert "Drain 3 letters" in browser.get(plan).text
    begun = browser.send_form(f"{plan}/drain", **GROUNDS)
    assert begun.status_code == 303, begun.text
    job = console.service.jobs.all()[0]
    assert console.service.jobs.wait(job.job_id, LONG_S).state is JobState.DONE
    report = begun.headers["location"]
    shown = browser.get(report).text
    assert "CHG-1" in shown
    for link in re.findall(r"<main.*?</main>", shown, re.DOTALL)[0].split('href="')[1:]:
        assert browser.get(link.partition('"')[0]).status_code == 200, link[:80]
    assert letters.dead() == []
    fragment = browser.get(f"/fragments/drains/{job.title}").text
    assert "<html" not in fragment
    assert letters.work() == 3
    closed = browser.send_form(f"{report}/close")
    assert closed.status_code == 303, closed.text
    assert "The drain is closed." in browser.get(closed.headers["location"]).text


def test_a_drain_that_runs_can_be_stopped_on_its_page(
    letters: Letters, console: Console, backend: Backend
) -> None:
    """It ends after the letters it has in hand; the same plan takes out the rest."""
    letters.fail(*things(3))
    otto, browser = console.program("otto"), console.browser_of(letters.people.otto)
    sha256 = planned(otto)["plan_sha256"]
    slow = {"plan_sha256": sha256, **GROUNDS, "batch": 1, "rate": 0.01}
    job = otto.post(f"{API}/drains", json=slow).json()["job"]
    page = f"/dead-letters/drains/{job['title']}"
    assert "Stop after these letters" in browser.get(page).text
    again = otto.post(f"{API}/drains", json=slow)
    assert (again.status_code, again.json()["code"]) == (409, "job_running")
    assert browser.send_form(f"{page}/stop").status_code == 303
    ended = console.service.jobs.wait(job["job_id"], LONG_S)
    assert ended.state is JobState.STOPPED
    assert letters.dead() != []
    assert ("otto",) in backend.sql("SELECT actor FROM audit_log WHERE action = 'job_stop'")
    drained(console, otto, sha256)
    assert (letters.dead(), letters.waiting()) == ([], 3)


def test_a_refused_drain_is_told_on_a_page(letters: Letters, console: Console) -> None:
    """The page names the rule and what to do; nothing has happened."""
    letters.fail(*things(1))
    browser = console.browser_of(letters.people.otto)
    plan = browser.send_form("/dead-letters/plans").headers["location"]
    answer = browser.send_form(f"{plan}/drain", remediation="mended")
    assert answer.status_code == 409
    assert "change" in answer.text
    assert len(letters.dead()) == 1


def test_a_viewer_sees_no_button_and_a_form_of_theirs_is_refused(
    letters: Letters, console: Console, backend: Backend
) -> None:
    """What one may not do is not offered, and not done if it is sent all the same."""
    letters.fail(*things(1))
    browser = console.browser_of(letters.people.vera)
    assert "Make a plan" not in browser.get("/dead-letters").text
    before = state_of_tables(backend)
    assert browser.send_form("/dead-letters/plans").status_code == 403
    assert state_of_tables(backend) == before


def test_without_letters_the_page_says_so(letters: Letters, console: Console) -> None:
    """An empty list is good news, not an empty table."""
    page = console.browser_of(letters.people.vera).get("/dead-letters").text
    assert "No letter is dead" in page
    assert "Make a plan" not in page


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_a_queue_that_was_never_made_is_told_with_a_remedy(
    backend: Backend, tmp_path: Path
) -> None:
    """Waiting would not help, so it is no 503; looking makes no queue; the page says it calmly."""
    people, queue = set_up(backend), tmp_path / "never.db"
    with console_at(backend, {"queue.url": f"sqlite:///{queue}"}) as console:
        otto = console.program("otto")
        for answer in (otto.get(API), otto.post(f"{API}/plans", json={})):
            problem = answer.json()
            assert (answer.status_code, problem["code"]) == (409, "queue_missing"), answer.text
            assert "queue.url" in problem["remedy"]
            assert "retry-after" not in answer.headers
        page = console.browser_of(people.otto).get("/dead-letters")
        assert (page.status_code, "There is no queue yet" in page.text) == (200, True)
    assert not queue.exists()
