"""The pages of governance, as a browser without scripts uses them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tallgrass.governance.switches import SwitchScope
from tests.support.governance import plan
from tests.support.page_forms import form_to, forms_of, press
from tests.support.replay_console import LONG_S

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.backends import Backend
    from tests.support.console import Console
    from tests.support.governance import People

PAGES = (
    "/governance", "/governance/approvals", "/governance/changes", "/governance/incidents",
    "/governance/actors", "/governance/audit", "/replay", "/replay/new",
)  # fmt: skip
MARKUP = "<script>alert(1)</script>"


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans and anchors go to a folder of the test's own."""
    monkeypatch.chdir(tmp_path)


def test_a_switch_is_turned_on_and_off_with_its_reason(
    console: Console, people: People, backend: Backend
) -> None:
    """By the forms of the page; the log names who and why; a stale page does nothing."""
    otto = console.browser_of(people.otto)
    stale = form_to(otto.get("/governance").text, "/governance/switches")
    typed = {"scope": "replay", "dataset": "hrrr", "turn": "on", "reason": "INC-7"}
    assert press(otto, "/governance", "/governance/switches", **typed).status_code == 303
    assert "INC-7" in otto.get("/governance").text
    seen = {"seen": stale.fields["seen"][0]}
    answer = otto.send_form("/governance/switches", **{**typed, **seen, "turn": "off"})
    assert answer.status_code == 412
    assert "INC-7" in answer.text
    off = {**typed, "turn": "off", "reason": "mended"}
    assert press(otto, "/governance", "/governance/switches", **off).status_code == 303
    logged = backend.sql(
        "SELECT actor, action, reason FROM audit_log WHERE subject = 'replay:hrrr'"
        " ORDER BY entry_id"
    )
    assert logged == [("otto", "switch_on", "INC-7"), ("otto", "switch_off", "mended")]


def test_the_freeze_stops_everything_and_ends(
    console: Console, people: People, backend: Backend
) -> None:
    """One form stops all four kinds of work; the next ends it; what was on stays on."""
    otto = console.browser_of(people.otto)
    assert press(otto, "/governance", "/governance/freeze", reason="INC-7").status_code == 303
    on = backend.sql("SELECT count(*) FROM kill_switches WHERE is_on AND dataset = '*'")
    assert on == [(4,)]
    assert "End the freeze" in otto.get("/governance").text
    assert press(otto, "/governance", "/governance/freeze", reason="over").status_code == 303
    left = backend.sql("SELECT scope, dataset FROM kill_switches WHERE is_on")
    assert left == [("ingest", "nexrad-l2")]


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
class TestApprovals:
    """Requests and decisions."""

    def test_a_request_is_rejected_by_another_with_a_note(
        self, console: Console, people: People, backend: Backend
    ) -> None:
        """It waits on the first page; the decision and its note are kept."""
        approval = people.request(plan(), by=people.ann).approval_id
        path = f"/governance/approvals/{approval}"
        bob = console.browser_of(people.bob)
        assert path in bob.get("/governance").text
        assert press(bob, path, path, verdict="reject", note="too many").status_code == 303
        assert "too many" in bob.get(path).text
        assert path not in bob.get("/governance").text
        assert path in bob.get("/governance/approvals?state=rejected").text
        assert path not in bob.get("/governance/approvals?state=requested").text
        stored = backend.sql("SELECT actor, decision, note FROM approval_decisions")
        assert stored == [("bob", "reject", "too many")]

    def test_whoever_asked_finds_no_button_and_is_refused(
        self, console: Console, people: People, backend: Backend
    ) -> None:
        """The form is not there; sent all the same, the server says no."""
        path = f"/governance/approvals/{people.request(plan(), by=people.ann).approval_id}"
        ann, bob = console.browser_of(people.ann), console.browser_of(people.bob)
        assert not [each for each in forms_of(ann.get(path).text) if each.action == path]
        seen = form_to(bob.get(path).text, path).fields["seen"][0]
        answer = ann.send_form(path, verdict="approve", seen=seen)
        assert answer.status_code == 409
        assert "self_approval" in answer.text
        assert backend.sql("SELECT count(*) FROM approval_decisions") == [(0,)]


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
class TestActors:
    """Who may act."""

    def test_a_token_is_on_one_page_once(self, console: Console, people: People) -> None:
        """It signs in; no other page shows it; nobody may keep the page."""
        ann = console.browser_of(people.ann)
        answer = press(ann, "/governance/actors", "/governance/actors", name="zoe", role="viewer")
        (token,) = set(re.findall(r"tg_[\w-]{43}", answer.text))
        assert answer.headers["cache-control"] == "no-store"
        zoe = console.client(Authorization=f"Bearer {token}")
        assert zoe.get("/api/v1/actors").status_code == 200
        for path in ("/governance/actors", "/governance/audit"):
            assert token not in ann.get(path).text

    def test_who_renews_their_own_token_signs_in_again(
        self, console: Console, people: People
    ) -> None:
        """The page with the token is shown; the session is over after it."""
        vera = console.browser_of(people.vera)
        forms = {each.action for each in forms_of(vera.get("/governance/actors").text)}
        assert {each for each in forms if "/actors" in each} == {"/governance/actors/vera/rotate"}
        answer = press(vera, "/governance/actors", "/governance/actors/vera/rotate")
        assert re.search(r"tg_[\w-]{43}", answer.text)
        assert vera.get("/governance/actors").headers["location"].startswith("/sign-in")

    def test_revoked_is_revoked(self, console: Console, people: People) -> None:
        """Their session ends, and their row says so."""
        ann, otto = console.browser_of(people.ann), console.browser_of(people.otto)
        revoke = "/governance/actors/otto/revoke"
        assert press(ann, "/governance/actors", revoke).status_code == 303
        assert otto.get("/governance").status_code == 303
        assert revoke not in ann.get("/governance/actors").text


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_a_reference_is_opened_and_closed(console: Console, people: People) -> None:
    """Also one whose name holds what an address treats as its own."""
    otto = console.browser_of(people.otto)
    path = "/governance/incidents"
    answer = press(otto, path, path, ref="INC/7#a", title="Truncated", description="more")
    one = answer.headers["location"].partition("?")[0]
    assert one == f"{path}/INC/7%23a"
    assert "Truncated" in otto.get(one).text
    assert press(otto, one, one, resolution="replayed").status_code == 303
    assert "replayed" in otto.get(one).text
    assert "INC/7#a" in otto.get(f"{path}?state=closed").text
    assert "INC/7#a" not in otto.get(f"{path}?state=open").text


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_the_log_is_paged_filtered_sealed_and_checked(
    console: Console, people: People, tmp_path: Path
) -> None:
    """Newest first; a check and a proof run in the background and are told on the page."""
    otto, path = console.browser_of(people.otto), "/governance/audit"
    assert press(otto, path, f"{path}/seal").status_code == 303
    assert len(list(tmp_path.glob("*anchors*"))) == 1
    assert press(otto, path, f"{path}/check").status_code == 303
    assert press(otto, path, f"{path}/verify", sample="3").status_code == 303
    for job in console.service.jobs.all():
        console.service.jobs.wait(job.job_id, LONG_S)
    for page in (path, "/fragments/checks"):
        text = otto.get(page).text
        assert "It holds" in text
        assert "It differs" in text  # the items of these units were never made by the pipeline
    found = otto.get(f"{path}?action=actor_add&actor=ann").text
    assert "actor:bob" in found
    assert "audit_seal" not in found
    assert otto.get(f"{path}?cursor=nonsense").status_code == 400
    many = [(SwitchScope.NODES, f"x{number}") for number in range(30)]
    people.stores.switches.set_all(many, is_on=True, actor=people.otto, reason="r")
    (older,) = re.findall(r'rel="next" href="([^"]*)"', otto.get(path).text)
    assert "actor:bob" in otto.get(older).text


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_what_somebody_wrote_never_becomes_markup(console: Console, people: People) -> None:
    """Titles, reasons, notes, names in addresses: shown as text on every page."""
    otto = console.browser_of(people.otto)
    path = "/governance/changes"
    assert press(otto, path, path, ref="CHG-1", title=MARKUP, description=MARKUP).status_code == 303
    typed = {"scope": "nodes", "dataset": MARKUP, "turn": "on", "reason": MARKUP}
    assert press(otto, "/governance", "/governance/switches", **typed).status_code == 303
    people.request(plan(MARKUP))
    shown = [*PAGES, "/governance/changes/CHG-1", f"/governance?done={MARKUP}"]
    shown += [f"/replay/new?incident={MARKUP}", f"/governance/audit?actor={MARKUP}"]
    for page in shown:
        answer = otto.get(page)
        assert answer.status_code == 200, page
        assert MARKUP not in answer.text, page
    assert "&lt;script&gt;" in otto.get("/governance").text


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_a_viewer_reads_every_page_and_finds_no_button(console: Console, people: People) -> None:
    """No form that writes is on the pages of who may only look, but the way out."""
    for client in (console.browser_of(), console.browser_of(people.vera)):
        for page in PAGES:
            answer = client.get(page)
            assert answer.status_code == 200, page
            actions = {each.action for each in forms_of(answer.text) if each.method == "post"}
            own = {"/sign-out", "/governance/actors/vera/rotate", "/governance/audit/check"}
            assert actions <= own, page


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    "path",
    [
        "/governance/approvals/nothing", "/governance/approvals?state=odd",
        "/governance/changes/nothing", "/governance/changes?state=odd",
        "/governance/changes/%20", "/replay/new?rate=x&max_events=-1", "/replay/new?status=odd",
    ],
)  # fmt: skip
def test_an_odd_address_is_told(console: Console, people: People, path: str) -> None:
    """400 or 404 with words, never an error of the server; a form keeps what it can."""
    answer = console.browser_of(people.otto).get(path)
    assert answer.status_code in {200, 400, 404}, answer.text
    assert "internal_error" not in answer.text
