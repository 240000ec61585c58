"""The modules and examples that the specification names are there."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

import tallgrass.nodes

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.mark.conformance("NR-2.1")
@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("node_runner", "NodeRunner"),
        ("cache_store", "FolderCache"),
        ("wal_store", "WalStore"),
        ("compensation", "Compensations"),
        ("lineage", "Lineage"),
        ("retry_policy", "RetryPolicy"),
        ("validation_policy", "ValidationPolicy"),
        ("energy_policy", "CpuEnergyMeter"),
    ],
)
def test_a_module_of_the_specification_is_there(module: str, name: str) -> None:
    """By its own name, flat in the package, with what it is there for."""
    found = importlib.import_module(f"tallgrass.nodes.{module}")
    assert Path(found.__file__ or "").parent == Path(tallgrass.nodes.__file__).parent
    assert hasattr(found, name)


@pytest.mark.conformance("NR-2.1")
def test_the_public_names_are_those_of_the_specification() -> None:
    """What a pipeline imports."""
    for name in ("NodeRunner", "RetryPolicy", "TransientError", "NetworkError", "ValidationError",
                 "GovernanceError"):  # fmt: skip
        assert name in tallgrass.nodes.__all__
        assert hasattr(tallgrass.nodes, name)


@pytest.mark.conformance("NR-2.1")
@pytest.mark.parametrize("example", ["example_node", "example_graph", "climate_downscaling"])
def test_an_example_of_the_specification_is_there(example: str) -> None:
    """And another test of the suite runs it."""
    assert list(EXAMPLES.glob(f"{example}*"))
    tests = (EXAMPLES.parent / "tests").rglob("test_*.py")
    others = [path for path in tests if path.name != Path(__file__).name]
    assert any(example in path.read_text(encoding="utf-8") for path in others)
