"""A place between boto3 and an emulator that answers as SQS does when something is wrong.

It passes requests on as they are, except those that a planned fault is meant for.
"""

from __future__ import annotations

import http.client
import json
import socket
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from tests.support.loopback import LoopbackServer

if TYPE_CHECKING:
    from http.server import BaseHTTPRequestHandler

#: Every action.
ALL = "*"


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What the emulator answered, or what is answered in its place."""

    status: int
    body: dict[str, Any]


@dataclass
class _Planned:
    action: str
    #: Makes the answer from the request and a way to pass it on; None breaks the connection.
    fault: Any
    times: int | None


def answers(code: str, status: int = 400, message: str = "planned") -> Any:
    """Answer an error in the emulator's place."""
    body = {"__type": f"com.amazonaws.sqs#{code}", "message": message}
    return lambda _request, _pass_on: Answer(status=status, body=body)


def breaks() -> Any:
    """Close the connection without an answer."""
    return lambda _request, _pass_on: None


def loses_the_answer() -> Any:
    """Let the emulator do it, and close the connection without telling."""

    def fault(request: dict[str, Any], pass_on: Any) -> None:
        pass_on(request)

    return fault


def fails_entries(code: str, *, sender: bool, ids: set[str] | None = None) -> Any:
    """Fail some entries of a batch (all unless ids are given) and pass on the others."""

    def fault(request: dict[str, Any], pass_on: Any) -> Answer:
        chosen = [e for e in request["Entries"] if ids is None or e["Id"] in ids]
        others = [e for e in request["Entries"] if e not in chosen]
        failed = [
            {"Id": e["Id"], "Code": code, "SenderFault": sender, "Message": "planned"}
            for e in chosen
        ]
        body = pass_on({**request, "Entries": others}).body if others else {"Successful": []}
        return Answer(status=200, body={**body, "Failed": body.get("Failed", []) + failed})

    return fault


class FaultyEndpoint(LoopbackServer):
    """Use it as a context manager."""

    def __init__(self, upstream: str) -> None:
        super().__init__()
        self._upstream = urlsplit(upstream)
        self._planned: list[_Planned] = []
        self._lock = threading.Lock()
        #: Action, body and headers of every request, in order.
        self.requests: list[tuple[str, dict[str, Any], dict[str, str]]] = []

    def plan(self, action: str, fault: Any, *, times: int | None = None) -> None:
        """Let requests of an action meet a fault: so many of them, or all until `heal`."""
        with self._lock:
            self._planned.append(_Planned(action, fault, times))

    def heal(self) -> None:
        """Forget all faults."""
        with self._lock:
            self._planned.clear()

    def count(self, action: str) -> int:
        """Return how many requests of an action came."""
        return sum(found == action for found, _, _ in self.requests)

    def serve(self, handler: BaseHTTPRequestHandler) -> None:
        """Answer as planned, or as the emulator does."""
        action = handler.headers["X-Amz-Target"].rpartition(".")[2]
        body = handler.rfile.read(int(handler.headers["Content-Length"]))
        request = json.loads(body)
        headers = dict(handler.headers)
        self.requests.append((action, request, headers))
        fault = self._next_fault(action)

        def pass_on(changed: dict[str, Any]) -> Answer:
            return self._pass_on(handler, changed)

        answer = pass_on(request) if fault is None else fault(request, pass_on)
        if answer is None:
            handler.close_connection = True
            handler.connection.shutdown(socket.SHUT_RDWR)
            return
        content = json.dumps(answer.body).encode()
        handler.send_response(answer.status)
        handler.send_header("Content-Type", "application/x-amz-json-1.0")
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        handler.wfile.write(content)

    def _next_fault(self, action: str) -> Any:
        with self._lock:
            for planned in self._planned:
                if planned.action in {ALL, action} and planned.times != 0:
                    if planned.times is not None:
                        planned.times -= 1
                    return planned.fault
        return None

    def _pass_on(self, handler: BaseHTTPRequestHandler, request: dict[str, Any]) -> Answer:
        kept = ("X-Amz-Target", "Content-Type", "Authorization", "X-Amz-Date", "User-Agent")
        headers = {name: handler.headers[name] for name in kept if handler.headers[name]}
        connection = http.client.HTTPConnection(self._upstream.netloc)
        try:
            connection.request("POST", "/", json.dumps(request), headers)
            answer = connection.getresponse()
            return Answer(status=answer.status, body=json.loads(answer.read() or b"{}"))
        finally:
            connection.close()
