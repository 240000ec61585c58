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


# Rotations are written out: as calls they would double the time of a superblock, 5 µs.


def _mix(a: int, b: int, c: int) -> tuple[int, int, int]:
    for first, second, third in ((4, 6, 8), (16, 19, 4)):
        a = (a - c & _MASK) ^ (c << first | c >> 32 - first) & _MASK
        c = c + b & _MASK
        b = (b - a & _MASK) ^ (a << second | a >> 32 - second) & _MASK
        a = a + c & _MASK
        c = (c - b & _MASK) ^ (b << third | b >> 32 - third) & _MASK
        b = b + a & _MASK
    return a, b, c


def _final(a: int, b: int, c: int) -> int:
    c = (c ^ b) - ((b << 14 | b >> 18) & _MASK) & _MASK
    a = (a ^ c) - ((c << 11 | c >> 21) & _MASK) & _MASK
    b = (b ^ a) - ((a << 25 | a >> 7) & _MASK) & _MASK
    c = (c ^ b) - ((b << 16 | b >> 16) & _MASK) & _MASK
    a = (a ^ c) - ((c << 4 | c >> 28) & _MASK) & _MASK
    b = (b ^ a) - ((a << 14 | a >> 18) & _MASK) & _MASK
    return (c ^ b) - ((b << 24 | b >> 8) & _MASK) & _MASK
