from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.canonical_json import canonical_bytes
from tallgrass.errors import ConfigError
from tallgrass.sinks.graph_store import open_graph_store
from tallgrass.sinks.protocol import Delivered, Delivery, Undelivered
from tallgrass.sinks.resources import SinkResources
from tests.operators import scene
from tests.operators.scene import run_chain
from tests.sinks.graph_server import GraphStore
from tests.sinks.receiver import PATIENCE_S, event

if TYPE_CHECKING:
    from collections.abc import Iterator

# rdflib's own JSON-LD reader uses names that rdflib itself calls outdated.
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*(Graph|Dataset).* is deprecated:DeprecationWarning"
)

PREFIX = "PREFIX prov: <http://www.w3.org/ns/prov#> PREFIX kfm: <urn:kfm:ns:> "


@pytest.fixture
def graphs() -> Iterator[GraphStore]:
    """An empty graph store."""
    made = GraphStore()
    with made.receiver:
        yield made


def made_by_the_chain() -> tuple[str, bytes, bytes]:
    """Return activity, document and payload of a real unit."""
    make, key = scene.MATCHES[next(iter(scene.MATCHES))]
    match = make()
    effects = run_chain(
        scene.claim(match, key), match, scene.evidence(), None, scene.context()
    ).effects
    assert effects.provenance is not None
    return effects.provenance.activity_id, effects.provenance.body, effects.events[0].payload


def send(graphs: GraphStore, payload: bytes, body: bytes | None, **settings: Any) -> Delivery:
    """Send one event, with a document behind it."""
    sink = open_graph_store(
        {"url": f"{graphs.receiver.url}/store", "timeout_s": PATIENCE_S, **settings},
        SinkResources(provenance=lambda _wal_id, _activity: body),
    )
    [delivery] = sink.send([event(payload=payload)])
    sink.close()
    return delivery


@pytest.mark.parametrize("form", ["json-ld", "n-triples"])
def test_a_document_becomes_the_graph_of_its_activity(graphs: GraphStore, form: str) -> None:
    """Another program's SPARQL finds what the activity used and generated, in that graph."""
    activity, body, payload = made_by_the_chain()
    assert send(graphs, payload, body, format=form) == Delivered()
    found = "a prov:Activity ; prov:used ?s ; prov:generated ?i ; kfm:walId ?w"
    inner = f"<{activity}> {found} . ?s kfm:objectUri ?uri"
    assert graphs.ask(f"{PREFIX} ASK {{ GRAPH <{activity}> {{ {inner} }} }}")
    assert [str(graph.value) for graph in graphs.store.named_graphs()] == [activity]


def test_both_forms_give_the_same_graph() -> None:
    """N-Triples are the document's triples, no more and no less."""
    activity, body, payload = made_by_the_chain()
    found = []
    for form in ("json-ld", "n-triples"):
        made = GraphStore()
        with made.receiver:
            send(made, payload, body, format=form)
        found.append({str(quad) for quad in made.store})
    assert found[0] == found[1]
    assert len(found[0]) > 10
    assert activity


def test_the_stored_bytes_are_sent(graphs: GraphStore) -> None:
    """Unless another form is asked for; the graph's name is quoted."""
    activity, body, payload = made_by_the_chain()
    send(graphs, payload, body)
    [request] = graphs.receiver.requests
    assert (request.method, request.body) == ("PUT", body)
    assert request.headers["content-type"] == "application/ld+json"
    assert request.path == "/store?graph=" + activity.replace(":", "%3A")


def test_an_event_that_comes_twice_replaces_the_graph(graphs: GraphStore) -> None:
    """As many triples as before."""
    _, body, payload = made_by_the_chain()
    send(graphs, payload, body)
    before = len(graphs.store)
    assert send(graphs, payload, body) == Delivered()
    assert len(graphs.store) == before


def test_the_address_may_have_a_query(graphs: GraphStore) -> None:
    """The graph is one more parameter."""
    _, body, payload = made_by_the_chain()
    assert send(graphs, payload, body, url=f"{graphs.receiver.url}/s?repo=a") == Delivered()
    assert graphs.receiver.requests[0].path.startswith("/s?repo=a&graph=urn%3Aprov")


def test_what_has_no_provenance_is_told(graphs: GraphStore) -> None:
    """An event of another kind is misrouted; a document that is not there cannot be sent."""
    _, _, payload = made_by_the_chain()
    misrouted = send(graphs, b'{"a":1}', b"{}")
    missing = send(graphs, payload, None)
    assert isinstance(misrouted, Undelivered)
    assert isinstance(missing, Undelivered)
    assert (misrouted.code, misrouted.permanent) == ("sink_misconfigured", True)
    assert (missing.code, missing.permanent) == ("sink_refused", True)
    assert graphs.receiver.requests == []


def test_a_document_that_the_store_refuses_is_final(graphs: GraphStore) -> None:
    """The store says that it is no RDF."""
    _, _, payload = made_by_the_chain()
    result = send(graphs, payload, canonical_bytes({"@context": 7}))
    assert isinstance(result, Undelivered)
    assert (result.code, result.permanent) == ("sink_refused", True)


def test_an_unknown_form_is_refused() -> None:
    """The message lists the known ones."""
    with pytest.raises(ConfigError, match="format must be json-ld or n-triples, not 'turtle'"):
        open_graph_store({"url": "http://127.0.0.1", "format": "turtle"}, SinkResources())
