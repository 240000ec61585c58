"""Runs `tallgrass` as a process of its own, and fills a ledger whose content is known by heart."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from unittest import mock

from tallgrass.cli.main import run
from tallgrass.governance.switches import SwitchScope
from tests.support.builders import failure, overwritten, success, unit, units
from tests.support.forking import can_fork
from tests.support.forking import run as run_forked

if TYPE_CHECKING:
    from tests.support.backends import Backend

PROGRAM = (sys.executable, "-m", "tallgrass")
#: How long a command may take.
TIMEOUT_S = 120


@dataclass(frozen=True)
class Done:
    """A process that has ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one JSON document on stdout."""
        return json.loads(self.out)

    @property
    def error(self) -> dict[str, str]:
        """The error of a command that was asked for JSON."""
        error: dict[str, str] = json.loads(self.err)["error"]
        guard = {"guard"} if error["code"] == "guard_refused" else set()
        assert set(error) == {"code", "message", "remedy"} | guard
        return error


def environment(**changes: str) -> dict[str, str]:
    """Return this process's environment without settings of Tallgrass, then the changes."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("TALLGRASS_")}
    return {**kept, **changes}


def tallgrass(
    *args: str,
    at: Backend | str | None = None,
    env: dict[str, str] | None = None,
    fresh: bool = False,
    **options: Any,
) -> Done:
    """Run a command line on a database; no error may ever show as a traceback.

    It is a process of its own, forked from one that has loaded the program unless it is to be a
    `fresh` start, or has options or variables that only a start of its own can have.
    """
    url = at if at is None or isinstance(at, str) else at.url
    command = [*(() if url is None else ("--database", url)), *args]
    variables = environment(**(env or {}))
    if fresh or not can_fork(variables) or options.keys() - {"cwd", "input"}:
        done = subprocess.run(
            [*PROGRAM, *command],
            check=False,
            capture_output=True,
            env=variables,
            timeout=TIMEOUT_S,
            **options,
        )
    else:
        done = run_forked(command, env=variables, timeout=TIMEOUT_S, **options)
    result = Done(done.returncode, done.stdout.decode(), done.stderr.decode())
    assert "Traceback" not in result.out + result.err
    return result


def here(*args: str, at: Backend | None = None, env: dict[str, str] | None = None) -> Done:
    """Run a command line in this process, for its JSON: where a process each would cost minutes."""
    streams = [io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2)]
    with (
        mock.patch.dict(os.environ, environment(**(env or {})), clear=True),
        contextlib.redirect_stdout(streams[0]),
        contextlib.redirect_stderr(streams[1]),
    ):
        database = () if at is None else ("--database", at.url)
        code = run([*database, *args, "--output", "json"])
    for stream in streams:
        stream.seek(0)
    return Done(code, *(stream.read() for stream in streams))


def fill(backend: Backend) -> None:
    """Write ten units: 5 succeeded (one stale), 2 failed, 1 quarantined, 1 pending, 1 in progress.

    goes-glm 0–4 succeeded, 4 with a failed re-run; hrrr 10 io_error, 11 size_zero, 12 quarantined;
    nexrad-l2 20 parked by a switch; goes-glm 30 in progress.
    """
    stores = backend.open()
    stores.switches.set(
        SwitchScope.INGEST, "nexrad-l2", is_on=True, actor="j.doe", reason="maintenance"
    )
    worker = stores.leases.register("w", ingest_run_id="run", lease_s=3600)

    def claim(*announced: Any) -> list[Any]:
        return [r.claim for r in stores.ledger.record_and_claim(worker, announced) if r.claim]

    stores.ledger.commit(worker, [success(c) for c in claim(*units(5))])
    codes = ("io_error", "size_zero", "governance_hard_fail")
    failing = claim(*units(3, first=10, dataset="hrrr"))
    stores.ledger.commit(worker, [failure(c, code) for c, code in zip(failing, codes, strict=True)])
    claim(unit(20, dataset="nexrad-l2"))
    claim(unit(30))
    stores.ledger.commit(worker, [failure(c) for c in claim(overwritten(4))])
    applied = backend.sql("SELECT wal_id FROM wal_records WHERE object_uri = ?", uri(0))[0][0]
    stores.interventions.annotate(applied, 1, actor="j.doe", note="looked at")
    stores.close()


def uri(number: int, dataset: str = "goes-glm") -> str:
    """Return the object of a unit."""
    return f"s3://noaa-goes19/{dataset}/{number:06}.nc"
