"""Policies of a configuration file, in a real `tallgrass ingest` on both databases."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.cli.command import tallgrass
from tests.cli.pipeline import make_feed, shares

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.backends import Backend

POLICIES = """
[governance.policies.goes-glm]
masking_degrees = 0.1
policy_ref = "POL-3"

[governance.policies.nexrad-l2]
reject = "under review"
"""


@pytest.mark.conformance("SM-7.2", "RP-9.3")
def test_a_policy_governs_what_is_ingested(backend: Backend, tmp_path: Path) -> None:
    """Masked and stamped items of one dataset, quarantine for another, others as ever."""
    file = tmp_path / "tallgrass.toml"
    file.write_text(POLICIES, encoding="utf-8")
    feed = make_feed(tmp_path, 24, *shares())
    done = feed.ingest(backend, "--drain", TALLGRASS_CONFIG=str(file))
    assert done.code == 0, done.err
    found = backend.rows("SELECT dataset, status, last_error_code FROM wal_records")
    kinds = {(row["dataset"], row["status"], row["last_error_code"]) for row in found}
    assert ("goes-glm", "succeeded", None) in kinds
    assert {kind for kind in kinds if kind[0] == "nexrad-l2"} == {
        ("nexrad-l2", "quarantined", "governance_hard_fail")
    }
    items = backend.rows("SELECT collection_id, body, west, east FROM stac_items")
    for item in items:
        properties = json.loads(item["body"])["properties"]
        masked = item["collection_id"] == "goes-glm"
        assert properties.get("anon:size") == (0.1 if masked else None)
        assert properties.get("kfm:policy_ref") == ("POL-3" if masked else None)
        if masked:
            assert item["west"] == round(item["west"], 1)
    assert {row["collection_id"] for row in items} >= {"goes-glm"}
    assert not any(row["collection_id"] == "nexrad-l2" for row in items)
    versions = {row[0] for row in backend.sql("SELECT config_version FROM wal_attempts")}
    kept = backend.rows("SELECT config_version, body FROM config_versions")
    assert versions == {row["config_version"] for row in kept}
    policies = json.loads(kept[0]["body"])["settings"]["policies"]
    assert policies["nexrad-l2"] == {"reject": "under review"}


def test_a_policy_that_cannot_be_used_is_refused_before_anything(tmp_path: Path) -> None:
    """With its place and the fix, by `config check` and by every command."""
    file = tmp_path / "tallgrass.toml"
    file.write_text("[governance.policies.goes-glm]\nmasking_degrees = 5\n", encoding="utf-8")
    done = tallgrass("--config", str(file), "config", "check", "--output", "json")
    assert done.code == 2
    assert done.error["code"] == "config_invalid"
    assert "governance.policies.goes-glm.masking_degrees" in done.error["message"]
    assert "0, 0.001, 0.01, 0.1, 1" in done.error["message"]


def test_a_policy_for_no_dataset_is_refused_by_the_check(tmp_path: Path) -> None:
    """A mistyped name would govern nothing, and seem to."""
    file = tmp_path / "tallgrass.toml"
    file.write_text("[governance.policies.goes-gml]\nreject = 'x'\n", encoding="utf-8")
    done = tallgrass("--config", str(file), "config", "check", "--output", "json")
    assert done.code == 2
    assert "did you mean 'goes-glm'?" in done.error["message"]


def test_datasets_show_tells_the_rules_that_hold(tmp_path: Path) -> None:
    """Those of the file, with the policy on top."""
    file = tmp_path / "tallgrass.toml"
    file.write_text(POLICIES, encoding="utf-8")
    done = tallgrass("--config", str(file), "datasets", "show", "goes-glm", "--output", "json")
    assert done.code == 0, done.err
    rules = done.json["governance"]
    assert (rules["masking_degrees"], rules["policy_ref"]) == (0.1, "POL-3")
    assert rules["care_label"] == "public"
