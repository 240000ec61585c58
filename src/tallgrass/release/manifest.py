"""``manifest.zip``: every file of a release with its SHA-256 (pure).

The archive holds two texts and nothing else: ``manifest.json`` for programs, and ``SHA256SUMS``,
which ``sha256sum --check`` reads. It is never unpacked: both are read in memory, up to a limit.
"""

import io
import re
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson

MANIFEST: Final = "manifest.zip"
SIGNATURE: Final = "signature.sig"
#: What is not among the listed files: the list itself, and the signature over it.
UNLISTED: Final = frozenset({MANIFEST, SIGNATURE})

#: A list of a thousand files is a tenth of it.
BYTES_MAX: Final = 1 << 20
FILES_MAX: Final = 1_000

_JSON = "manifest.json"
_SUMS = "SHA256SUMS"
#: The oldest time that a zip can hold: the same list gives the same bytes.
_WRITTEN_AT = (1980, 1, 1, 0, 0, 0)
#: A plain name: no folder, nothing that leads out of the release's.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,199}")
_SHA256 = re.compile(r"[0-9a-f]{64}")


class ManifestRefused(ValueError):
    """The archive is not what a release's list can be; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class ReleaseFile:
    """One file of the release."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What a release says it consists of."""

    version: str
    #: The commit that it was built from.
    commit: str
    #: The id of the key that signs this list; None for an unsigned release.
    key_id: str | None
    files: tuple[ReleaseFile, ...]

    def packages(self) -> tuple[ReleaseFile, ...]:
        """Return wheel and source distribution."""
        return tuple(each for each in self.files if each.name.endswith((".whl", ".tar.gz")))


def manifest_bytes(manifest: Manifest) -> bytes:
    """Return the archive; stored, for a compressor's version would show in the bytes."""
    document = {
        "version": manifest.version,
        "commit": manifest.commit,
        "signature": None
        if manifest.key_id is None
        else {"algorithm": "ed25519", "key_id": manifest.key_id},
        "files": [
            {"name": each.name, "size": each.size, "sha256": each.sha256}
            for each in sorted(manifest.files)
        ],
    }
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_STORED) as archive:
        for name, body in (
            (_JSON, orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)),
            (_SUMS, _sums(manifest.files)),
        ):
            entry = zipfile.ZipInfo(name, _WRITTEN_AT)
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, body)
    return written.getvalue()


def read_manifest(data: bytes) -> Manifest:
    """Read the archive of anyone; `ManifestRefused` for one that is not in its form."""
    texts = _texts(data)
    manifest = _manifest(_parsed(texts[_JSON]))
    if texts[_SUMS] != _sums(manifest.files):
        raise ManifestRefused(f"{_SUMS} and {_JSON} name different files")
    return manifest


def _sums(files: Sequence[ReleaseFile]) -> bytes:
    return "".join(f"{each.sha256}  {each.name}\n" for each in sorted(files)).encode()


def _texts(data: bytes) -> dict[str, bytes]:
    if len(data) > BYTES_MAX:
        raise ManifestRefused(f"larger than {BYTES_MAX:,} bytes")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = archive.infolist()
            _require_entries(entries)
            return {entry.filename: archive.read(entry) for entry in entries}
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise ManifestRefused(f"no zip archive that can be read: {error}") from error


def _require_entries(entries: Sequence[zipfile.ZipInfo]) -> None:
    """Refuse before a byte is unpacked: other names, and sizes that no list of ours has."""
    names = [entry.filename for entry in entries]
    strange = sorted(set(names) - {_JSON, _SUMS})
    if strange:
        raise ManifestRefused(f"holds {strange[0]!r}, which is no part of a list")
    if sorted(names) != sorted([_JSON, _SUMS]):
        raise ManifestRefused(f"must hold {_JSON} and {_SUMS}, each once")
    for entry in entries:
        if entry.file_size > BYTES_MAX:
            raise ManifestRefused(
                f"{entry.filename} would unpack to {entry.file_size:,} bytes, "
                f"above the limit of {BYTES_MAX:,}"
            )


def _parsed(text: bytes) -> dict[str, Any]:
    try:
        document = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise ManifestRefused(f"{_JSON} is no JSON: {error}") from error
    if not isinstance(document, dict) or set(document) != {
        "version", "commit", "signature", "files",
    }:  # fmt: skip
        raise ManifestRefused(f"{_JSON} must hold version, commit, signature and files")
    return document


def _manifest(document: dict[str, Any]) -> Manifest:
    files, signature = document["files"], document["signature"]
    if not isinstance(files, list) or len(files) > FILES_MAX:
        raise ManifestRefused(f"files must be a list of at most {FILES_MAX:,}")
    listed = tuple(_file(each) for each in files)
    if len({each.name for each in listed}) != len(listed):
        raise ManifestRefused("a file is listed twice")
    return Manifest(
        version=_text(document["version"], "version"),
        commit=_text(document["commit"], "commit"),
        key_id=None if signature is None else _key_id(signature),
        files=listed,
    )


def _file(entry: object) -> ReleaseFile:
    if not isinstance(entry, dict) or set(entry) != {"name", "size", "sha256"}:
        raise ManifestRefused("each file has a name, a size and a sha256")
    name, size, sha256 = entry["name"], entry["size"], entry["sha256"]
    if not isinstance(name, str) or not _NAME.fullmatch(name) or name in UNLISTED:
        raise ManifestRefused(f"{name!r} is no name of a file of a release")
    if not isinstance(sha256, str) or not _SHA256.fullmatch(sha256):
        raise ManifestRefused(f"{name}: no SHA-256")
    if not isinstance(size, int) or isinstance(size, bool) or size < 0:
        raise ManifestRefused(f"{name}: no size")
    return ReleaseFile(name=name, size=size, sha256=sha256)


def _key_id(signature: object) -> str:
    if not isinstance(signature, dict) or signature.get("algorithm") != "ed25519":
        raise ManifestRefused("the signature is of no known algorithm")
    return _text(signature.get("key_id"), "key_id")


def _text(value: object, name: str) -> str:
    if not isinstance(value, str) or not value:
        raise ManifestRefused(f"{name} must be a text")
    return value
