"""Opening the environment for writing, in memory: what ``jetool recover -n`` does, as a check.

The trees are checked after a recovery that only reads. A writer goes on from there: it reads the records of reserved
files, takes unfinished transactions back along their chains, finishes removals, opens the VLSN index and takes a
checkpoint. An entry that contradicts another one on this way is damage too, although each of them can be read.

Example: the transaction id of one record is changed and its checksum made right. Each entry can be read, and the trees
are whole. But the chain of an open transaction now leads to a record of another one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.errors import DamageError, FormatError, RefusedError, UnsupportedError
from engine.events import SILENT, Listener
from engine.format.lsn import NULL_LSN, file_of, parse_lsn
from engine.log.files import LogFiles, list_log_files
from engine.storage.base import Storage
from engine.storage.cut import CutStorage
from engine.storage.overlay import OverlayStorage
from engine.tree.comparators import SortKey
from engine.verify.record_rules import NOT_OPENED
from engine.verify.report import Finding, finding


def opening_findings(
    storage: Storage, files: LogFiles, comparators: Mapping[str, SortKey] | None = None, listener: Listener = SILENT
) -> Iterator[Finding]:
    """Damage that stops a writer.

    What forbids opening for other reasons is no damage and not reported: another writer, a repair that was interrupted,
    committed work after a bad entry, a log version or an order of keys that is not known.

    Arguments:
        files: only these are seen, each as long as it was when they were listed.

    Raises:
        StorageError: a file cannot be read.
    """
    lengths: dict[str, int | None] = {file.path: None for file in list_log_files(storage).files}
    lengths |= {file.path: file.size_bytes for file in files.files}
    view = OverlayStorage(CutStorage(storage, lengths))
    try:
        Environment(view, EnvironmentConfig(comparators=comparators or {}), listener).close()
    except (DamageError, FormatError) as error:
        lsn = NULL_LSN if error.lsn is None else parse_lsn(error.lsn)
        paths = [file.path for file in files.files if lsn != NULL_LSN and file.number == file_of(lsn)]
        yield finding(NOT_OPENED, str(error), lsn=lsn, file=error.file or "".join(paths))
    except (RefusedError, UnsupportedError):
        return
