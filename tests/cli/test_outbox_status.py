"""`tallgrass outbox status` says what keeps events, as real processes on both databases."""

from __future__ import annotations

import json
import re
import socket
from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.command import tallgrass
from tests.support.backends import Backend, prepare
from tests.support.events import insert, row, write

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.plugins.postgres import Databases

CONFIGURATION = """
[outbox]
base_s = 3600
cap_s = 3600

[outbox.targets.t]
kind = "webhook"
url = "http://127.0.0.1:{port}/"
secret_env = "HOOK_SECRET"
allow_addresses = ["127.0.0.0/8"]
concurrency = 1

[outbox.targets.line]
kind = "file"
path = "{folder}/line.jsonl"
ordered = true
"""
SECRET = {"HOOK_SECRET": "whsec_" + "QUJD" * 10}


@pytest.fixture
def config(tmp_path: Path) -> Iterator[str]:
    """A configuration with a target where nobody listens, on a port that nobody can take."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        file = tmp_path / "tallgrass.toml"
        port = taken.getsockname()[1]
        file.write_text(CONFIGURATION.format(folder=tmp_path, port=port), encoding="utf-8")
        yield str(file)


def drained(backend: Backend, config: str, **env: str) -> tuple[dict[str, Any], str]:
    """Dispatch what is due; return what came of it, and what was told."""
    done = tallgrass(
        "--config", config, "outbox", "dispatch", "--drain", "--target", "t", "--output", "json",
        at=backend, env={**SECRET, **env},
    )  # fmt: skip
    assert done.code == 0, done.err
    return done.json, done.err


def status(backend: Backend, config: str) -> tuple[dict[str, Any], str]:
    """Return the targets by name, and the page."""
    command = ("--config", config, "outbox", "status")
    found = tallgrass(*command, "--output", "json", at=backend).json["targets"]
    return {one["target"]: one for one in found}, tallgrass(*command, at=backend).out


def test_a_target_that_is_down_is_told_of(backend: Backend, config: str) -> None:
    """Three sends meet nobody; the rest is given back, and the page says what it waits for."""
    write(backend, *range(1, 8))
    done, told = drained(backend, config)
    assert (done["failed"], done["released"], done["exhausted"]) == (3, 4, 0)
    assert told.count("target_paused") == 1
    # The waits of the three are drawn from an hour: none may be over when we look.
    raw = backend.connect()
    raw.execute(
        "UPDATE outbox_delivery SET due_at = '2100-01-01T00:00:00.000000Z' WHERE status = 'failed'"
    )
    raw.close()
    found, page = status(backend, config)
    assert found["t"]["down"]["error_code"] == "sink_unreachable"
    assert found["t"]["down"]["due"] == 4
    assert found["line"]["down"] is None
    text = " ".join(page.split())
    assert re.search(r"t: it is down: sink_unreachable, .*; 4 events are due; it is tried", text)


def test_no_pause_by_the_setting(backend: Backend, config: str) -> None:
    """With `outbox.pause_s_max = 0` each event is tried as often as it may, whatever befalls."""
    write(backend, *range(1, 8))
    short = {"TALLGRASS_OUTBOX_BASE_S": "0.001", "TALLGRASS_OUTBOX_CAP_S": "0.001"}
    done, told = drained(
        backend, config, TALLGRASS_OUTBOX_PAUSE_S_MAX="0", TALLGRASS_OUTBOX_ATTEMPTS="1", **short
    )
    assert (done["failed"], done["exhausted"]) == (7, 7)
    assert "target_paused" not in told


def test_events_behind_an_open_transaction_are_told_of(
    postgres_databases: Databases, config: str
) -> None:
    """On PostgreSQL an ordered event waits for who began before; the page names the process."""
    name = postgres_databases.template("ledger", lambda url: prepare("postgres", url).close())
    backend = Backend("postgres", postgres_databases.create(name))
    early = backend.connect()
    early.execute("BEGIN")
    insert(early, backend, [row(5, target="line")])
    write(backend, 1, 2, target="line")
    ((pid,),) = early.execute("SELECT pg_backend_pid()").fetchall()
    found, page = status(backend, config)
    early.execute("COMMIT")
    wait = found["line"]["waits_for_transaction"]
    assert (wait["events"], wait["pid"]) == (2, pid)
    assert wait["open_s"] > 0
    assert found["t"]["waits_for_transaction"] is None
    told = " ".join(page.split())
    assert re.search(rf"line: 2 events wait .* open for \d+ s \(process {pid} of the", told)
    assert json.dumps(found)
    backend.close()
    postgres_databases.drop(backend.url)
