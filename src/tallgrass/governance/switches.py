"""Kill switches: what is off, for which dataset."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

#: In place of a dataset: all of them (a freeze).
ALL_DATASETS = "*"


class SwitchScope(StrEnum):
    """What a switch stops."""

    INGEST = "ingest"
    REPLAY = "replay"
    DISPATCH = "dispatch"
    NODES = "nodes"


@dataclass(frozen=True, slots=True, kw_only=True)
class KillSwitch:
    """One switch as it stands, and who set it why."""

    scope: SwitchScope
    dataset: str
    is_on: bool
    actor: str
    reason: str
    changed_at: datetime
    #: Whether a freeze set it; its end clears it.
    by_freeze: bool = False


class SwitchedOff:
    """The datasets that are off in one scope. A switch that is on stops work."""

    def __init__(self, datasets: Iterable[str]) -> None:
        self._datasets = frozenset(datasets)
        self._everything = ALL_DATASETS in self._datasets

    def stops(self, dataset: str) -> bool:
        """Tell whether work of the dataset may not start."""
        return self._everything or dataset in self._datasets

    @property
    def everything(self) -> bool:
        """Whether all datasets are off."""
        return self._everything

    @property
    def datasets(self) -> list[str]:
        """The datasets that are named one by one."""
        return sorted(self._datasets - {ALL_DATASETS})
