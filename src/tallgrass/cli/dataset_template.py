"""The file that ``tallgrass datasets new`` prints: every field explained, valid as it stands."""

_TEMPLATE = r"""# A dataset: which objects belong to it, what their keys say, how its items look.
# Check it with:   tallgrass datasets check @ID@.toml
# Use it with:     datasets.folder = "FOLDER"   in tallgrass.toml

id = "@ID@"
title = "@TITLE@"
description = "What the data are, for people who find the collection."
# aws, gcp, azure, or a provider of ledger.providers.
provider = "aws"
buckets = ["@ID@-pds"]
# ARNs of the SNS topics that announce new objects.
topics = []
# Whose header is read: netcdf4, netcdf4-place or hdf5 (with attributes that tell a place, or times
# too), grib2, grib2-grid (with times and place), nexrad-level2, nexrad-level2-radials,
# nexrad-chunk, nexrad-level3, tiff, fits; by-name or by-name-header where keys end in several ways.
# Leave it out for anything else.
# format = "netcdf4"
# How often new objects come, in seconds. Leave it out if they come irregularly.
cadence_s = 3600
# high, normal or low.
priority = "normal"

# Buckets of other providers with the same keys; one of Azure is ACCOUNT.CONTAINER.
# [mirrors]
# gcp = ["@ID@"]

# Without [key] every object of the buckets is a unit without a time of its own.
[key]
# How the keys begin, where several datasets share a bucket; or `rest = true` for what is left.
prefixes = ["data/"]
# A regular expression with names for its parts; blanks and line breaks in it mean nothing.
pattern = '''
data / (?P<site>[A-Z]{4}) / (?P<date>\d{8}) _ (?P<time>\d{6}) \.nc
'''
# Forms: goes, date-time-tenths, date-time, date-minute, date-hour, date, month, year, unknown.
# May be added: plus_hours, plus_minutes, minus_hours, minus_minutes (groups), offset_minutes (a
# number), until ("day", "month" or "year": its last second).
start = { form = "date-time", groups = ["date", "time"] }
# Where the key tells them: the end, and the run of a model. An end without a date of its own takes
# crosses_midnight = true.
end = { form = "date-time", groups = ["date", "time"], offset_minutes = 10 }
# reference = { form = "date-hour", groups = ["date", "cycle"] }
# The group that holds a span such as 01H, if the data are sums that end at the start:
# accumulation = "span"

# Keys of another layout, tried in order; generic = true where only their time is known:
# [[key.layouts]]
# pattern = 'old/(?P<date>\d{8})\.nc'
# start = { form = "date", groups = ["date"] }

# Keys that are no data. Any other key that no pattern reads is a unit of which nothing is known;
# indexes, checksums, READMEs, marks of folders and .tmp are passed over without a rule.
[[key.ignore]]
pattern = '.*\.log'
reason = "not_ingestable"

[item]
collection = "@ID@"
media_type = "application/netcdf"
# Where the data lie if neither file nor key tells: west, south, east, north.
bbox = [-180, -90, 180, 90]
# Or by a group of the key: place_group = "site", with [item.places]: a box for each of its values,
# or [longitude, latitude] of what looks all round, range_km = 460 far.
# placeless = true lets items have no place at all.
# Properties of [item.from_key] that are whole numbers:
# numbers = ["my:number"]
# Where the provider keeps the buckets, and a licence that is not that of NOAA's open data:
# region = "us-east-1"
# license = "CC-BY-4.0"
# license_url = "https://example.org/terms"

# Fixed properties of every item.
[item.properties]
instruments = ["radar"]

# Properties that come from groups of the key.
[item.from_key]
platform = "site"

# Words for them, where the key's own are not what STAC wants.
[item.vocabulary.platform]
ABCD = "A site"

# Published beside every object, and no units themselves:
# [item.sidecars]
# ".idx" = "index"

[integrity]
min_size_bytes = 1

# Issues that are graver or lighter than usual here: "suspect" or "failed".
[severities]
size_too_small = "failed"

[governance]
# public, sensitive or restricted.
care_label = "public"
sensitivity = "low"

# The file proves its own grammar: at least one key with its times.
[[examples]]
key = "data/ABCD/20240229_235500.nc"
start = "2024-02-29T23:55:00Z"
end = "2024-03-01T00:05:00Z"

[[examples]]
key = "data/ABCD/20240229_235500.log"
ignored = "not_ingestable"
"""


def dataset_template(dataset_id: str) -> str:
    """Return a dataset file with every field, for a dataset of that id."""
    title = dataset_id.replace("-", " ").capitalize()
    return _TEMPLATE.replace("@ID@", dataset_id).replace("@TITLE@", title)
