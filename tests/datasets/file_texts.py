"""Files of datasets, one with everything, one without a grammar."""

from __future__ import annotations

FILE = r"""
id = "radar"
title = "A radar"
description = "Volumes of a radar."
provider = "aws"
buckets = ["radar-pds"]
topics = ["arn:aws:sns:us-east-1:1:NewRadarObject"]
format = "nexrad-level2"
cadence_s = 300
priority = "high"

[key]
prefixes = ["raw/"]
pattern = '''
raw/(?P<site>[A-Z]{4}) _(?P<date>\d{8}) _(?P<time>\d{6})
'''

[key.start]
form = "date-time"
groups = ["date", "time"]

[[key.ignore]]
pattern = '.*_TEST'
reason = "test_file"

[item]
collection = "radar"
media_type = "application/octet-stream"
bbox = [-180, -90, 180, 90]
place_group = "site"

[item.places]
KTLX = [-102.9, 31.1, -91.6, 39.5]

[item.properties]
instruments = ["radar"]

[item.from_key]
platform = "site"

[item.vocabulary.platform]
KTLX = "Twin Lakes"

[item.sidecars]
".idx" = "index"

[integrity]
min_size_bytes = 24
max_size_bytes = 1000

[severities]
size_too_small = "failed"
etag_mismatch = "suspect"

[governance]
care_label = "public"
sensitivity = "low"

[[examples]]
key = "raw/KTLX_20240229_010203"
start = "2024-02-29T01:02:03Z"

[[examples]]
key = "raw/KTLX_20240229_010203.idx"
ignored = "sidecar"
"""
GENERIC = """
id = "things"
title = "Things"
description = "Things of all kinds."
provider = "aws"
buckets = ["things-pds"]
priority = "low"
item.collection = "things"
item.media_type = "application/octet-stream"
item.sidecars.".md" = "notes"
governance.care_label = "public"
governance.sensitivity = "low"
"""
