"""Energy and carbon: the model by hand, and whose CPU time counts."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.errors import InvalidInput, TransientError
from tallgrass.nodes import NodeHooks, RetryPolicy
from tallgrass.nodes.energy_policy import PUBLISHED_SOURCE, CpuEnergyMeter, EnergyCoefficients
from tests.nodes.running import Watched, failing_first

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: One watt-hour for each CPU second, and nothing else.
SECONDS = EnergyCoefficients.of(
    {
        "watts_per_core": 3600,
        "watts_per_gb": 0,
        "pue": 1,
        "grams_per_kwh": 1000,
        "source": "a test",
    }
)


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    """A folder for runners that count CPU seconds as watt-hours."""
    made = Watched(tmp_path / "nodes")
    made.options["hooks"] = NodeHooks(energy=CpuEnergyMeter(SECONDS), watchers=(made,))
    yield made
    made.close()


def burn(seconds: float) -> None:
    """Be busy for so much CPU time of this thread."""
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        sum(range(100))


def seconds_of(watched: Watched, place: str) -> list[float]:
    """The CPU seconds of each attempt, as the log has them."""
    return [each["measures"]["energy_wh"] for each in watched.view(f"{place}/attempts.json")]


def test_the_model_gives_what_the_formula_gives() -> None:
    """An hour of one core with 8 GB, by hand: (12 + 8 x 0.3725) x 1.67 W, at 475 g a kWh."""
    use = EnergyCoefficients(memory_gb=8).use(cpu_s=3600, wall_s=3600)
    assert use.energy_wh == pytest.approx(25.0166)
    assert use.carbon_gco2e == pytest.approx(11.882885)
    assert use.estimated is True
    waited = EnergyCoefficients(memory_gb=8).use(cpu_s=0, wall_s=3600)
    assert waited.energy_wh == pytest.approx(4.9766)


def test_figures_of_ones_own_name_their_source() -> None:
    """The published source stands only beside the published figures."""
    assert EnergyCoefficients().source == PUBLISHED_SOURCE
    assert EnergyCoefficients.of({"memory_gb": 2}).source == PUBLISHED_SOURCE
    with pytest.raises(InvalidInput, match="source"):
        EnergyCoefficients.of({"grams_per_kwh": 50})
    own = EnergyCoefficients.of({"grams_per_kwh": 50, "source": "our grid, 2026"})
    assert (own.grams_per_kwh, own.watts_per_core) == (50, 12.0)


@pytest.mark.parametrize(
    "table",
    [
        {"watts_per_core": -1, "source": "s"},
        {"watts_per_core": float("nan"), "source": "s"},
        {"watts_per_core": True, "source": "s"},
        {"watts_per_core": "12", "source": "s"},
        {"pue": 0.9, "source": "s"},
        {"source": " "},
        {"watts_per_cor": 1, "source": "s"},
    ],
    ids=str,
)
def test_figures_that_cannot_be_are_refused(table: dict[str, Any]) -> None:
    """Negative, no number, a centre that makes energy, no source, an unknown name."""
    with pytest.raises(InvalidInput) as refused:
        EnergyCoefficients.of(table)
    assert refused.value.code == "node_declaration_invalid"


@pytest.mark.conformance("C-46")
def test_each_attempt_has_its_own_estimate(watched: Watched) -> None:
    """What failed counts too; each is marked as estimated; a wait of the node takes nothing."""
    node = failing_first(1, lambda: TransientError("later"))

    def busy(state: Any) -> Any:
        burn(0.05)
        time.sleep(0.3)
        return node(state)

    watched.runner().run(node_id="n", code_version="1", inputs={}, exec_fn=busy)
    attempts = watched.view("run-1/n/attempts.json")
    assert [each["measures"]["estimated"] for each in attempts] == [True, True]
    for each in attempts:
        assert 0.05 <= each["measures"]["energy_wh"] < 0.2
        assert each["measures"]["carbon_gco2e"] == pytest.approx(each["measures"]["energy_wh"])
    told = watched.recorder.observed("kfm.node_energy_wh", pipeline="hydrology", node="n")
    assert told == [each["measures"]["energy_wh"] for each in attempts]


def test_nodes_at_the_same_time_do_not_count_one_another(watched: Watched) -> None:
    """One thread is busy while the other waits: each has its own."""
    runner = watched.runner()
    both = Barrier(2)

    def waits(_state: Any) -> int:
        both.wait()
        both.wait()
        return 1

    def works(_state: Any) -> int:
        both.wait()
        burn(0.2)
        both.wait()
        return 2

    with ThreadPoolExecutor(2) as pool:
        for name, node in (("waits", waits), ("works", works)):
            pool.submit(runner.run, node_id=name, code_version="1", inputs={}, exec_fn=node)
    assert seconds_of(watched, "run-1/works")[0] >= 0.2
    assert seconds_of(watched, "run-1/waits")[0] < 0.1


def test_coroutines_of_one_loop_do_not_count_one_another(watched: Watched) -> None:
    """Only the steps of the node's own coroutine, or of its own thread, count."""
    runner = watched.runner()

    async def waits(_state: Any) -> int:
        for _ in range(20):
            await asyncio.sleep(0.005)
        return 1

    async def works(_state: Any) -> int:
        for _ in range(10):
            burn(0.02)
            await asyncio.sleep(0)
        return 2

    def plain(_state: Any) -> int:
        burn(0.1)
        return 3

    async def all_three() -> list[Any]:
        nodes = {"waits": waits, "works": works, "plain": plain}
        return await asyncio.gather(
            *(
                runner.arun(node_id=name, code_version="1", inputs={}, exec_fn=node)
                for name, node in nodes.items()
            )
        )

    assert asyncio.run(all_three()) == [1, 2, 3]
    assert seconds_of(watched, "run-1/works")[0] >= 0.2
    assert 0.1 <= seconds_of(watched, "run-1/plain")[0] < 0.2
    assert seconds_of(watched, "run-1/waits")[0] < 0.1


def test_a_measured_coroutine_behaves_as_if_it_were_not(watched: Watched) -> None:
    """Its errors, its handling of a cancellation and its timeout are its own."""
    runner = watched.runner()
    told, began = [], []

    async def fails(_state: Any) -> int:
        await asyncio.sleep(0)
        raise KeyError("gone")

    async def cleans_up(_state: Any) -> int:
        began.append(True)
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            await asyncio.sleep(0)
            told.append("cleaned")
            raise
        return 1

    async def cancelled() -> None:
        task = asyncio.create_task(
            runner.arun(node_id="c", code_version="1", inputs={}, exec_fn=cleans_up)
        )
        while not began:  # noqa: ASYNC110 - nodes are run without an event of the loop
            await asyncio.sleep(0.005)
        task.cancel()
        await task

    with pytest.raises(KeyError):
        asyncio.run(runner.arun(node_id="f", code_version="1", inputs={}, exec_fn=fails))
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cancelled())
    with pytest.raises(TimeoutError):
        asyncio.run(
            runner.arun(
                node_id="t",
                code_version="1",
                inputs={},
                exec_fn=cleans_up,
                timeout_s=0.05,
                retry=RetryPolicy(max_attempts=1),
            )
        )
    assert told == ["cleaned", "cleaned"]


def test_a_function_with_a_timeout_is_measured_where_it_runs(watched: Watched) -> None:
    """In its own thread; one that was given up counts as busy for all of its time."""
    runner = watched.runner()
    runner.run(
        node_id="quick", code_version="1", inputs={}, exec_fn=lambda _: burn(0.1), timeout_s=60
    )
    assert 0.1 <= seconds_of(watched, "run-1/quick")[0] < 0.5
    with pytest.raises(TimeoutError):
        runner.run(
            node_id="slow",
            code_version="1",
            inputs={},
            exec_fn=lambda _: time.sleep(1),
            timeout_s=0.25,
            retry=RetryPolicy(max_attempts=1),
        )
    assert seconds_of(watched, "run-1/slow")[0] == pytest.approx(0.25)
