"""Objects, operators and stores that fail: what ledger and queue make of it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.datasets.catalogue import Catalogue, default_catalogue
from tallgrass.evidence.reading import ReadFailure
from tallgrass.operators import (
    governance_gate,
    integrity_check,
    metadata_extract,
    provenance_emit,
    stac_register,
)
from tallgrass.simulate.feed_files import etag_of
from tests.pipeline.scene import (
    VISIBILITY_S,
    Pipeline,
    assert_effects_follow_the_ledger,
    thing,
    things,
)
from tests.support.put_back import put_back

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tallgrass.evidence.reading import Evidence
    from tallgrass.ledger.unit import IngestUnit
    from tests.support.backends import Backend

LIMIT = 3


class FailingReader:
    """Fails so many reads of each object, then reads as it should."""

    def __init__(self, inner: Any, code: str, times: int) -> None:
        self._inner = inner
        self._code = code
        self._times = times

    def read(self, units: Sequence[IngestUnit]) -> Sequence[Evidence | ReadFailure]:
        """Fail or read."""
        if self._times > 0:
            self._times -= 1
            return [ReadFailure(code=self._code, message="told to fail") for _ in units]
        answers: Sequence[Evidence | ReadFailure] = self._inner.read(units)
        return answers


def reader_of(pipeline: Pipeline, code: str, times: int) -> FailingReader:
    """Return a reader that fails for a while."""
    return FailingReader(pipeline.worker._reader, code, times)


def edges(pipeline: Pipeline, wal_id: str) -> list[tuple[str | None, str]]:
    """Return the statuses that a unit went through, each edge as a pair."""
    history = pipeline.stores.reader.history(wal_id)
    return [(event.from_status, event.to_status) for event in history]


def unaskable(pipeline: Pipeline) -> None:
    """Announce what no request can ask for."""
    pipeline.announce(thing())
    pipeline.worker = pipeline.start(
        pipeline.lease, reader=reader_of(pipeline, "missing_object", 1000)
    )


def denied(pipeline: Pipeline) -> None:
    """Announce what may not be read."""
    pipeline.feed(thing())
    pipeline.worker = pipeline.start(
        pipeline.lease, reader=reader_of(pipeline, "access_denied", 1000)
    )


def zero_bytes(pipeline: Pipeline) -> None:
    """Announce an empty object."""
    pipeline.put(thing(), content=b"")
    pipeline.announce(thing(), size=0, etag="d41d8cd98f00b204e9800998ecf8427e")


def truncated(pipeline: Pipeline) -> None:
    """Announce what is left of an upload that broke off."""
    content = thing().content[:700]
    pipeline.put(thing(), content=content)
    pipeline.announce(thing(), size=len(content), etag=etag_of(content))


def other_etag(pipeline: Pipeline) -> None:
    """Announce an object of the same size with another content."""
    content = thing().content
    pipeline.put(thing(), content=content[:-1] + bytes([content[-1] ^ 1]))
    pipeline.announce(thing())


def changed_before_the_read(pipeline: Pipeline) -> None:
    """Announce the first version when the second one is there already."""
    pipeline.put(thing(version=2))
    pipeline.announce(thing())


#: By cause: the code, the integrity status, whether the unit is tried again by itself.
CAUSES: dict[Callable[[Pipeline], None], tuple[str, str, bool]] = {
    unaskable: ("missing_object", "failed", True),
    denied: ("access_denied", "failed", True),
    zero_bytes: ("size_zero", "failed", False),
    truncated: ("size_too_small", "failed", False),
    other_etag: ("etag_mismatch", "failed", True),
    changed_before_the_read: ("etag_mismatch", "failed", True),
}


@pytest.mark.conformance("WAL-5.4", "WAL-6.3", "SM-2.4", "WAL-3.12", "SM-4.4c")
@pytest.mark.parametrize("cause", CAUSES, ids=lambda cause: cause.__name__)
def test_each_fault_of_an_object_fails_its_unit(
    backend: Backend, tmp_path: Path, cause: Callable[[Pipeline], None]
) -> None:
    """The attempt fails with the code of its cause, has no effect, and its message stays."""
    pipeline = Pipeline(backend, tmp_path)
    cause(pipeline)
    code, integrity, _ = CAUSES[cause]
    batch = pipeline.worker.run_messages()
    row = pipeline.row(thing())
    assert (row["status"], row["last_error_code"], row["integrity_status"]) == (
        "failed",
        code,
        integrity,
    )
    assert (row["metadata_status"], row["stac_status"], row["provenance_status"]) == (
        "unknown",
        "unknown",
        "unknown",
    )
    assert (row["stac_item_id"], row["stac_collection_id"], row["stac_item_href"]) == (
        None,
        None,
        None,
    )
    assert edges(pipeline, row["wal_id"])[-1] == ("in_progress", "failed")
    (attempt,) = pipeline.attempts(thing())
    assert (attempt["status"], attempt["error_code"]) == ("failed", code)
    assert "What to do:" in row["last_error_message"]
    assert pipeline.item(thing()) is None
    assert_effects_follow_the_ledger(backend)
    assert (batch.deleted, batch.kept) == (0, 1)


@pytest.mark.conformance("WAL-4.4", "SM-2.4")
@pytest.mark.parametrize("cause", CAUSES, ids=lambda cause: cause.__name__)
def test_a_failed_unit_runs_again_if_policy_says_so(
    backend: Backend, tmp_path: Path, cause: Callable[[Pipeline], None]
) -> None:
    """A retried code goes back to pending on redelivery; another waits for a person's list."""
    pipeline = Pipeline(backend, tmp_path)
    cause(pipeline)
    code, _, retried = CAUSES[cause]
    pipeline.worker.run_messages()
    pipeline.put(thing())
    pipeline.worker = pipeline.start(pipeline.lease)
    pipeline.clock.advance(VISIBILITY_S + 1)
    pipeline.worker.run_messages()
    row = pipeline.row(thing())
    if retried:
        assert (row["status"], row["attempts"], row["replay_reason"]) == ("succeeded", 2, "none")
        assert ("failed", "pending") in edges(pipeline, row["wal_id"])
        return
    assert (row["status"], row["attempts"]) == ("failed", 1)
    selected = [(row["wal_id"], row["version"])]
    left = put_back(pipeline.stores, selected)
    assert left == {row["wal_id"]: "code_not_replayed"}
    assert pipeline.row(thing())["status"] == "failed"
    assert put_back(pipeline.stores, selected, codes=[code]) == {row["wal_id"]: None}
    pipeline.worker.run_due()
    assert (pipeline.row(thing())["attempts"], pipeline.row(thing())["replay_reason"]) == (
        2,
        "backfill",
    )


@pytest.mark.conformance("WAL-4.4")
def test_a_failed_unit_is_put_back_by_a_tool(backend: Backend, tmp_path: Path) -> None:
    """Tooling puts a failed unit back, and the worker runs it without a message."""
    pipeline = Pipeline(backend, tmp_path)
    pipeline.feed(thing())
    pipeline.start(pipeline.lease, reader=reader_of(pipeline, "io_error", 1)).run_messages()
    row = pipeline.row(thing())
    put_back(pipeline.stores, [(row["wal_id"], row["version"])], run_id="run-7")
    pipeline.worker.run_due()
    row = pipeline.row(thing())
    assert (row["status"], row["attempts"], row["replay_reason"]) == ("succeeded", 2, "backfill")
    assert [each["replay_run_id"] for each in pipeline.attempts(thing())] == [None, "run-7"]


OPERATORS = {
    "integrity-check": (integrity_check, "integrity_check", "integrity_status"),
    "metadata-extract": (metadata_extract, "metadata_extract", "metadata_status"),
    "governance-gate": (governance_gate, "governance_gate", None),
    "stac-register": (stac_register, "stac_register", "stac_status"),
    "provenance-emit": (provenance_emit, "provenance_emit", "provenance_status"),
}


@pytest.mark.conformance("WAL-5.4", "WAL-6.5", "WAL-6.7", "WAL-6.8")
@pytest.mark.parametrize("operator", OPERATORS)
def test_an_operator_that_raises_fails_its_unit_alone(
    backend: Backend, tmp_path: Path, operator: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own status is failed, the code says operator_error, and the neighbours succeed."""
    module, function, column = OPERATORS[operator]
    real = getattr(module, function)
    calls = []

    def raises_once(*args: Any, **kwargs: Any) -> Any:
        calls.append(1)
        if len(calls) == 1:
            raise ZeroDivisionError("told to")
        return real(*args, **kwargs)

    monkeypatch.setattr(module, function, raises_once)
    pipeline = Pipeline(backend, tmp_path)
    pipeline.feed(*things(4))
    pipeline.worker.run_messages()
    assert pipeline.statuses() == {"failed": 1, "succeeded": 3}
    (row,) = backend.rows("SELECT * FROM wal_records WHERE status = 'failed'")
    assert row["last_error_code"] == "operator_error"
    assert row["last_error_message"].startswith(f"{operator}: ZeroDivisionError: told to")
    columns = [each for _, _, each in OPERATORS.values() if each]
    said = {name: row[name] for name in columns}
    reached = list(OPERATORS).index(operator)
    expected = {
        "integrity_status": "ok" if reached > 0 else "unknown",
        "metadata_status": "ok" if reached > 1 else "unknown",
        "stac_status": "created" if reached > 3 else "unknown",
        "provenance_status": "unknown",
    }
    if column:
        expected[column] = "failed"
    assert said == expected
    assert row["stac_item_id"] is None
    assert_effects_follow_the_ledger(backend)
    pipeline.drain()
    assert pipeline.statuses() == {"succeeded": 4}


@pytest.mark.conformance("SM-7.1a", "SM-7.1b", "SM-4.4c")
def test_an_object_that_never_comes_ends_in_quarantine(backend: Backend, tmp_path: Path) -> None:
    """After its last attempt the unit is held, its message is gone, and nothing tries it again."""
    pipeline = Pipeline(backend, tmp_path, max_attempts=LIMIT)
    pipeline.announce(thing())
    pipeline.drain()
    row = pipeline.row(thing())
    assert (row["status"], row["attempts"], row["last_error_code"]) == (
        "quarantined",
        LIMIT,
        "missing_object",
    )
    assert pipeline.left() == (0, 0, 0)
    assert edges(pipeline, row["wal_id"])[-2:] == [
        ("in_progress", "failed"),
        ("failed", "quarantined"),
    ]
    pipeline.put(thing())
    for _ in range(10):
        pipeline.stores.leases.recover()
        assert pipeline.worker.run_due().is_empty
        pipeline.clock.advance(VISIBILITY_S + 1)
    pipeline.announce(thing())
    pipeline.drain()
    assert pipeline.row(thing()) == row
    assert len(pipeline.attempts(thing())) == LIMIT
    assert pipeline.left() == (0, 0, 0)


@pytest.mark.conformance("SM-7.3a")
@pytest.mark.parametrize("code", ["io_error", "transient_network_error", "access_denied"])
@pytest.mark.parametrize("times", [1, LIMIT - 1, LIMIT])
def test_a_passing_fault_is_retried_until_it_heals(
    backend: Backend, tmp_path: Path, code: str, times: int
) -> None:
    """Healed before the limit the unit succeeds; at the limit it stops."""
    pipeline = Pipeline(backend, tmp_path, max_attempts=LIMIT)
    pipeline.feed(thing())
    pipeline.worker = pipeline.start(pipeline.lease, reader=reader_of(pipeline, code, times))
    pipeline.drain()
    row = pipeline.row(thing())
    attempts = [attempt["error_code"] for attempt in pipeline.attempts(thing())]
    assert pipeline.left() == (0, 0, 0)
    if times < LIMIT:
        assert (row["status"], row["last_error_code"]) == ("succeeded", None)
        assert attempts == [code] * times + [None]
        steps = [("in_progress", "failed"), ("failed", "pending"), ("pending", "in_progress")]
        assert edges(pipeline, row["wal_id"])[2:5] == steps
    else:
        assert (row["status"], row["last_error_code"]) == ("quarantined", code)
        assert attempts == [code] * LIMIT


def rejecting() -> Catalogue:
    """Return the datasets, of which lightning is rejected by governance."""
    return Catalogue(
        replace(each, governance=replace(each.governance, reject="sacred site"))
        if each.id == "goes-glm"
        else each
        for each in default_catalogue().datasets
    )


@pytest.mark.conformance("SM-7.2", "WAL-5.4", "SM-4.4c")
def test_a_rejection_by_governance_is_final(backend: Backend, tmp_path: Path) -> None:
    """The unit is held with its own code by two edges at once, its message goes, audit tells it."""
    pipeline = Pipeline(backend, tmp_path)
    given = things(2)
    pipeline.feed(*given)
    pipeline.start(pipeline.lease, catalogue=rejecting()).run_messages()
    rejected, fine = (pipeline.row(each) for each in given)
    assert (rejected["status"], rejected["last_error_code"]) == (
        "quarantined",
        "governance_hard_fail",
    )
    assert "sacred site" in rejected["last_error_message"]
    assert fine["status"] == "succeeded"
    assert pipeline.item(given[0]) is None
    assert edges(pipeline, rejected["wal_id"])[-2:] == [
        ("in_progress", "failed"),
        ("failed", "quarantined"),
    ]
    assert pipeline.left() == (0, 0, 0)
    entries = backend.sql("SELECT actor, action, subject, reason FROM audit_log")
    assert entries == [("w", "quarantine", rejected["wal_id"], "governance_hard_fail")]
    pipeline.announce(given[0])
    pipeline.drain()
    assert pipeline.row(given[0])["attempts"] == 1
