"""Checking utilization: the FileSummaryLN of each log file against the file and against the trees (R-CLN-1 to 13).

* Totals: a summary written after the file was finished counts all its entries except the header, and their bytes; an
  earlier summary counts at most as many.
* Obsolete: entries that the trees refer to are not obsolete. So a summary may count at most the other LNs of its file
  as obsolete. Lower counts are normal: rollbacks and recovery count inexactly (R-CLN-6, R-REC-19). A note is added if
  the log ends with a checkpoint and more than a quarter of a file's bytes are obsolete but not counted. Nodes can be
  counted twice, since recovery counts an old version for every newer version that refers to it (R-REC-18). LNs outside
  transactions can be counted twice too, since JE counts some of them again when it removes a temporary database.
* Reserved: the cleaner may delete such a file at any time, so the trees may refer only to expired records in it, which
  are never read (R-CLN-26).

Files without a summary were written since the last checkpoint, or count as completely used (je-log-format.md 10.1), so
there is nothing to check. Damaged files are not checked here; other levels report them. Erased entries have lost their
type, and until v7 old deltas were not counted as nodes. In these cases only checks that do not depend on types run.

Example: 0x3 holds 82 LNs, and slots refer to 40 of them. A summary with at most 42 obsolete LNs is right, one with 43
is JE-SPACE-002.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final, NamedTuple

from engine.cleaner.file_records import RESERVED_FILES
from engine.cleaner.file_summary import obsolete_bytes
from engine.errors import DamageError, FormatError, NotFoundError, StorageError, plural
from engine.format.entry.internal_db import reserved_file_of
from engine.format.entry.ln_content import FileSummary, FileSummaryLN
from engine.format.entry.node import SLOT_EMBEDDED
from engine.format.entry_types import FILE_HEADER, LNS, NODE_ENTRIES, PLAIN_LNS
from engine.format.fast.file_summary import SUMMARY_KEY_BYTES
from engine.format.fast.queued_slots import tally_slots
from engine.format.lsn import file_of, is_null
from engine.format.versions import TWO_PART_DUPLICATES
from engine.log.check import FileCheck
from engine.log.files import LogFile, LogFiles, log_file_name
from engine.log.scan import scan_file
from engine.storage.base import Storage
from engine.tree.bin_node import BIN, DELETED
from engine.tree.context import TreeContext
from engine.tree.database_state import DatabaseState
from engine.tree.in_node import IN
from engine.tree.tree import read_ln, slot_data
from engine.verify import space_rules as rules
from engine.verify.collector import Collector
from engine.verify.report import Rule
from engine.workers.parallel import map_small

UTILIZATION: Final = "_jeUtilization"

# Up to one in this many LNs outside transactions may be counted as obsolete twice.
_COUNTED_TWICE: Final = 20
# Uncounted obsolete bytes below this part of the file, or below this size, cause no note.
_WORTH_PARTS: Final = 4
_WORTH_BYTES: Final = 100_000


class _Summary(NamedTuple):
    """The newest summary of a file, and its LSN."""

    lsn: int
    counters: FileSummary


class _Totals(NamedTuple):
    """Contents of a file without its header; ``types_known`` is False if some entries no longer show their type."""

    entries: int
    total_bytes: int
    nodes: int
    lns: int
    plain_lns: int
    node_bytes: int
    types_known: bool


class SpaceTally(NamedTuple):
    """References of the trees, by file number: nodes; LNs, their bytes, and the number of expiring ones."""

    nodes: dict[int, int]
    lns: dict[int, list[int]]


class SpaceCheck:
    """Counts the references of the trees during the walk, then compares.

    Arguments:
        ctx: the trees.
        findings: receives the findings.
    """

    def __init__(self, ctx: TreeContext, findings: Collector) -> None:
        self._ctx = ctx
        self._findings = findings
        self._tally = SpaceTally({}, {})
        self._summaries: dict[int, _Summary] = {}
        self._reserved: set[int] = set()

    def visit(self, db: DatabaseState, node: IN) -> None:
        """Count the versions of a node and the LNs that its slots refer to."""
        if not is_null(node.full_lsn):
            self._add_node(node.full_lsn)
        if not isinstance(node, BIN):
            return
        if not is_null(node.delta_lsn):
            self._add_node(node.delta_lsn)
        if db.name == UTILIZATION:
            self._read_summaries(db, node)
        if db.name == RESERVED_FILES:
            self._read_reserved(db, node)
        # LNs of databases with duplicates were obsolete when they were logged, since the slots hold the records
        # (R-CLN-5).
        if db.duplicates:
            return
        tally_slots(node.lsns, node.sizes, node.states, node.expirations, DELETED | SLOT_EMBEDDED, self._tally.lns)

    def _read_reserved(self, db: DatabaseState, node: BIN) -> None:
        for index in range(len(node)):
            if not node.is_live(index):
                continue
            try:
                data = slot_data(self._ctx, node, index)
                if data is not None:
                    self._reserved.add(reserved_file_of(db.order.unwrap(node.keys[index]), data)[0])
            except (DamageError, FormatError) as error:
                lsn, key = node.lsns[index], node.keys[index]
                self._findings.add(rules.BAD_RESERVED, str(error), lsn=lsn, db=db, key=key)

    def swap(self, tally: SpaceTally | None = None) -> SpaceTally:
        """Switch to another tally, by default an empty one; returns the previous one."""
        before = self._tally
        self._tally = tally or SpaceTally({}, {})
        return before

    def join(self, later: SpaceTally) -> None:
        """Add the counts of another process."""
        nodes, lns = self._tally
        for number, count in later.nodes.items():
            nodes[number] = nodes.get(number, 0) + count
        for number, counts in later.lns.items():
            known = lns.get(number)
            lns[number] = counts if known is None else [a + b for a, b in zip(known, counts, strict=True)]

    def compare(
        self, files: LogFiles, *, jobs: int, at_rest: bool, checks: Mapping[int, FileCheck | None] | None = None
    ) -> None:
        """Report inconsistencies.

        Arguments:
            files: the log files.
            checks: checks (with sizes) of files that were already read; None for an unreadable file.
            jobs: processes that read files.
            at_rest: the log ends with a checkpoint, so all counts are written.
        """
        counted = [file for file in files.files if file.number in self._summaries and file.number not in self._reserved]
        known = checks or {}
        totals: dict[int, _Totals | None] = {}
        unread = []
        for file in counted:
            check = known.get(file.number)
            if file.number in known:
                totals[file.number] = None if check is None else _totals_of(check)
            else:
                unread.append(file)
        read = partial(_read_totals, self._ctx.access.storage, files.end_file())
        totals.update(zip((file.number for file in unread), map_small(read, unread, jobs), strict=True))
        for file in files.files:
            if file.number in self._reserved:
                # The file is no longer in the live log, so a remaining summary has no effect (R-CLN-33).
                self._compare_reserved(file)
                continue
            held = totals.get(file.number)
            if held is not None:
                self._compare(file, self._summaries[file.number], held, at_rest)

    def _add_node(self, lsn: int) -> None:
        nodes, number = self._tally.nodes, file_of(lsn)
        nodes[number] = nodes.get(number, 0) + 1

    def _lns_in(self, number: int) -> tuple[int, int]:
        """LNs of a file in use, without expiring ones, and the bytes of all LNs in use."""
        counts = self._tally.lns.get(number)
        return (0, 0) if counts is None else (counts[0] - counts[2], counts[1])

    def _compare_reserved(self, file: LogFile) -> None:
        lns, nodes = self._lns_in(file.number)[0], self._tally.nodes.get(file.number, 0)
        if lns or nodes:
            lead = "leads" if lns + nodes == 1 else "lead"
            message = f"{plural(lns, 'record')} and {plural(nodes, 'node')} {lead} into the file"
            self._findings.add(rules.RESERVED_IN_USE, message, file=file.path)

    def _read_summaries(self, db: DatabaseState, node: BIN) -> None:
        """The first key of a file belongs to its newest summary."""
        for index, key in enumerate(node.keys):
            number = int.from_bytes(key[:4], "big")
            if len(key) != SUMMARY_KEY_BYTES or number in self._summaries or not node.is_live(index):
                continue
            lsn = node.lsns[index]
            try:
                content = read_ln(self._ctx, db, lsn).content
            except (DamageError, FormatError) as error:
                self._findings.add(rules.BAD_SUMMARY, f"{log_file_name(number)}: {error.what}", lsn=lsn, db=db, key=key)
                continue
            if isinstance(content, FileSummaryLN) and content.summary is not None:
                self._summaries[number] = _Summary(lsn, content.summary)

    def _compare(self, file: LogFile, summary: _Summary, totals: _Totals, at_rest: bool) -> None:
        counters = summary.counters
        # A summary inside its own file was written before that file was complete.
        finished = file_of(summary.lsn) != file.number
        counted, held = (counters.total_count, counters.total_size), (totals.entries, totals.total_bytes)
        if counted != held if finished else counted[0] > held[0] or counted[1] > held[1]:
            message = f"counted entries {counted[0]}, bytes {counted[1]}; found {held[0]} and {held[1]}"
            self._add(rules.OTHER_TOTALS, message, file, summary)
        if not totals.types_known:
            return
        # JE's cleaner counts expired records as obsolete and leaves their slots.
        used = self._lns_in(file.number)[0]
        obsolete = counters.obsolete_ln_count
        if obsolete > totals.lns - used + totals.plain_lns // _COUNTED_TWICE:
            message = f"{obsolete} LNs, but it holds {totals.lns}, and {used} are in use"
            self._add(rules.TOO_MUCH, message, file, summary)
        if at_rest and finished:
            self._compare_bytes(file, summary, totals)

    def _compare_bytes(self, file: LogFile, summary: _Summary, totals: _Totals) -> None:
        used = self._lns_in(file.number)[1]
        # Slots do not record the sizes of nodes, so use the average.
        if totals.nodes:
            used += self._tally.nodes.get(file.number, 0) * totals.node_bytes // totals.nodes
        uncounted = totals.total_bytes - used - obsolete_bytes(summary.counters)
        if uncounted > _WORTH_BYTES and uncounted > totals.total_bytes // _WORTH_PARTS:
            message = f"{uncounted} of {plural(totals.total_bytes, 'byte')} are obsolete and not counted"
            self._add(rules.TOO_LITTLE, message, file, summary)

    def _add(self, rule: Rule, message: str, file: LogFile, summary: _Summary) -> None:
        self._findings.add(rule, message, lsn=summary.lsn, file=file.path)


def _read_totals(storage: Storage, end_file: int, file: LogFile) -> _Totals | None:
    """Contents of a file; None if it is damaged or cannot be read."""
    try:
        check = scan_file(storage, file, is_last=file.number >= end_file).check()
    except (NotFoundError, StorageError):
        return None
    return _totals_of(check)


def _totals_of(check: FileCheck) -> _Totals | None:
    if check.damages:
        return None
    entries = total_bytes = nodes = lns = plain_lns = node_bytes = 0
    for pair, found in check.totals.items():
        number = pair & 0xFF
        if number == FILE_HEADER:
            continue
        entries += found.entries
        total_bytes += found.total_bytes
        nodes += found.entries if number in NODE_ENTRIES else 0
        node_bytes += found.total_bytes if number in NODE_ENTRIES else 0
        lns += found.entries if number in LNS else 0
        plain_lns += found.entries if number in PLAIN_LNS else 0
    types_known = not check.erased and check.version >= TWO_PART_DUPLICATES
    return _Totals(
        entries=entries,
        total_bytes=total_bytes,
        nodes=nodes,
        lns=lns,
        plain_lns=plain_lns,
        node_bytes=node_bytes,
        types_known=types_known,
    )
