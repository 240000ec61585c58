"""Collections of a catalog that was there before spans were noted: nothing of it is forgotten."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING

from tallgrass.bootstrap.catalog import widen_collections
from tallgrass.datasets.catalogue import default_catalogue
from tallgrass.storage.migrations import migrate, shipped_migrations
from tests.support.catalog import NOON, Known, text_of, write_catalog, write_catalog_of_before_spans

if TYPE_CHECKING:
    from tests.support.backends import Backend

_NUMBER = 15


def test_items_of_before_count_with_the_first_new_one(empty: Backend) -> None:
    """The box and the times of old items are in the collection once a new item was committed."""
    stores = empty.open()
    migrate(stores.database, [e for e in shipped_migrations(empty.name) if e.number < _NUMBER])
    old = [Known(id="old", box=(-99.0, 30.0, -90.0, 40.0), at=NOON - timedelta(days=900))]
    write_catalog_of_before_spans(empty, old)
    before = empty.sql("SELECT * FROM stac_items")
    assert [e.partition("_")[0] for e in migrate(stores.database).applied] == [
        f"{number:04}" for number in range(_NUMBER, shipped_migrations(empty.name)[-1].number + 1)
    ]
    assert empty.sql("SELECT * FROM stac_items") == before
    write_catalog(empty, [Known(id="new", box=(0.0, 0.0, 1.0, 1.0), at=NOON)])
    assert widen_collections(stores, default_catalogue()) == 1
    ((body,),) = empty.sql("SELECT body FROM stac_collections WHERE collection_id = 'goes-glm'")
    extent = json.loads(body)["extent"]
    assert extent["spatial"]["bbox"] == [[-99.0, 0.0, 1.0, 40.0]]
    assert extent["temporal"]["interval"] == [[text_of(old[0].at), text_of(NOON)]]
