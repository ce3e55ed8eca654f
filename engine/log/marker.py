"""The restore marker: a file that forbids opening an environment (R-LOG-37, R-LOG-38).

The marker has the highest file number, so JE and this program read it first. They refuse to open the environment until
an operator has restored the files and removed the marker. A network restore writes it while files are being replaced. A
long-running writer writes it when it meets damage in a file (``EnvironmentConfig.mark_damage``): opening does not check
files that recovery does not read, so without the marker the damage would be forgotten at the next start.
"""

from __future__ import annotations

from typing import Final

from engine.format.entry.file_header import FILE_HEADER_BYTES, FileHeader, encode_file_header
from engine.format.entry.markers import RestoreRequired, encode_restore_required
from engine.format.entry_types import FILE_HEADER, RESTORE_REQUIRED
from engine.format.header import EntryHeader, encode_entry
from engine.format.versions import WRITTEN_VERSION
from engine.format.vlsn import NULL_VLSN
from engine.storage.base import Storage, write_synced

MARKER: Final = "7fffffff.jdb"
_NUMBER: Final = 0x7FFFFFFF


def write_marker(storage: Storage, why: RestoreRequired) -> None:
    """Write the marker, durably.

    Arguments:
        why: NETWORK_RESTORE or LOG_CHECKSUM, the time, and for the latter the place.
    """
    header = encode_file_header(FileHeader(why.time, _NUMBER, 0, WRITTEN_VERSION), WRITTEN_VERSION)
    body = encode_restore_required(why, WRITTEN_VERSION)
    content = encode_entry(EntryHeader(0, FILE_HEADER, 0, 0, len(header), NULL_VLSN), header, WRITTEN_VERSION)
    assert len(content) == FILE_HEADER_BYTES
    content += encode_entry(EntryHeader(0, RESTORE_REQUIRED, 0, 0, len(body), NULL_VLSN), body, WRITTEN_VERSION)
    write_synced(storage, MARKER, content)
    # The name must survive a crash too; otherwise the environment would open as if it were whole.
    storage.sync_directory()
