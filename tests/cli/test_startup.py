"""Start-up: help costs no more than help needs, and the package alone next to nothing."""

from __future__ import annotations

import resource
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.cli.command import PROGRAM, environment, tallgrass

if TYPE_CHECKING:
    from pathlib import Path

#: Libraries that only the work itself needs.
HEAVY = {
    "asyncio", "boto3", "botocore", "cryptography", "fastapi", "h5py", "jinja2", "jiter",
    "langgraph", "multiprocessing", "numpy", "obstore", "opentelemetry", "psycopg", "pyarrow",
    "pydantic", "rich", "shapely", "sqlite3", "uvicorn", "yaml",
}  # fmt: skip
LOOK = "import sys; before = set(sys.modules); {work}; print(*sorted(set(sys.modules) - before))"
#: What every command loads that opens a database of SQLite.
OPENED = {
    "driver_errors", "file_lock", "migrations", "named_queries", "sqlite", "transaction_runner",
    "unit_of_work",
}  # fmt: skip
#: Command → the modules of storage that it loads besides: those that it uses.
STORAGE = {
    ("wal", "list"): {"ledger_reader", "rows"},
    ("switches", "list"): {"actor_store", "audit_store", "rows", "switch_store"},
    ("db", "check"): {"health"},
    ("status",): {
        "actor_store", "archive_records", "audit_store", "catalog_reader", "health_reader",
        "ledger_reader", "outbox_reader", "poison_store", "queue_store", "retention_store", "rows",
        "switch_store",
    },
}  # fmt: skip
#: Parts of the work that no command loads which only looks.
WORK = ("evidence", "operators", "queues.door", "replay", "stac.item", "storage.ledger", "worker")


def loaded_by(work: str) -> set[str]:
    """Return the modules that a piece of code loads in a fresh process."""
    done = subprocess.run(
        [sys.executable, "-c", LOOK.format(work=work)],
        env=environment(), check=True, capture_output=True, text=True,
    )  # fmt: skip
    return set(done.stdout.splitlines()[-1].split())


def test_the_package_alone_loads_nothing() -> None:
    """`import tallgrass` is one module: what is used brings what it needs."""
    assert loaded_by("import tallgrass") == {"tallgrass"}


def test_help_loads_little() -> None:
    """`tallgrass --help`: click, and a handful of our own; no library of the work."""
    found = loaded_by("from tallgrass.cli.main import run; run(['--help'])")
    assert {name.partition(".")[0] for name in found} & HEAVY == set()
    ours = {name for name in found if name.partition(".")[0] == "tallgrass"}
    assert ours == {
        "tallgrass", "tallgrass.cli", "tallgrass.cli.failures", "tallgrass.cli.invocation",
        "tallgrass.cli.main", "tallgrass.cli.text", "tallgrass.clock", "tallgrass.error_codes",
        "tallgrass.errors", "tallgrass.views", "tallgrass.views.text",
    }  # fmt: skip
    # 114 when this was written, 90 of them Python's own.
    assert len(found) < 180


@pytest.mark.parametrize("command", STORAGE, ids=" ".join)
def test_a_command_loads_the_stores_that_it_uses(command: tuple[str, ...], tmp_path: Path) -> None:
    """A store that nobody asked for costs no start; nor does what only a worker does."""
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    assert tallgrass("db", "migrate", at=url, cwd=tmp_path).code == 0
    line = ["--database", url, *command, "--output", "json"]
    found = loaded_by(f"from tallgrass.cli.main import run; assert run({line}) == 0")
    ours = {name.removeprefix("tallgrass.") for name in found if name.startswith("tallgrass.")}
    storage = {name.removeprefix("storage.") for name in ours if name.startswith("storage.")}
    assert storage == OPENED | STORAGE[command]
    assert ours & set(WORK) == set()


@pytest.mark.parametrize("arguments", [("--help",), ("--version",)], ids=" ".join)
def test_help_is_there_at_once(arguments: tuple[str, ...]) -> None:
    """Below 0.3 s of a processor; the best of ten, for a busy machine makes any one slow."""

    def cpu_s() -> float:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    best = float("inf")
    for _ in range(10):
        before = cpu_s()
        subprocess.run([*PROGRAM, *arguments], env=environment(), check=True, capture_output=True)
        best = min(best, cpu_s() - before)
        if best < 0.3:
            return
    pytest.fail(f"took {best:.2f} s at best")
