"""The [item.bands] of a dataset file: which spectral bands an object holds, by a part of its key.

groups           groups of the key, the first that names a band or a set counts
[item.bands.of]  value of a group = the band: a name, and fields of STAC
[item.bands.sets] value of a group = the values of `of` that it holds together
"""

from collections.abc import Collection, Mapping

from tallgrass.datasets.definition import Band, BandRules
from tallgrass.datasets.fields import Table, nearest_or_all
from tallgrass.datasets.key_loader import require_group


def load_bands(table: Table | None, groups: Collection[str]) -> BandRules | None:
    """Return the bands that a file describes; None where it has no table of them."""
    if table is None:
        return None
    names = table.texts("groups")
    for name in names:
        require_group(table, "groups", name, groups)
    bands = _bands(table.table("of"))
    sets = _sets(table.optional_table("sets"), bands)
    table.close()
    return BandRules(groups=names, of={**{name: (band,) for name, band in bands.items()}, **sets})


def _bands(table: Table) -> dict[str, Band]:
    bands: dict[str, Band] = {}
    for name in table.names():
        value = table.value(name)
        plain = isinstance(value, dict) and all(
            type(v) in {str, int, float} for v in value.values()
        )
        if not plain or not isinstance(value.get("name"), str):
            raise table.refusal(name, f"must be a table with a name, texts and numbers: {value!r}")
        bands[name] = value
    return bands


def _sets(table: Table | None, bands: Mapping[str, Band]) -> dict[str, tuple[Band, ...]]:
    sets: dict[str, tuple[Band, ...]] = {}
    for name in () if table is None else table.names():
        assert table is not None  # noqa: S101 - it has names
        members = table.texts(name)
        for member in members:
            if member not in bands:
                raise table.refusal(name, f"no band {member!r}{nearest_or_all(member, bands)}")
        sets[name] = tuple(bands[member] for member in members)
    return sets
