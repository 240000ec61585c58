"""Checks a release's folder: what is missing, added or changed, and who signed it.

A list that fits its files shows that nothing was lost on the way. Only a signature that a key of
one's own confirms shows that nobody made both anew.
"""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import orjson

from tallgrass.errors import InvalidInput
from tallgrass.release.attestation import ATTESTATION, attestation_faults
from tallgrass.release.manifest import (
    BYTES_MAX,
    MANIFEST,
    SIGNATURE,
    UNLISTED,
    Manifest,
    ManifestRefused,
    ReleaseFile,
    read_manifest,
)
from tallgrass.release.sbom import SBOM, sbom_faults, wheel_checksums
from tallgrass.telemetry.files import FOCUS, NODD, RELIABILITY

PRODUCT = "tallgrass"
#: What every release carries beside one wheel and one source distribution.
REQUIRED = (SBOM, ATTESTATION, NODD, FOCUS, RELIABILITY)

_SIGNATURE_BYTES = 64
_DOCUMENT_BYTES_MAX = 64 << 20


class Kind(StrEnum):
    """What can be wrong with a file."""

    MISSING = "missing"
    ADDED = "added"
    CHANGED = "changed"
    REFUSED = "refused"
    UNSIGNED = "unsigned"
    SIGNED_BY_OTHER = "signed_by_other"


class Signature(StrEnum):
    """What is known of the signature."""

    VALID = "valid"
    INVALID = "invalid"
    #: There is one, and no key to check it with.
    UNCHECKED = "unchecked"
    UNSIGNED = "unsigned"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that is not as it should be."""

    file: str
    kind: Kind
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseReport:
    """What came of a check."""

    #: None where the list could not be read.
    manifest: Manifest | None
    signature: Signature
    findings: tuple[Finding, ...]

    @property
    def holds(self) -> bool:
        """Whether everything is as the list says, and signed where a key was given."""
        return not self.findings


def digest_of(path: Path) -> ReleaseFile:
    """Return name, size and SHA-256 of a file."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        return ReleaseFile(name=path.name, size=file.tell(), sha256=digest)


def verify_release(folder: Path, public_pem: bytes | None = None) -> ReleaseReport:
    """Check a folder; with a key, that the list is signed by it."""
    if not folder.is_dir():
        raise InvalidInput(f"{folder} is no folder")
    there = {path.name: path for path in folder.iterdir()}
    findings = [*_no_plain_files(there)]
    plain = {name: path for name, path in there.items() if _is_plain(path)}
    listed = _bounded(plain, MANIFEST, BYTES_MAX)
    state, of_signature = _signature(plain, listed, public_pem)
    findings += of_signature
    manifest = None
    try:
        manifest = None if listed is None else read_manifest(listed)
    except ManifestRefused as refused:
        findings.append(Finding(file=MANIFEST, kind=Kind.REFUSED, message=str(refused)))
    if listed is None and not any(each.file == MANIFEST for each in findings):
        findings.append(_missing(MANIFEST))
    if manifest is not None:
        findings += _compared(manifest, plain)
        findings += _stripped(manifest, plain, public_pem)
        findings += _documents(manifest, plain)
    return ReleaseReport(manifest=manifest, signature=state, findings=tuple(findings))


def _is_plain(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def _no_plain_files(there: Mapping[str, Path]) -> Iterator[Finding]:
    for name, path in sorted(there.items()):
        if not _is_plain(path):
            message = "no plain file: a release has no links and no folders"
            yield Finding(file=name, kind=Kind.REFUSED, message=message)


def _missing(name: str) -> Finding:
    return Finding(file=name, kind=Kind.MISSING, message="is not there")


def _bounded(plain: Mapping[str, Path], name: str, bytes_max: int) -> bytes | None:
    """Read a file that is there, at most a byte beyond the limit."""
    if name not in plain:
        return None
    with plain[name].open("rb") as file:
        return file.read(bytes_max + 1)


# --- files ----------------------------------------------------------------------------------------


def _compared(manifest: Manifest, plain: Mapping[str, Path]) -> Iterator[Finding]:
    """Compare what is listed with what is there, both ways."""
    listed = {each.name: each for each in manifest.files}
    for name, each in sorted(listed.items()):
        if name not in plain:
            yield _missing(name)
        elif (found := digest_of(plain[name])) != each:
            message = f"listed with {each.size:,} bytes {each.sha256}, "
            message += f"found with {found.size:,} bytes {found.sha256}"
            yield Finding(file=name, kind=Kind.CHANGED, message=message)
    for name in sorted(plain.keys() - listed.keys() - UNLISTED):
        yield Finding(file=name, kind=Kind.ADDED, message="is not listed")
    for name in sorted(set(REQUIRED) - listed.keys()):
        yield Finding(file=name, kind=Kind.MISSING, message="every release lists it")
    suffixes = sorted(each.name.rpartition(".")[2] for each in manifest.packages())
    if suffixes != ["gz", "whl"]:
        message = "must list one wheel and one source distribution"
        yield Finding(file=MANIFEST, kind=Kind.REFUSED, message=message)


# --- documents ------------------------------------------------------------------------------------


def _documents(manifest: Manifest, plain: Mapping[str, Path]) -> Iterator[Finding]:
    """Check that what the documents say is said of this release."""
    for name in REQUIRED:
        if name in plain:
            for fault in _faults(name, plain, manifest):
                yield Finding(file=name, kind=Kind.REFUSED, message=fault)


def _faults(name: str, plain: Mapping[str, Path], manifest: Manifest) -> Iterator[str]:
    text = _bounded(plain, name, _DOCUMENT_BYTES_MAX) or b""
    if len(text) > _DOCUMENT_BYTES_MAX:
        yield f"larger than {_DOCUMENT_BYTES_MAX:,} bytes"
        return
    parts = text.splitlines() if name in {FOCUS, RELIABILITY} else [text]
    try:
        documents = [orjson.loads(part) for part in parts]
    except orjson.JSONDecodeError as error:
        yield f"no JSON: {error}"
        return
    if name == SBOM:
        yield from _sbom_faults(documents[0], manifest)
    elif name == ATTESTATION:
        yield from attestation_faults(documents[0], manifest)
    elif not all(isinstance(each, dict) for each in documents):
        yield "must hold JSON objects"


def _sbom_faults(document: Any, manifest: Manifest) -> Iterator[str]:
    found = list(sbom_faults(document, product=PRODUCT, version=manifest.version))
    yield from found
    wheels = {e.name: e.sha256 for e in manifest.packages() if e.name.endswith(".whl")}
    if not found and wheel_checksums(document) != wheels:
        yield "the wheel that it describes is not the one of this release"


# --- the signature --------------------------------------------------------------------------------


def _signature(
    plain: Mapping[str, Path], listed: bytes | None, public_pem: bytes | None
) -> tuple[Signature, list[Finding]]:
    """Check the signature over the list as it stands, before anything in it is believed."""
    signature = _bounded(plain, SIGNATURE, _SIGNATURE_BYTES)
    if public_pem is None:
        return (Signature.UNSIGNED if signature is None else Signature.UNCHECKED), []
    if signature is None:
        message = "the release is unsigned, and a key was given"
        return Signature.UNSIGNED, [Finding(file=SIGNATURE, kind=Kind.UNSIGNED, message=message)]
    try:
        from tallgrass.release.signature import is_signed  # noqa: PLC0415 - optional extra
    except ModuleNotFoundError as missing:
        raise InvalidInput("a signature needs cryptography", code="signing_missing") from missing
    if listed is not None and is_signed(listed, signature, public_pem):
        return Signature.VALID, []
    message = "is not the signature of the given key over this manifest.zip"
    return Signature.INVALID, [Finding(file=SIGNATURE, kind=Kind.SIGNED_BY_OTHER, message=message)]


def _stripped(
    manifest: Manifest, plain: Mapping[str, Path], public_pem: bytes | None
) -> Iterator[Finding]:
    """Tell of a signature that the list speaks of and that is gone, where no key tells it."""
    if manifest.key_id is not None and SIGNATURE not in plain and public_pem is None:
        message = f"the list says that {manifest.key_id} signed it"
        yield Finding(file=SIGNATURE, kind=Kind.UNSIGNED, message=message)
