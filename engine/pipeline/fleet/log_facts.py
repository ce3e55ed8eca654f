"""The facts of a part of a log for a report, and how the facts of neighbouring parts are joined.

Facts describe a stretch of log. ``join`` adds the facts of the following stretch, and joining is associative, so files
can be divided among tasks in any way. Facts that concern an earlier stretch, such as the end of a rollback or a
matchpoint before the stretch's own entries, are kept until the earlier stretch is joined.

Example, two stretches of a file each: ``Commit VLSN 9 | LN VLSN 10`` and ``RollbackStart to 9 | LN VLSN 10 | Commit
VLSN 11``. The first ends with VLSN 10; the second goes back to 9, then ends with 11. Joined: 11.

Everything that grows with the log is bounded: progress points are thinned, damage is listed up to a limit and counted
beyond. The work for recovery comes from the survey of the stretch that holds the end of the log.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from engine.format.entry.checkpoint import CkptEnd
from engine.format.entry.ln_content import FileSummary
from engine.format.lsn import NULL_LSN
from engine.format.vlsn import NULL_VLSN
from engine.inspect.group_record import GroupName
from engine.journals.summary import JournalSummary
from engine.log.check import DamagedStretch
from engine.verify.missing_file_refs import LostFile

MOST_POINTS: Final = 512
MOST_DAMAGES: Final = 1000


class FleetFileFacts(NamedTuple):
    """One log file.

    Attributes:
        version: log version; 0 when the file cannot be read.
        created_ms: time in the header of the file; 0 if the header is damaged.
        last_ms: the latest time of a transaction or checkpoint in the file; 0 if there is no such time.
        first_vlsn, last_vlsn: first and last VLSN of its visible replicated entries, in log order.
        visible, invisible: number of visible replicated entries, and of replicated entries that a rollback undid.
        damage_bytes: bytes outside of entries, a torn tail not counted.
        problem: why the file cannot be read; empty if it can be read.
    """

    number: int
    path: str
    size_bytes: int
    version: int
    created_ms: int
    last_ms: int
    entries: int
    first_vlsn: int
    last_vlsn: int
    visible: int
    invisible: int
    damage_bytes: int
    problem: str


class TypeTotals(NamedTuple):
    """Entries of one type; bytes with headers."""

    entries: int
    bytes: int


class CkptEndFacts(NamedTuple):
    """A CkptEnd and its LSN."""

    lsn: int
    record: CkptEnd


class RollbackFacts(NamedTuple):
    """A RollbackStart, and the LSN of its RollbackEnd; NULL_LSN if there is no RollbackEnd."""

    start_lsn: int
    end_lsn: int
    matchpoint_lsn: int
    matchpoint_vlsn: int
    time_ms: int
    txns: tuple[int, ...]


class LastCommit(NamedTuple):
    """The last Commit that is not rolled back; a local Commit has NULL_VLSN."""

    lsn: int
    vlsn: int
    txn_id: int
    time_ms: int
    dtvlsn: int

    def replaces(self, earlier: LastCommit | None) -> bool:
        """Whether a commit replaces an earlier one as the node's last; a local one never replaces a replicated one."""
        return self.vlsn != NULL_VLSN or earlier is None or earlier.vlsn == NULL_VLSN


class LogPoint(NamedTuple):
    """The position of the log at a time: LSN, and the last VLSN (NULL_VLSN: none yet in this stretch)."""

    time_ms: int
    lsn: int
    vlsn: int


class EndOfLog(NamedTuple):
    """The facts about the end of a log (``engine.inspect.survey``).

    Attributes:
        closed: the log ends with the checkpoint of a close.
        end_lsn: after the last entry.
        open_txns: transactions that recovery would undo.
        prepared_txns: transactions prepared and not decided.
        recovery_entries, recovery_bytes: size of the part that recovery has to read.
        lock_holder: pid of the writer; 0 if the pid is unknown, None if there is no writer.
        lost: references of the trees into missing log files, by file number (``engine.verify.missing_file_refs``).
        recovers: recovery in memory succeeds; it is tried if files are missing.
        journals: the journals of a Doris or StarRocks frontend; None for other environments.
    """

    closed: bool
    end_lsn: int
    open_txns: tuple[int, ...]
    prepared_txns: tuple[int, ...]
    recovery_entries: int
    recovery_bytes: int
    lock_holder: int | None
    lost: Mapping[int, LostFile]
    recovers: bool
    journals: JournalSummary | None = None


class Facts:
    """Facts of a stretch of log.

    Attributes:
        files: the files, ascending.
        types: by type number.
        checkpoints: complete ones, in log order.
        partial_start: the first CkptStart after the last CkptEnd; NULL_LSN if there is no such CkptStart.
        summaries: the last utilization record in the stretch for each file, by file number; None: the file was deleted.
        reserved: by file number, whether the last record of the file marks it as reserved by the cleaner.
        rollbacks: by LSN of the RollbackStart.
        rollback_ends: LSN of a RollbackEnd by the LSN of its RollbackStart, if the start lies before the stretch.
        last_commit: the last Commit; in a stretch with replicated commits the last replicated one.
        dtvlsn: the VLSN that is durable on a majority according to the last replicated Commit or Abort; 0 if there is
            no such entry.
        last_vlsn: the last VLSN of the stream at the end of the stretch, after its rollbacks.
        cut_vlsn: the lowest matchpoint of the rollbacks that precede all stream entries of the stretch; NULL_VLSN - 1
            if there is no such rollback.
        points: progress over time.
        damages: damage other than a torn tail, up to a limit; ``damage_count`` and ``damage_bytes`` are totals.
        torn_tail: size of the torn tail of the log.
        undecodable: number of entries with a good checksum and a body that cannot be decoded.
        end: the end of the log; None if the stretch does not hold it or it cannot be read.
        group: the replication group; None if the stretch does not name it.
    """

    __slots__ = (
        "checkpoints", "cut_vlsn", "damage_bytes", "damage_count", "damages", "dtvlsn", "end", "files", "group",
        "last_commit", "last_vlsn", "partial_start", "points", "reserved", "rollback_ends", "rollbacks", "summaries",
        "torn_tail", "types", "undecodable",
    )  # fmt: skip

    def __init__(self) -> None:
        self.files: list[FleetFileFacts] = []
        self.types: dict[int, TypeTotals] = {}
        self.checkpoints: list[CkptEndFacts] = []
        self.partial_start = NULL_LSN
        self.summaries: dict[int, FileSummary | None] = {}
        self.reserved: dict[int, bool] = {}
        self.rollbacks: dict[int, RollbackFacts] = {}
        self.rollback_ends: dict[int, int] = {}
        self.dtvlsn = 0
        self.last_commit: LastCommit | None = None
        self.last_vlsn = NULL_VLSN
        self.cut_vlsn = NO_CUT
        self.points: list[LogPoint] = []
        self.damages: list[DamagedStretch] = []
        self.damage_count = self.damage_bytes = self.torn_tail = self.undecodable = 0
        self.end: EndOfLog | None = None
        self.group: GroupName | None = None

    def join(self, later: Facts) -> None:
        """Add the facts of the following stretch."""
        self.files += later.files
        for number, totals in later.types.items():
            known = self.types.get(number, TypeTotals(0, 0))
            self.types[number] = TypeTotals(known.entries + totals.entries, known.bytes + totals.bytes)
        # A CkptEnd in the later stretch ends the checkpoint begun before it.
        if later.checkpoints or self.partial_start == NULL_LSN:
            self.partial_start = later.partial_start
        self.checkpoints += later.checkpoints
        self.summaries |= later.summaries
        self.reserved |= later.reserved
        self._join_stream(later)
        self.points = thinned([*self.points, *later.points])
        self.damages = [*self.damages, *later.damages][:MOST_DAMAGES]
        self.damage_count += later.damage_count
        self.damage_bytes += later.damage_bytes
        self.torn_tail += later.torn_tail
        self.undecodable += later.undecodable
        self.end = later.end or self.end
        self.group = later.group or self.group

    def _join_stream(self, later: Facts) -> None:
        for start, end in later.rollback_ends.items():
            known = self.rollbacks.get(start)
            if known is None:
                self.rollback_ends[start] = end
            else:
                self.rollbacks[start] = known._replace(end_lsn=end)
        self.rollbacks |= later.rollbacks
        # A rollback at the beginning of the later stretch, before its own stream entries.
        if later.cut_vlsn != NO_CUT:
            self.roll_back(later.cut_vlsn)
        # Set the last VLSN after the rollback: the later stretch comes last in the log.
        if later.last_vlsn != NULL_VLSN:
            self.last_vlsn = later.last_vlsn
        if later.last_commit is not None and later.last_commit.replaces(self.last_commit):
            self.last_commit = later.last_commit
        self.dtvlsn = later.dtvlsn or self.dtvlsn

    def roll_back(self, matchpoint: int) -> None:
        """The stream goes back to a matchpoint."""
        if self.last_vlsn == NULL_VLSN:
            # The removed entries lie in an earlier stretch; ``join`` applies the rollback there.
            self.cut_vlsn = matchpoint if self.cut_vlsn == NO_CUT else min(self.cut_vlsn, matchpoint)
        else:
            self.last_vlsn = min(self.last_vlsn, matchpoint)


NO_CUT: Final = NULL_VLSN - 1


def thinned(points: list[LogPoint], most: int = MOST_POINTS) -> list[LogPoint]:
    """A limited number of points, including the last one, evenly spread."""
    if len(points) <= most:
        return points
    step = len(points) / most
    kept = [points[int(index * step)] for index in range(most)]
    # Always keep the last point: readers of a report look for the end of the log.
    kept[-1] = points[-1]
    return kept
