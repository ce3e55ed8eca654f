"""Values sent between the driver and the tasks of a load. These values are plain and small, since they are pickled."""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

# A node id is the base of its file and a number below this.
IDS_A_FILE: Final = 1 << 16
# The consequence of a failed load for the data.
UNCHANGED: Final = "the environment is as it was"


class Target(NamedTuple):
    """The environment and database that the files of a load are made for.

    Attributes:
        staging: directory in which files are made; every task and the driver see it under this path.
        db_id: id of the database.
        max_entries: slots of a node.
        prefixing: whether nodes store the common prefix of their keys once.
        max_embedded: largest data, in bytes, that is embedded in a BIN.
        first_file: lowest file number that may be claimed.
        file_max: size in bytes at which a file is full.
        first_node_id: lowest node id of the first file.
    """

    staging: str
    db_id: int
    max_entries: int
    prefixing: bool
    max_embedded: int
    first_file: int
    file_max: int
    first_node_id: int

    @property
    def fill(self) -> int:
        """Number of slots to fill: one stays empty, as after JE's splits in an ascending load (R-TREE-13)."""
        return max(self.max_entries - 1, 1)

    def node_id(self, file_number: int, index: int) -> int:
        """The id of the n-th node of a file."""
        return self.first_node_id + (file_number - self.first_file) * IDS_A_FILE + index


class StagedFile(NamedTuple):
    """A finished log file in the staging directory.

    Attributes:
        number: of the file.
        size: bytes.
        last_offset: where the last entry of the file begins.
        summary: utilization counters of the file (``FileSummary``), as a plain tuple.
    """

    number: int
    size: int
    last_offset: int
    summary: tuple[int, ...]


class TaskOutput(NamedTuple):
    """The output of one task.

    Attributes:
        number: number of the part, in key order.
        records: LNs written.
        duplicates: number of records replaced by another record with the same key.
        bins: number of BINs written; their first keys and LSNs are in the file ``references``.
        files: the log files.
        references: path of that file.
    """

    number: int
    records: int
    duplicates: int
    bins: int
    files: tuple[StagedFile, ...]
    references: str


class LoadResult(NamedTuple):
    """The result of a load. ``read`` = ``records`` + ``rejected`` + ``duplicates``.

    Attributes:
        read, records, rejected, duplicates: records.
        files, size: number of log files written by tasks, and their size in bytes.
        rejects: the file of the rejects, or None.
    """

    read: int
    records: int
    rejected: int
    duplicates: int
    files: int
    size: int
    rejects: Path | None
