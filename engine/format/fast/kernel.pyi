"""The walks over headers in C; there only in the native build (``kernel.c``).

Twins: ``check_plain``, ``follow_links``, ``sift`` and ``pick_open`` of ``loops``, which is where rules and results are
described; ``walks`` chooses. Over a log of 50 MB the first three take 0.05, 0.11 and 0.11 of the time of those: a
header costs no object, and the checksum of an entry is taken sixteen bytes at a time where the processor can (SSE2,
which every x86-64 has).

Numbers of the format stand in ``engine.format.header`` alone; the module reads them there when it is imported.
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
        data, pos, base, prev_offset, last_vlsn, with_vlsn: as there.
        slots: by ``type | flags << 8`` where in ``tallies`` the pair is counted; 0 for pairs that stop the walk. An
            array of 64 bits a number ("q"), as ``tallies`` is.
        tallies: entries, bytes of items, smallest item and largest item of each slot; added to.

    Returns:
        As ``check_plain``.
    """

def follow(
    data: bytes, pos: int, end: int, base: int, prev_offset: int, last_vlsn: int, lengths: list[int], /
) -> tuple[int, int, int, int, int]:
    """Step from header to header as ``loops.follow_links`` does; the same arguments and result."""

def sift(
    data: bytes, pos: int, until: int, actions: list[int], lengths: list[int], found: list[int], tallies: array[int], /
) -> int:
    """Pick entries out of a buffer as ``loops.sift`` does; the same arguments and result."""

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
    """Pick LNs of transactions that have not ended as ``loops.pick_open`` does; the same arguments and result."""
