"""A small graph that survives being killed: crash it, run it again, see it resume.

    python examples/example_graph.py work --crash-at forecast
    python examples/example_graph.py work
    python examples/example_graph.py work --run tomorrow

The first run kills itself inside the named node, as a power cut would. The second one goes on: what
has a result in the run's log is not computed again. The third is another run of the same inputs,
and finds everything in the cache. No checkpointer is needed; needs the extra `langgraph`.
"""

import argparse
import operator
import os
import signal
from typing import Annotated, Any, TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, Send

from tallgrass.nodes import NodeHooks, NodeOutcome, NodeRunner
from tallgrass.nodes.graphs import reliable

#: Stages in metres, one an hour: the Kansas River at Topeka, Lecompton and De Soto.
STAGES = {
    "06889000": [2.10, 2.14, 2.31, 2.60],
    "06891000": [1.72, 1.75, 1.88, 2.09],
    "06892350": [1.55, 1.55, 1.61, 1.77],
}


class State(TypedDict, total=False):
    """What the nodes hand on; what several of them return at once is added up."""

    gauges: list[str]
    gauge: str
    rises: Annotated[list[tuple[str, float]], operator.add]
    forecast: dict[str, float]
    report: str


def plan(state: State) -> Command[Any]:
    """Send every gauge to a node of its own."""
    return Command(goto=[Send("rise", {"gauge": gauge}) for gauge in state["gauges"]])


def rise(state: State) -> State:
    """Say how fast one gauge rises, in metres an hour."""
    stages = STAGES[state["gauge"]]
    return {"rises": [(state["gauge"], round((stages[-1] - stages[0]) / (len(stages) - 1), 3))]}


def forecast(state: State) -> State:
    """Carry the rise on for six hours."""
    return {
        "forecast": {
            gauge: round(STAGES[gauge][-1] + 6 * rise, 2) for gauge, rise in state["rises"]
        }
    }


def report(state: State) -> State:
    """Put it into words."""
    lines = [f"{gauge}: {stage:.2f} m in six hours" for gauge, stage in state["forecast"].items()]
    return {"report": "\n".join(lines)}


def builder_of(crash_at: str | None) -> StateGraph[State, None, State, State]:
    """Build the graph; the node to crash at kills its process when it is called."""

    def crashing(node: Any) -> Any:
        def crash(_state: State) -> State:
            os.kill(os.getpid(), signal.SIGKILL)
            return {}

        return crash if node.__name__ == crash_at else node

    builder = StateGraph(State)
    for node in (plan, rise, forecast, report):
        builder.add_node(node.__name__, crashing(node))
    builder.add_edge(START, "plan")
    builder.add_edge("rise", "forecast")
    builder.add_edge("forecast", "report")
    builder.add_edge("report", END)
    return builder


class Told:
    """Prints what came of every node."""

    def finished(self, outcome: NodeOutcome) -> None:
        """Say whether it ran, or where its result came from."""
        gauge = outcome.inputs.get("gauge", "")
        print(f"{outcome.call.node_id:<9}{gauge:<9} {outcome.status}", flush=True)


def main() -> None:
    """Run the graph."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", help="where log and cache are kept")
    parser.add_argument("--run", default="today", help="the run to start, or to go on with")
    parser.add_argument("--crash-at", choices=("plan", "rise", "forecast", "report"))
    given = parser.parse_args()
    hooks = NodeHooks(watchers=(Told(),))
    with NodeRunner(given.folder, pipeline="example", hooks=hooks) as runner:
        # One version for all: a commit, or a release. The killed node is the same code, but killed.
        builder = reliable(builder_of(given.crash_at), runner, code_version="1.0")
        config: Any = {"configurable": {"thread_id": given.run}, "max_concurrency": 1}
        print(builder.compile().invoke({"gauges": sorted(STAGES)}, config)["report"])


if __name__ == "__main__":
    main()
