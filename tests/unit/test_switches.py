from __future__ import annotations

import pytest

from tallgrass.governance.switches import ALL_DATASETS, SwitchedOff, SwitchScope


def test_the_scopes_are_the_four_of_the_contract() -> None:
    """A switch stops ingest, replay, dispatch or nodes."""
    assert list(SwitchScope) == ["ingest", "replay", "dispatch", "nodes"]


@pytest.mark.parametrize(
    ("off", "stopped", "running"),
    [
        ([], [], ["goes-glm", "nexrad-l2"]),
        (["goes-glm"], ["goes-glm"], ["nexrad-l2", "goes", "goes-glm2", ""]),
        ([ALL_DATASETS], ["goes-glm", "nexrad-l2", "anything"], []),
        ([ALL_DATASETS, "goes-glm"], ["goes-glm", "nexrad-l2"], []),
    ],
)
def test_a_switch_stops_its_dataset_and_a_freeze_all(
    off: list[str], stopped: list[str], running: list[str]
) -> None:
    """One dataset is stopped by its own switch, every dataset by the switch for all."""
    switches = SwitchedOff(off)
    assert all(switches.stops(dataset) for dataset in stopped)
    assert not any(switches.stops(dataset) for dataset in running)
    assert switches.everything == (ALL_DATASETS in off)
    assert switches.datasets == sorted(set(off) - {ALL_DATASETS})
