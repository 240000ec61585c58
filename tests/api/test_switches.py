from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.support.backends import Backend
    from tests.support.console import Client, Console
    from tests.support.governance import People

PATH = "/api/v1/switches/ingest/goes-glm"
TURN = {"is_on": True, "reason": "INC-7"}


def tag(client: Client) -> str:
    """Return the ETag of the switches as they are now."""
    found: str = client.get("/api/v1/switches").headers["etag"]
    return found


def turned(backend: Backend) -> list[tuple[object, ...]]:
    """Return who turned the switch of the dataset, and why."""
    return backend.sql(
        "SELECT is_on, actor, reason FROM kill_switches WHERE scope = ? AND dataset = ?",
        "ingest", "goes-glm",
    )  # fmt: skip


def test_an_operator_turns_a_switch_and_the_log_names_them(
    console: Console, people: People, backend: Backend
) -> None:
    """The write is the token's actor's, in the table and in the audit log."""
    otto = console.program("otto")
    answer = otto.put(PATH, json=TURN, headers={"If-Match": tag(otto)})
    assert answer.status_code == 200, answer.text
    assert [each["is_on"] for each in answer.json()["switches"]] == [True]
    assert [(bool(on), who, why) for on, who, why in turned(backend)] == [(True, "otto", "INC-7")]
    logged = backend.sql("SELECT actor, subject FROM audit_log WHERE action = 'switch_on'")
    assert ("otto", "ingest:goes-glm") in logged


def test_a_page_that_is_stale_is_refused_and_told_what_changed(
    console: Console, people: People, backend: Backend
) -> None:
    """A turn on the ground of switches that were others is 412, with the switches as they are."""
    otto = console.program("otto")
    before = tag(otto)
    other = {"is_on": True, "reason": "first"}
    assert otto.put(
        "/api/v1/switches/replay/*", json=other, headers={"If-Match": before}
    ).is_success
    answer = otto.put(PATH, json=TURN, headers={"If-Match": before})
    assert answer.status_code == 412
    assert answer.json()["code"] == "version_conflict"
    assert {each["reason"] for each in answer.json()["changed"]["switches"]} >= {"first"}
    assert answer.headers["etag"] == tag(otto)
    assert turned(backend) == []


def test_an_action_that_names_no_version_is_refused(console: Console, people: People) -> None:
    """Without If-Match nothing is done (428)."""
    answer = console.program("otto").put(PATH, json=TURN)
    assert (answer.status_code, answer.json()["code"]) == (428, "precondition_required")


def test_a_viewer_may_not_turn_a_switch(console: Console, people: People, backend: Backend) -> None:
    """A role that is too weak is 403, and the refusal is in the audit log."""
    vera = console.program("vera")
    answer = vera.put(PATH, json=TURN, headers={"If-Match": tag(vera)})
    assert (answer.status_code, answer.json()["code"]) == (403, "not_authorized")
    assert turned(backend) == []
    logged = backend.sql("SELECT actor FROM audit_log WHERE action = 'turn_switch_refused'")
    assert logged == [("vera",)]


def test_a_browser_writes_with_its_sessions_token_alone(
    console: Console, people: People, backend: Backend
) -> None:
    """By a session, the write needs the CSRF token of this very session."""
    browser = console.browser_of(people.otto)
    now = tag(browser)
    stranger = console.browser_of(people.bob).csrf
    for wrong in ("", stranger, browser.csrf[:-1]):
        answer = browser.send_json("PUT", PATH, TURN, **{"If-Match": now, "X-CSRF-Token": wrong})
        assert (answer.status_code, answer.json()["code"]) == (403, "csrf_refused")
    assert turned(backend) == []
    assert browser.send_json("PUT", PATH, TURN, **{"If-Match": now}).status_code == 200


def test_a_viewer_of_the_link_writes_nothing(console: Console, backend: Backend) -> None:
    """Whoever came by the link without a token can only read."""
    browser = console.browser_of()
    answer = browser.send_json("PUT", PATH, TURN, **{"If-Match": tag(browser)})
    assert (answer.status_code, answer.json()["code"]) == (403, "not_authorized")
    assert turned(backend) == []


def test_a_mistyped_dataset_is_refused(console: Console, people: People) -> None:
    """A switch that would stop nothing is not turned."""
    otto = console.program("otto")
    answer = otto.put(
        "/api/v1/switches/ingest/goes-gml", json=TURN, headers={"If-Match": tag(otto)}
    )
    assert answer.status_code in {400, 404}, answer.text
    assert "goes-glm" in answer.json()["detail"]
