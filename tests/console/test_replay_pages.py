"""The pages of replay, as a browser without scripts uses them."""

from __future__ import annotations

import re
import time
from html import unescape
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlencode

import pytest

from tests.pipeline.scene import thing, things
from tests.replay.scene import Replays
from tests.support import replay_console
from tests.support.page_forms import form_to, forms_of, press
from tests.support.replay_console import LONG_S, console_of

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.backends import Backend
    from tests.support.console import Client, Console

#: The pipeline and the console over it, as fixtures of these tests.
replays, console = replay_console.replays, replay_console.console

RUN_ID = "r-1"


@pytest.fixture
def otto(console: Console, replays: Replays) -> Client:
    """The operator's browser."""
    return console.browser_of(replays.people.otto)


def plan_page(wal_ids: list[str], **more: Any) -> str:
    """Return the address of the plan of some units."""
    fields = {"wal_id": " ".join(wal_ids), "reason": "backfill", "replay_run_id": RUN_ID, **more}
    return f"/replay/plan?{urlencode(fields)}"


def until(client: Client, path: str, word: str) -> str:
    """Load a page again until it says a word."""
    deadline = time.monotonic() + LONG_S
    while word not in (text := client.get(path).text):
        assert time.monotonic() < deadline, text
        time.sleep(0.05)
    return text


def test_two_people_bring_a_replay_through(replays: Replays, console: Console) -> None:
    """Form, plan, request, approval by another, run, done: each step by the page before it."""
    otto, ann = (console.browser_of(each) for each in (replays.people.otto, replays.people.ann))
    again = replays.succeeded(thing(0), thing(1))
    page = plan_page(again, include_succeeded="true", force="true")
    shown = otto.get(page).text
    assert "approval_missing" in shown
    assert [each.action for each in forms_of(shown) if "replay" in each.action] == [
        "/replay/request"
    ]
    answer = press(otto, page, "/replay/request", asking="CHG-1: again")
    assert answer.status_code == 303, answer.text
    approval = answer.headers["location"].partition("?")[0]
    assert "somebody else decides" in otto.get(approval).text
    assert not [each for each in forms_of(otto.get(approval).text) if each.action == approval]
    answer = press(ann, approval, approval, verdict="approve", note="looked at")
    assert answer.status_code == 303, answer.text
    answer = press(otto, approval, "/replay/runs/start")
    assert answer.headers["location"].startswith(f"/replay/runs/{RUN_ID}?"), answer.text
    text = until(otto, f"/replay/runs/{RUN_ID}", "the same to the byte")
    assert "2 of 2" in text
    assert f"/records/{again[0]}" in text
    assert "used" in ann.get(approval).text
    listed = until(otto, "/replay", RUN_ID)
    assert "finished" in listed
    assert [row["outcome"] for row in replays.rows(RUN_ID)] == ["done", "done"]


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
class TestPlanPage:
    """The plan of a selection, and what can be done with it."""

    def test_the_form_gives_what_the_plan_is_made_of(self, replays: Replays, otto: Client) -> None:
        """A form filled by its address keeps every field; the plan page leads back to it."""
        replays.failed(*things(3))
        given = {
            "dataset": "hrrr", "since": "2026-01-01", "until": "2026-07-01",
            "error_code": "io_error", "reason": "backfill", "incident": "INC-7",
            "change": "CHG-1", "max_events": "3",
            "bucket_prefix": "s3://noaa-hrrr-bdp-pds/", "attempts_min": "1", "wal_id_range": "",
        }  # fmt: skip
        form = form_to(otto.get(f"/replay/new?{urlencode(given)}").text, "/replay/plan")
        for name in ("since", "until", "error_code", "incident", "change", "max_events"):
            assert form.fields[name] == [given[name]]
        page = otto.get(f"/replay/plan?{urlencode(given)}")
        assert page.status_code == 200, page.text
        (back,) = re.findall(r'href="/replay/new\?([^"]*)">Change the selection', page.text)
        assert dict(parse_qsl(unescape(back))) == {n: each for n, each in given.items() if each}

    def test_failed_units_run_without_an_approval(self, replays: Replays, otto: Client) -> None:
        """The page offers the run; pressed, it goes on in the background to its end."""
        failed = replays.failed(*things(3))
        answer = press(otto, plan_page(failed), "/replay/run", rate="1000")
        assert answer.status_code == 303, answer.text
        until(otto, f"/replay/runs/{RUN_ID}", "finished")
        assert {replays.record(each)["status"] for each in failed} == {"succeeded"}

    def test_a_run_without_its_approval_is_refused_on_the_server(
        self, replays: Replays, otto: Client
    ) -> None:
        """Whatever a page offers: the address of the run says no, and names the rule."""
        page = plan_page(replays.succeeded(thing(0)), include_succeeded="true", force="true")
        form = form_to(otto.get(page).text, "/replay/request")
        answer = otto.send_form("/replay/run", **{**form.fields, "csrf": otto.csrf})
        assert answer.status_code == 409
        assert "approval_missing" in answer.text
        assert replays.count("replay_runs") == 0

    def test_a_plan_that_moved_on_is_refused_with_what_changed(
        self, replays: Replays, otto: Client
    ) -> None:
        """Pressed on a page that was left behind, the button does nothing (412)."""
        failed = replays.failed(thing(0), thing(1))
        form = form_to(otto.get(plan_page(failed)).text, "/replay/run")
        replays.run(replays.select(failed[:1]))
        answer = otto.send_form("/replay/run", **{**form.fields, "csrf": otto.csrf})
        assert answer.status_code == 412
        assert "summary" in answer.text
        assert replays.count("replay_runs") == 1

    def test_it_says_what_to_do_where_nothing_can_be_run(
        self, replays: Replays, console: Console, otto: Client
    ) -> None:
        """Nothing found, no reason, a guard, a viewer: each is told, and no button is there."""
        failed = replays.failed(thing(0))
        cases = [
            (otto, f"/replay/plan?{urlencode({'dataset': 'hrrr', 'since': '2026-01-01'})}",
             "Choose other units"),
            (otto, f"/replay/plan?{urlencode({'wal_id': failed[0]})}", "say why"),
            (otto, "/replay/plan?dataset=goes-glm&reason=backfill", "scope_too_broad"),
            (console.browser_of(), plan_page(failed), "needs an operator"),
        ]  # fmt: skip
        for client, path, words in cases:
            text = client.get(path).text
            assert words in text
            assert not [each for each in forms_of(text) if each.action.startswith("/replay/r")]
        assert otto.get("/replay/plan").status_code == 400
        assert otto.get("/replay/plan?since=yesterday&dataset=hrrr").status_code == 400

    def test_what_is_as_it_should_be_is_run_again_only_on_purpose(
        self, replays: Replays, otto: Client
    ) -> None:
        """A plan of hits offers no run; its link makes the plan that runs them all the same."""
        again = replays.succeeded(thing(0))
        text = otto.get(plan_page(again, include_succeeded="true")).text
        assert "as it should be" in text
        assert not [each for each in forms_of(text) if each.action.startswith("/replay/r")]
        (forced,) = re.findall(r'href="([^"]*force=true)"', text)
        form = form_to(otto.get(unescape(forced)).text, "/replay/request")
        assert form.fields["force"] == ["true"]

    def test_it_compares_before_anything_is_run(
        self, replays: Replays, otto: Client, tmp_path: Path
    ) -> None:
        """The fields that a re-run would change are on the page."""
        again = replays.succeeded(thing(0))
        config = replays.configured(
            {"goes-glm": {"policy_ref": "kfm-pol-2"}}, console__plans_folder=str(tmp_path / "p")
        )
        with console_of(config) as changed:
            text = changed.browser_of().get(
                plan_page(again, include_succeeded="true", compare="true")
            ).text  # fmt: skip
        assert "1 of 1 items would change" in text
        assert "/properties/kfm:policy_ref" in text


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
class TestRunPage:
    """One run."""

    @pytest.fixture
    def replays(self, backend: Backend, tmp_path: Path) -> Replays:
        """A pipeline whose replays go unit by unit."""
        plans = str(tmp_path / "plans")
        return Replays(
            backend, tmp_path, console__plans_folder=plans, replay__batch=1, worker__batch=1
        )

    def test_it_is_stopped_and_taken_up_again(
        self, replays: Replays, console: Console, otto: Client
    ) -> None:
        """Buttons for who may; a viewer sees how far it is, and none."""
        failed = replays.failed(*things(3))
        assert press(otto, plan_page(failed), "/replay/run", rate="0.01").status_code == 303
        path = f"/replay/runs/{RUN_ID}"
        until(otto, path, "1 of 3")
        assert "data-live" in otto.get(path).text
        fragment = otto.get(f"/fragments{path}").text
        assert "1 of 3" in fragment
        assert "<html" not in fragment
        viewer = console.browser_of(replays.people.vera).get(path).text
        assert not [each for each in forms_of(viewer) if path in each.action]
        assert press(otto, path, f"{path}/stop").status_code == 303
        until(otto, path, "unfinished")
        assert press(otto, path, f"{path}/resume").status_code == 303
        until(otto, path, "3 of 3")

    def test_what_is_not_there_is_said(self, otto: Client) -> None:
        """An unknown run is 404, on the page, its fragment and its buttons."""
        assert otto.get("/replay/runs/nothing").status_code == 404
        assert otto.get("/fragments/replay/runs/nothing").status_code == 404
        for verb in ("stop", "resume"):
            assert otto.send_form(f"/replay/runs/nothing/{verb}").status_code == 404
        assert "Nothing was replayed yet" in otto.get("/replay").text


FORMS = (
    "/replay/request", "/replay/run", "/replay/runs/start", "/replay/runs/r/resume",
    "/replay/runs/r/stop", "/governance/switches", "/governance/freeze",
    "/governance/approvals/3f0a5b1c-2d3e-4cc1-9d7e-0190c7e85f4e", "/governance/changes",
    "/governance/changes/CHG-1", "/governance/incidents", "/governance/incidents/INC-1",
    "/governance/actors", "/governance/actors/vera/rotate", "/governance/actors/vera/revoke",
    "/governance/audit/check", "/governance/audit/seal", "/governance/audit/verify",
)  # fmt: skip


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_no_form_is_taken_without_its_sessions_token(replays: Replays, console: Console) -> None:
    """Missing, another's or cut off: 403, whoever sends it; nobody: 401; a guest: 403."""
    ann = console.browser_of(replays.people.ann)
    other = console.browser_of(replays.people.bob).csrf
    guest = console.browser_of()
    logged = replays.count("audit_log")
    for path in FORMS:
        for wrong in ("", other, ann.csrf[:-1]):
            answer = ann.send_form(path, csrf=wrong)
            assert answer.status_code == 403, path
            assert "csrf_refused" in answer.text
        assert console.client().send_form(path).status_code in {401, 403}, path
        answer = guest.send_form(path, reason="r", asking="a", verdict="approve", seen='"a"')
        assert answer.status_code == 403, path
    assert replays.count("audit_log") == logged
