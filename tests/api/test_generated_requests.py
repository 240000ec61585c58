"""Requests that schemathesis makes of the OpenAPI document: no 5xx, nothing undocumented."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.core.failures import FailureGroup
from schemathesis.openapi.checks import UndefinedStatusCode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tallgrass.api.app import openapi
from tallgrass.bootstrap.queues import open_queue
from tests.cli.command import fill
from tests.support.console import ORIGIN, console_at
from tests.support.governance import set_up, token_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.backends import Backend
    from tests.support.console import Client

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
#: A stream without an end; it has tests of its own.
ENDLESS = {"/api/v1/events"}


def requests_of(operation: Any, client: Client, examples: int) -> Callable[[], None]:
    """Return what sends generated requests of one operation, and checks each answer."""

    @given(case=operation.as_strategy())
    @settings(
        max_examples=examples,
        phases=[Phase.explicit, Phase.generate],
        deadline=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    def send(case: Any) -> None:
        wanted = case.as_transport_kwargs(base_url=ORIGIN)
        told = {name: wanted[name] for name in ("method", "url", "params")}
        # The client's own token counts, not one that was made up.
        headers = {n: v for n, v in wanted["headers"].items() if n.lower() != "authorization"}
        body = wanted.get("data")
        if "json" in wanted:
            body = orjson.dumps(wanted["json"])
            headers["Content-Type"] = "application/json"
        answer = client.request(**told, headers=headers, content=body)
        case.validate_response(answer, checks=CHECKS)

    return send


def test_generated_requests_meet_documented_answers(
    backend: Backend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, full_counts: bool
) -> None:
    """An approver's token asks for anything; every answer is in the document and none is 5xx."""
    monkeypatch.chdir(tmp_path)
    fill(backend)
    set_up(backend)
    few = 6 if backend.name == "sqlite" else 3
    with console_at(backend, monotonic=patient_clock()) as console:
        open_queue(console.service.config).close()
        client = console.client(Authorization=f"Bearer {token_of('ann')}")
        schema = schemathesis.openapi.from_dict(openapi(console.app))
        operations = [_operation(each) for each in schema.get_all_operations()]
        assert len(operations) == sum(len(each) for each in openapi(console.app)["paths"].values())
        found = [
            told
            for each in operations
            if each.path not in ENDLESS
            for told in failures_of(requests_of(each, client, 100 if full_counts else few))
        ]
        assert found == []


def _operation(result: Any) -> Any:
    return result.ok()


def failures_of(send: Callable[[], None]) -> list[str]:
    """Return what is wrong with an operation, so that all of them are told at once."""
    try:
        send()
    except FailureGroup as group:
        return [str(group)]
    return []


def patient_clock() -> Callable[[], float]:
    """Return a clock on which no two requests are close, so that none is one too many."""
    now = 0.0

    def tell() -> float:
        nonlocal now
        now += 60.0
        return now

    return tell


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_a_document_that_lies_is_found(backend: Backend) -> None:
    """The check can fail: an answer that the document leaves out is reported."""
    with console_at(backend) as console:
        document = openapi(console.app)
        del document["paths"]["/api/v1/codes/{code}"]["get"]["responses"]["404"]
        schema = schemathesis.openapi.from_dict(document)
        client = console.browser_of()
        operation = schema["/api/v1/codes/{code}"]["GET"]
        with pytest.raises(FailureGroup) as found:
            requests_of(operation, client, 5)()
        assert [type(each) for each in found.value.exceptions] == [UndefinedStatusCode]
