"""Where metrics and traces go, as OpenTelemetry's standard variables say."""

from collections.abc import Mapping
from dataclasses import dataclass

from tallgrass.errors import ConfigError

_OTLP = "OTEL_EXPORTER_OTLP"
_PROTOCOL = "http/protobuf"
_MINUTE_MS = "60000"


@dataclass(frozen=True, slots=True, kw_only=True)
class Exports:
    """What is sent to a collector."""

    metrics: bool = False
    traces: bool = False
    #: Seconds from one request with metrics to the next.
    every_s: float = 60.0


def read_exports(environment: Mapping[str, str]) -> Exports:
    """Read the variables; nothing is sent unless one of them says so."""
    if is_disabled(environment):
        return Exports()
    return Exports(
        metrics=_is_sent(environment, "METRICS"),
        traces=_is_sent(environment, "TRACES"),
        every_s=_interval_s(environment),
    )


def is_disabled(environment: Mapping[str, str]) -> bool:
    """Tell whether all telemetry is turned off."""
    return environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"


def _is_sent(environment: Mapping[str, str], signal: str) -> bool:
    """Tell whether a signal is sent: its exporter is `otlp`, or an endpoint is named."""
    variable = f"OTEL_{signal}_EXPORTER"
    exporter = environment.get(variable, "").strip().lower()
    if exporter not in {"", "none", "otlp"}:
        raise ConfigError(f"${variable}: must be otlp or none, not {exporter!r}")
    own, common = f"{_OTLP}_{signal}_ENDPOINT", f"{_OTLP}_ENDPOINT"
    named = bool(environment.get(own) or environment.get(common))
    is_sent = exporter == "otlp" or (exporter == "" and named)
    if is_sent:
        _require_protocol(environment, signal)
    return is_sent


def _require_protocol(environment: Mapping[str, str], signal: str) -> None:
    for variable in (f"{_OTLP}_{signal}_PROTOCOL", f"{_OTLP}_PROTOCOL"):
        if protocol := environment.get(variable, "").strip().lower():
            if protocol != _PROTOCOL:
                raise ConfigError(f"${variable}: only {_PROTOCOL} is spoken, not {protocol!r}")
            return


def _interval_s(environment: Mapping[str, str]) -> float:
    variable = "OTEL_METRIC_EXPORT_INTERVAL"
    text = environment.get(variable, "").strip() or _MINUTE_MS
    if not text.isdecimal() or int(text) == 0:
        raise ConfigError(f"${variable}: must be a number of milliseconds, not {text!r}")
    return int(text) / 1_000
