"""Which traces are kept: as OpenTelemetry's own sampler chooses, by its variables."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.sdk.trace.sampling import Decision, TraceIdRatioBased

from tallgrass.errors import ConfigError
from tallgrass.telemetry.exports import Exports, is_disabled, read_exports
from tallgrass.telemetry.sampling import Sampler, sampling_ratio
from tallgrass.telemetry.trace_context import unit_trace


@given(
    trace=st.integers(min_value=1, max_value=(1 << 128) - 1),
    ratio=st.sampled_from([0.0, 0.001, 0.05, 0.5, 0.999, 1.0]),
)
def test_a_trace_is_kept_where_the_sdk_would_keep_it(trace: int, ratio: float) -> None:
    """Other programs on the same trace choose alike."""
    theirs = TraceIdRatioBased(ratio).should_sample(None, trace, "x").decision
    assert Sampler(ratio).keeps(f"{trace:032x}") == (theirs is Decision.RECORD_AND_SAMPLE)


def test_the_share_of_units_is_about_the_ratio() -> None:
    """Of 20,000 units with a ratio of 5 %, about 1,000 are kept: the ids spread evenly."""
    sampler = Sampler(0.05)
    kept = sum(sampler.keeps(unit_trace(f"unit-{number}")) for number in range(20_000))
    # Six standard deviations of a binomial distribution; the ids are the same each time.
    assert 815 < kept < 1185
    assert not Sampler(0.0).keeps_any
    assert sampler.keeps_any


@pytest.mark.parametrize(
    ("variables", "ratio"),
    [
        ({}, 0.05),
        ({"OTEL_TRACES_SAMPLER": "always_on"}, 1.0),
        ({"OTEL_TRACES_SAMPLER": "parentbased_always_off"}, 0.0),
        ({"OTEL_TRACES_SAMPLER": "traceidratio"}, 1.0),
        (
            {"OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.25"},
            0.25,
        ),
        ({"OTEL_TRACES_SAMPLER_ARG": "0.25"}, 0.05),
    ],
)
def test_the_standard_variables_win_over_the_setting(
    variables: dict[str, str], ratio: float
) -> None:
    """They are those that OpenTelemetry names, with its defaults."""
    assert sampling_ratio(variables, 0.05) == ratio


@pytest.mark.parametrize(
    ("variables", "named"),
    [
        ({"OTEL_TRACES_SAMPLER": "allways_on"}, "OTEL_TRACES_SAMPLER"),
        (
            {"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "5%"},
            "OTEL_TRACES_SAMPLER_ARG",
        ),
        (
            {"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "1.5"},
            "OTEL_TRACES_SAMPLER_ARG",
        ),
    ],
)
def test_a_sampler_that_cannot_be_used_is_refused(variables: dict[str, str], named: str) -> None:
    """The message names the variable."""
    with pytest.raises(ConfigError, match=rf"\${named}:"):
        sampling_ratio(variables, 0.05)


END = "OTEL_EXPORTER_OTLP_ENDPOINT"
BOTH = Exports(metrics=True, traces=True)


@pytest.mark.parametrize(
    ("variables", "exports"),
    [
        ({}, Exports()),
        ({"OTEL_SERVICE_NAME": "x"}, Exports()),
        ({END: "http://127.0.0.1:4318"}, BOTH),
        ({END: "http://127.0.0.1:4318", "OTEL_SDK_DISABLED": "True"}, Exports()),
        ({END: "http://127.0.0.1:4318", "OTEL_TRACES_EXPORTER": "none"}, Exports(metrics=True)),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:4318/x"}, Exports(traces=True)),
        ({"OTEL_METRICS_EXPORTER": "otlp"}, Exports(metrics=True)),
        ({END: "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}, BOTH),
        (
            {END: "http://127.0.0.1:1", "OTEL_METRIC_EXPORT_INTERVAL": "1500"},
            Exports(metrics=True, traces=True, every_s=1.5),
        ),
    ],
)
def test_nothing_is_sent_unless_a_variable_says_so(
    variables: dict[str, str], exports: Exports
) -> None:
    """An endpoint, or the exporter's name, turns a signal on; `none` and the switch turn it off."""
    assert read_exports(variables) == exports


@pytest.mark.parametrize(
    ("variables", "named"),
    [
        ({"OTEL_TRACES_EXPORTER": "zipkin"}, "OTEL_TRACES_EXPORTER"),
        (
            {END: "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
            "OTEL_EXPORTER_OTLP_PROTOCOL",
        ),
        (
            {END: "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL": "http/json"},
            "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL",
        ),
        ({"OTEL_METRIC_EXPORT_INTERVAL": "0"}, "OTEL_METRIC_EXPORT_INTERVAL"),
        ({"OTEL_METRIC_EXPORT_INTERVAL": "1m"}, "OTEL_METRIC_EXPORT_INTERVAL"),
    ],
)
def test_what_cannot_be_spoken_is_refused(variables: dict[str, str], named: str) -> None:
    """It is told at the start, by the variable's name, not found missing weeks later."""
    with pytest.raises(ConfigError, match=rf"\${named}:"):
        read_exports(variables)


def test_off_is_off() -> None:
    """Only the word that the standard names turns all off."""
    assert is_disabled({"OTEL_SDK_DISABLED": "true"})
    assert not is_disabled({"OTEL_SDK_DISABLED": "1"})
