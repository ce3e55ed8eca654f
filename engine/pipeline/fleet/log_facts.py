"""What one pass over a part of a log notes for a report, and how the notes of neighbouring parts are joined.

Facts are a value for a stretch of log. ``join`` takes over those of the stretch that follows, and joining is
associative: files can be handed out to tasks in any way. What a stretch says of an earlier one is remembered until an
earlier stretch takes it in: the end of a rollback, a matchpoint before the stretch's own entries.

Example, two stretches of a file each: ``Commit VLSN 9 | LN VLSN 10`` and ``RollbackStart to 9 | LN VLSN 10 | Commit
VLSN 11``. The first ends with VLSN 10; the second says "back to 9", then ends with 11. Joined: 11.

Everything that grows with the log is bounded: progress points are thinned, damage is listed up to a limit and counted
beyond. What recovery would have to do is for the survey of the stretch that holds the end of the log.
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
        created_ms: time in its header; 0 when that is damaged.
        last_ms: the latest time of a transaction or checkpoint in it; 0 without one.
        first_vlsn, last_vlsn: of its visible replicated entries, in log order.
        visible, invisible: replicated entries that are, and that a rollback took back.
        damage_bytes: bytes outside of entries, a torn tail not counted.
        problem: why it cannot be read; empty when it can.
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
    """A RollbackStart, and the LSN of its RollbackEnd, NULL_LSN without one."""

    start_lsn: int
    end_lsn: int
    matchpoint_lsn: int
    matchpoint_vlsn: int
    time_ms: int
    txns: tuple[int, ...]


class LastCommit(NamedTuple):
    """The last Commit that is not rolled back; VLSN NULL_VLSN for a local one."""

    lsn: int
    vlsn: int
    txn_id: int
    time_ms: int
    dtvlsn: int

    def replaces(self, earlier: LastCommit | None) -> bool:
        """Whether it stands for the node, after an earlier one: what a node writes for itself does not."""
        return self.vlsn != NULL_VLSN or earlier is None or earlier.vlsn == NULL_VLSN


class LogPoint(NamedTuple):
    """Where the log was at a time: LSN, and the VLSN it had come to (NULL_VLSN: none yet in this stretch)."""

    time_ms: int
    lsn: int
    vlsn: int


class EndOfLog(NamedTuple):
    """What the end of a log says (``engine.inspect.survey``).

    Attributes:
        closed: the last thing written is the checkpoint of a close.
        end_lsn: after the last entry.
        open_txns: transactions that recovery would undo.
        prepared_txns: transactions prepared and not decided.
        recovery_entries, recovery_bytes: what recovery has to read.
        lock_holder: pid of its writer, 0 for an unknown one, None without a writer.
        lost: what the trees hold in log files that are not there, by file number (``engine.verify.missing_file_refs``).
        recovers: recovery in memory, which is tried where files are missing, comes to an end.
        journals: those of a Doris or StarRocks frontend; None for anything else.
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
        partial_start: the first CkptStart after the last CkptEnd; NULL_LSN without one.
        summaries: what the stretch says last of the utilization of a file, by file number; None: the file was deleted.
        reserved: numbers of files, and whether the last record of each says that the cleaner has given it up.
        rollbacks: by LSN of the RollbackStart.
        rollback_ends: LSN of a RollbackEnd by that of its RollbackStart, for one that lies before the stretch.
        last_commit: the last one; in a stretch with replicated commits the last of these.
        dtvlsn: the VLSN that the last replicated Commit or Abort calls durable on a majority; 0 without one.
        last_vlsn: the VLSN that the stretch ends with, rollbacks taken into account.
        cut_vlsn: the lowest matchpoint of a rollback before any entry of the stream here; NULL_VLSN - 1 for none.
        points: progress over time.
        damages: damage that is more than a torn tail, up to a limit; ``damage_count`` and ``damage_bytes`` in all.
        torn_tail: bytes of the torn tail of the log.
        undecodable: entries with a good checksum and a body that does not decode.
        end: the end of the log; None when the stretch does not hold it, or it cannot be read.
        group: the replication group; None when the stretch does not tell.
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
        """Take over the facts of the stretch that follows."""
        self.files += later.files
        for number, totals in later.types.items():
            known = self.types.get(number, TypeTotals(0, 0))
            self.types[number] = TypeTotals(known.entries + totals.entries, known.bytes + totals.bytes)
        # A CkptEnd in the later stretch ends whatever was begun before it.
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
        # A rollback at the front of the later stretch, before any entry of its own.
        if later.cut_vlsn != NO_CUT:
            self.roll_back(later.cut_vlsn)
        # After the cut: what the later stretch ends with comes last in the log.
        if later.last_vlsn != NULL_VLSN:
            self.last_vlsn = later.last_vlsn
        if later.last_commit is not None and later.last_commit.replaces(self.last_commit):
            self.last_commit = later.last_commit
        self.dtvlsn = later.dtvlsn or self.dtvlsn

    def roll_back(self, matchpoint: int) -> None:
        """The stream goes back to a matchpoint."""
        if self.last_vlsn == NULL_VLSN:
            # The entries that go lie in an earlier stretch; ``join`` applies it there.
            self.cut_vlsn = matchpoint if self.cut_vlsn == NO_CUT else min(self.cut_vlsn, matchpoint)
        else:
            self.last_vlsn = min(self.last_vlsn, matchpoint)


NO_CUT: Final = NULL_VLSN - 1


def thinned(points: list[LogPoint], most: int = MOST_POINTS) -> list[LogPoint]:
    """A limited number of points, the last one among them, spread over the log as they were."""
    if len(points) <= most:
        return points
    step = len(points) / most
    kept = [points[int(index * step)] for index in range(most)]
    # The end of the log is what a reader looks for.
    kept[-1] = points[-1]
    return kept
