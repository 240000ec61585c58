"""What the API tells is what the command tells: the same documents, by the same functions."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.bootstrap.queues import open_queue
from tests.cli.command import fill, here, uri
from tests.pipeline.scene import message_of, thing
from tests.support.governance import set_up
from tests.support.replay_console import console_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.backends import Backend
    from tests.support.console import Console

API = "/api/v1"
ON_SQLITE = pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
KEY = "s3://unidata-nexrad-level2/2025/01/01/KDMX/KDMX20250101_225441_V06"
PASSWORD = "correct-horse"  # noqa: S105 - a canary
#: Another at each look.
VOLATILE = {"clock_ahead_s", "generated_at", "oldest_age_s"}


def settled(document: Any) -> Any:
    """Return a document without what is another at each look."""
    if isinstance(document, dict):
        return {name: settled(each) for name, each in document.items() if name not in VOLATILE}
    return [settled(each) for each in document] if isinstance(document, list) else document


@pytest.fixture
def url(tmp_path: Path) -> str:
    """The address of a queue of the test's own."""
    return f"sqlite:///{tmp_path / 'queue.db'}"


@pytest.fixture
def console(backend: Backend, url: str) -> Iterator[Console]:
    """The console over ten units and an empty queue."""
    fill(backend)
    set_up(backend)
    config = backend.config()
    config = replace(config, values={**config.values, "queue.url": url})
    open_queue(config).close()
    with console_of(config) as made:
        yield made


def test_what_rests_on_the_database_is_told_as_by_the_command(
    console: Console, backend: Backend, url: str
) -> None:
    """Counts, one unit's life, retention, database, outbox, poison, letters, queue."""
    vera = console.program("vera")
    wal_id = backend.sql("SELECT wal_id FROM wal_records WHERE object_uri = ?", uri(4))[0][0]
    for path, words in (
        ("/ledger/stats", ("wal", "stats")),
        (f"/ledger/history/{wal_id}", ("wal", "history", uri(4))),
        ("/retention/plan", ("retention", "plan")),
        ("/retention/archives", ("retention", "list")),
        ("/database", ("db", "check")),
        ("/outbox/status", ("outbox", "status")),
        ("/dead-letters", ("dlq", "classify")),
        ("/queue", ("queue", "status")),
    ):
        told = here(*words, at=backend, env={"TALLGRASS_QUEUE_URL": url})
        assert told.code == 0, told.err
        assert settled(vera.get(f"{API}{path}").json()) == settled(told.json), path


@ON_SQLITE
def test_what_rests_on_files_is_told_as_by_the_command(console: Console) -> None:
    """Datasets, one of them, what a key says."""
    vera = console.program("vera")
    for path, words in (
        ("/datasets", ("datasets", "list")),
        ("/datasets?bucket=noaa-goes19", ("datasets", "list", "--bucket", "noaa-goes19")),
        ("/datasets/mrms", ("datasets", "show", "mrms")),
        (f"/inspect/key?uri={KEY}", ("inspect", "key", KEY)),
        ("/codes", ("explain", "--list")),
    ):
        assert vera.get(f"{API}{path}").json() == here(*words).json, path
    assert vera.get(f"{API}/inspect/key?uri=nonsense").json()["error"]["code"]
    assert vera.get(f"{API}/datasets/mrsm").status_code in {400, 404}


@ON_SQLITE
def test_a_whole_ledger_is_streamed_line_by_line(console: Console, backend: Backend) -> None:
    """The same lines as `wal export` writes, and what `wal import` reads."""
    answer = console.program("vera").get(f"{API}/ledger/export")
    assert answer.headers["content-type"].startswith("application/jsonl")
    lines = answer.text.splitlines()
    assert sum(line.startswith('{"record":') for line in lines) == 10
    assert json.loads(lines[-1])["end"]["sha256"]
    assert lines[:-1] == here("wal", "export", at=backend).out.splitlines()[:-1]


@ON_SQLITE
def test_no_more_exports_run_than_are_served(console: Console) -> None:
    """One that ended frees its place: any number one after the other."""
    vera = console.program("vera")
    assert [vera.get(f"{API}/ledger/export").status_code for _ in range(5)] == [200] * 5


@ON_SQLITE
def test_messages_and_dataset_files_are_tried_and_nothing_is_kept(
    console: Console, backend: Backend
) -> None:
    """What a message announces; a file that cannot be used is named with its field."""
    vera = console.program("vera")
    unit = thing(0)
    body = message_of(unit.event()).decode()
    found = vera.post(f"{API}/inspect/message", json={"message": body}).json()
    assert [each["dataset"] for each in found["units"]] == ["goes-glm"]
    wrong = vera.post(f"{API}/inspect/message", json={"message": "nonsense"}).json()
    assert [each["code"] for each in wrong["errors"]] == ["invalid_input"]
    template = here("datasets", "new", "my-radar").json["file"]
    checked = vera.post(f"{API}/datasets/check", json={"file": template})
    assert (checked.status_code, checked.json()["id"]) == (200, "my-radar"), checked.text
    broken = vera.post(f"{API}/datasets/check", json={"file": 'id = "my radar"'})
    assert broken.status_code == 400, broken.text
    assert "item: is missing" in broken.json()["detail"]
    assert backend.sql("SELECT count(*) FROM poison_messages") == [(0,)]


@ON_SQLITE
def test_the_installation_tells_no_secret(backend: Backend, tmp_path: Path) -> None:
    """A password in an address is in no answer: configuration, doctor, database."""
    set_up(backend)
    config = backend.config()
    secret = f"postgresql://tallgrass:{PASSWORD}@db.example/ledger"
    values = {**config.values, "queue.endpoint_url": f"https://me:{PASSWORD}@sqs.example/"}
    shown = replace(config, values=values, tables={"outbox": {"targets": {"x": {"url": secret}}}})
    with console_of(shown) as console:
        vera = console.program("vera")
        for path in ("/config", "/doctor", "/database", "/queue", "/status"):
            assert PASSWORD not in vera.get(f"{API}{path}").text, path
        told = vera.get(f"{API}/config").json()
    assert told["settings"]["queue.endpoint_url"]["value"] == "https://***@sqs.example/"
    assert told["tables"]["outbox"]["targets"]["x"]["url"].startswith("postgresql://***@")


@ON_SQLITE
def test_the_configuration_has_the_version_of_attempts_and_plans(console: Console) -> None:
    """That of the settings and the datasets together, as the plan of a replay names it."""
    otto = console.program("otto")
    wish = {"dataset": "goes-glm", "since": "2026-01-01"}
    plan = otto.get(f"{API}/replay/plan", params=wish).json()
    for path in ("/config", "/config/check"):
        told = otto.get(f"{API}{path}").json()["config_version"]
        assert told == plan["header"]["config_version"], path


@ON_SQLITE
def test_metrics_are_for_the_signed_in_alone(console: Console) -> None:
    """Prometheus reads them with a viewer's token; nobody else does."""
    assert console.client().get(f"{API}/metrics").status_code == 401
    answer = console.program("vera").get(f"{API}/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    assert "nodd_sns_health_readable" in answer.text
    line = next(
        each for each in answer.text.splitlines() if each.startswith("nodd_sns_health_readable{")
    )
    assert line.endswith(" 1.0")
    assert console.client().get("/metrics").status_code == 404
