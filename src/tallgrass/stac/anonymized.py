"""An item's places as coarse as its policy asks (anonymized-location extension).

The item is made of coarse parts, rather than cleaned when it is done: what is stored, searched by,
told in events and in provenance is all made of the same description and source. The exact place
stays in the ledger alone, in the record's key and the attempt's evidence.
"""

from dataclasses import replace

from tallgrass.governance.places import snapped
from tallgrass.stac.coarse_places import coarse_box, coarse_properties, decimals_of
from tallgrass.stac.item import Description
from tallgrass.stac.source_object import SourceObject


def anonymized_description(description: Description, degrees: float) -> Description:
    """Return the description on a grid of cells: never by chance, always the same."""
    box = description.box
    return replace(
        description,
        box=None if box is None else coarse_box(box, degrees),
        # An outline could tell more than the box around it.
        geometry=None,
        properties={
            **coarse_properties(description.properties, degrees),
            "anon:size": degrees,
            "anon:warning": (
                f"Places are generalised to cells of {degrees:g} degrees; the data lie inside."
            ),
        },
    )


def anonymized_source(source: SourceObject, wal_id: str, degrees: float) -> SourceObject:
    """Return the object under a name that tells no exact place.

    A key without coordinates stays as it is. Of others the address is no longer that of the
    object; the unit's id in front keeps objects of one cell apart.
    """
    coarse = snapped(source.key, decimals_of(degrees))
    if coarse == source.key:
        return source
    key = f"{wal_id}/{coarse}"
    return replace(source, key=key, uri=source.uri[: -len(source.key)] + key)
