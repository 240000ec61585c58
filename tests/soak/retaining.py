"""Retention beside everything: `python -m tests.soak.retaining JSON`, until it is ended.

Rows leave when they are a day old at the earliest. Nobody soaks for days, so here the clock of
retention alone is ahead: rows leave when they are as many seconds old as told.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from contextlib import closing
from datetime import timedelta

from tallgrass.bootstrap.retaining import open_retention, paced, writing_pace
from tallgrass.bootstrap.retention_run import RATE
from tallgrass.bootstrap.stores import open_stores
from tallgrass.config import Config, load_config
from tallgrass.errors import TransientError
from tallgrass.inventory.retention import ArchiveKind
from tallgrass.storage.retention_store import RetentionStore
from tests.support.governance import token_of

KINDS = (ArchiveKind.ATTEMPTS, ArchiveKind.EVENTS)
REST_S = 2.0


def retain(config: Config, kept_s: float) -> int:
    """Let old rows leave, once; return how many did."""
    with closing(open_stores(config)) as stores:
        ahead = timedelta(days=1, seconds=-kept_s)
        store = RetentionStore(stores.runner)
        otto = stores.actors.authenticate(token_of("otto"), action="soak")
        pace = writing_pace(RATE, sleep=time.sleep, monotonic=time.monotonic)
        retention = open_retention(config, stores, rest=pace, now=lambda: store.now() + ahead)
        steps = retention.steps(KINDS, actor=otto)
        calm = paced(steps, rows_per_s=RATE, sleep=time.sleep, monotonic=time.monotonic)
        return sum(step.rows for step in calm if step.what == "removed")


def main(arguments: str) -> None:
    """Retain until ended; a server that restarts is waited for."""
    told = json.loads(arguments)
    config = load_config(environment={}, flags=told["flags"])
    while True:
        with contextlib.suppress(TransientError):
            retain(config, told["kept_s"])
        time.sleep(REST_S)


if __name__ == "__main__":
    main(sys.argv[1])
