"""A catalogue of two invented datasets, so that the corpora mean the same whatever is shipped."""

from __future__ import annotations

from functools import cache

from tallgrass.datasets.catalogue import Catalogue
from tallgrass.datasets.loader import load_dataset

#: Units have a time in their key; the same keys are in three clouds.
TIMED = r"""
id = "timed"
title = "Timed"
description = "Objects whose key tells the time."
provider = "aws"
priority = "normal"
buckets = ["timed-pds"]
topics = ["arn:aws:sns:us-east-1:123456789012:NewTimedObject"]

[mirrors]
gcp = ["timed-gcp"]
azure = ["timedstore.timed"]

[key]
prefixes = ["obs/"]
pattern = 'obs/(?P<start>\d{14})\.nc'

[key.start]
form = "date-time"
groups = ["start"]

[[key.ignore]]
pattern = '.*\.idx'
reason = "sidecar"

[item]
collection = "timed"
media_type = "application/octet-stream"

[governance]
care_label = "public"
sensitivity = "low"

[[examples]]
key = "obs/20260601120000.nc"
start = "2026-06-01T12:00:00Z"
"""

#: Every key is a unit.
FREE = """
id = "free"
title = "Free"
description = "Objects with any key."
provider = "aws"
priority = "normal"
buckets = ["free-pds", "free.pds.with.dots"]
topics = ["arn:aws:sns:us-east-1:123456789012:NewFreeObject"]

[mirrors]
gcp = ["free-gcp"]
azure = ["freestore.free"]

[item]
collection = "free"
media_type = "application/octet-stream"

[governance]
care_label = "public"
sensitivity = "low"
"""


@cache
def own_catalogue() -> Catalogue:
    """Return the two datasets."""
    return Catalogue(load_dataset(text, name) for text, name in ((TIMED, "timed"), (FREE, "free")))
