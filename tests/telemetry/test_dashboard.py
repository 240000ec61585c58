"""The dashboard's queries, asked of a real Prometheus that scrapes a real pipeline."""

from __future__ import annotations

import json
import re
import signal
from typing import TYPE_CHECKING

from tests.cli.pipeline import make_feed, shares
from tests.cli.test_metrics import serving
from tests.support.backends import prepare
from tests.support.processes import ROOT
from tests.telemetry.prometheus_server import Prometheus
from tests.telemetry.test_prometheus import SOON_S, address

if TYPE_CHECKING:
    from pathlib import Path

#: What a pipeline that did all its work, replayed nothing and copies nothing says nothing of.
SILENT = {
    "nodd_sns_pending_oldest_seconds",
    "nodd_sns_projection_lag_seconds",
    "nodd_sns_queue_oldest_seconds",
    "nodd_sns_replays_total",
}


def asked() -> dict[str, str]:
    """Return every query by the metrics that it names, with all values of the variables chosen."""
    body = json.loads((ROOT / "ops/grafana/nodd-ingestion-core.json").read_text(encoding="utf-8"))
    found = {}
    for panel in body["panels"]:
        for target in panel.get("targets", ()):
            query = re.sub(r"\$(env|dataset|queue)\b", ".*", target["expr"])
            found[" ".join(sorted(set(re.findall(r"nodd_sns_\w+", query))))] = query
    return found


def test_prometheus_answers_every_query_of_the_dashboard(tmp_path: Path) -> None:
    """Worker and `metrics serve` are scraped; only what did not happen has no answer."""
    backend = prepare("sqlite", f"sqlite:///{tmp_path / 'ledger.db'}")
    feed = make_feed(tmp_path / "feed", 12, *shares(zero_bytes="0.25"))
    worker = feed.start(backend, "--metrics-port", "0")
    try:
        with serving(backend, feed.folder, "--every", "0") as health:
            targets = {"worker": address(worker), "health": health}
            with Prometheus(tmp_path, targets) as prometheus:
                prometheus.until('sum(nodd_sns_stac_writes_total{outcome="created"})', {(): 9.0})
                # A rate wants two scrapes.
                prometheus.until("min(count_over_time(up[1m])) >= bool 3", {(): 1.0})
                prometheus.until('sum(nodd_sns_wal_units{status="succeeded"})', {(): 9.0})
                queries = asked()
                silent = {names for names, query in queries.items() if not prometheus.query(query)}
    finally:
        worker.send_signal(signal.SIGTERM)
        worker.communicate(timeout=SOON_S)
    assert len(queries) > 25
    assert silent == SILENT
