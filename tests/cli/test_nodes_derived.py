"""`tallgrass nodes budget`, and lineage that `tallgrass nodes rebuild` makes again."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.errors import ValidationError
from tallgrass.nodes import NodeHooks, NodeRunner
from tallgrass.nodes.error_budget import ErrorBudgets
from tallgrass.nodes.lineage import FileLineage, Lineage
from tests.cli.command import here, tallgrass

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.backends import Backend


def fail(_state: Any) -> None:
    """A node that fails for good."""
    raise ValidationError("no")


def fill(root: Path, hooks: NodeHooks, *, age_days: int = 0) -> None:
    """Ten outcomes of one pipeline, two of them failures, so many days ago."""
    now = datetime.now(UTC) - timedelta(days=age_days)
    with NodeRunner(root, pipeline="hydrology", hooks=hooks, clock=lambda: now) as runner:
        for number in range(10):
            given: dict[str, Any] = {
                "node_id": "n", "code_version": f"{age_days}", "inputs": {"x": number},
                "run_id": f"run-{age_days}", "exec_fn": fail if number < 2 else len,
            }  # fmt: skip
            if number < 2:
                with pytest.raises(ValidationError):
                    runner.run(**given)
            else:
                runner.run(**given)


def test_the_budget_of_each_pipeline_is_shown(tmp_path: Path) -> None:
    """Counts, what is left and the zone, under the objective and window that are asked for."""
    root = tmp_path / "work"
    budgets = ErrorBudgets(root / "outcomes")
    fill(root, NodeHooks(watchers=(budgets,)))
    fill(root, NodeHooks(watchers=(budgets,)), age_days=20)
    command = ("nodes", "budget", "--dir", str(root))
    expected = {"pipeline": "hydrology", "outcomes": 20, "failures": 4}
    (shown,) = here(*command).json["pipelines"]
    assert shown == {**expected, "remaining": -19.0, "zone": "black"}
    (loose,) = here(*command, "--objective", "0.5").json["pipelines"]
    assert loose == {**expected, "remaining": 0.6, "zone": "green"}
    (short,) = here(*command, "hydrology", "--objective", "0.7", "--days", "7").json["pipelines"]
    assert short == {
        "pipeline": "hydrology", "outcomes": 10, "failures": 2,
        "remaining": 0.333333, "zone": "yellow",
    }  # fmt: skip
    told = tallgrass(*command).out
    assert "hydrology" in told
    assert "black" in told
    unknown = here(*command, "hydrolgy")
    assert (unknown.code, unknown.error["code"]) == (2, "invalid_input")
    assert "did you mean 'hydrology'" in unknown.error["message"]
    empty = tallgrass("nodes", "budget", "--dir", str(tmp_path / "none"))
    assert "No outcomes below" in empty.out


def test_lost_outcomes_are_added_from_the_journals(tmp_path: Path) -> None:
    """With `--rebuild` alone; a second time there is nothing to add."""
    root = tmp_path / "work"
    fill(root, NodeHooks())
    command = ("nodes", "budget", "--dir", str(root))
    assert here(*command).json == {"pipelines": [], "added": None}
    rebuilt = here(*command, "--rebuild").json
    assert (rebuilt["added"], rebuilt["pipelines"][0]["failures"]) == (10, 2)
    assert here(*command, "--rebuild").json["added"] == 0
    assert "10 outcomes added." not in tallgrass(*command, "--rebuild").out


@pytest.mark.conformance("NR-5.9")
def test_lost_files_of_lineage_are_made_again(tmp_path: Path) -> None:
    """Byte for byte; a run that never had lineage gets none."""
    root = tmp_path / "work"
    fill(root, NodeHooks(lineage=Lineage(FileLineage(root / "lineage"))))
    fill(root, NodeHooks(), age_days=1)
    before = {path: path.read_bytes() for path in (root / "lineage").rglob("*.ndjson")}
    assert len(before) == 2
    shutil.rmtree(root / "lineage")
    command = ("nodes", "rebuild", "--all", "--dir", str(root))
    counts = {each["run_id"]: each["lineage"] for each in here(*command).json["runs"]}
    assert counts == {"run-0": 30, "run-1": 0}
    assert {path: path.read_bytes() for path in (root / "lineage").rglob("*.ndjson")} == before
    assert [each["lineage"] for each in here(*command).json["runs"]] == [0, 0]


def test_lineage_that_the_outbox_lost_is_recorded_again_if_it_is_asked_for(
    backend: Backend, tmp_path: Path
) -> None:
    """A log notes where its lineage went; another database, empty as after a loss, gets it."""
    root = tmp_path / "work"

    class Lost:
        """An outbox that is gone: its runs note that they were recorded."""

        kept_in = "outbox"

        def hand_on(self, documents: Any) -> int:
            return len(documents)

    fill(root, NodeHooks(lineage=Lineage(Lost())))
    command = ("nodes", "rebuild", "run-0", "--dir", str(root), "--output", "json")
    (without,) = tallgrass(*command, at=backend).json["runs"]
    assert without["lineage"] == 0
    assert backend.sql("SELECT COUNT(*) FROM outbox") == [(0,)]
    (told,) = tallgrass(*command, "--outbox", at=backend).json["runs"]
    assert told["lineage"] == 10
    found = backend.sql("SELECT event_name, payload FROM outbox")
    assert {name for name, _ in found} == {"node.provenance"}
    succeeded = [json.loads(bytes(body))["@graph"][0]["kfm:succeeded"] for _, body in found]
    assert (succeeded.count(True), succeeded.count(False)) == (8, 2)
    (again,) = tallgrass(*command, "--outbox", at=backend).json["runs"]
    assert again["lineage"] == 0
