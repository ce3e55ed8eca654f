"""The bloom filter of a BIN-delta: shows which keys the complete BIN may have besides the keys in the delta
(je-log-format.md 8.6).

The filter has one byte per key of the complete BIN that is not in the delta. A key sets three of its bits, chosen by a
64-bit FNV hash that seeds a 48-bit linear generator. JE checks the filter before a blind put into a delta: a key that
is not in it is new, and the complete BIN need not be read.

Example: a BIN of 100 keys, 20 of them in the delta: a filter of 80 bytes, 640 bits.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

_FNV_START: Final = 2166136261
_FNV_PRIME: Final = 16777619
_MASK_64: Final = (1 << 64) - 1
_MULTIPLIER: Final = 0x5DEECE66D
_ADDEND: Final = 0xB
_MASK_48: Final = (1 << 48) - 1
_MASK_32: Final = (1 << 32) - 1
# Up to this number of bits, one number from the generator gives all three indexes.
_SMALL: Final = 1024
_TEN_BITS: Final = 0x3FF


def bloom_filter(prefix: bytes | None, suffixes: Iterable[bytes]) -> bytes:
    """The filter over the keys that are not in a delta.

    Arguments:
        prefix: the node's key prefix; None if the node has no prefix.
        suffixes: the keys of the filter, without the prefix.
    """
    keys = list(suffixes)
    bits = bytearray(len(keys))
    start = _start(prefix)
    for key in keys:
        for index in _indexes(_fnv(key, start), len(keys) * 8):
            bits[index >> 3] |= 1 << (index & 7)
    return bytes(bits)


def may_contain(bits: bytes, prefix: bytes | None, suffix: bytes) -> bool:
    """Whether a key may be among the filter's keys; False is certain."""
    # The filter has no keys: the delta has them all.
    if not bits:
        return False
    wanted = _indexes(_fnv(suffix, _start(prefix)), len(bits) * 8)
    return all(bits[index >> 3] & 1 << (index & 7) for index in wanted)


def _start(prefix: bytes | None) -> int:
    return _FNV_START if prefix is None else _fnv(prefix, _FNV_START)


def _fnv(data: bytes, hashed: int) -> int:
    """Continue a hash over further bytes, taken as signed; 64 bits, unsigned."""
    for byte in data:
        hashed = hashed * _FNV_PRIME & _MASK_64
        hashed ^= byte if byte < 128 else byte | (_MASK_64 ^ 0xFF)
    return hashed


def _indexes(hashed: int, bits: int) -> tuple[int, int, int]:
    """The three bit positions of a key; ``bits`` must be positive."""
    seed = (hashed ^ _MULTIPLIER) & _MASK_48
    seed = (seed * _MULTIPLIER + _ADDEND) & _MASK_48
    first = seed >> 16
    if bits <= _SMALL:
        # The sign does not matter: the ten bits of each index lie below it.
        return (first & _TEN_BITS) % bits, (first >> 10 & _TEN_BITS) % bits, (first >> 20 & _TEN_BITS) % bits
    seed = (seed * _MULTIPLIER + _ADDEND) & _MASK_48
    second = seed >> 16
    seed = (seed * _MULTIPLIER + _ADDEND) & _MASK_48
    return (first & _MASK_32) % bits, (second & _MASK_32) % bits, (seed >> 16 & _MASK_32) % bits
