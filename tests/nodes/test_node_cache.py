"""What a node's result is known by: each change is a miss, and a bad cache only costs time."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from tallgrass.errors import ValidationError
from tallgrass.governance.policy import GovernanceDefaults, Policies, Policy
from tallgrass.nodes import RetryPolicy, Values
from tallgrass.nodes.cache_store import FolderCache
from tallgrass.nodes.gatekeeper import GovernanceGate
from tallgrass.nodes.identity import cache_key
from tallgrass.telemetry.energy import EnergyUse
from tests.nodes.fetching import LABELS, Counted, run
from tests.nodes.running import Watched, failing_first


@pytest.mark.conformance("NR-3.2", "NR-4.3", "NR-4.4")
def test_a_known_result_is_not_computed_again(watched: Watched) -> None:
    """Another run finds it in the cache; the value is equal, by type, and is nobody else's."""
    node = Counted({"t": (1, 2.0), "deep": [{"a": {3}}]})
    first = run(watched.runner(), node)
    second = run(watched.runner(run_id="run-2"), node)
    assert node.calls == 1
    assert second == first
    assert type(second["t"]) is tuple
    second["deep"][0]["a"].add(4)
    first["deep"].append(5)
    assert run(watched.runner(run_id="run-3"), node) == {"t": (1, 2.0), "deep": [{"a": {3}}]}
    assert watched.recorder.total("kfm.node_cache_hits", **LABELS) == 2
    assert watched.recorder.total("kfm.node_cache_misses", **LABELS) == 1
    assert [outcome.status for outcome in watched.outcomes] == ["succeeded", "cached", "cached"]
    assert watched.outcomes[1].attempts == ()
    assert len(watched.recorder.observed("kfm.node_latency_ms", **LABELS)) == 3


@pytest.mark.conformance("C-40")
def test_a_hit_leaves_its_own_entry(watched: Watched) -> None:
    """The run that was served by the cache says so in its log."""
    run(watched.runner(), Counted())
    run(watched.runner(run_id="run-2"), Counted())
    shown = watched.view("run-2/fetch/post.json")
    assert (shown["from_cache"], shown["result"]) == (True, {"out": 2})
    assert watched.view("run-1/fetch/post.json")["from_cache"] is False


@pytest.mark.conformance("NR-4.5")
@pytest.mark.parametrize(
    "change",
    [
        {"code_version": "v2"},
        {"data_version": "2026-11"},
        {"retry": RetryPolicy(max_attempts=4)},
        {"care_label": "sensitive"},
        {"node_id": "fetch-again"},
        {"x": 1.0},
    ],
    ids=str,
)
def test_each_change_alone_is_a_miss(watched: Watched, change: dict[str, Any]) -> None:
    """Code, data, policy, node and inputs each give another key."""
    node = Counted()
    run(watched.runner(), node)
    run(watched.runner(run_id="run-2"), node, **change)
    assert node.calls == 2


@pytest.mark.conformance("NR-4.5")
def test_a_changed_policy_of_governance_is_a_miss(watched: Watched) -> None:
    """What was computed under other rules is computed again."""
    node = Counted()
    for run_id, ref in (("1", "a"), ("2", "a"), ("3", "b")):
        rules = GovernanceDefaults(care_label="public", sensitivity="none", policy_ref=ref)
        gate = GovernanceGate(Policies([Policy.of("goes-glm", rules)]))
        run(watched.runner(run_id=run_id, gate=gate), node, dataset="goes-glm")
    assert node.calls == 2


def test_an_edited_node_is_not_served_by_its_old_result(watched: Watched) -> None:
    """Without a code_version the code itself is the version."""
    sources = ["lambda s: {'out': s['x'] + 10}", "lambda s: {'out': s['x'] * 1000}"]
    found = []
    for number, source in enumerate([*sources, sources[0]]):
        runner = watched.runner(run_id=f"run-{number}")
        node = eval(source)  # noqa: S307 - the test's own text
        found.append(runner.run(node_id="n", inputs={"x": 1}, exec_fn=node))
    assert found == [{"out": 11}, {"out": 1000}, {"out": 11}]
    assert watched.recorder.total("kfm.node_cache_hits") == 1


def test_code_that_cannot_be_hashed_is_not_cached_and_that_is_said_once(watched: Watched) -> None:
    """It runs in every run, and its run still remembers its result."""
    lock = threading.Lock()
    calls = []

    def node(state: dict[str, int]) -> dict[str, int]:
        with lock:
            calls.append(1)
        return {"n": len(calls)}

    runner = watched.runner()
    for run_id in ("a", "b", "a"):
        runner.run(node_id="n", inputs={}, exec_fn=node, run_id=run_id)
    assert len(calls) == 2
    said = [fields for name, fields in watched.recorder.events if name == "node_uncached"]
    assert len(said) == 1
    assert "lock" in str(said[0]["message"])


@pytest.mark.conformance("NR-4.1", "C-39", "C-42")
def test_the_key_in_the_log_is_the_printed_formula(watched: Watched) -> None:
    """Whoever reads `pre.json` can compute the key."""
    run(watched.runner(), Counted(), data_version="2026-11")
    pre = watched.view("run-1/fetch/pre.json")
    assert pre["data_version"].startswith("2026-11+")
    parts = ("code_version", "inputs_hash", "data_version")
    assert pre["cache_key"] == cache_key("fetch", *(pre[part] for part in parts))


@pytest.mark.conformance("NR-12.3", "NR-1.1")
def test_verify_mode_finds_what_is_not_deterministic(watched: Watched) -> None:
    """It compares two executions, or one with a result that is known."""
    steady, wild = Counted(), failing_first(0, Exception)
    assert run(watched.runner(verify=True), steady, node_id="steady") == {"out": 2}
    assert steady.calls == 2
    with pytest.raises(ValidationError) as refused:
        run(watched.runner(verify=True), wild)
    assert refused.value.code == "node_not_deterministic"
    run(watched.runner(run_id="other"), wild, x=2)
    with pytest.raises(ValidationError, match="for one input"):
        run(watched.runner(run_id="third", verify=True), wild, x=2)
    with pytest.raises(ValidationError, match="for one input"):
        run(watched.runner(run_id="other", verify=True), wild, x=2)


@pytest.mark.conformance("NR-12.2")
def test_a_corrupt_cache_entry_is_computed_again(watched: Watched) -> None:
    """A miss, one metric, and a whole entry afterwards."""
    node = Counted()
    run(watched.runner(), node)
    (entry,) = (path for path in (watched.root / "cache").rglob("*") if path.is_file())
    data = bytearray(entry.read_bytes())
    data[-3] ^= 1
    entry.write_bytes(bytes(data))
    assert run(watched.runner(run_id="run-2"), node) == {"out": 2}
    assert run(watched.runner(run_id="run-3"), node) == {"out": 2}
    assert node.calls == 2
    assert watched.recorder.total("kfm.node_cache_corrupt", **LABELS) == 1
    assert watched.recorder.total("kfm.node_cache_hits", **LABELS) == 1


def test_a_cache_that_fails_does_not_fail_the_node(watched: Watched) -> None:
    """The node runs without it, and that is said."""

    class Broken(FolderCache):
        def get(self, key: str) -> Any:
            raise OSError(5, "broken")

        def put(self, key: str, body: bytes) -> bool:
            raise OSError(28, "full")

    runner = watched.runner(cache=Broken(watched.root / "cache"))
    assert run(runner, Counted()) == {"out": 2}
    assert {name for name, _ in watched.recorder.events} == {"node_cache_unusable"}


def test_results_of_registered_types_come_back(watched: Watched) -> None:
    """A runner that knows a type stores it, caches it and gives it back."""
    values = Values(types=(EnergyUse,))
    use = EnergyUse(energy_wh=1.5, carbon_gco2e=2.0)
    for run_id in ("run-1", "run-2", "run-1"):
        node = Counted(use) if run_id == "run-1" else Counted("never called")
        assert run(watched.runner(values=values, run_id=run_id), node) == use


def test_verify_mode_calls_no_node_with_effects_again(watched: Watched) -> None:
    """Its result is not compared, so there is no reason to do anything outside once more."""
    node = Counted()
    options: dict[str, Any] = {"has_effects": True, "procedure": "SOP-7"}
    assert run(watched.runner(), node, **options) == run(
        watched.runner(verify=True), node, **options
    )
    assert node.calls == 1
