"""Governance by the API: who may do what, what the log keeps of it, stale and forged requests."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.command import here
from tests.cli.test_audit import break_in
from tests.support.governance import plan, state_of_tables
from tests.support.replay_console import API, ended, etag

if TYPE_CHECKING:
    from tests.support.backends import Backend
    from tests.support.console import Client, Console
    from tests.support.governance import People

VIEWER, OPERATOR, APPROVER = "vera", "otto", "ann"
RANKS = {VIEWER: 0, OPERATOR: 1, APPROVER: 2}
ZERO = "0" * 64


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans and anchors go to a folder of the test's own."""
    monkeypatch.chdir(tmp_path)


@dataclass(frozen=True)
class Act:
    """A write: what is sent, who may at least, and what the log calls it."""

    method: str
    path: str
    body: dict[str, Any]
    role: str
    action: str
    #: Where the tag that it must name comes from, if it must.
    read: str | None = None


REASON = {"reason": "INC-7"}
ACTS = [
    Act("PUT", "/switches/replay/goes-glm", {"is_on": True, **REASON}, OPERATOR, "turn_switch",
        read="/switches"),
    Act("PUT", "/freeze", {"is_on": True, **REASON}, OPERATOR, "freeze", read="/switches"),
    Act("POST", "/changes", {"ref": "CHG-9", "title": "t"}, OPERATOR, "change_open"),
    Act("POST", "/incidents", {"ref": "INC-9", "title": "t"}, OPERATOR, "incident_open"),
    Act("PATCH", "/changes/CHG-1", {"resolution": "done"}, OPERATOR, "change_close",
        read="/changes/CHG-1"),
    Act("PATCH", "/incidents/INC-1", {"resolution": "done"}, OPERATOR, "incident_close",
        read="/incidents/INC-1"),
    Act("POST", "/replay/plans", {"dataset": ["hrrr"], "since": "2026-01-01"}, OPERATOR,
        "plan_keep"),
    Act("POST", "/replay/runs", {"plan_sha256": ZERO}, OPERATOR, "replay_run"),
    Act("POST", "/replay/runs/r/resume", {}, OPERATOR, "replay_run"),
    Act("POST", "/approvals", {"plan_sha256": ZERO, **REASON}, OPERATOR, "approval_request"),
    Act("POST", "/approvals/{approval}/decision", {"verdict": "approve"}, APPROVER,
        "approval_decide", read="/approvals/{approval}"),
    Act("POST", "/actors", {"name": "zoe", "role": "viewer"}, APPROVER, "actor_add"),
    Act("POST", "/audit/seal", {}, OPERATOR, "audit_seal"),
    Act("POST", "/audit/check", {}, VIEWER, "audit_check"),
    Act("POST", "/verify", {"sample": 1}, OPERATOR, "verify"),
    # The last one: she is needed above.
    Act("POST", "/actors/vera/revoke", {}, APPROVER, "actor_revoke", read="/actors/vera"),
]  # fmt: skip


@pytest.fixture
def scene(console: Console, people: People) -> dict[str, str]:
    """Something to act on: an open change, an open incident, a request of bob's."""
    otto = console.program("otto")
    for collection, ref in (("changes", "CHG-1"), ("incidents", "INC-1")):
        assert otto.post(f"{API}/{collection}", json={"ref": ref, "title": "t"}).status_code == 201
    return {"approval": people.request(plan(), by=people.bob).approval_id}


def send(client: Client, act: Act, scene: dict[str, str], **headers: str) -> Any:
    """Send a write as its client would, with the tag that it must name."""
    tag = {"If-Match": etag(client, act.read.format(**scene))} if act.read else {}
    path = f"{API}{act.path.format(**scene)}"
    return client.request(act.method, path, json=act.body, headers={**tag, **headers})


class TestWhoMayDoWhat:
    """Roles and actions: the weakest is refused, and the log says so."""

    def test_only_the_role_that_may_does_it(
        self, console: Console, people: People, backend: Backend, scene: dict[str, str]
    ) -> None:
        """Nobody 401, a viewer by the link 403, a weaker role 403 and logged; else it is heard."""
        guest = console.browser_of()
        for act in ACTS:
            before = state_of_tables(backend)
            path = f"{API}{act.path.format(**scene)}"
            assert console.client().request(act.method, path, json=act.body).status_code == 401
            answer = guest.send_json(act.method, path, act.body)
            assert (answer.status_code, answer.json()["code"]) == (403, "not_authorized"), act
            weaker = [name for name in (VIEWER, OPERATOR) if RANKS[name] < RANKS[act.role]]
            for name in weaker:
                answer = send(console.program(name), act, scene)
                assert (answer.status_code, answer.json()["code"]) == (403, "not_authorized"), act
            refused = backend.sql(
                "SELECT actor FROM audit_log WHERE action = ?", f"{act.action}_refused"
            )
            assert {(name,) for name in weaker} <= set(refused), act
            assert state_of_tables(backend) == before, act
            answer = send(console.program(act.role), act, scene)
            assert answer.status_code in {200, 201, 202, 404}, answer.text
            if answer.status_code == 202:
                ended(console, answer)

    @pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
    def test_a_browser_shows_its_sessions_token(
        self, console: Console, people: People, backend: Backend, scene: dict[str, str]
    ) -> None:
        """Without it, with another's, or with a part of it, nothing is done; nor by a form."""
        browser = console.browser_of(people.ann)
        other = console.browser_of(people.bob).csrf
        before = state_of_tables(backend)
        for act in ACTS:
            path = f"{API}{act.path.format(**scene)}"
            for wrong in ("", other, browser.csrf[:-1]):
                answer = browser.send_json(act.method, path, act.body, **{"X-CSRF-Token": wrong})
                assert (answer.status_code, answer.json()["code"]) == (403, "csrf_refused"), act
            told = {"Origin": "http://localhost:8090", "X-CSRF-Token": browser.csrf}
            answer = browser.request(act.method, path, data={"a": "b"}, headers=told)
            assert (answer.status_code, answer.json()["code"]) == (415, "media_type_refused"), act
        assert state_of_tables(backend) == before

    @pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
    def test_a_stale_page_is_refused(
        self, console: Console, people: People, backend: Backend, scene: dict[str, str]
    ) -> None:
        """No tag: 428. A tag of something else: 412, with what it is now. Nothing is done."""
        before = state_of_tables(backend)
        ann = console.program("ann")
        for act in ACTS:
            if act.read is None:
                continue
            path = f"{API}{act.path.format(**scene)}"
            answer = ann.request(act.method, path, json=act.body)
            assert (answer.status_code, answer.json()["code"]) == (428, "precondition_required")
            answer = ann.request(act.method, path, json=act.body, headers={"If-Match": '"old"'})
            assert (answer.status_code, answer.json()["code"]) == (412, "version_conflict")
            now = ann.get(f"{API}{act.read.format(**scene)}")
            assert answer.json()["changed"] == now.json()
            assert answer.headers["etag"] == now.headers["etag"]
        assert state_of_tables(backend) == before

    def test_every_change_is_in_the_log_with_its_actor(
        self, console: Console, people: People, backend: Backend, scene: dict[str, str]
    ) -> None:
        """One act after the other: the log names who did what to what."""
        last = backend.sql("SELECT max(entry_id) FROM audit_log")[0][0]
        for act in ACTS:
            if act.body.get("plan_sha256") != ZERO and "/r/" not in act.path:
                answer = send(console.program(act.role), act, scene)
                assert answer.is_success, answer.text
                if answer.status_code == 202:
                    ended(console, answer)
        logged = backend.sql(
            "SELECT actor, action, subject FROM audit_log WHERE entry_id > ? ORDER BY entry_id",
            last,
        )
        kept = next(subject for _, action, subject in logged if action == "plan_keep")
        assert logged == [
            ("otto", "switch_on", "replay:goes-glm"),
            ("otto", "freeze_on", "*:*"),
            ("otto", "change_open", "change:CHG-9"),
            ("otto", "incident_open", "incident:INC-9"),
            ("otto", "change_close", "change:CHG-1"),
            ("otto", "incident_close", "incident:INC-1"),
            ("otto", "plan_keep", kept),
            ("ann", "approval_approve", f"approval:{scene['approval']}"),
            ("ann", "actor_add", "actor:zoe"),
            ("otto", "audit_seal", "audit:*"),
            ("ann", "actor_revoke", "actor:vera"),
        ]


class TestFreeze:
    """Everything stopped at once."""

    def test_it_stops_all_scopes_and_lets_them_go_on(
        self, console: Console, people: People, backend: Backend
    ) -> None:
        """What was on before stays on."""
        otto = console.program("otto")
        on = {"is_on": True, "reason": "INC-7"}
        answer = otto.put(f"{API}/freeze", json=on, headers={"If-Match": etag(otto, "/switches")})
        assert sorted(answer.json()["scopes"]) == ["dispatch", "ingest", "nodes", "replay"]
        off = {"is_on": False, "reason": "over"}
        answer = otto.put(f"{API}/freeze", json=off, headers={"If-Match": etag(otto, "/switches")})
        assert sorted(answer.json()["scopes"]) == ["dispatch", "ingest", "nodes", "replay"]
        left = backend.sql("SELECT scope, dataset FROM kill_switches WHERE is_on ORDER BY scope")
        assert left == [("ingest", "nexrad-l2")]


class TestReferences:
    """Change records and incidents."""

    @pytest.mark.parametrize("collection", ["changes", "incidents"])
    def test_they_are_what_the_command_tells(
        self, console: Console, people: People, backend: Backend, collection: str
    ) -> None:
        """Opened here, closed here; the list, the page and one of them are the command's."""
        otto, kind = console.program("otto"), collection[:-1]
        for ref in ("X/1#a", "X-2", "X-3"):
            body = {"ref": ref, "title": "<b>t</b>", "description": "d"}
            assert otto.post(f"{API}/{collection}", json=body).status_code == 201
        answer = otto.post(f"{API}/{collection}", json={"ref": "X-2", "title": "t"})
        assert (answer.status_code, answer.json()["code"]) == (409, "reference_exists")
        one = f"/{collection}/X/1%23a"
        closed = otto.patch(
            f"{API}{one}", json={"resolution": "r"}, headers={"If-Match": etag(otto, one)}
        )
        assert closed.json()[kind]["state"] == "closed"
        told = here(collection, "list", "--output", "json", at=backend).json
        found = otto.get(f"{API}/{collection}").json()
        assert found[collection] == told[collection]
        assert otto.get(f"{API}{one}").json()[kind] == told[collection][-1]
        query: dict[str, Any] = {"limit": 1, "state": "open"}
        page = otto.get(f"{API}/{collection}", params=query).json()
        assert [each["ref"] for each in page[collection]] == ["X-3"]
        rest = otto.get(
            f"{API}/{collection}", params={**query, "cursor": page["next_cursor"]}
        ).json()
        assert [each["ref"] for each in rest[collection]] == ["X-2"]
        assert rest["next_cursor"] is None


class TestActors:
    """Who may act."""

    def test_a_token_is_told_once_and_kept_nowhere(
        self, console: Console, people: People, backend: Backend
    ) -> None:
        """The new actor acts with it; the store has its hash alone, and no later answer has it."""
        ann = console.program("ann")
        answer = ann.post(f"{API}/actors", json={"name": "zoe", "role": "operator"})
        token = answer.json()["token"]
        assert answer.headers["cache-control"] == "no-store"
        zoe = console.client(Authorization=f"Bearer {token}")
        assert zoe.post(f"{API}/changes", json={"ref": "Z-1", "title": "t"}).status_code == 201
        (stored,) = backend.sql("SELECT token_sha256 FROM actors WHERE name = 'zoe'")
        assert stored == (hashlib.sha256(token.encode()).hexdigest(),)
        for path in ("/actors", "/actors/zoe", "/audit?actor=ann"):
            assert token not in ann.get(f"{API}{path}").text
        assert zoe.post(f"{API}/actors", json={"name": "y", "role": "viewer"}).status_code == 403

    def test_everybody_renews_their_own_and_an_approver_that_of_others(
        self, console: Console, people: People
    ) -> None:
        """The old token is void at once; somebody else's is refused."""
        vera = console.program("vera")
        other = {"If-Match": etag(vera, "/actors/otto")}
        answer = vera.post(f"{API}/actors/otto/rotate", json={}, headers=other)
        assert (answer.status_code, answer.json()["code"]) == (403, "not_authorized")
        own = {"If-Match": etag(vera, "/actors/vera")}
        token = vera.post(f"{API}/actors/vera/rotate", json={}, headers=own).json()["token"]
        assert vera.get(f"{API}/actors").status_code == 401
        assert console.client(Authorization=f"Bearer {token}").get(f"{API}/actors").is_success
        ann = console.program("ann")
        tag = {"If-Match": etag(ann, "/actors/otto")}
        assert ann.post(f"{API}/actors/otto/rotate", json={}, headers=tag).is_success
        assert console.program("otto").get(f"{API}/actors").status_code == 401

    @pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
    def test_the_revoked_are_nobody_and_the_last_approver_stays(
        self, console: Console, people: People, backend: Backend
    ) -> None:
        """A session ends with its actor; an approver who is alone cannot be revoked."""
        browser, ann = console.browser_of(people.bob), console.program("ann")
        for name, status, told in (("bob", 200, "actor"), ("ann", 409, "last_approver")):
            tag = {"If-Match": etag(ann, f"/actors/{name}")}
            answer = ann.post(f"{API}/actors/{name}/revoke", json={}, headers=tag)
            assert answer.status_code == status, answer.text
            assert told in answer.text
        assert browser.get(f"{API}/actors").status_code == 401
        told = here("actors", "list", "--output", "json", at=backend).json["actors"]
        assert ann.get(f"{API}/actors").json()["actors"] == told


class TestAudit:
    """The log and its chain."""

    def test_pages_are_those_of_the_command_in_both_orders(
        self, console: Console, people: People, backend: Backend
    ) -> None:
        """Oldest first as the command has it; newest first the same backwards; filters hold."""
        vera = console.program("vera")
        told = here("audit", "list", "--limit", "100", "--output", "json", at=backend).json
        entries = vera.get(f"{API}/audit").json()["entries"]
        assert entries == told["entries"]
        seen, cursor = [], None
        while True:
            query: dict[str, Any] = {"order": "newest", "limit": 2}
            query |= {"cursor": cursor} if cursor else {}
            page = vera.get(f"{API}/audit", params=query).json()
            seen += page["entries"]
            cursor = page["next_cursor"]
            if cursor is None:
                break
        assert seen == entries[::-1]
        found = vera.get(f"{API}/audit?action=actor_add&actor=ann&order=newest").json()["entries"]
        assert [each["subject"] for each in found] == ["actor:vera", "actor:otto", "actor:bob"]
        found = vera.get(f"{API}/audit?subject=actor:bob").json()["entries"]
        assert [each["action"] for each in found] == ["actor_add"]

    def test_the_check_finds_an_edited_entry(
        self, console: Console, people: People, backend: Backend, tmp_path: Path
    ) -> None:
        """Sealed and anchored it holds; one entry edited, it names that one."""
        otto = console.program("otto")
        sealed = otto.post(f"{API}/audit/seal", json={}).json()
        anchors = (tmp_path / sealed["anchor_file"]).read_text().splitlines()
        assert len(anchors) == 1
        job = ended(console, console.program("vera").post(f"{API}/audit/check", json={}))
        assert (job.result["ok"], job.result["anchors"]) == (True, 1)
        assert job.result["sealed"] == sealed["head"]["position"]
        break_in(backend, "UPDATE audit_log SET actor = 'nobody' WHERE entry_id = 2")
        job = ended(console, otto.post(f"{API}/audit/check", json={}))
        assert job.result["ok"] is False
        assert [(each.position, each.what) for each in job.result["faults"]] == [
            (2, "entry 2 was edited")
        ]
        assert job.result["faults_total"] == 1

    @pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
    def test_an_anchor_that_the_log_contradicts_is_not_extended(
        self, console: Console, people: People, tmp_path: Path
    ) -> None:
        """A file that knows more than the log ends the sealing with 409 or 500, never silently."""
        path = Path("tallgrass-audit-anchors.jsonl")
        path.write_text(f'{{"position": 999999, "chain_hash": "{ZERO}"}}\n')
        answer = console.program("otto").post(f"{API}/audit/seal", json={})
        assert answer.json()["code"] == "audit_broken"
        assert path.read_text().count("\n") == 1
