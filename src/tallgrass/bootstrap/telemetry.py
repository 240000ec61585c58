"""Opens the recorder of a process: the log, Prometheus' endpoint, a collector.

Without a port and without one of OpenTelemetry's variables nothing is opened and none of their
libraries is loaded.
"""

import logging
import os
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING

import tallgrass
from tallgrass.bootstrap.listening import listen
from tallgrass.bootstrap.metering import metered
from tallgrass.clock import Clock, system_clock
from tallgrass.config import Config
from tallgrass.errors import ConfigError
from tallgrass.telemetry import names
from tallgrass.telemetry.call_report import reported_call
from tallgrass.telemetry.exporting_recorder import ExportingRecorder, Spans
from tallgrass.telemetry.exports import Exports, is_disabled, read_exports
from tallgrass.telemetry.log_recorder import LogForm, LogRecorder
from tallgrass.telemetry.recorder import NOBODY, Recorder
from tallgrass.telemetry.sampling import Sampler, sampling_ratio
from tallgrass.telemetry.series import Collect, Series
from tallgrass.telemetry.trace_context import named_context
from tallgrass.telemetry.turns import short_turns

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource

    from tallgrass.telemetry.prometheus_endpoint import PrometheusEndpoint

#: How long the end of a process waits for a collector that is slow.
CLOSE_S_MAX = 3.0


@contextmanager
def open_recorder(
    config: Config,
    write: Callable[[str], object] | None,
    *,
    command: str | None = None,
    metrics_port: int | None = None,
    served: Callable[[str], object] = lambda _url: None,
    collecting: Callable[[Series], Collect] = lambda series: series.families,
    clock: Clock = system_clock,
    environment: Mapping[str, str] = os.environ,
) -> Iterator[Recorder]:
    """Open what reports go to, and close it at the end: soon, however slow a collector is.

    Lines of the log are given to `write`; without it, no log is written. The span of `command`,
    the command that was called, is the root of everything that is reported meanwhile. Port 0 takes
    a free port, None the one of the settings; `served` is told the address. `collecting` may add
    gauges whenever metrics are asked for.
    """
    series = Series(config.text("env"))
    log: Recorder = NOBODY
    if write is not None:
        form = LogForm(config.text("telemetry.logs"))
        log = LogRecorder(write, clock, form, dropped=lambda: _count_lost_line(series))
    port = chosen_port(config, metrics_port)
    exports = read_exports(environment)
    ratio = sampling_ratio(environment, config.number("telemetry.traces_ratio"))
    if port is None and not exports.metrics and not exports.traces:
        with metered(config, log, exported=False, clock=clock) as recorder:
            yield recorder
        return
    if port is not None and is_disabled(environment):
        raise ConfigError("$OTEL_SDK_DISABLED turns off what the metrics' port is to show")
    collect = collecting(series)
    with ExitStack() as closes:
        if port is not None:
            endpoint = closes.enter_context(_serving(config, collect, port))
            log.event(names.METRICS_SERVED, port=endpoint.port)
            served(endpoint.url)
        sending = _Sending(config, series, collect, log, exports, environment)
        spans = closes.enter_context(sending.opened())
        call = None if command is None else named_context("call", uuid.uuid4().hex)
        exporting = ExportingRecorder(series, log, Sampler(ratio), spans, call)
        if command is not None and call is not None:
            closes.enter_context(reported_call(exporting, command, call, clock))
        yield closes.enter_context(metered(config, exporting, exported=True, clock=clock))


def _count_lost_line(series: Series) -> None:
    series.count(names.TELEMETRY_DROPPED, 1, {"signal": "logs", "reason": "unwritable"})


def chosen_port(config: Config, given: int | None) -> int | None:
    """Return the port that Prometheus is answered at, if any; 0 for a free one."""
    return given if given is not None else int(config.number("telemetry.metrics_port")) or None


@contextmanager
def _serving(config: Config, collect: Collect, port: int) -> "Iterator[PrometheusEndpoint]":
    """Answer Prometheus meanwhile."""
    try:
        from tallgrass.telemetry.prometheus_endpoint import (  # noqa: PLC0415 - optional extra
            PrometheusEndpoint,
        )
    except ImportError as exc:
        raise _missing("prometheus-client") from exc
    listener = listen(config.text("telemetry.metrics_host"), port)
    endpoint = PrometheusEndpoint(collect, listener)
    endpoint.start()
    try:
        yield endpoint
    finally:
        endpoint.close()


class _Sending:
    """What is sent to a collector, and what is counted and said of failures."""

    def __init__(
        self,
        config: Config,
        series: Series,
        collect: Collect,
        log: Recorder,
        exports: Exports,
        environment: Mapping[str, str],
    ) -> None:
        self._config = config
        self._series = series
        self._collect = collect
        self._log = log
        self._exports = exports
        self._environment = environment
        self._down: set[str] = set()

    @contextmanager
    def opened(self) -> Iterator[Spans | None]:
        """Send in the background; yields what takes spans, if they are sent."""
        if not self._exports.metrics and not self._exports.traces:
            yield None
            return
        with ExitStack() as closes:
            try:
                _hush("opentelemetry")
                resource = self._resource()
                # Before the metrics, so that those tell what the end of the spans came to.
                if self._exports.metrics:
                    closes.enter_context(self._sending_metrics(resource))
                spans = None
                if self._exports.traces:
                    spans = closes.enter_context(self._sending_spans(resource))
            except ImportError as exc:
                raise _missing("opentelemetry-sdk") from exc
            yield spans

    @contextmanager
    def _sending_metrics(self, resource: "Resource") -> Iterator[None]:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import (  # noqa: PLC0415
            OTLPMetricExporter,
        )

        from tallgrass.telemetry.otel_metrics import MetricSending  # noqa: PLC0415

        sending = MetricSending(
            self._collect,
            OTLPMetricExporter(),
            resource,
            now_ns=time.time_ns,
            every_s=self._exports.every_s,
            sent=partial(self._note, "metrics"),
        )
        sending.start()
        try:
            yield
        finally:
            sending.close(CLOSE_S_MAX / 2)

    @contextmanager
    def _sending_spans(self, resource: "Resource") -> Iterator[Spans]:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415
            OTLPSpanExporter,
        )

        from tallgrass.telemetry.otel_spans import EndedSpan, SpanSending  # noqa: PLC0415

        sending = SpanSending(
            OTLPSpanExporter(),
            resource,
            waiting_max=int(self._config.number("telemetry.waiting_spans")),
            dropped=lambda number, reason: self._series.count(
                names.TELEMETRY_DROPPED, number, {"signal": "traces", "reason": reason}
            ),
            sent=partial(self._note, "traces"),
        )
        sending.start()
        try:
            with short_turns():
                yield lambda *span: sending.offer(EndedSpan(*span))
        finally:
            sending.close(CLOSE_S_MAX / 2)

    def _note(self, signal: str, *, ok: bool) -> None:
        """Count a send that failed; say it once, until one succeeds."""
        if ok:
            self._down.discard(signal)
            return
        self._series.count(names.TELEMETRY_UNSENT, 1, {"signal": signal})
        if signal not in self._down:
            self._down.add(signal)
            self._log.event(names.TELEMETRY_UNDELIVERED, signal=signal, lines=None)

    def _resource(self) -> "Resource":
        """Return who sends: each process by an id of its own, none by the name of its host."""
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415

        own = {
            "service.version": tallgrass.__version__,
            "service.instance.id": str(uuid.uuid4()),
            "deployment.environment.name": self._config.text("env"),
        }
        if not self._environment.get("OTEL_SERVICE_NAME"):
            own["service.name"] = "tallgrass"
        return Resource.create(own)


def _hush(name: str) -> None:
    """Keep a library from writing to stderr: we count and tell what it would say, once.

    For good: a request that hangs may have something to say after the end.
    """
    logger = logging.getLogger(name)
    logger.propagate = False
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())


def _missing(library: str) -> ConfigError:
    return ConfigError(f"telemetry: {library} is not installed", code="telemetry_missing")
