"""Bob Jenkins' lookup3: the checksum of HDF5's metadata."""

from struct import Struct

_MASK = 0xFFFFFFFF
_WORDS = Struct("<3I")


def lookup3(data: bytes) -> int:
    """Return the 32-bit checksum of the bytes, with the initial value 0 that HDF5 uses."""
    a = b = c = (0xDEADBEEF + len(data)) & _MASK
    if not data:
        return c
    data += bytes(-len(data) % 12)
    last = len(data) - 12
    for position in range(0, last, 12):
        x, y, z = _WORDS.unpack_from(data, position)
        a, b, c = _mix((a + x) & _MASK, (b + y) & _MASK, (c + z) & _MASK)
    x, y, z = _WORDS.unpack_from(data, last)
    return _final((a + x) & _MASK, (b + y) & _MASK, (c + z) & _MASK)


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> (32 - bits)) & _MASK


def _mix(a: int, b: int, c: int) -> tuple[int, int, int]:
    for first, second, third in ((4, 6, 8), (16, 19, 4)):
        a = (a - c & _MASK) ^ _rotated(c, first)
        c = c + b & _MASK
        b = (b - a & _MASK) ^ _rotated(a, second)
        a = a + c & _MASK
        c = (c - b & _MASK) ^ _rotated(b, third)
        b = b + a & _MASK
    return a, b, c


def _final(a: int, b: int, c: int) -> int:
    c = (c ^ b) - _rotated(b, 14) & _MASK
    a = (a ^ c) - _rotated(c, 11) & _MASK
    b = (b ^ a) - _rotated(a, 25) & _MASK
    c = (c ^ b) - _rotated(b, 16) & _MASK
    a = (a ^ c) - _rotated(c, 4) & _MASK
    b = (b ^ a) - _rotated(a, 14) & _MASK
    return (c ^ b) - _rotated(b, 24) & _MASK
