"""Policies: the dataset's file, what a configuration replaces of it, and what cannot be said."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tallgrass.bootstrap.datasets import config_version, open_catalogue, open_policies
from tallgrass.config import Config, load_config
from tallgrass.errors import ConfigError
from tallgrass.governance.policy import GovernanceDefaults, Overwrite, ReplayMode

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Said = Callable[[str], Config]

WHOLE = """
[governance.policies.goes-glm]
care_label = "sensitive"
sensitivity = "high"
governance_ref = "CR-7"
replay_modes = ["single"]
approvals_needed = 2
masking_degrees = 0.01
overwrite = "approve"
policy_ref = "POL-3"
[governance.policies.goes-glm.sovereignty]
tribal_authority = "Kaw Nation"
"""


@pytest.fixture
def said(tmp_path: Path) -> Said:
    """Return what reads a configuration of the given text."""

    def read(text: str) -> Config:
        file = tmp_path / "tallgrass.toml"
        file.write_text(text, encoding="utf-8")
        return load_config(file=file, environment={})

    return read


def test_a_policy_replaces_what_it_names(said: Said) -> None:
    """All fields are read; the other datasets keep what their files say."""
    config = said(WHOLE)
    policy = open_policies(config).of("goes-glm")
    assert policy is not None
    assert (policy.dataset, policy.care_label, policy.sensitivity) == (
        "goes-glm",
        "sensitive",
        "high",
    )
    assert (policy.governance_ref, policy.policy_ref) == ("CR-7", "POL-3")
    assert policy.replay_modes == (ReplayMode.SINGLE,)
    assert (policy.approvals_needed, policy.masking_degrees) == (2, 0.01)
    assert policy.overwrite is Overwrite.APPROVE
    assert policy.sovereignty == {"tribal_authority": "Kaw Nation"}
    other = open_policies(config).of("hrrr")
    assert other is not None
    assert (other.care_label, other.degrees) == ("public", 0.0)


def test_the_catalogue_carries_the_policy(said: Said) -> None:
    """Whatever is made of a dataset sees the rules that hold, not those of the file alone."""
    catalogue = open_catalogue(said("[governance.policies.goes-glm]\npolicy_ref = 'POL-3'\n"))
    rules = catalogue.named("goes-glm").governance
    assert (rules.policy_ref, rules.care_label) == ("POL-3", "public")
    assert catalogue.named("hrrr").governance.policy_ref is None


def test_a_policy_changes_the_config_version(said: Said) -> None:
    """Both hashes: that of the settings, and that with the datasets."""
    plain, governed = said(""), said("[governance.policies.goes-glm]\nmasking_degrees = 1\n")
    assert plain.settings_version != governed.settings_version
    versions = {config_version(each, open_catalogue(each)) for each in (plain, governed)}
    assert len(versions) == 2


def test_the_order_of_a_policy_means_nothing(said: Said) -> None:
    """The same rules written the other way round are the same version."""
    one = said("[governance.policies.goes-glm]\nreplay_modes = ['single', 'dlq']\n")
    two = said("[governance.policies.goes-glm]\nreplay_modes = ['dlq', 'single']\n")
    assert one.settings_version == two.settings_version


@pytest.mark.parametrize(
    ("text", "place", "fix"),
    [
        ("care_lable = 'public'", "goes-glm.care_lable", "care_label"),
        ("care_label = 'open'", "goes-glm.care_label", "public, sensitive, restricted"),
        ("replay_modes = ['bulk']", "goes-glm.replay_modes", "single, range, dlq"),
        ("replay_modes = 'single'", "goes-glm.replay_modes", "a list of texts"),
        ("approvals_needed = -1", "goes-glm.approvals_needed", "a whole number from 0"),
        ("approvals_needed = 11", "goes-glm.approvals_needed", "at most 10"),
        ("masking_degrees = 0.5", "goes-glm.masking_degrees", "0, 0.001, 0.01, 0.1, 1"),
        ("masking_degrees = true", "goes-glm.masking_degrees", "0, 0.001, 0.01, 0.1, 1"),
        ("masking_degrees = '1'", "goes-glm.masking_degrees", "0, 0.001, 0.01, 0.1, 1"),
        ("overwrite = 'always'", "goes-glm.overwrite", "reingest, keep, approve"),
        ("policy_ref = ''", "goes-glm.policy_ref", "must be a text"),
        ("sovereignty = 'x'", "goes-glm.sovereignty", "must be a table"),
        ("dataset = 'x'", "goes-glm.dataset", "allowed are care_label"),
    ],
)
def test_what_a_policy_cannot_say(said: Said, text: str, place: str, fix: str) -> None:
    """The refusal names the file, the field, and what is allowed there."""
    with pytest.raises(ConfigError) as caught:
        said(f"[governance.policies.goes-glm]\n{text}\n")
    message = str(caught.value)
    assert "tallgrass.toml: governance.policies." in message
    assert place in message
    assert fix in message
    assert caught.value.code == "config_invalid"


@pytest.mark.parametrize("text", ["[governance]\npolicies = 1\n", "governance.policies.x = 1\n"])
def test_policies_are_tables(said: Said, text: str) -> None:
    """A value in place of a table is refused."""
    with pytest.raises(ConfigError, match=r"governance\.policies.* must be a table"):
        said(text)


def test_a_policy_for_a_dataset_that_no_file_describes(said: Said) -> None:
    """Of a pipeline's own dataset it must say all; a mistyped name is answered with the nearest."""
    own = said("[governance.policies.soil]\ncare_label = 'sensitive'\nsensitivity = 'high'\n")
    policy = open_policies(own).of("soil")
    assert policy is not None
    assert (policy.care_label, policy.degrees) == ("sensitive", 0.1)
    with pytest.raises(ConfigError) as caught:
        open_catalogue(said("[governance.policies.goes-glmm]\nreject = 'x'\n"))
    assert "did you mean 'goes-glm'?" in str(caught.value)
    assert "needs care_label" in str(caught.value)


def test_restricted_data_are_configured_with_a_reference(said: Said) -> None:
    """Without one no unit would ever be admitted; the refusal names the field that is missing."""
    restricted = "[governance.policies.goes-glm]\ncare_label = 'restricted'\n"
    with pytest.raises(ConfigError) as caught:
        open_catalogue(said(restricted))
    assert caught.value.code == "config_invalid"
    assert "governance.policies.goes-glm.governance_ref" in str(caught.value)
    rules = open_catalogue(said(f"{restricted}governance_ref = 'CR-7'\n")).named("goes-glm")
    assert rules.governance.governance_ref == "CR-7"


def test_what_needs_no_reference_of_the_policy(said: Said) -> None:
    """Rejected data are told of nowhere; events of one's own dataset may bring their reference."""
    rejected = "[governance.policies.goes-glm]\ncare_label = 'restricted'\nreject = 'in review'\n"
    assert open_catalogue(said(rejected)).named("goes-glm").governance.reject == "in review"
    own = "[governance.policies.wells]\ncare_label = 'restricted'\nsensitivity = 'high'\n"
    policy = open_policies(said(own)).of("wells")
    assert policy is not None
    assert policy.governance_ref is None


@pytest.mark.parametrize(
    ("label", "given", "degrees"),
    [
        ("public", None, 0.0),
        ("sensitive", None, 0.1),
        ("restricted", None, 1.0),
        ("unheard", None, 1.0),
        ("public", 1.0, 1.0),
        ("restricted", 0.0, 0.0),
    ],
)
def test_how_coarse_places_are(label: str, given: float | None, degrees: float) -> None:
    """By the label, unless the policy says it."""
    rules = GovernanceDefaults(care_label=label, sensitivity="x", masking_degrees=given)
    assert rules.degrees == degrees
