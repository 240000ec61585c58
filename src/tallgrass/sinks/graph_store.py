"""Puts the provenance of items into a graph store (SPARQL 1.1 Graph Store HTTP Protocol).

Each PROV-O document is one named graph, named by its activity; PUT replaces the whole graph, so an
event that comes twice changes nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from urllib.parse import quote

from tallgrass.clock import Clock
from tallgrass.errors import ConfigError
from tallgrass.outbox.event import OutboxEvent
from tallgrass.sinks.address_guard import read_url
from tallgrass.sinks.http import authorization, deliver, delivery_of, open_http, trace_headers
from tallgrass.sinks.http_client import HttpClient
from tallgrass.sinks.item_event import names_in
from tallgrass.sinks.options import Options
from tallgrass.sinks.protocol import Delivery, Undelivered
from tallgrass.sinks.resources import SinkResources

#: As stored; some graph stores read no JSON-LD, all read N-Triples.
_JSON_LD = "json-ld"
_N_TRIPLES = "n-triples"
_CONTENT_TYPES = {_JSON_LD: "application/ld+json", _N_TRIPLES: "application/n-triples"}


class GraphStoreSink:
    """One request an event."""

    batch_max = 1

    def __init__(
        self,
        client: HttpClient,
        provenance: Callable[[str, str], bytes | None],
        *,
        write: Callable[[bytes], bytes],
        headers: Mapping[str, str],
        clock: Clock,
    ) -> None:
        self._client = client
        self._provenance = provenance
        self._write = write
        self._headers = headers
        self._clock = clock

    def send(self, events: Sequence[OutboxEvent]) -> Sequence[Delivery]:
        """Put the graph of each event."""
        return [deliver(self._client.url, self._put, event) for event in events]

    def close(self) -> None:
        """Let connections go."""
        self._client.close()

    def _put(self, event: OutboxEvent) -> Delivery:
        names = names_in(event, "wal_id", "prov_activity_id")
        if isinstance(names, Undelivered):
            return names
        activity = names["prov_activity_id"]
        body = self._provenance(names["wal_id"], activity)
        if body is None:
            return Undelivered(
                code="sink_refused", message=f"there is no provenance of {activity}", permanent=True
            )
        client = self._client
        joint = "&" if "?" in client.url.target else "?"
        target = f"{client.url.target}{joint}graph={quote(activity, safe='')}"
        headers = {**self._headers, **trace_headers(event)}
        answer = client.ask("PUT", target, self._write(body), headers, ends_at=client.deadline())
        return delivery_of(answer, client.url.place, self._clock)


def _n_triples() -> Callable[[bytes], bytes]:
    try:
        from rdflib import Graph  # noqa: PLC0415 - optional, and half a second
    except ModuleNotFoundError as exc:
        raise ConfigError(
            f"format: {_N_TRIPLES} needs rdflib: pip install 'tallgrass[rdf]'"
        ) from exc

    def write(body: bytes) -> bytes:
        lines = Graph().parse(data=body, format="json-ld").serialize(format="nt").splitlines()
        return "".join(f"{line}\n" for line in sorted(lines) if line).encode()

    return write


def open_graph_store(settings: Mapping[str, object], resources: SinkResources) -> GraphStoreSink:
    """Make the sink: `url` of the graph store, `format`, and the settings of all HTTP sinks."""
    options = Options(settings, environment=resources.environment)
    url = read_url(options.text("url"))
    written_as = options.word("format", (_JSON_LD, _N_TRIPLES))
    client = open_http(options, url, resources)
    headers = authorization(options)
    options.done()
    return GraphStoreSink(
        client,
        resources.provenance,
        write=_n_triples() if written_as == _N_TRIPLES else bytes,
        headers={"Content-Type": _CONTENT_TYPES[written_as], **headers},
        clock=resources.clock,
    )
