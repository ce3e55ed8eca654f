"""References of the trees into missing log files.

A gap in the file numbers is not conclusive: JE deletes cleaned files, and after a crash the log may not show it. A
summary (FileSummaryLN) that still counts a file as in use is not conclusive either: JE drops the summaries of missing
files when it opens the environment. A file is lost if a slot refers into it: to a node, or to a record that has not
expired and is not in a range that is being discarded.

Example: 00000002.jdb is missing, and a slot of ``orders`` refers to 0x2/0x1b0, so that file had not been cleaned.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, NamedTuple

from engine.errors import plural
from engine.format.entry.node import SLOT_EMBEDDED
from engine.format.lsn import file_of, is_null
from engine.log.access import LogAccess
from engine.log.files import log_file_name
from engine.tree.bin_node import BIN, DELETED
from engine.tree.database_state import DatabaseState
from engine.tree.in_node import IN
from engine.tree.keys import Key
from engine.verify.log_rules import MISSING_NEEDED
from engine.verify.records import has_expired
from engine.verify.report import Finding, finding

# Replaces the database name if recovery itself needed the missing file.
OF_RECOVERY: Final = "what recovery reads"


class LostFile(NamedTuple):
    """References into one missing file.

    Attributes:
        nodes, records: number of node versions and of records in it.
        first_lsn, first_db: LSN and database of the first reference; ``OF_RECOVERY`` if recovery, not a tree, needed
            it.
    """

    nodes: int
    records: int
    first_lsn: int
    first_db: str

    def in_words(self) -> str:
        """The sum of both counts."""
        held = ((self.records, "record"), (self.nodes, "tree node"))
        return " and ".join(plural(count, word) for count, word in held if count)


def lost_slots(
    db: DatabaseState,
    node: BIN,
    is_absent: Callable[[int], bool],
    may_be_gone: Callable[[DatabaseState, Key], bool] | None,
    now_ms: float,
) -> list[int]:
    """Indexes of the slots of a BIN whose records are lost with their log files.

    The slot of an embedded record holds the whole record (R-TREE-41). The cleaner deletes files whose records have
    expired or were discarded; these records are not lost.

    Arguments:
        db: a database without sorted duplicates (with them, the slots hold the records).
        is_absent: whether an LSN is in a missing file or a missing part of a file.
        may_be_gone: whether a record is in a range that is being discarded.
        now_ms: the time that decides what has expired.
    """
    return [
        index
        for index, (lsn, state) in enumerate(zip(node.lsns, node.states, strict=True))
        if not state & (DELETED | SLOT_EMBEDDED)
        and is_absent(lsn)
        and not has_expired(node.expirations[index], now_ms)
        and not (may_be_gone is not None and may_be_gone(db, node.keys[index]))
    ]


def needed_finding(number: int, start: str) -> Finding:
    """The finding for a missing file in the range that recovery reads, which begins at ``start``."""
    name = log_file_name(number)
    return finding(MISSING_NEEDED, f"{name}; recovery reads from {start} on", file=name)


def lost_finding(number: int, what: LostFile) -> Finding:
    """The finding for a missing file that the trees refer to, or that recovery reads."""
    name = log_file_name(number)
    if what.first_db == OF_RECOVERY:
        return finding(MISSING_NEEDED, f"{name}; recovery reads it", file=name)
    message = f"{name}; in it {what.in_words()}, the first of {what.first_db}"
    return finding(MISSING_NEEDED, message, lsn=what.first_lsn, file=name, db=what.first_db)


class LostFiles:
    """Collects references into missing files during a walk over the trees.

    Arguments:
        access: the log.
        may_be_gone: whether a record is in a range that is being discarded.

    Attributes:
        found: by file number.
    """

    def __init__(self, access: LogAccess, may_be_gone: Callable[[DatabaseState, Key], bool]) -> None:
        self._access = access
        self._may_be_gone = may_be_gone
        self._present = {file.number for file in access.files()}
        self._now_ms = time.time() * 1000
        self.found: dict[int, LostFile] = {}

    def note_node(self, db: DatabaseState, lsn: int) -> None:
        """Note that a node is read at an LSN."""
        if self._is_absent(lsn):
            self._add(db, lsn, 1, 0)

    def visit(self, db: DatabaseState, node: IN) -> None:
        """Check the slots of a bottom node. Slots of databases with duplicates hold their records."""
        if not isinstance(node, BIN) or db.duplicates:
            return
        # Usually no file is missing. An invalid LSN has no file number, so its slot is examined.
        if {lsn >> 32 for lsn in node.lsns} <= self._present:
            return
        for index in lost_slots(db, node, self._is_absent, self._may_be_gone, self._now_ms):
            self._add(db, node.lsns[index], 0, 1)

    def _is_absent(self, lsn: int) -> bool:
        return not is_null(lsn) and not self._access.has_file(file_of(lsn))

    def swap(self, found: dict[int, LostFile] | None = None) -> dict[int, LostFile]:
        """Collect into other references from now on, by default an empty dict; returns the previous ones."""
        before, self.found = self.found, {} if found is None else found
        return before

    def join(self, later: dict[int, LostFile]) -> None:
        """Add references found by another process, later in the walk."""
        for number, what in later.items():
            known = self.found.get(number, what._replace(nodes=0, records=0))
            self.found[number] = known._replace(nodes=known.nodes + what.nodes, records=known.records + what.records)

    def _add(self, db: DatabaseState, lsn: int, nodes: int, records: int) -> None:
        known = self.found.get(file_of(lsn)) or LostFile(0, 0, lsn, db.label)
        self.found[file_of(lsn)] = known._replace(nodes=known.nodes + nodes, records=known.records + records)
