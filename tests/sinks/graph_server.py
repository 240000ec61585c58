"""A graph store: the SPARQL 1.1 Graph Store protocol over Oxigraph, on loopback."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import pyoxigraph as ox

from tests.sinks.receiver import Receiver, respond

if TYPE_CHECKING:
    from http.server import BaseHTTPRequestHandler


class GraphStore:
    """Named graphs in Oxigraph; PUT replaces a graph, as the protocol says."""

    def __init__(self) -> None:
        self.store = ox.Store()
        self.receiver = Receiver(self.serve)

    def serve(self, handler: BaseHTTPRequestHandler) -> None:
        """Answer a PUT; the body was read and written down before."""
        request = self.receiver.requests[-1]
        [name] = parse_qs(urlsplit(handler.path).query)["graph"]
        graph = ox.NamedNode(name)
        form = ox.RdfFormat.from_media_type(request.headers["content-type"])
        if form is None:
            respond(handler, 415, {}, b"")
            return
        existed = self.store.contains_named_graph(graph)
        try:
            quads = list(ox.parse(request.body, format=form))
        except SyntaxError:
            respond(handler, 400, {}, b"")
            return
        self.store.remove_graph(graph)
        self.store.add_graph(graph)
        self.store.extend(ox.Quad(q.subject, q.predicate, q.object, graph) for q in quads)
        respond(handler, 204 if existed else 201, {}, b"")

    def ask(self, query: str) -> bool:
        """Ask by SPARQL whether something holds."""
        return bool(self.store.query(query))
