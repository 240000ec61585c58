"""Forms: what a page sends when somebody presses a button, checked before a handler sees it.

A form is sent to the address of its own page. It carries the token of the session and, if it acts
on a record, the version that the page showed. The handler calls the same function as the API, then
sends the browser back to a page.
"""

from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Final
from urllib.parse import urlencode

from fastapi import Depends, Request
from fastapi.responses import RedirectResponse
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData

from tallgrass.api.etags import version_in
from tallgrass.api.problems import RequestRefused
from tallgrass.api.sign_in import Signed, identify, require_actor, require_csrf
from tallgrass.errors import InvalidInput
from tallgrass.governance.actors import Actor, Role

CSRF_FIELD: Final = "csrf"
VERSION_FIELD: Final = "version"
_FORM = "application/x-www-form-urlencoded"
_FIELDS_MAX = 100
_TEXT_MAX = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """The fields of a form, and who sent them."""

    request: Request
    signed: Signed
    fields: dict[str, list[str]]

    def text(self, name: str, *, needed: bool = True) -> str:
        """Return a field without blanks around it; one that is needed and empty is refused."""
        found = self.fields.get(name, [])
        value = found[0].strip() if found else ""
        if len(found) > 1 or len(value) > _TEXT_MAX or (needed and not value):
            raise InvalidInput(f"{name}: one text is needed")
        return value

    def all(self, name: str) -> list[str]:
        """Return all that a field with several values holds."""
        return [value.strip() for value in self.fields.get(name, []) if value.strip()]

    def checked(self, name: str) -> bool:
        """Tell whether a box is ticked."""
        return name in self.fields

    def version(self) -> int:
        """Return the version of the record that the page showed."""
        return version_in(self.text(VERSION_FIELD, needed=False) or None)

    def actor(self, role: Role, action: str) -> Actor:
        """Return who acts; who may not is refused, and the audit log says so."""
        return require_actor(self.request, self.signed, role, action)


async def _read(request: Request) -> Form:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != _FORM:
        raise RequestRefused(
            f"a page's form is {_FORM}, not {kind[:80]!r}",
            status=HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            code="media_type_refused",
        )
    given = await request.form(max_files=0, max_fields=_FIELDS_MAX)
    fields = _texts(given)
    signed = await run_in_threadpool(identify, request)
    require_csrf(signed, next(iter(fields.get(CSRF_FIELD, [])), None))
    return Form(request=request, signed=signed, fields=fields)


def _texts(given: FormData) -> dict[str, list[str]]:
    fields: dict[str, list[str]] = {}
    for name, value in given.multi_items():
        if isinstance(value, str):
            fields.setdefault(name, []).append(value)
    return fields


#: A checked form, as a parameter of a handler.
Sent = Annotated[Form, Depends(_read)]


def back_to(path: str, done: str = "") -> RedirectResponse:
    """Send the browser back to a page that says what was done; reloading it repeats nothing."""
    address = f"{path}?{urlencode({'done': done})}" if done else path
    return RedirectResponse(address, HTTPStatus.SEE_OTHER)
