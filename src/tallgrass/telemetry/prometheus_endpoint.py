"""Metrics for Prometheus to scrape: ``GET /metrics``.

Few scrapes are answered at a time, and one that does not read on is given up after a while, so
scrapers can neither delay the work nor fill the memory.
"""

import socket
import socketserver
import threading
from collections.abc import Iterator
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, HTTPServer
from itertools import accumulate

from prometheus_client import CollectorRegistry
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST, choose_encoder, generate_latest
from prometheus_client.registry import Collector

from tallgrass.telemetry.names import MetricKind
from tallgrass.telemetry.series import Collect, Family

_Request = socket.socket | tuple[bytes, socket.socket]

_PATH = "/metrics"
_READ_S_MAX = 10.0
_SCRAPES_MAX = 8
#: How soon `close` is noticed.
_LOOK_EVERY_S = 0.1


class PrometheusEndpoint:
    """Answers scrapes on a thread of its own from `start` to `close`."""

    def __init__(self, collect: Collect, listener: socket.socket) -> None:
        registry = CollectorRegistry(auto_describe=False)
        registry.register(_Collector(collect))
        self._server = _Server(registry, listener)
        self._thread = threading.Thread(
            target=self._server.serve_forever,
            args=(_LOOK_EVERY_S,),
            name="tallgrass-prometheus",
            daemon=True,
        )

    @property
    def url(self) -> str:
        """Where it answers."""
        host, port = self._server.socket.getsockname()[:2]
        return f"http://[{host}]:{port}{_PATH}" if ":" in host else f"http://{host}:{port}{_PATH}"

    @property
    def port(self) -> int:
        """The port of that address."""
        port: int = self._server.socket.getsockname()[1]
        return port

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def close(self) -> None:
        """Stop and give the address back."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(_READ_S_MAX)


def exposition(collect: Collect) -> tuple[bytes, str]:
    """Return the series as Prometheus reads them, and the kind of the text."""
    registry = CollectorRegistry()
    registry.register(_Collector(collect))
    return generate_latest(registry), CONTENT_TYPE_LATEST


class _Collector(Collector):
    def __init__(self, collect: Collect) -> None:
        self._collect = collect

    def collect(self) -> Iterator[Metric]:
        for family in self._collect():
            yield _family(family)


def _family(family: Family) -> Metric:
    """Return the series as Prometheus' library takes them."""
    about = family.metric
    name, labels = about.prometheus_name, about.all_labels
    if about.kind is MetricKind.HISTOGRAM:
        histogram = HistogramMetricFamily(name, about.meaning, labels=labels)
        for values, buckets in family.buckets.items():
            ends = [*(str(float(bound)) for bound in buckets.bounds), "+Inf"]
            below = list(zip(ends, accumulate(buckets.counts), strict=True))
            histogram.add_metric(values, below, buckets.total)
        return histogram
    kind = CounterMetricFamily if about.kind is MetricKind.COUNTER else GaugeMetricFamily
    numbers = kind(name, about.meaning, labels=labels)
    for values, number in family.numbers.items():
        numbers.add_metric(values, number)
    return numbers


class _Server(socketserver.ThreadingMixIn, HTTPServer):
    daemon_threads = True

    def __init__(self, registry: CollectorRegistry, listener: socket.socket) -> None:
        # Not HTTPServer's own binding: it asks a name server for the host's name.
        socketserver.BaseServer.__init__(self, listener.getsockname(), _Handler)
        self.socket = listener
        self.registry = registry
        self._free = threading.Semaphore(_SCRAPES_MAX)
        self.server_activate()

    def process_request(self, request: _Request, client_address: object) -> None:
        """Answer on a thread, or hang up if too many are answered already."""
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: _Request, client_address: object) -> None:
        """Answer, and let another in."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: a scraper that goes away is no fault of ours."""


class _Handler(BaseHTTPRequestHandler):
    timeout = _READ_S_MAX
    server: _Server
    server_version = "tallgrass"
    sys_version = ""

    def do_GET(self) -> None:
        """Answer a scrape."""
        if self.path.partition("?")[0] != _PATH:
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        encode, content_type = choose_encoder(self.headers.get("Accept", ""))
        body = encode(self.server.registry)
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name
        """Say nothing: a scrape every few seconds is no event."""
