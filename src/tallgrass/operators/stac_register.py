"""stac-register: the item, and whether it is new, changed or the same as the stored one.

The comparison is of SHA-256 over stored bytes. Nothing is written here: the item is staged, and the
commit writes it with the outcome.
"""

from tallgrass.canonical_json import sha256_hex
from tallgrass.datasets.definition import Dataset
from tallgrass.datasets.item_ids import item_id
from tallgrass.ledger.vocabulary import StacStatus
from tallgrass.made_often import made_often
from tallgrass.operators.effects import ItemEffect, OwnedItem
from tallgrass.stac.geometry import NOWHERE
from tallgrass.stac.hrefs import item_href
from tallgrass.stac.item import Description, build_item, properties_of, summarised_of
from tallgrass.stac.source_object import SourceObject

NAME = "stac-register"


@made_often
class Registration:
    """The item as it would be stored, and what that does to the catalog."""

    status: StacStatus
    item: ItemEffect
    href: str
    #: The unit's item under the id that it has until now, where the new one has another id.
    replaces: OwnedItem | None = None


def stac_register(
    dataset: Dataset, source: SourceObject, description: Description, owned: OwnedItem | None
) -> Registration:
    """Build the item and compare it with the one that the unit owns."""
    collection = dataset.item.collection
    name = item_id(source.provider, source.bucket, source.key)
    properties = properties_of(dataset, source, description)
    body = build_item(
        dataset=dataset,
        item_id=name,
        source=source,
        description=description,
        properties=properties,
    )
    item = ItemEffect(
        collection_id=collection,
        item_id=name,
        body=body,
        sha256=sha256_hex(body),
        bbox=description.box or NOWHERE,
        instant=description.instant,
        start=description.start,
        end=description.end,
        summarised=summarised_of(dataset, properties),
    )
    href = item_href(collection, name)
    if owned is None:
        return Registration(status=StacStatus.CREATED, item=item, href=href)
    if (owned.collection_id, owned.item_id) != (collection, name):
        # A policy that masks places, or one that does no longer, names the object differently.
        return Registration(status=StacStatus.UPDATED, item=item, href=href, replaces=owned)
    same = owned.sha256 == item.sha256
    return Registration(
        status=StacStatus.NO_OP if same else StacStatus.UPDATED, item=item, href=href
    )
