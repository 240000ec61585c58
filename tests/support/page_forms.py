"""Forms of pages, as a browser without scripts finds and sends them."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.support.console import Client


@dataclass
class FoundForm:
    """One form: where it goes, and what its fields hold."""

    method: str
    action: str
    fields: dict[str, list[str]] = field(default_factory=dict)
    #: What its buttons add: name and value.
    buttons: list[tuple[str, str]] = field(default_factory=list)


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.forms: list[FoundForm] = []
        self._open: FoundForm | None = None
        self._text: str | None = None
        self._select: str | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take a form and its fields."""
        given = {name: value or "" for name, value in attrs}
        if tag == "form":
            self._open = FoundForm(given.get("method", "get"), given["action"])
            self.forms.append(self._open)
        elif self._open is None:
            return
        elif tag == "input" and given.get("type") not in {"checkbox", "radio"}:
            self._open.fields.setdefault(given["name"], []).append(given.get("value", ""))
        elif tag == "textarea":
            self._open.fields[given["name"]] = [""]
        elif tag == "select":
            self._select = given["name"]
        elif tag == "button":
            self._open.buttons.append((given.get("name", ""), given.get("value", "")))

    def handle_endtag(self, tag: str) -> None:
        """End a form."""
        if tag == "form":
            self._open = None


def forms_of(html: str) -> list[FoundForm]:
    """Return all forms of a page."""
    reader = _Reader()
    reader.feed(html)
    return reader.forms


def form_to(html: str, action: str) -> FoundForm:
    """Return the one form of a page that goes to an address."""
    found = [each for each in forms_of(html) if each.action == action]
    assert found, (action, [each.action for each in forms_of(html)])
    return found[0]


def press(client: Client, page: str, action: str, **typed: Any) -> Any:
    """Look at a page, fill in its form and send it; return the answer."""
    looked = client.get(page)
    assert looked.status_code == 200, looked.text
    form = form_to(looked.text, action)
    fields = {name: each for name, each in form.fields.items() if name != "csrf"}
    return client.send_form(action, **{**fields, "csrf": form.fields["csrf"], **typed})
