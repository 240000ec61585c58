"""Parameters of the API: those that the document lists, and no others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.support.console import Console
    from tests.support.governance import People

API = "/api/v1"


@pytest.mark.parametrize("path", ["records", "quarantine", "audit", "slo"])
def test_a_parameter_that_there_is_not_is_refused(
    console: Console, people: People, path: str
) -> None:
    """A mistyped filter would filter nothing: the answer says which parameters there are."""
    vera = console.program("vera")
    assert vera.get(f"{API}/{path}").status_code == 200
    refused = vera.get(f"{API}/{path}", params={"nosuch": "1"})
    assert (refused.status_code, refused.json()["code"]) == (400, "invalid_input")
    assert "there is no parameter 'nosuch'" in refused.json()["detail"]


def test_the_refusal_lists_what_there_is(console: Console, people: People) -> None:
    """So the right one is found without the documentation."""
    told = console.program("vera").get(f"{API}/quarantine?datset=hrrr").json()["detail"]
    assert told.endswith("there are cursor, dataset, error_code, limit")


def test_a_parameter_of_a_write_is_refused_too(console: Console, people: People) -> None:
    """What a body must say is not said by the address."""
    otto, body = console.program("otto"), {"attempt_no": 1, "note": "seen"}
    wal_id = otto.get(f"{API}/records?status=succeeded").json()["records"][0]["wal_id"]
    notes = f"{API}/records/{wal_id}/notes"
    assert otto.post(f"{notes}?note=x", json=body).status_code == 400
    assert otto.post(notes, json=body).status_code == 200
