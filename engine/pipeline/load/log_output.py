"""Step 2 of a load: writes log files from sorted runs, one task for each range of keys.

A number is claimed by creating the file: of all tasks that try, on all machines that share the directory, one succeeds.
Numbers are claimed when they are needed, so that the files of the tasks have no gaps between them; a failed task leaves
a gap, as a cleaned file would (R-LOG-14).

Records are written in blocks: the LNs of a block, then its BINs. The offsets of all LNs of a block are known before
they are encoded, since their sizes are known.
"""

from __future__ import annotations

import os
import struct
import time
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engine.format.entry.file_header import FILE_HEADER_BYTES, FileHeader, encode_file_header
from engine.format.entry_types import BIN_TYPE, FILE_HEADER
from engine.format.fast.header import sealed
from engine.format.header import HEADER_BYTES, PROVISIONAL
from engine.format.versions import WRITTEN_VERSION
from engine.log.files import log_file_name
from engine.pipeline.load.blocks import BINBlock, LNBlock
from engine.pipeline.load.plan import IDS_A_FILE, StagedFile, Target, TaskOutput
from engine.pipeline.load.runs import Binary, Merge
from engine.pipeline.python_side import settle_arrow, settle_worker

Numbers = npt.NDArray[np.int64]
REFERENCE: Final = struct.Struct("<qI")
_BINS_A_BLOCK: Final = 64


class LogOutput:
    """Writes sorted records as LNs and complete BINs.

    Arguments:
        target: the load that the files belong to.
        number: number of the part; used in the name of the file of references.
    """

    def __init__(self, target: Target, number: int) -> None:
        self._target = target
        self._part = number
        self._lns = LNBlock(target.db_id, target.max_embedded)
        self._file: _File | None = None
        self._done: list[StagedFile] = []
        self._pending: list[Any] = []
        self._pending_rows = 0
        self._next_number = target.first_file
        # Process and time are in the name, so two attempts at a part write different files.
        self._references = Path(target.staging) / f"references-{number:06d}-{os.getpid()}-{time.time_ns():x}"
        self._index_file = self._references.open("wb")
        self.records = self.bins = 0

    def add(self, table: Any) -> None:
        """Take sorted records without duplicates.

        Arguments:
            table: an Arrow table with the columns ``key`` and ``value``, ``large_binary``.
        """
        self._pending.append(table)
        self._pending_rows += len(table)
        block = self._target.fill * _BINS_A_BLOCK
        if self._pending_rows < block:
            return
        whole = pa.concat_tables(self._pending).combine_chunks()
        at = 0
        while len(whole) - at >= block:
            self._write_block(whole.slice(at, block))
            at += block
        # Except at the end only whole blocks are written, so that BINs are full whatever the sizes of the tables.
        self._pending, self._pending_rows = [whole.slice(at)], len(whole) - at

    def finish(self, duplicates: int) -> TaskOutput:
        """Write the remaining records and make all files durable.

        Arguments:
            duplicates: number of records that the merge has dropped; part of the result.
        """
        if self._pending_rows:
            self._write_block(pa.concat_tables(self._pending).combine_chunks())
        self._close()
        self._index_file.close()
        return TaskOutput(self._part, self.records, duplicates, self.bins, tuple(self._done), str(self._references))

    def abandon(self) -> None:
        """Abandon the files; cleaning the staging directory removes them."""
        if self._file is not None:
            self._file.stream.close()
        self._index_file.close()

    def _write_block(self, table: Any) -> None:
        keys, values = (Binary(_one_chunk(table[name])) for name in ("key", "value"))
        sizes = self._lns.sizes(keys, values)
        lsns = np.empty(len(keys), np.int64)
        at = 0
        while at < len(keys):
            file = self._room_for(int(sizes[at]))
            ends = np.cumsum(sizes[at:])
            # An entry larger than a file gets a file of its own.
            count = max(int(np.searchsorted(ends, self._target.file_max - file.offset, "right")), 1)
            offsets = file.offset + ends[:count] - sizes[at : at + count]
            lsns[at : at + count] = file.number << 32 | offsets
            # The offset of the entry physically before in the same file (R-LOG-9).
            previous = np.concatenate(([file.last_offset], offsets[:-1]))
            part = slice(at, at + count)
            block = self._lns.encode(keys.cut(at, at + count), values.cut(at, at + count), sizes[part], previous)
            file.add_lns(block, sizes[part], int(offsets[-1]), values.lengths[part] <= self._target.max_embedded)
            at += count
        # Write the BINs after all LNs of the block, since a BIN must follow the LNs of its slots.
        self._write_bins(BINBlock(self._target, keys, values, lsns, sizes))
        self.records += len(keys)

    def _write_bins(self, block: BINBlock) -> None:
        references = []
        for index in range(len(block)):
            file = self._file
            assert file is not None
            body = block.encode(index, self._target.node_id(file.number, file.nodes))
            if file.offset + HEADER_BYTES + len(body) > self._target.file_max or file.nodes == IDS_A_FILE - 1:
                file = self._flip()
                # The id depends on the file, so the node is encoded again.
                body = block.encode(index, self._target.node_id(file.number, file.nodes))
            lsn = file.number << 32 | file.offset
            key = block.first_key(index)
            # The driver builds the upper nodes from these references, without reading the BINs again.
            references.append(REFERENCE.pack(lsn, len(key)) + key)
            file.add_bin(body)
        self._index_file.write(b"".join(references))
        self.bins += len(block)

    def _room_for(self, size: int) -> _File:
        file = self._file
        if file is None or (file.offset + size > self._target.file_max and file.offset > FILE_HEADER_BYTES):
            return self._flip()
        return file

    def _flip(self) -> _File:
        self._close()
        directory = Path(self._target.staging)
        while True:
            number = self._next_number
            self._next_number += 1
            try:
                # O_EXCL is what claims the number, also over a shared file system.
                handle = os.open(directory / log_file_name(number), os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
            except FileExistsError:
                continue
            self._file = _File(number, handle)
            return self._file

    def _close(self) -> None:
        if self._file is not None:
            self._done.append(self._file.close())
            self._file = None


class _File:
    """The file being written, with its utilization counters."""

    def __init__(self, number: int, handle: int) -> None:
        self.number = number
        self.stream = os.fdopen(handle, "wb", 1 << 20)
        self.offset = self.last_offset = self.nodes = 0
        self._entries = self._node_bytes = self._lns = self._ln_bytes = self._longest = 0
        self._embedded = self._embedded_bytes = 0
        # The previous file is not known yet; ``stitch`` links the files when all are complete.
        self.stream.write(file_header(number, 0))
        self.offset = FILE_HEADER_BYTES

    def add_lns(
        self, block: npt.NDArray[np.uint8], sizes: Numbers, last_offset: int, embedded: npt.NDArray[np.bool_]
    ) -> None:
        """Append LNs; those whose data is embedded are obsolete from birth (R-CLN-5)."""
        self.stream.write(block.data)
        total = int(sizes.sum())
        self.offset += total
        self.last_offset = last_offset
        self._entries += len(sizes)
        self._lns += len(sizes)
        self._ln_bytes += total
        self._longest = max(self._longest, int(sizes.max()))
        self._embedded += int(embedded.sum())
        self._embedded_bytes += int(sizes[embedded].sum())

    def add_bin(self, body: bytes) -> None:
        """Append a BIN, provisional YES."""
        self.stream.write(sealed(BIN_TYPE, PROVISIONAL, self.last_offset, body))
        self.last_offset = self.offset
        self.offset += HEADER_BYTES + len(body)
        self._entries += 1
        self.nodes += 1
        self._node_bytes += HEADER_BYTES + len(body)

    def close(self) -> StagedFile:
        """Make it durable."""
        self.stream.flush()
        # Sync the file before it is reported to the driver, since the commit only renames files.
        os.fsync(self.stream.fileno())
        self.stream.close()
        summary = (
            self._entries, self.offset - FILE_HEADER_BYTES, self.nodes, self._node_bytes, self._lns, self._ln_bytes,
            self._longest, 0, self._embedded, self._embedded_bytes, self._embedded,
        )  # fmt: skip
        return StagedFile(self.number, self.offset, self.last_offset, summary)


def file_header(number: int, last_offset_before: int) -> bytes:
    """The header entry of a log file.

    Arguments:
        number: of the file.
        last_offset_before: where the last entry of the previous file begins.
    """
    record = FileHeader(int(time.time() * 1000), number, last_offset_before, WRITTEN_VERSION)
    return sealed(FILE_HEADER, 0, 0, encode_file_header(record, WRITTEN_VERSION))


def _one_chunk(column: Any) -> Any:
    """A column as one array."""
    chunks = column.chunks
    return chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks)


class Share(NamedTuple):
    """One part of all runs.

    Attributes:
        number: of the part.
        paths: of the runs.
        low, high: the key range of the part, from ``low`` on, below ``high``; None for no limit.
        keep: which of equal keys stays.
    """

    number: int
    paths: tuple[str, ...]
    low: bytes | None
    high: bytes | None
    keep: str


def write_share(target: Target, share: Share) -> TaskOutput:
    """Merge one part and write its log files.

    Raises:
        JobError: equal keys that must not be dropped. OSError: the disk is full.
    """
    settle_worker()
    settle_arrow()
    merge = Merge(list(share.paths), share.low, share.high, share.keep)
    output = LogOutput(target, share.number)
    try:
        for table in merge.tables():
            output.add(table)
        return output.finish(merge.duplicates)
    # An interrupt must also close the handles before the directory is removed.
    except BaseException:
        output.abandon()
        raise


def shares(paths: list[str], cuts: list[bytes], keep: str) -> list[Share]:
    """The key ranges between the cuts."""
    limits = [None, *cuts, None]
    return [Share(number, tuple(paths), low, high, keep) for number, (low, high) in enumerate(pairwise(limits))]
