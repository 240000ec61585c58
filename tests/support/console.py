"""The console in this process, and as a real one; people who are signed in at it."""

from __future__ import annotations

import signal
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from starlette.testclient import TestClient

from tallgrass.api.service import Service, open_service
from tallgrass.config import load_config
from tallgrass.console.app import create_console
from tests.cli.command import PROGRAM, environment
from tests.support.governance import token_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from fastapi import FastAPI

    from tallgrass.governance.actors import Actor
    from tests.support.backends import Backend

HOST = "localhost:8090"
ORIGIN = f"http://{HOST}"


class Client(TestClient):
    """A browser or a program, whose requests and answers are plain HTTP."""

    csrf: str = ""

    def send_form(self, path: str, **fields: Any) -> Any:
        """Send a form of a page, as a browser does."""
        data = {"csrf": self.csrf, **fields}
        return self.post(path, data=data, headers={"Origin": ORIGIN})

    def send_json(self, method: str, path: str, body: Any, **headers: str) -> Any:
        """Send JSON as a page's script does."""
        told = {"Origin": ORIGIN, "X-CSRF-Token": self.csrf, **headers}
        return self.request(method, path, json=body, headers=told)


@dataclass
class Console:
    """The application over a database; no network, no process."""

    service: Service
    app: FastAPI
    _clients: list[Client] = field(default_factory=list)

    def client(self, **headers: str) -> Client:
        """Return somebody who is not signed in."""
        made = Client(
            self.app,
            base_url=ORIGIN,
            headers=headers,
            follow_redirects=False,
            raise_server_exceptions=False,
        )
        self._clients.append(made)
        return made

    def program(self, name: str) -> Client:
        """Return a program with the token of a person of `tests.support.governance`."""
        return self.client(Authorization=f"Bearer {token_of(name)}")

    def browser_of(self, actor: Actor | None = None) -> Client:
        """Return a browser that came by a link; without an actor it is a viewer's."""
        client = self.client()
        link = self.service.sessions.make_link(actor)
        answer = client.get("/sign-in", params={"link": link})
        assert answer.status_code == 303, answer.text
        session = self.service.sessions.find(next(iter(client.cookies.values())))
        assert session is not None
        client.csrf = session.csrf
        return client

    def close(self) -> None:
        """Close everything."""
        for client in self._clients:
            client.close()
        self.service.close()


@contextmanager
def console_at(
    backend: Backend, settings: Mapping[str, Any] | None = None, **injected: Any
) -> Iterator[Console]:
    """Open the console over a database; its figures are never older than the request."""
    config = load_config(environment={}, flags={"database.url": backend.url, **(settings or {})})
    config = replace(config, rules=backend.config().rules)
    service = open_service(config, **{"figures_age_s": 0.0, "figures_recent_s": 0.0, **injected})
    console = Console(service, create_console(service))
    try:
        yield console
    finally:
        console.close()


@dataclass(frozen=True)
class Served:
    """A console that answers."""

    #: Signs in once.
    link: str
    process: subprocess.Popen[str]

    @property
    def url(self) -> str:
        """Its address, without a slash at the end."""
        return self.link.partition("/sign-in")[0]


@contextmanager
def console_process(url: str, *flags: str, **env: str) -> Iterator[Served]:
    """Run `tallgrass console` at a free port; it must end by itself, quietly."""
    process = subprocess.Popen(
        [*PROGRAM, "console", "--store", url, "--port", "0", *flags],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(**env),
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    try:
        assert line.startswith("Console: http"), line or process.communicate()
        yield Served(line.split()[-1], process)
    finally:
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
    assert (out, err, process.returncode) == ("", "", 0)
