"""The model of energy and carbon: an estimate from CPU time and memory, and marked as one.

    energy_wh    = (cpu_s x watts_per_core + wall_s x memory_gb x watts_per_gb) x pue / 3600
    carbon_gco2e = energy_wh / 1000 x grams_per_kwh

Ingest and nodes use the same; what each measures as CPU time, it says itself.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from tallgrass.errors import InvalidInput, did_you_mean

#: What the model is called where its results are kept.
METHOD: Final = "cpu-time"
_SECONDS_AN_HOUR: Final = 3600.0
_WH_A_KWH: Final = 1000.0
#: Where the figures come from unless they are replaced.
PUBLISHED_SOURCE: Final = (
    "Lannelongue, Grealey, Inouye: Green Algorithms: Quantifying the Carbon Footprint of "
    "Computation. Advanced Science 8 (2021) 2100707, https://doi.org/10.1002/advs.202100707"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EnergyUse:
    """What a piece of work took."""

    energy_wh: float
    carbon_gco2e: float
    estimated: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class EnergyCoefficients:
    """The figures of the model; the defaults are the world's averages of `source`."""

    #: A core that is busy.
    watts_per_core: float = 12.0
    watts_per_gb: float = 0.3725
    #: What a data centre takes in all for each watt of its machines.
    pue: float = 1.67
    grams_per_kwh: float = 475.0
    #: Memory of a node.
    memory_gb: float = 0.5
    source: str = PUBLISHED_SOURCE

    def __post_init__(self) -> None:
        """Refuse figures that cannot be."""
        for each in fields(self):
            value = getattr(self, each.name)
            if each.name == "source":
                if not isinstance(value, str) or not value.strip():
                    raise _invalid("source says where the figures come from")
            elif type(value) not in {int, float} or not math.isfinite(value) or value < 0:
                raise _invalid(f"{each.name} is a number from 0 on, not {value!r}")
        if self.pue < 1:
            raise _invalid(f"pue is {self.pue:g}; no data centre takes less than its machines do")

    @classmethod
    def of(cls, table: Mapping[str, Any]) -> "EnergyCoefficients":
        """Read them from a table, such as one of a configuration.

        Figures other than the source's own need a source of theirs.
        """
        known = [each.name for each in fields(cls)]
        for name in table:
            if name not in known:
                raise _invalid(f"there is no {name!r}{did_you_mean(name, known)}")
        if set(table) - {"source", "memory_gb"} and "source" not in table:
            raise _invalid("figures of one's own need a `source` that says where they come from")
        return cls(**table)

    def use(self, cpu_s: float, wall_s: float) -> EnergyUse:
        """Return what so much CPU time, within so much time, took."""
        machine_ws = (
            cpu_s * self.watts_per_core + wall_s * self.memory_gb * self.watts_per_gb
        ) * self.pue
        energy_wh = machine_ws / _SECONDS_AN_HOUR
        return EnergyUse(
            energy_wh=energy_wh,
            carbon_gco2e=energy_wh / _WH_A_KWH * self.grams_per_kwh,
            estimated=True,
        )


def _invalid(message: str) -> InvalidInput:
    return InvalidInput(f"energy: {message}", code="node_declaration_invalid")
