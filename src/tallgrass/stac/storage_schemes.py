"""How a provider stores a dataset's objects (storage extension 2.0.0)."""

from tallgrass.datasets.definition import Dataset

_PROVIDERS = frozenset({"aws", "azure", "gcp"})


def is_stored(dataset: Dataset, provider: str) -> bool:
    """Tell whether it is known how the provider stores the dataset's objects."""
    return provider in _PROVIDERS and (provider != "aws" or dataset.item.region is not None)


def storage_scheme(dataset: Dataset, provider: str, bucket: str) -> dict[str, object] | None:
    """Return what the extension tells of a bucket; NODD's cost nothing to read."""
    if not is_stored(dataset, provider):
        return None
    if provider == "aws":
        return {
            "type": "aws-s3",
            "platform": "https://{bucket}.s3.{region}.amazonaws.com",
            "bucket": bucket,
            "region": dataset.item.region,
            "requester_pays": False,
        }
    scheme: dict[str, object] = {"bucket": bucket, "requester_pays": False}
    if provider == "azure":
        account, _, container = bucket.partition(".")
        scheme = {"account": account, "container": container, "requester_pays": False}
        platform, kind = "https://{account}.blob.core.windows.net", "ms-azure"
    else:
        platform, kind = "https://storage.googleapis.com/{bucket}", "gcp-gcs"
    if provider == dataset.provider and dataset.item.region is not None:
        scheme["region"] = dataset.item.region
    return {"type": kind, "platform": platform, **scheme}
