"""Joins the files of the tasks to an environment (step 3 of a load).

The engine itself writes the connecting entries: in the open environment it continues after the new files, creates the
database, logs the upper nodes bottom-up and takes a checkpoint. These entries stay in memory (``session``), are written
to one more file (or a few) in the staging directory, and then all files are moved into place.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from engine.format.entry.ln_content import FileSummary
from engine.format.entry.node import ROOT, NodeRecord, Slot, encode_node
from engine.format.entry_types import IN_TYPE
from engine.format.fast.bin import compact_base
from engine.format.header import Provisional
from engine.format.lsn import NULL_LSN
from engine.format.versions import WRITTEN_VERSION
from engine.log.files import LogFile, list_log_files, log_file_name, log_file_path
from engine.log.writer import LogWriter
from engine.pipeline.load import stage
from engine.pipeline.load.log_output import REFERENCE, file_header
from engine.pipeline.load.plan import IDS_A_FILE, StagedFile, Target, TaskOutput
from engine.pipeline.load.session import LoadSession
from engine.pipeline.load.stage import DIRECTORY, Move
from engine.storage.base import ReadFile, Stat, Storage, WriteFile
from engine.storage.overlay import WrappedStorage
from engine.tree.in_node import MAIN_LEVEL

_LOWEST_UPPER: Final = MAIN_LEVEL + 2


def stitch(session: LoadSession, parts: list[TaskOutput]) -> None:
    """Finish the files in the staging directory and move them into the environment.

    Afterwards the environment can only be closed; on failure it has been stopped.

    Arguments:
        session: the load.
        parts: the output of the tasks.
    """
    storage = session.storage
    files = sorted(file for part in parts for file in part.files)
    before = list_log_files(storage)
    directories = before.data_directories
    paths = {log_file_path(file.number, directories): f"{DIRECTORY}/{log_file_name(file.number)}" for file in files}
    last_offset = _link(storage, files, session.last_offset)
    # From here on the engine sees the files as if in place, and its writes stay in memory.
    overlay = session.divert(_StagedView(storage, paths))
    try:
        tail_files = [LogFile(f.number, log_file_path(f.number, directories), f.size) for f in files]
        _log(session, parts, files, tail_files, last_offset)
        made = sorted(path for path in overlay.changed() if path not in paths)
        moves = [Move(log_file_name(file.number), log_file_path(file.number, directories), file.size) for file in files]
        moves += [_written(storage, overlay.open(path), path) for path in made]
        # Names in the staging directory are made durable first, since the commit renames these files.
        storage.sync_directory(DIRECTORY)
        # The last writer may have been killed before it synced the environment's last file, which must not be less
        # durable than the files after it (R-LOG-13).
        last = storage.open_rw(before.files[-1].path)
        last.sync()
        last.close()
        stage.commit(storage, moves)
    except BaseException:
        # Crash the engine: its memory describes a log that is not on disk, and a clean close would write it.
        session.engine.crash()
        raise


def _log(
    session: LoadSession, parts: list[TaskOutput], files: list[StagedFile], tail_files: list[LogFile], last_offset: int
) -> None:
    """Log the entries that make the files part of the environment: the database, its upper nodes, a checkpoint."""
    env, engine, target = session.env, session.engine, session.target
    assert engine.writer is not None
    if files:
        engine.writer.continue_after(tail_files, last_offset)
        # Continue above every id that a task may have used, so that upper nodes get new ids.
        engine.node_ids.last = target.node_id(files[-1].number, IDS_A_FILE - 1)
        for file in files:
            counters = engine.utilization.counters(file.number)
            counters.set(FileSummary(*file.summary))
            # The checkpoint below then logs a FileSummaryLN for each file.
            counters.changed = True
    else:
        # New entries must not be written into a file that is already in place.
        engine.writer.force_new_file()
    db = env.open_database(session.name) if session.exists else env.create_database(session.name, session.options)
    with db:
        assert db.state.id == target.db_id
        assert not db.state.has_root
        upper = UpperNodes(engine.writer, target, engine.node_ids.next)
        # Sorted by number, the parts are in key order.
        for part in sorted(parts):
            for key, lsn in references(Path(part.references)):
                upper.add(key, lsn)
        root_lsn = upper.finish()
        if root_lsn != NULL_LSN:
            db.state.root_lsn = root_lsn
            # Makes the checkpoint log the MapLN with the new root.
            db.state.dirty = True
    env.checkpoint(force=True, minimize=True)


class UpperNodes:
    """Builds the levels above the BINs from references in key order; needs memory for one node per level.

    Arguments:
        writer: where nodes are logged.
        target: parameters of the nodes.
        next_id: gives node ids.
    """

    def __init__(self, writer: LogWriter, target: Target, next_id: object) -> None:
        assert callable(next_id)
        self._writer = writer
        self._target = target
        self._next_id = next_id
        self._levels: list[list[tuple[bytes, int]]] = []

    def add(self, key: bytes, lsn: int, level: int = 0) -> None:
        """Take the next child node: its first key and its LSN."""
        if level == len(self._levels):
            self._levels.append([])
        slots = self._levels[level]
        # With one slot per node every level would have as many nodes as the level below, without end.
        if len(slots) >= max(self._target.fill, 2):
            self._levels[level] = []
            self.add(slots[0][0], self._log(slots, level, root=False), level + 1)
        self._levels[level].append((key, lsn))

    def finish(self) -> int:
        """Log the remaining nodes, the root last; return its LSN, or NULL_LSN for an empty tree."""
        level = 0
        while level < len(self._levels):
            slots = self._levels[level]
            if level == len(self._levels) - 1:
                return self._log(slots, level, root=True)
            self.add(slots[0][0], self._log(slots, level, root=False), level + 1)
            level += 1
        return NULL_LSN

    def _log(self, slots: list[tuple[bytes, int]], level: int, *, root: bool) -> int:
        rows = tuple(
            Slot(
                key=key,
                lsn=lsn,
                state=0,
                data=None,
                log_size=None,
                vlsn=None,
                expiration=None,
                creation_time=None,
                modification_time=None,
            )
            for key, lsn in slots
        )
        node = NodeRecord(
            db_id=self._target.db_id,
            prev_full_lsn=NULL_LSN,
            prev_full_size=0,
            prev_delta_lsn=NULL_LSN,
            prev_delta_size=0,
            expiration_base=-1,
            creation_base=-1,
            modification_base=-1,
            node_id=self._next_id(),
            identifier_key=slots[0][0],
            flags=ROOT if root else 0,
            key_prefix=None,
            compact_max_key_size=-1,
            n_entries=len(rows),
            level=_LOWEST_UPPER + level,
            max_entries=max(self._target.max_entries, len(rows)),
            base_file=compact_base([lsn for _, lsn in slots]),
            slots=rows,
            full_bin_entries=0,
            full_bin_max_entries=0,
            bloom_filter=None,
            dup_key=None,
            dup_count=None,
        )
        # Only the root is not provisional, so recovery ignores the nodes of a load that died before it (R-REC-24).
        body = encode_node(node, WRITTEN_VERSION, IN_TYPE)
        return self._writer.log(IN_TYPE, body, provisional=Provisional.NO if root else Provisional.YES)


def references(path: Path) -> Iterator[tuple[bytes, int]]:
    """First key and LSN of each BIN of a part, in order."""
    with path.open("rb") as file:
        while head := file.read(REFERENCE.size):
            lsn, length = REFERENCE.unpack(head)
            yield file.read(length), lsn


class _StagedView(WrappedStorage):
    """The environment with files that are still in the staging directory; directories do not list them."""

    def __init__(self, base: Storage, paths: dict[str, str]) -> None:
        super().__init__(base)
        self._paths = paths

    def stat(self, path: str = "") -> Stat | None:
        """The status of a path."""
        return self._base.stat(self._paths.get(path, path))

    def open(self, path: str) -> ReadFile:
        """Open a file in its real place."""
        return self._base.open(self._paths.get(path, path))

    def open_rw(self, path: str, *, create: bool = False) -> WriteFile:
        """Open a file in its real place."""
        return self._base.open_rw(self._paths.get(path, path), create=create)


def _link(storage: Storage, files: list[StagedFile], last_offset: int) -> int:
    """Write into every file where the last entry of the previous file begins; return that offset of the last file."""
    for file in files:
        handle = storage.open_rw(f"{DIRECTORY}/{log_file_name(file.number)}")
        # The header has a fixed size, so it is replaced in place, with its checksum.
        handle.write(0, file_header(file.number, last_offset))
        handle.sync()
        handle.close()
        last_offset = file.last_offset
    return last_offset


def _written(storage: Storage, file: ReadFile, path: str) -> Move:
    """Copy a file that the engine has written in memory into the staging directory, durably."""
    name = path.rpartition("/")[2]
    copy = storage.open_rw(f"{DIRECTORY}/{name}", create=True)
    copy.truncate(0)
    size, at = file.size(), 0
    while at < size:
        data = file.read(at, 1 << 20)
        copy.write(at, data)
        at += len(data)
    copy.sync()
    copy.close()
    return Move(name, path, size)
