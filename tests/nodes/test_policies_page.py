"""The page on policies and lineage: its example runs, and its figures are the program's."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from tallgrass.nodes.energy_policy import EnergyCoefficients
from tallgrass.nodes.error_budget import BudgetPolicy
from tallgrass.nodes.validation_policy import FileCheckpoint
from tests.support.processes import ROOT

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

PAGE = (ROOT / "docs" / "how-to" / "node-policies.md").read_text(encoding="utf-8")


def test_the_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it stands, twice; rules, energy, budget and lineage leave what the page says they do."""
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        module: dict[str, object] = {"__name__": "example"}
        exec(compile(example, "example.py", "exec"), module)  # noqa: S102 - the page's own text
        module["runner"].close()  # type: ignore[attr-defined]
    work = tmp_path / "work"
    (attempt,) = json.loads((work / "wal/2026-11-16/smooth/attempts.json").read_bytes())
    assert attempt["measures"]["estimated"] is True
    assert FileCheckpoint(work / "validation").exit_code("hydrology", "2026-11-16") == 0
    assert len(list((work / "validation" / "hydrology").iterdir())) == 2
    (outcomes,) = (work / "outcomes" / "hydrology").iterdir()
    assert len(outcomes.read_bytes().splitlines()) == 1
    lineage = work / "lineage" / "2026-11-16"
    assert len((lineage / "openlineage.ndjson").read_bytes().splitlines()) == 2
    assert len((lineage / "prov.ndjson").read_bytes().splitlines()) == 1


def test_the_figures_are_those_of_the_program() -> None:
    """The defaults of the model and of the budget."""
    text = " ".join(PAGE.split())
    energy, budget = EnergyCoefficients(), BudgetPolicy()
    assert (
        f"({energy.watts_per_core:g} W a core, {energy.watts_per_gb:g} W a GB, "
        f"PUE {energy.pue:g}, {energy.grams_per_kwh:g} g a kWh)"
    ) in text
    assert f"({budget.objective * 100:g} % over {budget.window_days} days; `BudgetPolicy`)" in text
