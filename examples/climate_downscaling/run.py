"""Climate downscaling as a LangGraph of twelve reliable nodes: crash it, and run it again.

    python examples/climate_downscaling/run.py FOLDER                  runs until a person is asked
    python examples/climate_downscaling/run.py FOLDER --approve        goes on, and publishes
    python examples/climate_downscaling/run.py FOLDER --crash-in NODE  is killed in that node
    python examples/climate_downscaling/run.py FOLDER --run r2 --approve --fail-in publish

A coarse temperature field is corrected by observations, then brought to a finer grid, tile by tile
in parallel, with the lapse rate of the terrain. A person looks at the figures before anything is
published; what a failed publication left is taken back. No database and no durable checkpointer is
needed: the run's own log is enough to go on in another process.
"""

from __future__ import annotations

import argparse
import json
import operator
import os
import signal
import sys
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, Send, interrupt

from tallgrass.errors import TallgrassError
from tallgrass.nodes import Compensations, NodeHooks, NodeRunner, current_node, effect
from tallgrass.nodes.graphs import reliable

if TYPE_CHECKING:
    from collections.abc import Mapping

Field = list[list[float]]

#: Cells of the coarse grid in each direction, and fine cells in one of them.
COARSE, REFINED = 4, 4
FINE = COARSE * REFINED
#: Tiles in each direction.
TILES = 2
#: Kelvin a metre.
LAPSE_RATE = -0.0065


class State(TypedDict, total=False):
    """What the nodes hand on."""

    scenario: str
    tiles_asked: list[tuple[int, int]]
    model: Field
    observed: Field
    bias: float
    corrected: Field
    elevation: Field
    tiles: Annotated[list[dict[str, Any]], operator.add]
    fine: Field
    checks: dict[str, float]
    approved: bool
    address: str
    report: str


class Tile(TypedDict):
    """What one tile needs."""

    tile: tuple[int, int]
    corrected: Field
    elevation: Field


class Downscaling:
    """The nodes; every call of one is noted in a file, so that one sees what ran again."""

    def __init__(self, folder: Path, crash_in: str | None, fail_in: str | None) -> None:
        self._folder = folder
        self._crash_in = crash_in
        self._fail_in = fail_in

    def plan(self, _state: State) -> State:
        """Say which tiles are to be made."""
        self._enter("plan")
        return {"tiles_asked": [(row, column) for row in range(TILES) for column in range(TILES)]}

    def read_model(self, _state: State) -> State:
        """Return the coarse field of a climate model: here a plane, too warm by a constant."""
        self._enter("read_model")
        return {"model": _plane(COARSE, 10.0)}

    def read_observations(self, _state: State) -> State:
        """Return what was observed on the same grid."""
        self._enter("read_observations")
        return {"observed": _plane(COARSE, 8.5)}

    def read_elevation(self, _state: State) -> State:
        """Return the terrain on the fine grid, in metres."""
        self._enter("read_elevation")
        cells = range(FINE)
        heights = [[100.0 * ((row + 2 * column) % 5) for column in cells] for row in cells]
        return {"elevation": heights}

    def find_bias(self, state: State) -> State:
        """Return how much too warm the model is."""
        self._enter("find_bias")
        return {"bias": _mean(state["model"]) - _mean(state["observed"])}

    def correct(self, state: State) -> State:
        """Take the bias off."""
        self._enter("correct")
        return {"corrected": [[each - state["bias"] for each in row] for row in state["model"]]}

    def downscale(self, given: Tile) -> State:
        """Bring one tile to the fine grid."""
        self._enter("downscale")
        size = FINE // TILES
        first_row, first_column = (each * size for each in given["tile"])
        mean_height = _mean(given["elevation"])
        values = [
            [
                _between(given["corrected"], row, column)
                + LAPSE_RATE * (given["elevation"][row][column] - mean_height)
                for column in range(first_column, first_column + size)
            ]
            for row in range(first_row, first_row + size)
        ]
        return {"tiles": [{"tile": given["tile"], "values": values}]}

    def mosaic(self, state: State) -> State:
        """Put the tiles together, in whatever order they came."""
        self._enter("mosaic")
        fine = [[0.0] * FINE for _ in range(FINE)]
        for each in state["tiles"]:
            size = len(each["values"])
            for row, values in enumerate(each["values"], start=each["tile"][0] * size):
                fine[row][each["tile"][1] * size : (each["tile"][1] + 1) * size] = values
        return {"fine": fine}

    def check(self, state: State) -> State:
        """Return the figures that tell whether the result can be trusted."""
        self._enter("check")
        fine = state["fine"]
        return {
            "checks": {
                "mean": _mean(fine),
                "drift": _mean(fine) - _mean(state["corrected"]),
                "lowest": min(map(min, fine)),
                "highest": max(map(max, fine)),
            }
        }

    def review(self, state: State) -> State:
        """Ask a person; the answer counts for this run only, and is never cached."""
        self._enter("review")
        return {"approved": bool(interrupt({"question": "publish?", **state["checks"]}))}

    def publish(self, state: State) -> State:
        """Write the field, then list it in the index: both can be taken back."""
        self._enter("publish")
        run_id = current_node().call.run_id
        target = self._folder / "published" / f"{state['scenario']}-{run_id}.json"
        index = self._folder / "published" / "index.json"
        if not state["approved"]:
            return {"address": ""}
        effect("put", key=str(target), do=lambda: _write(target, state["fine"]), idempotent=True)
        effect("list", key=target.name, do=lambda: _list(index, target.name), idempotent=True)
        if self._fail_in == "publish":
            raise ValueError("the catalog refused the entry")
        return {"address": target.name}

    def tell(self, state: State) -> State:
        """Say what came of it."""
        self._enter("tell")
        figures = ", ".join(f"{name} {value:.3f}" for name, value in state["checks"].items())
        return {"report": f"{state['scenario']}: {state['address'] or 'not published'} ({figures})"}

    def _enter(self, node: str) -> None:
        with (self._folder / "calls.log").open("a", encoding="utf-8") as log:
            log.write(f"{node}\n")
        if node == self._crash_in:
            os.kill(os.getpid(), signal.SIGKILL)


def tiles_of(state: State) -> list[Send]:
    """Send each tile on its way."""
    given = {"corrected": state["corrected"], "elevation": state["elevation"]}
    return [Send("downscale", {"tile": tile, **given}) for tile in state["tiles_asked"]]


def build(work: Downscaling, runner: NodeRunner) -> Any:
    """Return the graph, every node of it behind the runner."""
    builder = StateGraph(State)
    for name in (
        "plan", "read_model", "read_observations", "read_elevation", "find_bias", "correct",
        "downscale", "mosaic", "check", "review", "publish", "tell",
    ):  # fmt: skip
        builder.add_node(name, getattr(work, name))
    builder.add_edge(START, "plan")
    for source in ("read_model", "read_observations", "read_elevation"):
        builder.add_edge("plan", source)
    builder.add_edge(["read_model", "read_observations", "read_elevation"], "find_bias")
    builder.add_edge("find_bias", "correct")
    builder.add_conditional_edges("correct", tiles_of, ["downscale"])
    path = ("downscale", "mosaic", "check", "review", "publish", "tell", END)
    for before, after in pairwise(path):
        builder.add_edge(before, after)
    reliable(builder, runner, code_version="1.0.0", strict=True, options=OPTIONS)
    return builder.compile(checkpointer=InMemorySaver())


#: What each node uses of the state: nothing else counts for its cache, and nothing else it sees.
OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "plan": {"uses": ()},
    "read_model": {"uses": ("scenario",)},
    "read_observations": {"uses": ("scenario",)},
    "read_elevation": {"uses": ()},
    "find_bias": {"uses": ("model", "observed")},
    "correct": {"uses": ("model", "bias")},
    "mosaic": {"uses": ("tiles",)},
    "check": {"uses": ("fine", "corrected")},
    "review": {"uses": ("checks",), "cached": False},
    "publish": {"uses": ("scenario", "fine", "approved"), "has_effects": True},
    "tell": {"uses": ("scenario", "address", "checks")},
}


def compensations(folder: Path) -> Compensations:
    """Return what takes a publication back; to do it twice does no harm."""
    made = Compensations()

    @made.undoes("put")
    def take_away(_before: Any, entry: Mapping[str, Any]) -> None:
        Path(entry["key"]).unlink(missing_ok=True)

    @made.undoes("list")
    def unlist(_before: Any, entry: Mapping[str, Any]) -> None:
        index = folder / "published" / "index.json"
        _write(index, [name for name in _listed(index) if name != entry["key"]])

    return made


def _list(index: Path, name: str) -> None:
    _write(index, sorted({*_listed(index), name}))


def _listed(index: Path) -> list[str]:
    names: list[str] = json.loads(index.read_text(encoding="utf-8")) if index.exists() else []
    return names


def _write(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.with_suffix(".tmp").write_text(json.dumps(value), encoding="utf-8")
    path.with_suffix(".tmp").replace(path)


# --- fields ---------------------------------------------------------------------------------------


def _plane(size: int, corner: float) -> Field:
    """Return a field that grows by 0.5 K a row and falls by 0.25 K a column."""
    return [[corner + 0.5 * row - 0.25 * column for column in range(size)] for row in range(size)]


def _mean(field: Field) -> float:
    return sum(map(sum, field)) / (len(field) * len(field[0]))


def _between(coarse: Field, row: int, column: int) -> float:
    """Return the coarse field at a fine cell's middle, bilinear, and beyond its edges linear."""
    (i, u), (j, v) = (_place(each) for each in (row, column))
    upper = coarse[i][j] * (1 - v) + coarse[i][j + 1] * v
    lower = coarse[i + 1][j] * (1 - v) + coarse[i + 1][j + 1] * v
    return upper * (1 - u) + lower * u


def _place(fine: int) -> tuple[int, float]:
    """Return the coarse cell before a fine one, and how far behind its middle that lies."""
    at = (fine + 0.5) / REFINED - 0.5
    before = min(max(int(at), 0), COARSE - 2)
    return before, at - before


# --- the command ----------------------------------------------------------------------------------


def main(arguments: list[str] | None = None) -> int:
    """Run the graph as far as it goes."""
    asked = _asked(arguments)
    folder: Path = asked.folder
    folder.mkdir(parents=True, exist_ok=True)
    work = Downscaling(folder, asked.crash_in, asked.fail_in)
    hooks = NodeHooks(compensator=compensations(folder))
    with NodeRunner(folder / "nodes", pipeline="downscaling", hooks=hooks) as runner:
        try:
            return _run(build(work, runner), asked)
        except (TallgrassError, ValueError) as error:
            print(f"failed: {error}")
        finally:
            print(f"Look at   tallgrass nodes show {asked.run} --dir {folder / 'nodes'}")
    return 1


def _run(graph: Any, asked: argparse.Namespace) -> int:
    config = {"configurable": {"thread_id": asked.run}}
    state = graph.invoke({"scenario": asked.scenario}, config)
    if "__interrupt__" in state:
        if asked.decision is None:
            print("waits for a person: run it again with --approve or --reject")
            return 0
        state = graph.invoke(Command(resume=asked.decision), config)
    print(state["report"])
    return 0


def _asked(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--run", default="r1", help="the run; one that was begun goes on")
    parser.add_argument("--scenario", default="ssp245")
    answer = parser.add_mutually_exclusive_group()
    answer.add_argument("--approve", dest="decision", action="store_true", default=None)
    answer.add_argument("--reject", dest="decision", action="store_false")
    parser.add_argument("--crash-in", metavar="NODE", help="be killed when this node is entered")
    parser.add_argument("--fail-in", choices=["publish"], help="fail after everything was made")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
