"""Judging damage: the torn tail that every crash leaves, or something lost.

Damage in any file but the last is damage. In the last file (R-LOG-31) it is the tail of the log, cut off by whoever
opens
it for writing. That is harmless unless something durable stands intact behind it: a Commit, a CkptEnd, or a record
outside transactions (deviation D-5).
"""

from __future__ import annotations

from engine.log.check import Evidence, SeenDamage


def is_harmless(seen: SeenDamage, end_file: int) -> bool:
    """Whether a stretch of damage is a torn tail with nothing of value behind it.

    Arguments:
        seen: the damage and what follows it in its file.
        end_file: number of the file that the log ends in.
    """
    damage = seen.damage
    in_tail = damage.lsn >> 32 >= end_file
    return in_tail and bool(damage.length) and damage.reason != "header" and seen.after == Evidence(0, 0, 0)
