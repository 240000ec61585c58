"""Provenance as a graph: what came of what, by which activity, on whose behalf (pure).

Made of PROV-O documents in JSON-LD as this pipeline writes them, and of the run parts that stand
beside them. Nothing is drawn here; a front lays it out and says it in words.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Kind(StrEnum):
    """The three kinds of PROV."""

    ENTITY = "entity"
    ACTIVITY = "activity"
    AGENT = "agent"


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One thing, with a short name and a line that says more."""

    id: str
    kind: Kind
    name: str
    detail: str
    #: Of entities: whether an activity made it, as far as the documents tell.
    made: bool = False


@dataclass(frozen=True, slots=True)
class Edge:
    """A relation in PROV's own word, from what has it to what it points at."""

    source: str
    name: str
    target: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvGraph:
    """Nodes in the order in which they are met; every edge joins two of them."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]

    def of(self, kind: Kind) -> tuple[Node, ...]:
        """Return the nodes of a kind."""
        return tuple(node for node in self.nodes if node.kind is kind)


#: `generated` says the same as `wasGeneratedBy`, from the other end.
_RELATIONS = ("used", "wasAssociatedWith", "wasGeneratedBy", "wasDerivedFrom", "wasAttributedTo")
_KINDS = {"prov:Entity": Kind.ENTITY, "prov:Activity": Kind.ACTIVITY, "prov:Agent": Kind.AGENT}
_RUN = "nonDeterministic"
_HASH_CHARS = 12


def prov_graph(activities: Sequence[Mapping[str, Any]]) -> ProvGraph:
    """Return the graph of activities, each a `body` and a `run`.

    What is no entity, activity or agent is left out: documents may come from others.
    """
    nodes: dict[str, Node] = {}
    edges: dict[Edge, None] = {}
    for each in activities:
        run = each["run"]
        for thing in _things(each):
            told = run.get(_RUN, {}) if run.get("activity") == thing["@id"] else {}
            nodes.setdefault(thing["@id"], _node(thing, told))
            for name in _RELATIONS:
                edges |= dict.fromkeys(Edge(thing["@id"], name, to) for to in _all(thing.get(name)))
    for each in activities:
        edges |= dict.fromkeys(_between_runs(each))
    known = tuple(edge for edge in edges if edge.source in nodes and edge.target in nodes)
    return ProvGraph(nodes=tuple(nodes.values()), edges=known)


def _things(activity: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    graph = activity["body"].get("@graph", [])
    return [thing for thing in graph if _kind(thing) is not None and "@id" in thing]


def _kind(thing: Mapping[str, Any]) -> Kind | None:
    return next((_KINDS[each] for each in _all(thing.get("@type")) if each in _KINDS), None)


def _between_runs(activity: Mapping[str, Any]) -> list[Edge]:
    """Return how an activity is tied to the one before it."""
    run = activity["run"].get(_RUN, {})
    made = [thing["@id"] for thing in _things(activity) if thing.get("wasGeneratedBy")]
    replaced, before = _all(run.get("wasRevisionOf")), _all(run.get("wasInformedBy"))
    edges = [Edge(each, "wasRevisionOf", to) for each in made for to in replaced]
    return edges + [Edge(activity["run"].get("activity", ""), "wasInformedBy", to) for to in before]


def _node(thing: Mapping[str, Any], run: Mapping[str, Any]) -> Node:
    kind = _kind(thing) or Kind.ENTITY
    if kind is Kind.ACTIVITY:
        name = f"Attempt {run.get('attempt')}: {run.get('intent')}" if run else "Activity"
        detail = f"code {thing.get('kfm:codeVersion', '?')}"
        return Node(id=thing["@id"], kind=kind, name=name, detail=detail)
    if kind is Kind.AGENT:
        name = str(thing["@id"]).rpartition(":")[2]
        return Node(id=thing["@id"], kind=kind, name=name, detail="program")
    if "kfm:objectUri" in thing:
        file = str(thing["kfm:objectUri"]).rpartition("/")[2] or str(thing["kfm:objectUri"])
        return Node(id=thing["@id"], kind=kind, name=file, detail="source object")
    sha256 = str(thing.get("kfm:sha256", ""))[:_HASH_CHARS]
    item = str(thing.get("kfm:stacItemId", thing["@id"]))
    detail = f"STAC item, sha256 {sha256}…" if sha256 else "entity"
    return Node(id=thing["@id"], kind=kind, name=item, detail=detail, made=True)


def _all(value: Any) -> list[str]:
    if value is None:
        return []
    return list(value) if isinstance(value, list) else [value]
