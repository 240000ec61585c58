"""One corpus under other circumstances: byte for byte the same catalog and provenance.

Each variant is a process of its own with another hash seed, time zone, language, order of messages,
batch size, number of workers and database.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.bootstrap.proofs import stored_items
from tallgrass.bootstrap.stores import open_stores
from tallgrass.bootstrap.verifying import VerifyRequest, verify
from tallgrass.replay.selection import Selection
from tests.pipeline.variant import CORPUS
from tests.support.backends import Backend, prepare
from tests.support.processes import ROOT

if TYPE_CHECKING:
    from pathlib import Path

    from tests.plugins.postgres import Databases

ZONES = ("UTC", "Asia/Kathmandu", "America/Chicago", "Pacific/Kiritimati", "Europe/Berlin")
LANGUAGES = ("C", "C.UTF-8", "POSIX", "de_DE.UTF-8", "tr_TR.UTF-8")
#: Zone names that no machine knows count as UTC: the offset itself stands in every other one.
OFFSETS = ("", "XYZ-13", "ABC+11:30")
BATCHES = (100, 1, 7, 3, 20)
#: Two of ten are drained by the shipped command, in processes of its own.
PROCESSES = {4: 2, 9: 3}
POSTGRES = (2, 5, 9)
#: Processes at the same time: there are two cores.
AT_ONCE = 2


def circumstances(number: int) -> tuple[dict[str, str], dict[str, Any]]:
    """Return the environment and the way of working of a variant; number 0 is the plainest."""
    environment = {
        "PYTHONHASHSEED": str(number * 7919 % 4_294_967_296),
        "TZ": OFFSETS[number % 3] or ZONES[number % 5],
        "LC_ALL": LANGUAGES[(number // 2) % 5],
        "PYTHONUTF8": str(number % 2),
    }
    way = {
        "order": number,
        "batch": BATCHES[number % 5],
        "workers": 1 + number % 4,
        "processes": PROCESSES.get(number % 10, 0),
    }
    return environment, way


def run(backend: Backend, folder: Path, number: int) -> None:
    """Run a variant to its end."""
    environment, way = circumstances(number)
    folder.mkdir()
    arguments = {"name": backend.name, "url": backend.url, "folder": str(folder), **way}
    done = subprocess.run(
        [sys.executable, "-m", "tests.pipeline.variant", json.dumps(arguments)],
        cwd=ROOT,
        env={**os.environ, **environment},
        check=False,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr[-3000:]


def made(backend: Backend) -> dict[str, Any]:
    """Return all that must be the same, by raw SQL, in an order that no database chose."""
    items = backend.sql("SELECT collection_id, item_id, wal_id, body, sha256 FROM stac_items")
    documents = backend.sql("SELECT wal_id, activity_id, body, sha256 FROM provenance")
    # An object that was overwritten has a document for each version that somebody met in time.
    applied = dict(
        backend.sql(
            "SELECT r.wal_id, a.prov_activity_id FROM wal_records AS r JOIN wal_attempts AS a"
            " ON a.wal_id = r.wal_id AND a.attempt_no = r.applied_attempt"
        )
    )
    catalog = hashlib.sha256(b"".join(bytes(row[3]) for row in sorted(items)))
    return {
        "items": {row[:3]: (bytes(row[3]), row[4]) for row in items},
        "provenance": {
            row[:2]: (bytes(row[2]), row[3]) for row in documents if applied[row[0]] == row[1]
        },
        "catalog_sha256": catalog.hexdigest(),
    }


def shown(backend: Backend) -> tuple[str, dict[Any, int]]:
    """Return the catalog's hash in the database's own order, and what verification counts."""
    config = backend.config()
    stores = open_stores(config, read_only=True)
    try:
        digest = hashlib.sha256(b"".join(body for body, _ in stored_items(stores.database)))
        report = verify(config, stores, VerifyRequest(selection=Selection()))
    finally:
        stores.close()
    return digest.hexdigest(), dict(report.counts)


def require_the_same(numbers: range, folder: Path, databases: Databases) -> None:
    """Run variants beside each other and compare each with the first."""
    template = databases.template("ledger", lambda url: prepare("postgres", url).close())
    backends = [
        Backend("postgres", databases.create(template))
        if number % 10 in POSTGRES
        else prepare("sqlite", f"sqlite:///{folder / f'{number}.db'}")
        for number in numbers
    ]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        runs = [
            pool.submit(run, backend, folder / f"{number}", number)
            for number, backend in zip(numbers, backends, strict=True)
        ]
        for each in runs:
            each.result()
    first = made(backends[0])
    succeeding = [each for each in CORPUS.manifest().units if each.expected == "succeeded"]
    assert len(first["items"]) == len(first["provenance"]) == len(succeeding) > 10
    for number, backend in zip(numbers, backends, strict=True):
        found = made(backend)
        assert set(found["items"]) == set(first["items"]), circumstances(number)
        assert found == first, circumstances(number)
        assert shown(backend) == (first["catalog_sha256"], {"identical": len(succeeding)})
        backend.close()
        if backend.name == "postgres":
            databases.drop(backend.url)


SHOWN = pytest.mark.conformance("RP-1.2", "RP-4.1a", "RP-4.1b", "RP-4.1d", "WAL-7.6")


@pytest.mark.slow
@SHOWN
def test_ten_variants_give_the_same_bytes(tmp_path: Path, postgres_databases: Databases) -> None:
    """Ten processes, each in other circumstances, make the same items, documents and catalog."""
    require_the_same(range(10), tmp_path, postgres_databases)


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_a_hundred_variants_give_the_same_bytes(
    tmp_path: Path, postgres_databases: Databases
) -> None:
    """The same with a hundred."""
    require_the_same(range(100), tmp_path, postgres_databases)
