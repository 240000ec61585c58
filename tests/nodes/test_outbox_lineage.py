"""Lineage into the transactional outbox, on both databases."""

from __future__ import annotations

import json
import threading
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.bootstrap.node_lineage import open_node_lineage
from tallgrass.bootstrap.nodes import open_node_runner
from tallgrass.config import Config, load_config
from tallgrass.errors import ConfigError, ValidationError
from tallgrass.nodes import NodeHooks
from tallgrass.nodes.error_budget import ErrorBudgets
from tallgrass.nodes.lineage import FileLineage, Lineage, rebuild
from tests.nodes.governed import governed_gate
from tests.nodes.running import Watched, failing_first
from tests.stac import schemas

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.backends import Backend

SITE = """
[outbox.targets.marquez]
kind = "file"
[[outbox.routes]]
events = ["openlineage.*"]
targets = ["marquez"]
[[outbox.routes]]
events = ["node.provenance"]
targets = ["file"]
"""
QUIET = ""


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    """A folder for runners."""
    made = Watched(tmp_path / "nodes")
    made.options["gate"] = governed_gate()
    yield made
    made.close()


def config_of(backend: Backend, tmp_path: Path, text: str = SITE) -> Config:
    """A configuration of that database, with routes for lineage."""
    file = tmp_path / "site.toml"
    file.write_text(text, encoding="utf-8")
    return load_config(file=file, environment={}, flags={"database.url": backend.url})


def run(runner: Any, **options: Any) -> Any:
    """Run a node."""
    given = {
        "node_id": "smooth",
        "code_version": "1",
        "inputs": {"x": 1},
        "exec_fn": lambda _: {"y": 2},
        "reads": ("river_flow/7",),
        "writes": ("smoothed/7",),
        **options,
    }
    return runner.run(**given)


def rows(backend: Backend) -> list[tuple[Any, ...]]:
    """What was recorded, in order."""
    return backend.sql(
        "SELECT event_name, target, dataset_id, care_label, governance_ref, payload"
        " FROM outbox ORDER BY outbox_id"
    )


@pytest.mark.conformance("NR-3.7", "NR-8.1", "NR-8.2", "NR-11.3")
def test_lineage_is_recorded_in_the_outbox_once(
    backend: Backend, watched: Watched, tmp_path: Path
) -> None:
    """Start, end and provenance of each execution; a repetition and a rebuild add nothing."""
    config = config_of(backend, tmp_path)
    with closing(open_node_lineage(config)) as sink:
        hooks = NodeHooks(lineage=Lineage(sink))
        run(watched.runner(hooks=hooks), dataset="river_flow")
        with pytest.raises(ValidationError):
            run(
                watched.runner(hooks=hooks),
                node_id="bad",
                dataset="tribal_wells",
                exec_fn=failing_first(1, lambda: ValidationError("at 38.97171, -95.23531")),
            )
        assert watched.recorder.events[0][0] == "node_failed"
        found = rows(backend)
        assert [each[:5] for each in found] == [
            ("openlineage.start", "marquez", "river_flow", "public", None),
            ("openlineage.complete", "marquez", "river_flow", "public", None),
            ("node.provenance", "file", "river_flow", "public", None),
            ("openlineage.start", "marquez", "tribal_wells", "restricted", "council/2026-7"),
            ("openlineage.fail", "marquez", "tribal_wells", "restricted", "council/2026-7"),
            ("node.provenance", "file", "tribal_wells", "restricted", "council/2026-7"),
        ]
        assert b"38.97" not in b"".join(bytes(each[5]) for each in found)
        wal = watched.runners[0].wal
        assert rebuild("run-1", wal.entries("run-1"), sink) == 0
        assert rows(backend) == found
    for event in (json.loads(bytes(each[5])) for each in found if each[1] == "marquez"):
        assert schemas.openlineage_errors(event, event["schemaURL"]) == []


@pytest.mark.conformance("NR-5.9")
def test_a_lost_outbox_is_filled_again_from_the_journal(
    backend: Backend, watched: Watched, tmp_path: Path
) -> None:
    """What was never recorded there is, under the same keys that it would have had."""
    run(watched.runner(), dataset="river_flow")
    config = config_of(backend, tmp_path)
    wal = watched.runners[0].wal
    with closing(open_node_lineage(config)) as sink:
        assert rebuild("run-1", wal.entries("run-1"), sink) == 3
        keys = backend.sql("SELECT idempotency_key FROM outbox ORDER BY outbox_id")
        run(watched.runner(hooks=NodeHooks(lineage=Lineage(sink))), dataset="river_flow")
    assert backend.sql("SELECT idempotency_key FROM outbox ORDER BY outbox_id") == keys
    (task,) = wal.read("run-1").tasks.values()
    assert task.lineage[0].body["noted"]["documents"] == [key for (key,) in keys]


def test_openlineage_events_are_made_only_where_a_route_wants_them(
    backend: Backend, watched: Watched, tmp_path: Path
) -> None:
    """Provenance goes to the default target; a missing route is no error of the node."""
    config = config_of(backend, tmp_path, QUIET)
    with closing(open_node_lineage(config)) as sink:
        run(watched.runner(hooks=NodeHooks(lineage=Lineage(sink))))
    assert [each[:3] for each in rows(backend)] == [("node.provenance", "file", "-")]
    assert watched.recorder.events == []


def test_nodes_of_many_threads_share_the_connection(
    backend: Backend, watched: Watched, tmp_path: Path
) -> None:
    """Each of them is recorded, and nobody's hook failed."""
    config = config_of(backend, tmp_path)
    with closing(open_node_lineage(config)) as sink:
        runner = watched.runner(hooks=NodeHooks(lineage=Lineage(sink)))
        threads = [
            threading.Thread(target=run, args=(runner,), kwargs={"inputs": {"x": number}})
            for number in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(rows(backend)) == 24
    assert watched.recorder.events == []


@pytest.mark.conformance("NR-1.4")
def test_a_configured_runner_brings_lineage_energy_and_budget(
    backend: Backend, tmp_path: Path
) -> None:
    """Nobody need ask for them; who brings hooks of their own keeps those."""
    config = config_of(backend, tmp_path, QUIET)
    root = tmp_path / "work"
    with open_node_runner(config, pipeline="hydrology", run_id="r", root=root) as runner:
        run(runner)
    assert [each[:2] for each in rows(backend)] == [("node.provenance", "file")]
    (attempt,) = json.loads((root / "wal" / "r" / "smooth" / "attempts.json").read_bytes())
    assert attempt["measures"]["estimated"] is True
    assert ErrorBudgets(root / "outcomes").state("hydrology").outcomes == 1
    own = NodeHooks(lineage=Lineage(FileLineage(tmp_path / "own")))
    with open_node_runner(
        config, pipeline="hydrology", run_id="own", root=root, hooks=own
    ) as runner:
        run(runner)
    assert len(rows(backend)) == 1
    assert (tmp_path / "own" / "own" / "prov.ndjson").is_file()


def test_energy_is_worked_out_by_the_configured_figures(backend: Backend, tmp_path: Path) -> None:
    """Those of ingest: 333 g a kWh give 333 g for each kWh that the attempt is said to take."""
    figures = "[telemetry]\nenergy_grams_per_kwh = 333.0\n"
    config = config_of(backend, tmp_path, f'{figures}energy_source = "Kansas, 2025"\n')
    root = tmp_path / "work"
    with open_node_runner(config, pipeline="hydrology", run_id="r", root=root) as runner:
        run(runner)
    (attempt,) = json.loads((root / "wal" / "r" / "smooth" / "attempts.json").read_bytes())
    measures = attempt["measures"]
    assert measures["carbon_gco2e"] / measures["energy_wh"] * 1000 == pytest.approx(333)
    with pytest.raises(ConfigError, match="source"):
        open_node_runner(config_of(backend, tmp_path, figures), pipeline="hydrology", root=root)
