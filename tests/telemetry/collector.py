"""A collector on loopback that takes what OTLP sends, or hangs, or refuses."""

from __future__ import annotations

import gzip
import threading
from typing import TYPE_CHECKING, Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.support.loopback import LoopbackServer

if TYPE_CHECKING:
    from http.server import BaseHTTPRequestHandler


class Collector(LoopbackServer):
    """Keeps what it is sent; use it as a context manager."""

    def __init__(self, *, status: int = 200, hangs: bool = False) -> None:
        super().__init__()
        self.status = status
        self.metrics: list[Any] = []
        self.spans: list[Any] = []
        self.resources: list[dict[str, str]] = []
        #: How many requests came, also those that hang or are refused.
        self.requests = 0
        self._answer = threading.Event()
        if not hangs:
            self._answer.set()

    def __exit__(self, *_: object) -> None:
        self._answer.set()
        super().__exit__()

    def variables(self, **more: str) -> dict[str, str]:
        """Return the environment that leads here."""
        return {"OTEL_EXPORTER_OTLP_ENDPOINT": self.url, **more}

    def serve(self, handler: BaseHTTPRequestHandler) -> None:
        """Take what is sent."""
        body = handler.rfile.read(int(handler.headers["Content-Length"]))
        if handler.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        self.requests += 1
        self._answer.wait(300)
        if self.status == 200:
            self._keep(handler.path, body)
        handler.send_response(self.status)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    def _keep(self, path: str, body: bytes) -> None:
        if path == "/v1/metrics":
            metrics = ExportMetricsServiceRequest.FromString(body)
            for of in metrics.resource_metrics:
                self.resources.append(attributes(of.resource))
                self.metrics.append([m for scope in of.scope_metrics for m in scope.metrics])
        else:
            assert path == "/v1/traces"
            traces = ExportTraceServiceRequest.FromString(body)
            for part in traces.resource_spans:
                self.resources.append(attributes(part.resource))
                self.spans += [span for scope in part.scope_spans for span in scope.spans]

    def last(self, name: str) -> Any:
        """Return a metric as the last request told it."""
        return next(metric for metric in self.metrics[-1] if metric.name == name)


def attributes(of: Any) -> dict[str, Any]:
    """Return the attributes of a resource, a span or a point."""
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in of.attributes}


def number(point: Any) -> float:
    """Return a point's value, whole or not."""
    return float(getattr(point, point.WhichOneof("value")))
