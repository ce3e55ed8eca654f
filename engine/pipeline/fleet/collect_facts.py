"""The pass over log files that collects ``Facts``: every entry is read and its checksum tested, few bodies are decoded.

Damage is skipped. An unreadable file is noted with the reason, and the pass continues with the next file: a bad disk
must not hide the other files.

Few bodies are decoded: checkpoints, rollbacks, FileSummaryLNs, the record of the replication group, and, among the ends
of transactions, the last one and every n-th. The task that reads the end of the log calls ``engine.inspect.survey`` to
find how much work a recovery would do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from engine.contents.journals import is_frontend
from engine.errors import DamageError, FormatError, JetoolError
from engine.format import tuples
from engine.format.entry.checkpoint import CkptEnd
from engine.format.entry.ln import LN
from engine.format.entry.ln_content import FileSummaryLN
from engine.format.entry.rollback import RollbackEnd, RollbackStart
from engine.format.entry.txn_end import TxnEnd
from engine.format.entry_types import (
    ABORT,
    CKPT_END,
    CKPT_START,
    COMMIT,
    FILE_HEADER,
    FILE_SUMMARY_LN,
    RESERVED_FILE_LN,
    ROLLBACK_END,
    ROLLBACK_START,
    STREAM_LNS,
)
from engine.format.fast.file_summary import summary_file
from engine.format.fast.header import header_lengths
from engine.format.header import REPLICATED
from engine.format.lsn import NULL_LSN
from engine.format.vlsn import NULL_VLSN
from engine.inspect.database_name import database_names
from engine.inspect.group_record import group_of
from engine.inspect.survey import Survey, survey
from engine.journals.summary import summarise
from engine.log.damage import is_harmless
from engine.log.entry import LogEntry
from engine.log.files import LogFile, list_log_files
from engine.log.scan import LogScan, scan_file, scan_log
from engine.pipeline.fleet.log_facts import (
    MOST_DAMAGES,
    MOST_POINTS,
    CkptEndFacts,
    EndOfLog,
    Facts,
    FleetFileFacts,
    LastCommit,
    LogPoint,
    RollbackFacts,
    TypeTotals,
)
from engine.pipeline.inventory import LogPart
from engine.storage.base import Storage
from engine.storage.disk import DiskStorage
from engine.verify.missing_file_refs import LostFile
from engine.verify.trees import lost_files


def collect_part(part: LogPart) -> Facts:
    """Facts of some consecutive files of an environment."""
    facts = Facts()
    storage = DiskStorage(part.env)
    for file in part.files:
        facts.join(collect_file(storage, part.end_file, file))
    # Only the task with the last file reads the end of the log.
    if part.files and part.files[-1].number >= part.end_file:
        facts.end = _end_of_log(storage)
    return facts


def collect_file(storage: Storage, end_file: int, file: LogFile) -> Facts:
    """Facts of one file.

    Arguments:
        storage: the environment.
        end_file: number of the file that the log ends in.
        file: which one.
    """
    try:
        return _FactsPass(scan_file(storage, file, is_last=file.number >= end_file), end_file).run()
    except JetoolError as error:
        facts = Facts()
        unread = FleetFileFacts(
            number=file.number,
            path=file.path,
            size_bytes=file.size_bytes,
            version=0,
            created_ms=0,
            last_ms=0,
            entries=0,
            first_vlsn=NULL_VLSN,
            last_vlsn=NULL_VLSN,
            visible=0,
            invisible=0,
            damage_bytes=0,
            problem=str(error),
        )
        facts.files.append(unread)
        return facts


def _end_of_log(storage: Storage) -> EndOfLog | None:
    try:
        files = list_log_files(storage)
        found = survey(storage, files)
    except JetoolError:
        # If the end of the log cannot be read, the reason is already noted with its file.
        return None
    work = found.work
    lost: Mapping[int, LostFile] | None
    try:
        lost = lost_files(storage, files)
    except DamageError:
        lost = None
    except JetoolError:
        # The log belongs to another program or version, or is refused: that is no information about missing files.
        lost = {}
    return EndOfLog(
        closed=found.closed_cleanly,
        end_lsn=found.end_of_log,
        open_txns=work.open_txns if work else (),
        prepared_txns=work.prepared_txns if work else (),
        recovery_entries=work.entries if work else 0,
        recovery_bytes=work.log_bytes if work else 0,
        lock_holder=found.lock_holder,
        lost=lost or {},
        recovers=lost is not None,
        journals=summarise(storage) if lost is not None and _may_be_frontend(storage, found) else None,
    )


def _may_be_frontend(storage: Storage, found: Survey) -> bool:
    """Recognised by the names of databases at the last checkpoint: recovering every environment would double the work.

    A node that has just joined its group may get its journal databases after that checkpoint.
    """
    if found.replicated or found.root is None:
        return found.replicated
    try:
        return is_frontend(database_names(scan_log(storage, found.files), found.root))
    except JetoolError:
        return False


class _FactsPass:
    """One pass over a file."""

    def __init__(self, scan: LogScan, end_file: int) -> None:
        self._scan = scan
        self._head = scan.head()
        self._end_file = end_file
        self._facts = Facts()
        self._first_vlsn = self._last_vlsn = NULL_VLSN
        self._stream_end: LogEntry | None = None
        self._commit: LogEntry | None = None
        self._commit_is_replicated = False
        self._last_ms = 0
        self._stride = 1
        self._ends = 0

    def run(self) -> Facts:
        """Read the file."""
        facts = self._facts
        lengths = header_lengths(self._head.version)
        handlers: dict[int, Callable[[LogEntry], None]] = dict.fromkeys(STREAM_LNS, self._replicated_ln)
        handlers |= {
            COMMIT: self._end,
            ABORT: self._end,
            CKPT_START: self._ckpt_start,
            CKPT_END: self._ckpt_end,
            ROLLBACK_START: self._rollback_start,
            ROLLBACK_END: self._rollback_end,
            FILE_SUMMARY_LN: self._summary,
            RESERVED_FILE_LN: self._reserved,
            FILE_HEADER: self._header,
        }
        entries, sizes = [0] * 256, [0] * 256
        visible = invisible = 0
        damaged = False
        for item in self._scan.entries():
            if not isinstance(item, LogEntry):
                damaged = True
                continue
            number = item.type_number
            entries[number] += 1
            sizes[number] += lengths[number | item.flags << 8] + item.item_size
            handler = handlers.get(number)
            if item.flags & REPLICATED:
                # A rollback took the entry back: its bytes count, but it is not part of the stream.
                if item.invisible:
                    invisible += 1
                    continue
                visible += 1
                if self._first_vlsn == NULL_VLSN:
                    self._first_vlsn = item.vlsn
                self._last_vlsn = facts.last_vlsn = item.vlsn
            if handler is not None:
                try:
                    handler(item)
                except (FormatError, IndexError, ValueError):
                    facts.undecodable += 1
        facts.types = {n: TypeTotals(count, sizes[n]) for n, count in enumerate(entries) if count}
        if damaged:
            self._damage()
        self._last_ends()
        self._file(sum(entries), visible, invisible)
        return facts

    def _file(self, entries: int, visible: int, invisible: int) -> None:
        (file,), head, facts = self._scan.files, self._head, self._facts
        created = head.header.time if head.header is not None else 0
        facts.files.append(
            FleetFileFacts(
                number=file.number,
                path=file.path,
                size_bytes=head.size_bytes,
                version=head.version,
                created_ms=created,
                last_ms=self._last_ms,
                entries=entries,
                first_vlsn=self._first_vlsn,
                last_vlsn=self._last_vlsn,
                visible=visible,
                invisible=invisible,
                damage_bytes=facts.damage_bytes,
                problem="",
            )
        )

    def _last_ends(self) -> None:
        facts = self._facts
        try:
            # It is enough to decode the last end, since every end holds the DTVLSN known at its time.
            if self._stream_end is not None:
                facts.dtvlsn = _txn_end(self._stream_end).dtvlsn
            if self._commit is not None:
                lsn, vlsn, record = self._commit.lsn, self._commit.vlsn, _txn_end(self._commit)
                facts.last_commit = LastCommit(lsn, vlsn, record.id, record.time, record.dtvlsn)
                self._last_ms = max(self._last_ms, record.time)
        except (FormatError, IndexError, ValueError):
            facts.undecodable += 1

    def _damage(self) -> None:
        """Judge damage by everything that follows it, which takes a second pass."""
        facts = self._facts
        for seen in self._scan.check().damages:
            # A torn tail is what a crash leaves, not damage.
            if is_harmless(seen, self._end_file):
                facts.torn_tail += seen.damage.length
                continue
            facts.damage_count += 1
            facts.damage_bytes += seen.damage.length
            if len(facts.damages) < MOST_DAMAGES:
                facts.damages.append(seen)

    def _replicated_ln(self, item: LogEntry) -> None:
        self._facts.group = group_of(item) or self._facts.group

    def _end(self, item: LogEntry) -> None:
        """Handle a Commit or Abort: the last one and every n-th are decoded."""
        if item.flags & REPLICATED:
            self._stream_end = item
        # Local commits of a replicated node do not show how far its stream is.
        if item.type_number == COMMIT and (item.flags & REPLICATED or not self._commit_is_replicated):
            self._commit = item
            self._commit_is_replicated = bool(item.flags & REPLICATED)
        self._ends += 1
        if self._ends % self._stride == 0:
            self._point(_txn_end(item).time, item.lsn)

    def _ckpt_start(self, item: LogEntry) -> None:
        # Keep the first CkptStart: each later one without an end is another interrupted checkpoint.
        if self._facts.partial_start == NULL_LSN:
            self._facts.partial_start = item.lsn

    def _ckpt_end(self, item: LogEntry) -> None:
        record = item.record()
        assert isinstance(record, CkptEnd)
        self._facts.checkpoints.append(CkptEndFacts(item.lsn, record))
        self._facts.partial_start = NULL_LSN
        self._point(record.time, item.lsn)

    def _rollback_start(self, item: LogEntry) -> None:
        facts, record = self._facts, item.record()
        assert isinstance(record, RollbackStart)
        facts.rollbacks[item.lsn] = RollbackFacts(
            item.lsn, NULL_LSN, record.matchpoint_lsn, record.matchpoint_vlsn, record.time, record.active_txn_ids
        )
        facts.roll_back(record.matchpoint_vlsn)

    def _rollback_end(self, item: LogEntry) -> None:
        facts, record = self._facts, item.record()
        assert isinstance(record, RollbackEnd)
        known = facts.rollbacks.get(record.rollback_start_lsn)
        if known is None:
            # The RollbackStart lies in an earlier stretch; ``join`` finds it there.
            facts.rollback_ends[record.rollback_start_lsn] = item.lsn
        else:
            facts.rollbacks[record.rollback_start_lsn] = known._replace(end_lsn=item.lsn)

    def _summary(self, item: LogEntry) -> None:
        record = item.record()
        if isinstance(record, LN):
            content = record.content
            summary = content.summary if isinstance(content, FileSummaryLN) else None
            self._facts.summaries[summary_file(record.key)] = summary

    def _reserved(self, item: LogEntry) -> None:
        record = item.record()
        if isinstance(record, LN) and len(record.key) == tuples.LONG_KEY_BYTES:
            self._facts.reserved[tuples.parse_long_key(record.key)] = record.data is not None

    def _header(self, item: LogEntry) -> None:
        header = self._head.header
        if header is not None:
            self._point(header.time, item.lsn)

    def _point(self, time_ms: int, lsn: int) -> None:
        """Note a progress point. If there are too many points, drop every second one, and add later ones less often."""
        self._last_ms = max(self._last_ms, time_ms)
        points = self._facts.points
        points.append(LogPoint(time_ms, lsn, self._facts.last_vlsn))
        if len(points) >= MOST_POINTS:
            del points[1::2]
            # The earlier points were thinned out, so later ones are added as rarely.
            self._stride *= 2


def _txn_end(item: LogEntry) -> TxnEnd:
    record = item.record()
    assert isinstance(record, TxnEnd)
    return record
