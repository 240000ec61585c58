"""A small release: real documents over packages of a few bytes, with or without a key."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tallgrass.release.attestation import Build, attestation
from tallgrass.release.manifest import Manifest, ReleaseFile, manifest_bytes
from tallgrass.release.sbom import Component, sbom
from tallgrass.release.signature import key_id, sign
from tallgrass.release.verify import digest_of

if TYPE_CHECKING:
    from pathlib import Path

WHEEL, SDIST = "tallgrass-1.2.3-py3-none-any.whl", "tallgrass-1.2.3.tar.gz"
COMMIT = "c" * 40
NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)
PRODUCT = Component(name="tallgrass", version="1.2.3", licence="MIT", requires=("click",))
CLICK = Component(name="click", version="8.5.1", licence="BSD-3-Clause", requires=())
BUILD = Build(
    version="1.2.3",
    commit=COMMIT,
    source_date_epoch=1_700_000_000,
    python="3.11.7",
    backend=Component(name="hatchling", version="1.33.0", licence="MIT", requires=()),
    builder="urn:example:builder",
    started_at=NOON,
    finished_at=NOON,
)
LISTED = {
    WHEEL, SDIST, "sbom.spdx.json", "slsa-attestation.json",
    "nodd-sns-telemetry.json", "focus-telemetry.json", "reliability-telemetry.json",
}  # fmt: skip


@dataclass(frozen=True)
class KeyPair:
    """Both halves of a key, as PEM."""

    private: bytes
    public: bytes


def new_key() -> KeyPair:
    """Return a key of its own."""
    private = Ed25519PrivateKey.generate()
    return KeyPair(
        private.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ),
        private.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        ),
    )


@dataclass(frozen=True)
class Release:
    """A release's folder, which tests may spoil."""

    folder: Path
    key: KeyPair | None = None

    def path(self, name: str) -> Path:
        """Return where a file lies."""
        return self.folder / name

    def change(self, name: str, **fields: Any) -> None:
        """Change fields of a JSON document."""
        document = json.loads(self.path(name).read_bytes())
        self.path(name).write_text(json.dumps({**document, **fields}), encoding="utf-8")

    def listed(self) -> tuple[ReleaseFile, ...]:
        """Return what is there now, as it would be listed."""
        names = {path.name for path in self.folder.iterdir()} - {"manifest.zip", "signature.sig"}
        return tuple(digest_of(self.path(name)) for name in sorted(names))

    def seal(self, **changes: Any) -> None:
        """List everything anew, and sign it: as somebody who may, or who has another key."""
        key = None if self.key is None else key_id(self.key.private)
        manifest = Manifest(version="1.2.3", commit=COMMIT, key_id=key, files=self.listed())
        data = manifest_bytes(replace(manifest, **changes))
        self.path("manifest.zip").write_bytes(data)
        if self.key is not None:
            self.path("signature.sig").write_bytes(sign(data, self.key.private))


def make_release(folder: Path, key: KeyPair | None = None) -> Release:
    """Write a release that is as it should be."""
    folder.mkdir()
    release = Release(folder, key)
    release.path(WHEEL).write_bytes(b"wheel")
    release.path(SDIST).write_bytes(b"source")
    packages = release.listed()
    wheel = next(each for each in packages if each.name == WHEEL)
    for name, document in (
        ("sbom.spdx.json", sbom(PRODUCT, [CLICK], wheel=wheel, made_at=NOON)),
        ("slsa-attestation.json", attestation(BUILD, packages, [CLICK])),
        ("nodd-sns-telemetry.json", {"release": "v1.2.3"}),
        ("focus-telemetry.json", {"attempt": 1}),
    ):
        release.path(name).write_text(json.dumps(document), encoding="utf-8")
    release.path("reliability-telemetry.json").write_bytes(b'{"attempt": 1}\n{"attempt": 2}\n')
    release.seal()
    return release
