"""Cuts a log at a point.

A plan is made first, only by reading: where the log will end (``points``), the part to remove, and whether the rest is
complete. For this the cut environment is recovered in memory. If files have been deleted since that point, its trees
may refer to them: the trees are walked, and the cut is refused if they do.

Nothing needs to be written to the rest: the utilization, the VLSN index and the list of reserved files are records of
the log. Recovery reads them as of the last checkpoint before the cut, and updates them from the entries after it.

The plan has a *token*, a digest of the cut and of the state of the files: a run with the token of a dry run is refused
if the files have changed since.
"""

from __future__ import annotations

import hashlib
from typing import Final, NamedTuple

from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.db.vlsn_index.view import read_index
from engine.errors import DamageError, FormatError, RefusedError, plural
from engine.events import SILENT, Listener
from engine.format.entry.ln import LN
from engine.format.entry.ln_content import MapLN
from engine.format.entry.txn_end import TxnEnd
from engine.format.entry_types import ABORT, COMMIT, MAP_LNS, TXN_ENDS, USER_LNS
from engine.format.lsn import file_of, format_lsn, offset_of
from engine.format.vlsn import NULL_VLSN
from engine.log.entry import LogEntry
from engine.log.files import LogFile, LogFiles, list_log_files, log_file_name
from engine.log.scan import scan_log
from engine.rescue.history import lost_at
from engine.rescue.points import Cut, Point, as_of, find_cut
from engine.storage.base import Storage
from engine.vlsn.vlsn_range import EMPTY_RANGE, VLSNRange

_TOKEN_DIGITS: Final = 16
YES: Final = "yes"
BY_RESTORE: Final = "with-restore"


class CutCommit(NamedTuple):
    """A removed Commit; its VLSN is NULL_VLSN outside a stream."""

    lsn: int
    txn: int
    time_ms: int
    vlsn: int


class CutContent(NamedTuple):
    """The content of the part of a log to be removed.

    Attributes:
        entries, size_bytes: totals; damage counts only in bytes.
        commits, aborts: numbers of transactions that ended there.
        records: by database, number of visible records written there, whatever the fate of their transactions.
        first_vlsn, last_vlsn: first and last VLSN of visible entries; NULL_VLSN if no entry has a VLSN.
        first_commit, last_commit: None without a Commit.
        dtvlsn: the highest durable VLSN that a transaction end there names; 0 if none is named.
        durable: number of Commits up to that VLSN, which a majority of the group has.
        after_damage: number of Commits after damage in the last file: recovery does not see them, salvage does.
    """

    entries: int
    size_bytes: int
    commits: int
    aborts: int
    records: dict[str, int]
    first_vlsn: int
    last_vlsn: int
    first_commit: CutCommit | None
    last_commit: CutCommit | None
    dtvlsn: int
    durable: int
    after_damage: int


class TruncationPlan(NamedTuple):
    """What a truncation does.

    Attributes:
        cut: where the log will end.
        content: what goes.
        cut_file: the file that the log will end in.
        removed: files after it.
        last_vlsn: the last VLSN that is kept; NULL_VLSN if no VLSN is kept.
        rejoins: whether a replicated node can rejoin its group: ``YES``, or ``BY_RESTORE`` if no place is left at which
            the streams of two nodes can be compared; None without replication.
        token: see the module docstring.
    """

    cut: Cut
    content: CutContent
    cut_file: LogFile
    removed: tuple[LogFile, ...]
    last_vlsn: int
    rejoins: str | None
    token: str

    @property
    def changes(self) -> bool:
        """Whether anything goes."""
        return bool(self.content.size_bytes or self.removed)


def plan_truncation(storage: Storage, point: Point, listener: Listener = SILENT) -> TruncationPlan:
    """Plan a truncation; nothing is changed.

    Raises:
        NotFoundError: no such point. RefusedError: no transaction ends before the point, the rest would be incomplete,
            or there is a restore marker.
        UnsupportedError, StorageError: a file cannot be read.
    """
    files = list_log_files(storage)
    cut = find_cut(storage, files, point, listener)
    last = file_of(cut.end_lsn)
    cut_file = next(file for file in files.files if file.number == last)
    removed = tuple(file for file in files.files if file.number > last)
    names, vlsns = _require_whole(storage, files, cut, listener)
    content = _content(storage, files, cut, names)
    rejoins = None
    if vlsns is not None:
        # A syncup needs a place at which both streams are equal.
        rejoins = YES if vlsns.last_sync != NULL_VLSN else BY_RESTORE
    return TruncationPlan(
        cut=cut,
        content=content,
        cut_file=cut_file,
        removed=removed,
        last_vlsn=NULL_VLSN if vlsns is None else vlsns.last,
        rejoins=rejoins,
        token=_token(storage, files, cut),
    )


def truncate(storage: Storage, plan: TruncationPlan) -> None:
    """Cut the log as planned.

    Arguments:
        storage: the environment, locked by the caller, who also saves the removed bytes.
    """
    # From the end, so that at any moment the remaining files are a log without gaps.
    for file in reversed(plan.removed):
        storage.remove(file.path)
    storage.sync_directory()
    target = storage.open_rw(plan.cut_file.path)
    try:
        target.truncate(offset_of(plan.cut.end_lsn))
        target.sync()
    finally:
        target.close()


def _require_whole(
    storage: Storage, files: LogFiles, cut: Cut, listener: Listener
) -> tuple[dict[int, str], VLSNRange | None]:
    """Recover the rest in memory; return names of its databases by id, and its VLSNs, None if it is not replicated."""
    view = as_of(storage, cut.end_lsn)
    try:
        with Environment(view, EnvironmentConfig(read_only=True), listener) as env:
            names: dict[int, str] = {}
            for name in env.database_names(internal=True):
                with env.open_database(name) as db:
                    names[db.state.id] = name
            index = read_index(env.engine.parts) if env.replicated else None
            # A VLSN index that does not match the log keeps JE from opening the environment.
            if index is not None and index.refused is not None:
                raise index.refused
    except DamageError as error:
        raise RefusedError(
            "what would be left cannot be recovered",
            file=storage.root,
            lsn=format_lsn(cut.end_lsn),
            found=str(error),
            consequence="nothing was changed",
            hint="name a later point, or use a backup of that time instead",
        ) from error
    if files.missing() or files.files[0].number:
        _require_files(view, cut, listener)
    vlsns = None if index is None else EMPTY_RANGE if index.merged is None else index.merged.range
    return names, vlsns


def _require_files(view: Storage, cut: Cut, listener: Listener) -> None:
    """Refuse if a tree at the cut refers to a file that has been deleted since."""
    lost = lost_at(view, listener)
    if lost:
        number = min(lost)
        first = lost[number]
        raise RefusedError(
            f"{plural(len(lost), 'log file has', 'log files have')} been deleted since that were in use at that point",
            file=view.root,
            lsn=format_lsn(cut.end_lsn),
            found=f"{first.first_db} leads to {format_lsn(first.first_lsn)} in {log_file_name(number)}",
            consequence="the remaining log would be incomplete; nothing was changed",
            hint="name a later point; a backup that has these files can be restored to this point",
        )


class _Content:
    """Counts what goes."""

    def __init__(self, names: dict[int, str]) -> None:
        self._names = names
        self.entries = self.aborts = 0
        self.records: dict[int, int] = {}
        self.vlsns: list[int] = []
        self.commits: list[CutCommit] = []
        self.dtvlsn = self.after_damage = 0

    def take(self, entry: LogEntry, *, is_after_end: bool) -> None:
        """Count one entry; ``is_after_end``: the log has ended before it."""
        self.entries += 1
        if entry.type_number in MAP_LNS:
            # The name of a database created after the cut is found only here.
            record = _decoded(entry)
            if isinstance(record, LN) and isinstance(record.content, MapLN) and record.content.database.name:
                self._names.setdefault(record.content.database.db_id, record.content.database.name)
        if entry.invisible:
            return
        if entry.replicated:
            self.vlsns = [self.vlsns[0] if self.vlsns else entry.vlsn, entry.vlsn]
        if entry.type_number in USER_LNS:
            record = _decoded(entry)
            if isinstance(record, LN):
                self.records[record.db_id] = self.records.get(record.db_id, 0) + 1
        elif entry.type_number in TXN_ENDS:
            self._take_end(entry, is_after_end=is_after_end)

    def _take_end(self, entry: LogEntry, *, is_after_end: bool) -> None:
        record = _decoded(entry)
        if not isinstance(record, TxnEnd):
            return
        self.dtvlsn = max(self.dtvlsn, record.dtvlsn)
        self.aborts += entry.type_number == ABORT
        if entry.type_number == COMMIT:
            self.commits.append(CutCommit(entry.lsn, record.id, record.time, entry.vlsn))
            self.after_damage += is_after_end

    def result(self, size_bytes: int) -> CutContent:
        """The counts."""
        by_name: dict[str, int] = {}
        for db_id, count in self.records.items():
            name = self._names.get(db_id, f"database {db_id}")
            # JE's own records do not matter for the decision about the cut.
            if not name.startswith("_je"):
                by_name[name] = by_name.get(name, 0) + count
        durable = sum(NULL_VLSN != one.vlsn <= self.dtvlsn for one in self.commits)
        return CutContent(
            entries=self.entries,
            size_bytes=size_bytes,
            commits=len(self.commits),
            aborts=self.aborts,
            records=dict(sorted(by_name.items())),
            first_vlsn=self.vlsns[0] if self.vlsns else NULL_VLSN,
            last_vlsn=self.vlsns[1] if self.vlsns else NULL_VLSN,
            first_commit=self.commits[0] if self.commits else None,
            last_commit=self.commits[-1] if self.commits else None,
            dtvlsn=self.dtvlsn,
            durable=durable,
            after_damage=self.after_damage,
        )


def _content(storage: Storage, files: LogFiles, cut: Cut, names: dict[int, str]) -> CutContent:
    found, size_bytes, end_file = _Content(names), 0, files.end_file()
    is_after_end = False
    for file in files.files:
        if file.number >= file_of(cut.end_lsn):
            size_bytes += file.size_bytes - (offset_of(cut.end_lsn) if file.number == file_of(cut.end_lsn) else 0)
    for item in scan_log(storage, files, start=cut.end_lsn).entries():
        if isinstance(item, LogEntry):
            found.take(item, is_after_end=is_after_end)
        elif item.length and file_of(item.lsn) >= end_file:
            # The log ends here (R-LOG-31), but later Commits may have been durable (D-5): they are removed as well.
            is_after_end = True
    return found.result(size_bytes)


def _token(storage: Storage, files: LogFiles, cut: Cut) -> str:
    digest = hashlib.sha256(f"truncate {cut.end_lsn}".encode())
    for file in files.files:
        stat = storage.stat(file.path)
        digest.update(f"\0{file.path} {file.size_bytes} {0 if stat is None else stat.modified_ms}".encode())
    return digest.hexdigest()[:_TOKEN_DIGITS]


def _decoded(entry: LogEntry) -> object:
    try:
        return entry.record()
    except (FormatError, IndexError, ValueError):
        return None
