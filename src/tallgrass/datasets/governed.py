"""The catalogue with the policies of a configuration: each dataset carries the rules that hold."""

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

from tallgrass.datasets.catalogue import Catalogue
from tallgrass.datasets.definition import Dataset
from tallgrass.datasets.fields import nearest_or_all
from tallgrass.datasets.governance_loader import NEEDS_REFERENCE
from tallgrass.errors import ConfigError
from tallgrass.governance.policy import GovernanceDefaults, Overlay, Policies, Policy


def governed(catalogue: Catalogue, overlays: Mapping[str, Overlay]) -> Catalogue:
    """Return the catalogue whose datasets have the rules of the policies."""
    if not any(catalogue.dataset(name) for name in overlays):
        return catalogue
    return Catalogue(_governed(each, overlays.get(each.id, {})) for each in catalogue.datasets)


def _governed(dataset: Dataset, overlay: Overlay) -> Dataset:
    """Return the dataset with its policy; one by which no unit could be admitted is refused.

    Only events that others publish can bring a reference of their own.
    """
    rules = replace(dataset.governance, **overlay)
    if rules.lacks_reference:
        field = f"governance.policies.{dataset.id}.governance_ref"
        raise ConfigError(f"{field}: {NEEDS_REFERENCE}")
    return replace(dataset, governance=rules)


def policies_of(catalogue: Catalogue, overlays: Mapping[str, Overlay]) -> Policies:
    """Return the policies of a governed catalogue, and of datasets that only others publish.

    A dataset that no file describes needs its label and sensitivity in the policy itself.
    """
    known = _policies_of_files(catalogue)
    own = [
        Policy.of(name, GovernanceDefaults(**_whole(name, overlay, catalogue)))
        for name, overlay in overlays.items()
        if catalogue.dataset(name) is None
    ]
    return Policies([*known, *own])


@lru_cache(maxsize=4)
def _policies_of_files(catalogue: Catalogue) -> tuple[Policy, ...]:
    """Return the policies of the datasets' files; a catalogue never changes."""
    return tuple(Policy.of(each.id, each.governance) for each in catalogue.datasets)


def _whole(name: str, overlay: Overlay, catalogue: Catalogue) -> Overlay:
    for field in ("care_label", "sensitivity"):
        if field not in overlay:
            hint = nearest_or_all(name, [each.id for each in catalogue.datasets])
            raise ConfigError(
                f"governance.policies.{name}: no dataset file describes {name!r}{hint}; "
                f"a policy for a dataset of your own pipelines needs {field}"
            )
    return overlay
