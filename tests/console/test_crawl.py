"""All pages at once: every link leads somewhere, and no text of anybody becomes markup."""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import pytest

from tallgrass.governance.references import ReferenceKind
from tallgrass.governance.switches import SwitchScope
from tallgrass.intake.message import PoisonMessage
from tests.support.events import write
from tests.support.outbox import Outbox, exhaust

if TYPE_CHECKING:
    from tests.support.backends import Backend
    from tests.support.console import Client, Console
    from tests.support.governance import People

CANARY = "<script>alert('x')</script><img src=x onerror=alert(1)>\"'"
#: More pages than there are; a crawl without an end would be an error of its own.
PAGES_MAX = 400
_LINK = re.compile(r'<a\b[^>]*?\bhref="([^"]+)"')
#: Not pages, or the end of the session.
_ELSEWHERE = ("/api/", "/stac", "/static/", "/sign-out")
_FIELD = re.compile(r'<(?:input|select|textarea)\b[^>]*?\bname="([a-z_]+)"')
_GET_FORM = re.compile(r'<form method="get" action="([^"]+)"[^>]*>(.*?)</form>', re.DOTALL)


@pytest.fixture
def poisoned(backend: Backend, console: Console, people: People) -> Console:
    """A console whose database has the canary in every text that somebody can write."""
    stores = people.stores
    stores.switches.set(SwitchScope.REPLAY, "hrrr", is_on=True, actor=people.otto, reason=CANARY)
    for kind, ref in ((ReferenceKind.CHANGE, "CHG-1"), (ReferenceKind.INCIDENT, "INC-1")):
        stores.changes.open(kind, ref, title=CANARY, description=CANARY, by=people.otto)
    held = backend.rows("SELECT wal_id, version FROM wal_records WHERE status = 'quarantined'")[0]
    otto = console.program("otto")
    units = [{"wal_id": str(held["wal_id"]), "version": held["version"]}]
    asked = otto.post("/api/v1/quarantine/requests", json={"units": units, "reason": CANARY})
    assert asked.status_code == 200, asked.text
    message = PoisonMessage(
        queue=CANARY,
        body=CANARY.encode(),
        message_id=CANARY,
        error_code="invalid_input",
        error_message=CANARY,
    )
    stores.poison.put([message])
    exhaust(Outbox(backend), 1)
    write(backend, 2, event_name=CANARY, dataset=CANARY)
    stores.interventions.annotate(
        str(backend.sql("SELECT wal_id FROM wal_attempts WHERE attempt_no = 1")[0][0]),
        1,
        actor=people.otto,
        note=CANARY,
    )
    return console


def require_clean(client: Client, path: str) -> str:
    """Return a page; it must be there, and hold nothing of the canary that a browser would run."""
    answer = client.get(path)
    assert answer.status_code in {200, 303}, (path, answer.status_code, answer.text[-600:])
    assert CANARY not in answer.text, path
    assert "<script>alert" not in answer.text, path
    assert "<img src=x" not in answer.text, path
    return str(answer.text)


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_every_link_leads_to_a_page_and_no_text_becomes_markup(
    poisoned: Console, people: People
) -> None:
    """From the overview on, as an approver who sees all there is; the canary was really shown."""
    client = poisoned.browser_of(people.ann)
    waiting, seen, shown = ["/"], set[str](), 0
    while waiting:
        path = waiting.pop()
        if path in seen or path.startswith(_ELSEWHERE):
            continue
        seen.add(path)
        assert len(seen) < PAGES_MAX, sorted(seen)
        text = require_clean(client, path)
        shown += html.escape(CANARY, quote=False)[:20] in text
        found = (html.unescape(link).partition("#")[0] for link in _LINK.findall(text))
        waiting += [link for link in found if link.startswith("/")]
    places = {"/records", "/map", "/replay", "/dead-letters", "/governance", "/outbox", "/nodes"}
    assert places <= seen
    assert shown >= 5, "the canary was on too few pages to prove anything"


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_what_is_typed_into_a_search_comes_back_as_text(poisoned: Console, people: People) -> None:
    """Every field of every form that asks: the page, or the error, shows it and runs nothing."""
    client = poisoned.browser_of(people.ann)
    asked = 0
    for place in ("/records", "/map", "/replay", "/dead-letters", "/quarantine", "/poison",
                  "/outbox", "/nodes", "/governance", "/governance/audit"):  # fmt: skip
        for action, form in _GET_FORM.findall(client.get(place).text):
            for name in _FIELD.findall(form):
                answer = client.get(f"{action}?{urlencode({name: CANARY})}")
                assert answer.status_code < 500, (action, name)
                assert "<script>alert" not in answer.text, (action, name)
                assert "<img src=x" not in answer.text, (action, name)
                asked += 1
    assert asked >= 15
