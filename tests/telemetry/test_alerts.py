"""The alerts and the dashboard: they name what exists, and each alert fires when it must."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tallgrass.telemetry.names import METRICS, MetricKind
from tests.documents.markdown import read
from tests.telemetry.alert_histories import BACKLOGS, SERVICE

if TYPE_CHECKING:
    from tests.telemetry.alert_histories import History

ROOT = Path(__file__).parents[2]
RULES = ROOT / "ops" / "prometheus" / "rules.yaml"
DASHBOARDS = sorted((ROOT / "ops" / "grafana").glob("*.json"))
HISTORIES = {**SERVICE, **BACKLOGS}
_NAME = re.compile(r"\b(?:nodd_sns|kfm)_\w+")
_SELECTOR = re.compile(r"\b((?:nodd_sns|kfm)_\w+)\{([^}]*)\}")
_BY = re.compile(r"\bby \(([^)]*)\)")
#: What a duration in words says, in minutes.
_MINUTES = {"m": 1, "h": 60}
#: What critical ones, and the length of each window, were agreed to be: not to be weakened.
AGREED = {
    "NODD-Q-AGE-CRIT": ("critical", 10, 30),
    "NODD-Q-DEPTH-WARN": ("warning", 15, 60),
    "NODD-Q-DEPTH-CRIT": ("critical", 15, 60),
    "NODD-DLQ-RATE-CRIT": ("critical", 30, 60),
    "NODD-VAL-ERR-WARN": ("warning", 15, 60),
    "NODD-REPLAY-MISMATCH-CRIT": ("critical", 5, 15),
    "NODD-REPLAY-VOLUME-WARN": ("warning", 60, 120),
    "NODD-LAT-P90-CRIT": ("critical", 20, 60),
    "NODD-LAT-TREND-WARN": ("warning", 30, 120),
    "NODD-TEL-SILENCE-CRIT": ("critical", 10, 30),
    "NODD-TEL-METRIC-MISS-WARN": ("warning", 30, 120),
    "NODD-ENERGY-PER-UNIT-WARN": ("warning", 24 * 60, 24 * 60),
}


def anchor_of(heading: str) -> str:
    """Return the name by which pages link to a heading: as GitHub makes it."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


@cache
def alerts() -> dict[str, dict[str, Any]]:
    """Return the rules by name."""
    groups = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    return {rule["alert"]: rule for group in groups for rule in group["rules"]}


def exported() -> dict[str, set[str]]:
    """Return each series that Prometheus gets, with its labels, worked out from the table.

    Dots become underscores, a counter ends in `_total`, a histogram has three series.
    """
    found: dict[str, set[str]] = {}
    for metric in METRICS.values():
        name, labels = metric.name.replace(".", "_"), set(metric.all_labels)
        if metric.kind is MetricKind.HISTOGRAM:
            found |= {f"{name}_bucket": {*labels, "le"}}
            found |= {f"{name}_{part}": labels for part in ("count", "sum")}
        elif metric.kind is MetricKind.COUNTER:
            found[name.removesuffix("_total") + "_total"] = labels
        else:
            found[name] = labels
    return found


def minutes(text: str) -> int:
    """Return a duration of the rules in minutes."""
    return int(text[:-1]) * _MINUTES[text[-1]]


def require_known(expression: str) -> None:
    """Check that every metric in an expression is exported, and has the labels it is asked for."""
    known = exported()
    names = set(_NAME.findall(expression))
    assert names, expression
    assert names <= set(known), names - set(known)
    for name, selector in _SELECTOR.findall(expression):
        asked = set(re.findall(r"(\w+)\s*[=!]", selector))
        assert asked <= known[name], (name, asked)
    offered = set.union(*(known[name] for name in names))
    for labels in _BY.findall(expression):
        assert {label.strip() for label in labels.split(",")} <= offered, labels


def expressions_of(dashboard: Path) -> list[str]:
    """Return every query of a dashboard."""
    body = json.loads(dashboard.read_text(encoding="utf-8"))
    return [target["expr"] for panel in body["panels"] for target in panel.get("targets", ())]


def test_every_alert_names_metrics_that_exist() -> None:
    """An alert on a name that nobody reports would never fire."""
    for rule in alerts().values():
        require_known(rule["expr"])


def test_every_alert_leads_to_a_runbook() -> None:
    """Each has a summary, and leads to a runbook; a section that it names is there."""
    for name, rule in alerts().items():
        notes = rule["annotations"]
        assert notes["summary"], name
        page, _, anchor = notes["runbook_url"].partition("#")
        assert Path(page).parent == Path("docs/replay/runbooks"), name
        headings = re.findall(r"^#+ (.*)$", read(ROOT / page), re.MULTILINE)
        assert not anchor or anchor in map(anchor_of, headings), name
        assert notes["cooldown"], name
        severity = "critical" if name.endswith("CRIT") else "warning"
        assert rule["labels"]["severity"] == severity


@pytest.mark.parametrize("name", AGREED)
def test_no_agreed_alert_is_missing_or_weakened(name: str) -> None:
    """Severity, window and cooldown are the agreed ones; its history below holds the limits."""
    rule = alerts()[name]
    found = (
        rule["labels"]["severity"],
        minutes(rule["annotations"]["window"]),
        minutes(rule["annotations"]["cooldown"]),
    )
    assert found == AGREED[name]
    assert minutes(rule["for"]) <= AGREED[name][1]


def test_every_alert_has_a_history() -> None:
    """None goes untried, and each is also shown a history at which it must keep quiet."""
    assert set(HISTORIES) == set(alerts())
    for name, case in HISTORIES.items():
        assert all(history.fires for history in (case.loud, *case.also)), name
        assert case.quiet, name
        assert not any(history.fires for history in case.quiet)


def test_each_alert_fires_from_its_history_and_from_no_other(tmp_path: Path) -> None:
    """Prometheus' own judge plays the histories."""
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("Prometheus is not installed")
    files = [
        promtool_file(tmp_path, name, number, history)
        for name, case in HISTORIES.items()
        for number, history in enumerate((case.loud, *case.also, *case.quiet))
    ]
    for verb in (["check", "rules", str(RULES)], ["test", "rules", *files]):
        done = subprocess.run(
            [promtool, *verb], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr


def promtool_file(folder: Path, name: str, number: int, history: History) -> str:
    """Write a history, and a file of its rule alone: playing all rules over a month takes long."""
    rule = alerts()[name]
    rules = {"groups": [{"name": "one", "rules": [rule]}]}
    (folder / f"{name}.yaml").write_text(yaml.safe_dump(rules), encoding="utf-8")
    body = {
        "rule_files": [f"{name}.yaml"],
        "evaluation_interval": history.interval,
        "tests": [promtool_test(name, rule, history)],
    }
    path = folder / f"{name}.{number}.test.yaml"
    path.write_text(yaml.safe_dump(body), encoding="utf-8")
    return path.name


def promtool_test(name: str, rule: dict[str, Any], history: History) -> dict[str, Any]:
    """Return one history in the form of promtool."""
    fires = [
        {"exp_labels": {**labels, **rule["labels"]}, "exp_annotations": rule["annotations"]}
        for labels in history.fires
    ]
    return {
        "interval": history.interval,
        "name": name,
        "input_series": [
            {"series": series, "values": values} for series, values in history.series.items()
        ],
        "alert_rule_test": [{"eval_time": history.at, "alertname": name, "exp_alerts": fires}],
    }


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda path: path.stem)
def test_a_dashboard_asks_for_metrics_that_exist(dashboard: Path) -> None:
    """Every panel has a title and a query, and each query names what is exported."""
    body = json.loads(dashboard.read_text(encoding="utf-8"))
    assert {"env", "dataset", "queue"} == {one["name"] for one in body["templating"]["list"]}
    for panel in body["panels"]:
        assert panel["title"]
        assert panel["type"] == "row" or panel["targets"]
    for expression in expressions_of(dashboard):
        require_known(expression)


def test_the_core_dashboard_shows_what_it_is_for() -> None:
    """It is the agreed one, with lines at the two service levels."""
    (core,) = [path for path in DASHBOARDS if path.stem == "nodd-ingestion-core"]
    body = json.loads(core.read_text(encoding="utf-8"))
    assert (body["title"], body["uid"]) == (
        "NOAA NODD Ingestion — Core", "kfm-nodd-ingestion-core",
    )  # fmt: skip
    lines = {
        step["value"]
        for panel in body["panels"]
        for step in panel.get("fieldConfig", {})
        .get("defaults", {})
        .get("thresholds", {})
        .get("steps", ())
    }
    assert {90, 300} <= lines
    shown = " ".join(expressions_of(core))
    for family in (
        "ingest_latency_seconds", "bytes_ingested_total", "wal_records_total", "queue_depth",
        "queue_age_seconds", "watermark_lag_seconds", "dlq_depth", "validation_errors_total",
        "replays_total", "replay_mismatch_total", "energy_kwh_total", "carbon_gco2e_total",
        "freshness_state", "freshness_seconds", "pending_oldest_seconds", "error_budget_remaining",
    ):  # fmt: skip
        assert f"nodd_sns_{family}" in shown, family
