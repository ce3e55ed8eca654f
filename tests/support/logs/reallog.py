"""Real logs for the tests of recovery: all entries of an environment, and the checkpoint that recovery begins with."""

from __future__ import annotations

from pathlib import Path

from engine.format.entry.checkpoint import CkptEnd
from engine.format.entry.ln import LN
from engine.format.entry_types import CKPT_END
from engine.log.entry import Damage, LogEntry
from engine.log.files import list_log_files
from engine.log.reader import FileReader
from engine.storage.disk import DiskStorage
from engine.txn.chain import ChainDatabase, ChainEntry


class PlainDatabase:
    """A database in byte order."""

    comparator = None
    key_updates = False


class RealLog:
    """The entries of an environment up to the first damage, by LSN."""

    def __init__(self, directory: Path) -> None:
        storage = DiskStorage(directory)
        files = list_log_files(storage).files
        self.entries: dict[int, LogEntry] = {}
        for file in files:
            with FileReader(storage, file, is_last=file is files[-1]) as reader:
                for entry in reader.entries():
                    if isinstance(entry, Damage):
                        return
                    self.entries[entry.lsn] = entry

    def checkpoint(self) -> CkptEnd:
        """The last complete checkpoint."""
        last = max(lsn for lsn, entry in self.entries.items() if entry.type_number == CKPT_END)
        record = self.entries[last].record()
        assert isinstance(record, CkptEnd)
        return record

    def backward(self, first_lsn: int) -> list[LogEntry]:
        """Entries from the end of the log down to an LSN."""
        return [self.entries[lsn] for lsn in sorted(self.entries, reverse=True) if lsn >= first_lsn]

    def read_ln(self, lsn: int) -> ChainEntry:
        """An LN, for chains."""
        record = self.entries[lsn].record()
        assert isinstance(record, LN)
        return ChainEntry(record, self.entries[lsn].vlsn)

    def database(self, db_id: int) -> ChainDatabase:
        """Every database exists."""
        return PlainDatabase()
