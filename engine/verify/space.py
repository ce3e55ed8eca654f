"""Checking utilization: the FileSummaryLN of each log file against the file and against the trees (R-CLN-1 to 13).

* Totals: a summary that was written after the file was finished counts every entry of it but the header, and their
  bytes; an earlier one no more than that.
* Obsolete: what the trees still lead to is not obsolete. So no summary may count more LNs as obsolete than the file
  holds besides those. Fewer are normal: rollbacks and recovery count inexactly (R-CLN-6, R-REC-19). When the log ends
  with a checkpoint, and more than a quarter of a file's bytes is obsolete without being counted, that is noted.
  Nodes can be counted too often: recovery counts an old version for every newer one that names it (R-REC-18). So can
  LNs outside transactions: when JE removes a temporary database, it counts some of those again that it had counted.
* Reserved: the cleaner is done with such a file and deletes it when it likes, so nothing may lead into it but
  records that have expired, which nobody reads (R-CLN-26).

Files without a summary were written since the last checkpoint, or are taken for used completely (je-log-format.md
10.1); there is nothing to check. Neither is there in damaged files, which other levels report. Erased entries have lost
their type, and until v7 old deltas were not counted as nodes: then only what does not depend on it is checked.

Example: 0x3 holds 82 LNs, slots lead to 40 of them. A summary with 42 or less is right, one with 43 is JE-SPACE-002.
"""

from __future__ import annotations

from collections import Counter
from typing import Final, NamedTuple

from engine.cleaner.file_records import RESERVED_FILES
from engine.cleaner.file_summary import obsolete_bytes
from engine.errors import DamageError, FormatError, NotFoundError, StorageError, plural
from engine.format import tuples
from engine.format.entry.ln_content import FileSummary, FileSummaryLN
from engine.format.entry.node import SLOT_EMBEDDED
from engine.format.entry_types import FILE_HEADER, LNS, NODE_ENTRIES, PLAIN_LNS
from engine.format.lsn import file_of, is_null
from engine.format.versions import TWO_PART_DUPLICATES
from engine.log.check import FileCheck, check_file
from engine.log.files import LogFile, LogFiles
from engine.log.reader import FileReader
from engine.tree.bin_node import BIN, DELETED
from engine.tree.context import TreeContext
from engine.tree.database_state import DatabaseState
from engine.tree.in_node import IN
from engine.tree.tree import read_ln
from engine.verify import space_rules as rules
from engine.verify.collector import Collector
from engine.verify.report import Rule

UTILIZATION: Final = "_jeUtilization"

_KEY_BYTES: Final = 8
# Of so many LNs outside transactions one may be counted as obsolete twice.
_COUNTED_TWICE: Final = 20
# A part of a file, and a size, below which uncounted obsolete bytes are not worth a note.
_WORTH_PARTS: Final = 4
_WORTH_BYTES: Final = 100_000


class _Summary(NamedTuple):
    """The newest summary of a file, and where it is."""

    lsn: int
    counters: FileSummary


class _Totals(NamedTuple):
    """What a file holds, the header apart."""

    entries: int
    total_bytes: int
    nodes: int
    lns: int
    plain_lns: int
    node_bytes: int


class SpaceCheck:
    """Counts what the trees lead to while they are walked; then compares.

    Arguments:
        ctx: the trees.
        findings: takes what is wrong.
    """

    def __init__(self, ctx: TreeContext, findings: Collector) -> None:
        self._ctx = ctx
        self._findings = findings
        self._nodes: Counter[int] = Counter()
        self._lns: Counter[int] = Counter()
        self._ln_bytes: Counter[int] = Counter()
        self._summaries: dict[int, _Summary] = {}
        self._reserved: set[int] = set()
        self._expiring: Counter[int] = Counter()

    def visit(self, db: DatabaseState, node: IN) -> None:
        """Count the versions of a node and the LNs that its slots need."""
        if not is_null(node.full_lsn):
            self._nodes[file_of(node.full_lsn)] += 1
        if not isinstance(node, BIN):
            return
        if not is_null(node.delta_lsn):
            self._nodes[file_of(node.delta_lsn)] += 1
        if db.name == UTILIZATION:
            self._read_summaries(db, node)
        if db.name == RESERVED_FILES:
            self._reserved.update(
                tuples.parse_long_key(db.order.unwrap(key)) for at, key in enumerate(node.keys) if node.is_live(at)
            )
        # Their LNs were obsolete when they were logged: the slots hold everything (R-CLN-5).
        if db.duplicates:
            return
        for lsn, state, size, expires in zip(node.lsns, node.states, node.sizes, node.expirations, strict=True):
            if not state & (DELETED | SLOT_EMBEDDED) and not is_null(lsn):
                self._lns[file_of(lsn)] += 1
                self._ln_bytes[file_of(lsn)] += size
                self._expiring[file_of(lsn)] += bool(expires)

    def compare(self, files: LogFiles, *, at_rest: bool) -> None:
        """Report what does not fit.

        Arguments:
            files: the log files.
            at_rest: the log ends with a checkpoint, so that nothing waits to be counted.
        """
        for file in files.files:
            if file.number in self._reserved:
                # Out of the live log, so that its summary, if it still has one, counts for nothing (R-CLN-33).
                self._compare_reserved(file)
                continue
            summary = self._summaries.get(file.number)
            check = self._check(files, file) if summary is not None else None
            if summary is not None and check is not None and not check.damages:
                self._compare(file, summary, check, at_rest)

    def _compare_reserved(self, file: LogFile) -> None:
        lns, nodes = self._lns[file.number] - self._expiring[file.number], self._nodes[file.number]
        if lns or nodes:
            lead = "leads" if lns + nodes == 1 else "lead"
            message = f"{plural(lns, 'record')} and {plural(nodes, 'node')} {lead} into the file"
            self._findings.add(rules.RESERVED_IN_USE, message, file=file.path)

    def _read_summaries(self, db: DatabaseState, node: BIN) -> None:
        """The first key of a file is that of its newest summary."""
        for index, key in enumerate(node.keys):
            number = int.from_bytes(key[:4], "big")
            if len(key) != _KEY_BYTES or number in self._summaries or not node.is_live(index):
                continue
            lsn = node.lsns[index]
            try:
                content = read_ln(self._ctx, db, lsn).content
            except (DamageError, FormatError) as error:
                self._findings.add(rules.BAD_SUMMARY, f"{number:08x}.jdb: {error.what}", lsn=lsn, db=db, key=key)
                continue
            if isinstance(content, FileSummaryLN) and content.summary is not None:
                self._summaries[number] = _Summary(lsn, content.summary)

    def _check(self, files: LogFiles, file: LogFile) -> FileCheck | None:
        try:
            with FileReader(self._ctx.access.storage, file, is_last=file.number >= files.end_file()) as reader:
                return check_file(reader)
        except (NotFoundError, StorageError):
            return None

    def _compare(self, file: LogFile, summary: _Summary, check: FileCheck, at_rest: bool) -> None:
        totals, counters = _totals(check), summary.counters
        # A summary inside its own file was written before that file was complete.
        finished = file_of(summary.lsn) != file.number
        counted, held = (counters.total_count, counters.total_size), (totals.entries, totals.total_bytes)
        if counted != held if finished else counted[0] > held[0] or counted[1] > held[1]:
            message = f"counted entries {counted[0]}, bytes {counted[1]}; found {held[0]} and {held[1]}"
            self._add(rules.OTHER_TOTALS, message, file, summary)
        if check.erased or check.version < TWO_PART_DUPLICATES:
            return
        obsolete, used = counters.obsolete_ln_count, self._lns[file.number]
        if obsolete > totals.lns - used + totals.plain_lns // _COUNTED_TWICE:
            message = f"{obsolete} LNs, but it holds {totals.lns}, and {used} are in use"
            self._add(rules.TOO_MUCH, message, file, summary)
        if at_rest and finished:
            self._compare_bytes(file, summary, totals)

    def _compare_bytes(self, file: LogFile, summary: _Summary, totals: _Totals) -> None:
        used = self._ln_bytes[file.number]
        # Slots do not know the sizes of nodes: an average has to do.
        if totals.nodes:
            used += self._nodes[file.number] * totals.node_bytes // totals.nodes
        uncounted = totals.total_bytes - used - obsolete_bytes(summary.counters)
        if uncounted > _WORTH_BYTES and uncounted > totals.total_bytes // _WORTH_PARTS:
            message = f"{uncounted} of {plural(totals.total_bytes, 'byte')} are obsolete and not counted"
            self._add(rules.TOO_LITTLE, message, file, summary)

    def _add(self, rule: Rule, message: str, file: LogFile, summary: _Summary) -> None:
        self._findings.add(rule, message, lsn=summary.lsn, file=file.path)


def _totals(check: FileCheck) -> _Totals:
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
    return _Totals(entries, total_bytes, nodes, lns, plain_lns, node_bytes)
