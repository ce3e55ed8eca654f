"""The walks over headers in C; exists only in the native build (``kernel.c``).

Twins: ``check_plain``, ``follow_links``, ``sift`` and ``pick_open`` of ``loops``, which documents rules and results;
``walks`` chooses between the two. On a log of 50 MB the first three take 0.05, 0.11 and 0.11 of the time of their
twins: a header costs no object, and the checksum of an entry is computed sixteen bytes at a time if the processor can
(SSE2, which every x86-64 has).

The constants of the format are only in ``engine.format.header``; this module reads them from there when it is imported.
"""

from array import array

def walk(
    data: bytes,
    pos: int,
    base: int,
    prev_offset: int,
    last_vlsn: int,
    with_vlsn: int,
    slots: array[int],
    tallies: array[int],
    /,
) -> tuple[int, int, int]:
    """Check entries as ``loops.check_plain`` does.

    Arguments:
        data, pos, base, prev_offset, last_vlsn, with_vlsn: see ``loops.check_plain``.
        slots: by ``type | flags << 8`` the slot of ``tallies`` in which the pair is counted; 0 for pairs that stop the
            walk. Like ``tallies``, an array of 64-bit numbers ("q").
        tallies: entries, bytes of items, smallest item and largest item of each slot; increased.

    Returns:
        See ``check_plain``.
    """

def follow(
    data: bytes, pos: int, end: int, base: int, prev_offset: int, last_vlsn: int, lengths: list[int], /
) -> tuple[int, int, int, int, int]:
    """See ``loops.follow_links``: same arguments and result."""

def sift(
    data: bytes, pos: int, until: int, actions: list[int], lengths: list[int], found: list[int], tallies: array[int], /
) -> int:
    """See ``loops.sift``: same arguments and result."""

def pick_open(
    data: bytes,
    actions: list[int],
    lengths: list[int],
    flag_bytes: int,
    has_abort_lsn: int,
    chunks: dict[int, array[int]],
    bits: int,
    found: list[int],
    /,
) -> int:
    """See ``loops.pick_open``: same arguments and result."""
