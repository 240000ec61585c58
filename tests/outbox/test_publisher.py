"""Publishing by a configuration: its routes, its size limit and its policies hold."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tallgrass.bootstrap.publishing import open_publisher
from tallgrass.config import Config, load_config
from tallgrass.errors import GuardRefused, PayloadRefused
from tallgrass.outbox import publish
from tests.outbox.callers import Caller, event

if TYPE_CHECKING:
    from pathlib import Path

SITE = """
[outbox]
payload_bytes_max = 200

[outbox.targets.lake]
kind = "file"

[[outbox.routes]]
targets = ["lake"]

[governance.policies.hydrology_flow_ks]
sensitivity = "sensitive"
care_label = "sensitive"
masking_degrees = 1
"""


class TestConfigured:
    """A publisher keeps to a configuration; the functions to what they are given."""

    @pytest.fixture
    def config(self, tmp_path: Path) -> Config:
        """Small payloads, coarse places, a target of its own."""
        file = tmp_path / "site.toml"
        file.write_text(SITE, encoding="utf-8")
        return load_config(file=file, environment={})

    def test_its_limits_and_policies_hold(self, caller: Caller, config: Config) -> None:
        """Routes, the size of payloads, the care label and the grid of the dataset's policy."""
        publisher = open_publisher(config)
        place = {"lat": 38.97171, "lon": -95.23531}
        with caller.transaction() as handle:
            publisher.publish(handle, event(payload=place, care_label="sensitive"))
            with pytest.raises(PayloadRefused) as refused:
                publisher.publish(handle, event(payload={"x": "y" * 200}, care_label="sensitive"))
            with pytest.raises(GuardRefused):
                publisher.publish_all(handle, [event(payload={"x": 1})])
        assert refused.value.code == "payload_too_large"
        ((target, payload),) = caller.backend.sql("SELECT target, payload FROM outbox")
        told = json.loads(payload)
        assert (target, told["lat"], told["lon"]) == ("lake", 39, -95)
        assert told["masking"]["degrees"] == 1

    def test_without_one_only_what_needs_none_holds(self, caller: Caller) -> None:
        """The functions read no configuration: the default target, the limits of the program."""
        with caller.transaction() as handle:
            publish(handle, event(payload={"x": "y" * 200}))
            with pytest.raises(PayloadRefused):
                publish(handle, event(payload={"x": "y" * 262_144}))
        assert caller.backend.sql("SELECT target FROM outbox") == [("file",)]
