"""Lines of measured energy, and what they come to: an attempt, a gigabyte (pure)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

_BYTES_A_GB: Final = 1e9
_NUMBERS: Final = ("cpu_s", "wall_s", "attempts", "bytes_ingested", "energy_wh", "carbon_gco2e")


@dataclass(slots=True)
class EnergyTotals:
    """Sums over lines."""

    sums: dict[str, float] = field(default_factory=lambda: dict.fromkeys(_NUMBERS, 0.0))
    since: str | None = None
    until: str | None = None
    #: Each set of figures that was used, in the order in which it was met.
    coefficients: list[Mapping[str, Any]] = field(default_factory=list)
    lines: int = 0
    #: Lines that are none: a file that others wrote to.
    unreadable: int = 0

    def add(self, line: bytes) -> None:
        """Add a line; one that cannot be read is counted, and left out."""
        read = _read(line)
        if read is None:
            self.unreadable += 1
            return
        self.lines += 1
        for name in _NUMBERS:
            self.sums[name] += read[name]
        self.since = min(self.since or read["at"], read["at"])
        self.until = max(self.until or read["at"], read["at"])
        if read["coefficients"] not in self.coefficients:
            self.coefficients.append(read["coefficients"])


def total_energy(lines: Iterable[bytes]) -> EnergyTotals:
    """Sum up the lines of a file."""
    totals = EnergyTotals()
    for line in lines:
        if line.strip():
            totals.add(line)
    return totals


def energy_document(totals: EnergyTotals) -> dict[str, Any]:
    """Return the energy as `energy-v2` has it."""
    sums = totals.sums
    energy_kwh = sums["energy_wh"] / 1000
    return {
        "schema": "energy-v2",
        **_method(totals),
        "cpu_s": sums["cpu_s"],
        "wall_s": sums["wall_s"],
        "attempts": int(sums["attempts"]),
        "bytes_ingested": int(sums["bytes_ingested"]),
        "energy_kwh": energy_kwh,
        "wh_per_attempt": _per(sums["energy_wh"], sums["attempts"]),
        "kwh_per_gb": _per(energy_kwh, sums["bytes_ingested"] / _BYTES_A_GB),
    }


def carbon_document(totals: EnergyTotals) -> dict[str, Any]:
    """Return the emissions as `carbon-v2` has them."""
    sums = totals.sums
    return {
        "schema": "carbon-v2",
        **_method(totals),
        "attempts": int(sums["attempts"]),
        "bytes_ingested": int(sums["bytes_ingested"]),
        "carbon_gco2e": sums["carbon_gco2e"],
        "gco2e_per_attempt": _per(sums["carbon_gco2e"], sums["attempts"]),
        "gco2e_per_gb": _per(sums["carbon_gco2e"], sums["bytes_ingested"] / _BYTES_A_GB),
    }


def _method(totals: EnergyTotals) -> dict[str, Any]:
    return {
        "estimated": True,
        "method": "cpu-time",
        "coefficients": [dict(each) for each in totals.coefficients],
        "since": totals.since,
        "until": totals.until,
        "lines": totals.lines,
        "unreadable_lines": totals.unreadable,
    }


def _per(amount: float, of: float) -> float | None:
    """Return the share of one; None where there was nothing to share it among."""
    return amount / of if of else None


def _read(line: bytes) -> dict[str, Any] | None:
    try:
        read = orjson.loads(line)
        numbers = [read[name] for name in _NUMBERS]
        is_line = isinstance(read["at"], str) and isinstance(read["coefficients"], dict)
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return None
    is_line = is_line and all(type(number) in {int, float} for number in numbers)
    return read if is_line else None
