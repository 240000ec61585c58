"""Kill switches, turned by the command line, the API and the pages alike."""

from collections.abc import Sequence

from tallgrass.bootstrap.stores import Stores
from tallgrass.datasets.catalogue import Catalogue
from tallgrass.governance.actors import Acting
from tallgrass.governance.switches import ALL_DATASETS, KillSwitch, SwitchScope

#: Scopes whose datasets are ours; events and nodes may be of anybody's.
_OUR_DATASETS = frozenset({SwitchScope.INGEST, SwitchScope.REPLAY})


def turn_switches(
    stores: Stores,
    catalogue: Catalogue,
    chosen: Sequence[tuple[SwitchScope, str]],
    *,
    is_on: bool,
    actor: Acting,
    reason: str,
) -> list[KillSwitch]:
    """Turn switches, all or none; return them as they stand then."""
    there = set() if is_on else {(each.scope, each.dataset) for each in stores.switches.switches()}
    _require_known(stores, catalogue, [each for each in chosen if each not in there])
    stores.switches.set_all(chosen, is_on=is_on, actor=actor, reason=reason)
    return [each for each in stores.switches.switches() if (each.scope, each.dataset) in chosen]


def _require_known(
    stores: Stores, catalogue: Catalogue, chosen: Sequence[tuple[SwitchScope, str]]
) -> None:
    """Refuse a mistyped dataset: what was meant would go on, or stay, unlike what was told."""
    wanted = {name for scope, name in chosen if scope in _OUR_DATASETS} - {ALL_DATASETS}
    for name in sorted(wanted - set(stores.reader.stats().by_dataset) if wanted else ()):
        catalogue.named(name)
