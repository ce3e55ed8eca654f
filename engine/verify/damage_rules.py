"""Which rule a stretch of damage breaks: it depends on what follows, for JE cuts the log at damage in its last file."""

from __future__ import annotations

from engine.format.entry_types import COMMIT
from engine.format.lsn import file_of
from engine.log.check import DamagedStretch
from engine.log.damage import is_damaged_header, was_durable
from engine.verify import log_rules as rules
from engine.verify.report import Rule


def damage_rule(seen: DamagedStretch, end_file: int) -> Rule:
    """The rule that a stretch breaks.

    Arguments:
        end_file: number of the file that the log ends in.
    """
    damage = seen.damage
    # In the last file, links and headers are judged as in any other.
    if file_of(damage.lsn) < end_file or not damage.length or is_damaged_header(seen, end_file):
        return rules.BY_REASON[damage.reason]
    if damage.reason == "header":
        return rules.BAD_LAST_HEADER
    if damage.reason == "short":
        return rules.SHORT_LAST
    # JE cuts the log here and loses the intact entries after it (D-5).
    if any(seen.after):
        return rules.COMMITTED_BEHIND
    if was_durable(seen):
        return rules.DAMAGED_COMMIT
    if damage.has_next:
        return rules.UNCOMMITTED_BEHIND
    # A Commit that was written in full length may have been acknowledged.
    is_whole_commit = damage.type_number == COMMIT and damage.reason == "checksum"
    return rules.TORN_COMMIT if is_whole_commit else rules.TORN
