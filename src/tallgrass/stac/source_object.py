"""The object that an item describes, in the version that was read."""

import re

from tallgrass.made_often import made_often

#: Multihash (multiformats) of an MD5: code 0xd5 as a varint, then the length of 16 bytes.
_MULTIHASH_MD5 = "d50110"
_MD5 = re.compile(r"[0-9a-fA-F]{32}")


@made_often
class SourceObject:
    """One version of one object; what is not known of it is None."""

    uri: str
    provider: str
    bucket: str
    key: str
    #: As read, without quotes.
    etag: str | None = None
    size: int | None = None
    version_id: str | None = None


def plain_etag(etag: str | None) -> str | None:
    """Return the etag without the quotes and the weak mark of HTTP; an MD5 in lower case."""
    if not etag:
        return None
    if etag.endswith('"'):
        etag = etag.removeprefix("W/").strip('"')
    return (etag.lower() if _MD5.fullmatch(etag) else etag) or None


def is_md5(etag: str) -> bool:
    """Tell whether a plain etag is the MD5 of the content.

    S3 makes other forms of objects that were uploaded in parts (``…-3``), Azure and Google always.
    """
    return _MD5.fullmatch(etag) is not None


def multihash(etag: str | None) -> str | None:
    """Return the checksum that an etag is, as a multihash, or None where it is none."""
    return _MULTIHASH_MD5 + etag if etag and is_md5(etag) else None
