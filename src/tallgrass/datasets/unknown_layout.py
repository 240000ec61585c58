"""Objects of a dataset whose keys no grammar of it reads: they are units all the same.

NOAA adds products and changes layouts without a word. What is announced is data until a rule says
otherwise, so such an object becomes a generic unit of its dataset, as in a dataset without a
grammar: no time in the key, no place but the file's own, nothing that the dataset says of others.
"""

from dataclasses import replace

from tallgrass.datasets.definition import Dataset, FileFormat, IntegrityRules, ItemRules

#: Media types of generic units, of which the ending of the key is all that is known.
COMMON_MEDIA_TYPES = {
    ".csv": "text/csv",
    ".grb2": "application/wmo-GRIB2",
    ".grib2": "application/wmo-GRIB2",
    ".gz": "application/gzip",
    ".h5": "application/x-hdf5",
    ".json": "application/json",
    ".nc": "application/netcdf",
    ".parquet": "application/vnd.apache.parquet",
    ".pdf": "application/pdf",
    ".png": "image/png",
    ".tif": "image/tiff; application=geotiff",
    ".txt": "text/plain",
    ".zip": "application/zip",
}
_ANY_TYPE = "application/octet-stream"


def of_unknown_layout(dataset: Dataset) -> Dataset:
    """Return what holds of a dataset's object of which only bucket and key are known.

    Name, collection, licence, severities and governance are the dataset's. The file is read by what
    its name or its first bytes tell, where the dataset's files are read at all.
    """
    if dataset.key.generic:
        return dataset
    item = dataset.item
    return replace(
        dataset,
        format=None if dataset.format is None else FileFormat.BY_NAME,
        integrity=IntegrityRules(etag_required=dataset.integrity.etag_required),
        item=ItemRules(
            collection=item.collection,
            media_type=_ANY_TYPE,
            media_types=COMMON_MEDIA_TYPES,
            region=item.region,
            license=item.license,
            license_url=item.license_url,
            placeless=True,
            bbox=None,
            place_group=None,
            places={},
            properties={},
            from_key={},
            vocabulary={},
            sidecars={},
        ),
    )
