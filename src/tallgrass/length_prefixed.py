"""Texts joined to bytes, each prefixed by its length, for hashes that name what the texts tell."""


def length_prefixed(*parts: str) -> bytes:
    """Join parts so that no two different lists of parts give the same bytes."""
    joined = b""
    for part in parts:
        encoded = part.encode()
        joined += len(encoded).to_bytes(4, "big") + encoded
    return joined
