"""Judging damage: the torn tail that every crash leaves, or something lost.

Damage in any file but the last is damage. In the last file (R-LOG-31) it is the tail of the log, cut off by whoever
opens it for writing. That is harmless unless something durable stands intact after it: a Commit, a CkptEnd, or a
record outside transactions (deviation D-5). A file header is no such tail: JE refuses a file with a bad one. Only where
nothing stands after it, in a file after the one that the log ends in, JE was about to begin that file (R-LOG-30).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from engine.format.entry_types import DURABLE_ENTRIES
from engine.log.check import DamagedStretch, Evidence

# A file from this part of the longest one on was ended because the next entry did not fit.
_FULL: Final = 0.99
# Files are not made shorter than this; je.log.fileMax is 1,000,000 at least.
_LEAST_BYTES: Final = 10_000


def is_harmless(seen: DamagedStretch, end_file: int) -> bool:
    """Whether a stretch of damage is a torn tail with nothing of value after it.

    Arguments:
        seen: the damage and what follows it in its file.
        end_file: number of the file that the log ends in.
    """
    damage = seen.damage
    in_tail = damage.lsn >> 32 >= end_file
    if not in_tail or not damage.length or is_damaged_header(seen, end_file):
        return False
    return seen.after == Evidence(0, 0, 0) and not was_durable(seen)


def was_durable(seen: DamagedStretch) -> bool:
    """Whether the damaged entry itself once was durable: a Commit, say, that intact entries follow.

    Arguments:
        seen: as for ``is_harmless``.
    """
    return seen.damage.has_next and seen.damage.type_number in DURABLE_ENTRIES


def is_damaged_header(seen: DamagedStretch, end_file: int) -> bool:
    """Whether the damage is a file header for which JE refuses the file.

    Arguments:
        seen, end_file: as for ``is_harmless``.
    """
    damage = seen.damage
    return damage.reason == "header" and not (damage.is_tail and damage.lsn >> 32 > end_file)


def is_full(size_bytes: int, earlier: Sequence[int]) -> bool:
    """Whether a last file is as long as files of this log get before the next one is begun.

    Nothing in a log tells of later files; that it ends where a file is full is what a lost last file leaves.

    Arguments:
        size_bytes: of the last file.
        earlier: of the files before it, of which two must be of about one size to show how long files get.
    """
    longest = max(earlier, default=0)
    full = max(longest * _FULL, _LEAST_BYTES)
    # A file that is longer than all before it was written with another size limit, which nobody knows.
    return sum(size >= full for size in earlier) > 1 and full <= size_bytes <= longest / _FULL
