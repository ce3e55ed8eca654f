"""Finds entries of a buffer that may hold expiring records; exists only in the native build (``expirations.c``).

Twin: ``expiration_scan.sift``, which documents the rules. For a log without expirations no object is made at all: 300
MB take 0.05 s, the compiled twin takes 0.5 s.
"""

from engine.format.fast.expiration_scan import HeadLayout

def sift(data: bytes, kinds: bytes, layout: HeadLayout, lengths: list[int], found: list[int], /) -> int:
    """See ``expiration_scan.sift``: same arguments and result."""
