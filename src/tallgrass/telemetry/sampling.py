"""Which traces are kept: a share of them, chosen by their ids, as OpenTelemetry does.

By the id alone, every process chooses alike: a trace is kept as a whole or not at all.
"""

from collections.abc import Mapping

from tallgrass.errors import ConfigError, did_you_mean

SAMPLER = "OTEL_TRACES_SAMPLER"
SAMPLER_ARGUMENT = "OTEL_TRACES_SAMPLER_ARG"

_IDS = 1 << 64
_FIXED = {"always_on": 1.0, "always_off": 0.0}
_BY_RATIO = "traceidratio"
#: Our traces begin here, so a parent's decision is the root's.
_PARENT_BASED = "parentbased_"


class Sampler:
    """Keeps a share of all traces."""

    def __init__(self, ratio: float) -> None:
        self._bound = round(ratio * _IDS)

    @property
    def keeps_any(self) -> bool:
        """Whether any trace is kept at all."""
        return self._bound > 0

    def keeps(self, trace_id: str) -> bool:
        """Tell whether the spans of a trace are kept; its id has 32 hexadecimal digits."""
        return int(trace_id[16:], 16) < self._bound


def sampling_ratio(environment: Mapping[str, str], default: float) -> float:
    """Return the share of traces that are kept, as the standard variables say, else the default."""
    named = environment.get(SAMPLER, "").strip().lower()
    if not named:
        return default
    word = named.removeprefix(_PARENT_BASED)
    if word in _FIXED:
        return _FIXED[word]
    if word != _BY_RATIO:
        known = (*_FIXED, _BY_RATIO)
        raise ConfigError(f"${SAMPLER}: no sampler is called {named!r}{did_you_mean(word, known)}")
    text = environment.get(SAMPLER_ARGUMENT, "1").strip()
    try:
        ratio = float(text)
    except ValueError:
        ratio = -1.0
    if not 0.0 <= ratio <= 1.0:
        raise ConfigError(f"${SAMPLER_ARGUMENT}: must be from 0 to 1, not {text!r}")
    return ratio
