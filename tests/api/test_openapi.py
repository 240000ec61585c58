"""The OpenAPI document, and what a generator of requests makes of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.api.app import openapi

if TYPE_CHECKING:
    from tests.support.console import Console

WRITES = {"post", "put", "patch", "delete"}


@pytest.fixture
def document(console: Console) -> dict[str, Any]:
    """The document, as the server gives it."""
    found: dict[str, Any] = console.browser_of().get("/api/v1/openapi.json").json()
    assert found == openapi(console.app)
    return found


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_it_is_openapi_31_and_names_the_api_alone(document: dict[str, Any]) -> None:
    """Every path is below the prefix; pages and files are not in it."""
    assert document["openapi"].startswith("3.1.")
    assert document["paths"]
    assert all(path.startswith("/api/v1/") for path in document["paths"])


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_every_route_documents_its_problems_and_who_may(document: dict[str, Any]) -> None:
    """Each asks for a sign-in and has its problems in their one form; a write is JSON alone."""
    for path, methods in document["paths"].items():
        for method, route in methods.items():
            told = route["responses"]
            for status in ("401", "403", "422", "429", "503"):
                content = told[status]["content"]
                assert list(content) == ["application/problem+json"], (path, method, status)
            assert route["security"], (path, method)
            assert route.get("summary")
            if method in WRITES:
                assert "415" in told, (path, method)
