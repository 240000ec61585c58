"""``signature.sig``: Ed25519 over the bytes of the manifest, 64 bytes and nothing else.

``openssl pkeyutl -verify -pubin -inkey KEY -rawin -in manifest.zip -sigfile signature.sig`` checks
it without this package.
"""

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from tallgrass.canonical_json import sha256_hex
from tallgrass.errors import InvalidInput


def sign(manifest: bytes, private_pem: bytes) -> bytes:
    """Return the signature over the manifest."""
    return _private(private_pem).sign(manifest)


def is_signed(manifest: bytes, signature: bytes, public_pem: bytes) -> bool:
    """Tell whether the key signed exactly these bytes."""
    try:
        _public(public_pem).verify(signature, manifest)
    except InvalidSignature:
        return False
    return True


def key_id(pem: bytes) -> str:
    """Return what a key is known by, given its private or its public half."""
    public = _private(pem).public_key() if b"PRIVATE KEY" in pem else _public(pem)
    der = public.public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return f"sha256:{sha256_hex(der)}"


def _private(pem: bytes) -> Ed25519PrivateKey:
    try:
        key = serialization.load_pem_private_key(pem, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise InvalidInput(f"no private key in PEM without a password: {error}") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise InvalidInput("the private key is of another algorithm than Ed25519")
    return key


def _public(pem: bytes) -> Ed25519PublicKey:
    try:
        key = serialization.load_pem_public_key(pem)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise InvalidInput(f"no public key in PEM: {error}") from error
    if not isinstance(key, Ed25519PublicKey):
        raise InvalidInput("the public key is of another algorithm than Ed25519")
    return key
