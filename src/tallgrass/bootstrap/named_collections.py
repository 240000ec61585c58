"""Collections that somebody names: a name that no collection has is refused."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from tallgrass.datasets.fields import nearest_or_all
from tallgrass.errors import InvalidInput
from tallgrass.stac.search import ItemSearch

if TYPE_CHECKING:
    from tallgrass.bootstrap.views import CatalogView
    from tallgrass.datasets.catalogue import Catalogue


def require_collections(names: Sequence[str], view: "CatalogView", catalogue: "Catalogue") -> None:
    """Refuse a name that is neither that of a dataset's collection nor in the catalog."""
    known = {dataset.item.collection for dataset in catalogue.datasets}
    if _unknown(names, known) is None:
        return
    # Of a dataset that is gone, items may still be there.
    known |= {*view.collections(), *view.extents(ItemSearch())}
    name = _unknown(names, known)
    if name is not None:
        hint = nearest_or_all(name, sorted(known))
        raise InvalidInput(f"--collection: there is no collection {name!r}{hint}")


def _unknown(names: Iterable[str], known: set[str]) -> str | None:
    return next((name for name in names if name not in known), None)
