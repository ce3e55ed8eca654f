"""Encodes many LN entries or complete BINs at once, into the same bytes as ``engine.format`` does one by one.

LNs: entries of equal key and data length are rows of one matrix. Headers and lengths are columns that are constant or
come from a vector; keys and data are copied as blocks. The Adler-32 of a row of n bytes is

    A = 1 + sum d[i]            B = n + sum (n - i) d[i]           (i from 0, both modulo 65521)

which is one matrix product. Single precision is exact while no sum reaches 2^24, that is up to 361 bytes; longer rows
use double precision. Rare lengths, and long rows, are encoded one by one.

BINs: records of equal key length and equal entry size, whose data is not embedded, give slots of equal width. Then the
slots of all nodes are rows of one matrix, and only the heads of the nodes are encoded one by one. Otherwise slots are
joined.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

from engine.format.bytecursor import join_two_part_key, pack
from engine.format.entry.ln import EMBEDDED
from engine.format.entry.node import (
    HAS_SIZES,
    NULL_OFFSET,
    SLOT_EMBEDDED,
    SLOT_NO_DATA,
)
from engine.format.entry_types import INS_LN
from engine.format.fast.bin import LSN_AND_STATE, LSN_BYTES, MOST_FILES, NO_EXPIRATION, compact_base, encode_head
from engine.format.fast.header import sealed
from engine.format.fast.ln import encode_user_fields
from engine.format.header import CHECKSUM_BYTES, HEADER, HEADER_BYTES, PREV_AT, SIZE_AT
from engine.format.lsn import NULL_LSN
from engine.native import encode_lns
from engine.pipeline.load.plan import Target
from engine.pipeline.load.runs import Binary
from engine.tree.in_node import MAIN_LEVEL
from engine.tree.node_codec import common_prefix

_NO_TXN: Final = (NULL_LSN, None, NULL_LSN)
_MODULUS: Final = 65521
_EXACT_IN_SINGLE: Final = 361
_LONGEST_ROW: Final = 4096
# Fewer rows than this are not worth a matrix.
_FEWEST_ROWS: Final = 48

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]


class LNBlock:
    """LNs of one database.

    Arguments:
        db_id: of the database.
        max_embedded: largest data that is also embedded in the BIN; the LN is flagged.
    """

    def __init__(self, db_id: int, max_embedded: int) -> None:
        self._max_embedded = max_embedded
        # The part of an LN before the length of the data, by flags. An entry without data ends with the length of the
        # data, one byte.
        self._before = {
            flags: encode_user_fields(flags, 0, db_id, _NO_TXN, b"", b"", b"")[:-1] for flags in (0, EMBEDDED)
        }

    def sizes(self, keys: Binary, values: Binary) -> Numbers:
        """Sizes of the entries, including headers."""
        # All values of ``_before`` have the same length.
        fixed = HEADER_BYTES + len(self._before[0])
        return fixed + packed_lengths(values.lengths) + values.lengths + keys.lengths

    def encode(self, keys: Binary, values: Binary, sizes: Numbers, previous: Numbers) -> Bytes:
        """The entries, concatenated.

        Arguments:
            keys, values: keys and values of the records.
            sizes: of the entries.
            previous: for each entry the offset of the previous one.
        """
        ends = np.cumsum(sizes)
        out = np.empty(int(ends[-1]), np.uint8)
        if encode_lns is not None:
            heads = (self._before[0], self._before[EMBEDDED])
            columns = (keys.data, keys.ends), (values.data, values.ends)
            offsets = np.ascontiguousarray(previous, np.int64)
            if encode_lns(out, offsets, *columns, heads, self._max_embedded) == len(out):
                return out
        return self._by_groups(out, keys, values, sizes, previous, ends - sizes)

    def _by_groups(
        self, out: Bytes, keys: Binary, values: Binary, sizes: Numbers, previous: Numbers, starts: Numbers
    ) -> Bytes:
        """Write entries into ``out``, those of equal lengths together; or return other bytes that hold them."""
        # Combine both lengths into one number: rows with the same number form one matrix.
        codes = keys.lengths << 32 | values.lengths
        if (codes == codes[0]).all():
            groups = [np.arange(len(codes))]
        else:
            # A stable sort keeps the rows of a group in log order.
            order = np.argsort(codes, kind="stable")
            groups = np.split(order, np.flatnonzero(np.diff(codes[order])) + 1)
        for rows in groups:
            size = int(sizes[rows[0]])
            if len(rows) < _FEWEST_ROWS or size > _LONGEST_ROW:
                self._one_by_one(out, keys, values, starts, previous, rows)
                continue
            matrix = self._matrix(keys, values, previous, rows, size)
            # With a single group the matrix is already in log order.
            if len(rows) == len(codes):
                return matrix.reshape(-1)
            out[starts[rows][:, None] + np.arange(size)] = matrix
        return out

    def _matrix(self, keys: Binary, values: Binary, previous: Numbers, rows: Numbers, size: int) -> Bytes:
        data_length = int(values.lengths[rows[0]])
        head = self._head(data_length)
        matrix = np.empty((len(rows), size), np.uint8)
        shared = HEADER.pack(0, INS_LN, 0, 0, size - HEADER_BYTES) + head
        matrix[:, : len(shared)] = np.frombuffer(shared, np.uint8)
        matrix[:, PREV_AT:SIZE_AT] = previous[rows].astype("<u4").view(np.uint8).reshape(-1, 4)
        at = len(shared)
        matrix[:, at : at + data_length] = values.matrix(rows)
        matrix[:, at + data_length :] = keys.matrix(rows)
        # Computed last, since the checksum covers everything after itself.
        matrix[:, :CHECKSUM_BYTES] = checksums(matrix[:, CHECKSUM_BYTES:]).astype("<u4").view(np.uint8).reshape(-1, 4)
        return matrix

    def _one_by_one(
        self, out: Bytes, keys: Binary, values: Binary, starts: Numbers, previous: Numbers, rows: Numbers
    ) -> None:
        view = memoryview(out)  # type: ignore[arg-type]
        for row in rows.tolist():
            data = values.at(row)
            body = b"".join((self._head(len(data)), data, keys.at(row)))
            entry = sealed(INS_LN, 0, int(previous[row]), body)
            start = int(starts[row])
            view[start : start + len(entry)] = entry

    def _head(self, data_length: int) -> bytes:
        """The part of the LN before its data."""
        flags = EMBEDDED if data_length <= self._max_embedded else 0
        return self._before[flags] + pack(data_length)


def checksums(rows: Bytes) -> Numbers:
    """The Adler-32 checksum of every row of a matrix."""
    length = rows.shape[1]
    kind: type[np.floating] = np.float32 if length <= _EXACT_IN_SINGLE else np.float64
    weights = np.stack([np.ones(length, kind), np.arange(length, 0, -1, dtype=kind)], axis=1)
    sums = (rows.astype(kind) @ weights).astype(np.int64)
    low, high = (sums[:, 0] + 1) % _MODULUS, (sums[:, 1] + length) % _MODULUS
    found: Numbers = high << 16 | low
    return found


def packed_lengths(values: Numbers) -> Numbers:
    """Bytes of the packed form of non-negative numbers."""
    lengths = np.ones(len(values), np.int64)
    # JE's packed integers: up to 119 in one byte, else a lead and the value less 119 in one to four bytes.
    for count in range(4):
        lengths += values - 119 >= (1 << 8 * count) if count else values > 119
    return lengths


BIN_LEVEL: Final = MAIN_LEVEL + 1
_EMBEDDED: Final = bytes((SLOT_EMBEDDED,))
_EMPTY: Final = bytes((SLOT_EMBEDDED | SLOT_NO_DATA,))


class BINBlock:
    """The BINs over one block of records, ``Target.fill`` slots each.

    Arguments:
        target: the load that the nodes belong to.
        keys, values: keys and values of the records, in order.
        lsns, sizes: LSNs and sizes of the LNs of these records.
    """

    def __init__(self, target: Target, keys: Binary, values: Binary, lsns: Numbers, sizes: Numbers) -> None:
        self._target, self._fill = target, target.fill
        self._keys, self._values = keys, values
        self._lsns, self._sizes = lsns, sizes
        self._rows = self._uniform_slots()

    def __len__(self) -> int:
        return -(-len(self._keys) // self._fill)

    def first_key(self, index: int) -> bytes:
        """The first key of a node."""
        return self._keys.at(index * self._fill)

    def encode(self, index: int, node_id: int) -> bytes:
        """The body of a node."""
        start = index * self._fill
        stop = min(start + self._fill, len(self._keys))
        base: int | None
        if self._rows is not None:
            # The first LSN has the lowest file: tasks write ascending, so it serves as the base of the compact form.
            ident, prefix, base = self._keys.at(start), None, int(self._lsns[start]) >> 32
            slots = self._rows[start:stop].tobytes()
        else:
            lsns = self._lsns[start:stop]
            keys = self._keys.column.slice(start, stop - start).to_pylist()
            ident, base = keys[0], compact_base(lsns.tolist())
            # The prefix of a single key would be the whole key.
            prefix = common_prefix(keys) if self._target.prefixing and len(keys) > 1 else None
            slots = b"".join(self._slots(start, keys, len(prefix or b""), _lsn_bytes(lsns, base)))
        return b"".join((self._head(ident, prefix, node_id, stop - start, base), slots))

    def _head(self, ident: bytes, prefix: bytes | None, node_id: int, count: int, base: int | None) -> bytes:
        lsns, sizes = (self._target.db_id, NULL_LSN, NULL_LSN), (count, BIN_LEVEL, self._target.max_entries)
        return encode_head(lsns, NO_EXPIRATION, node_id, ident, HAS_SIZES, prefix, sizes, base)

    def _uniform_slots(self) -> npt.NDArray[np.uint8] | None:
        """The slots of all nodes, one a row; None if their widths differ or they cannot be written this way."""
        lengths, sizes = self._keys.lengths, self._sizes
        files, offsets = self._lsns >> 32, self._lsns & 0xFFFFFFFF
        base = np.repeat(files[:: self._fill], self._fill)[: len(files)]
        if (
            self._target.prefixing
            or (lengths != lengths[0]).any()
            or (sizes != sizes[0]).any()
            # Equal key and entry sizes imply equal data lengths, so the first length applies to all.
            or int(self._values.lengths[0]) <= self._target.max_embedded
            # A compact LSN has one byte for the file and three for the offset; other LSNs use the full form.
            or int((files - base).max()) > MOST_FILES
            or int(offsets.max()) >= NULL_OFFSET
        ):
            return None
        before, size = pack(int(lengths[0])), pack(int(sizes[0]))
        key_end = len(before) + int(lengths[0])
        rows = np.zeros((len(files), key_end + LSN_AND_STATE + len(size)), np.uint8)
        rows[:, : len(before)] = np.frombuffer(before, np.uint8)
        rows[:, len(before) : key_end] = self._keys.matrix(np.arange(len(files)))
        # The compact form is one little-endian word: the file's distance in one byte, then the offset.
        words = (offsets << 8 | (files - base)).astype("<u4")
        rows[:, key_end : key_end + LSN_BYTES] = words.view(np.uint8).reshape(-1, LSN_BYTES)
        rows[:, key_end + LSN_AND_STATE :] = np.frombuffer(size, np.uint8)
        return rows

    def _slots(self, start: int, keys: list[bytes], cut: int, lsns: list[bytes]) -> Iterator[bytes]:
        """The slots of a node, as a list of pieces."""
        lengths = self._values.lengths[start : start + len(keys)].tolist()
        sizes = self._sizes[start : start + len(keys)].tolist()
        for i, key in enumerate(keys):
            suffix = key[cut:]
            if lengths[i] > self._target.max_embedded:
                yield from (_packed(len(suffix)), suffix, lsns[i], b"\0", _packed(sizes[i]))
                continue
            stored, state = suffix, _EMPTY
            # Embedded data shares the field of the key; empty data is marked by a flag, and the field holds only the
            # key.
            if lengths[i]:
                stored, state = join_two_part_key(suffix, self._values.at(start + i)), _EMBEDDED
            yield from (_packed(len(stored)), stored, lsns[i], state)


def _lsn_bytes(lsns: Numbers, base: int | None) -> list[bytes]:
    """LSNs in the form of slots: compact, or in full if there is no base."""
    if base is None:
        whole, width = lsns.astype("<i8").tobytes(), 8
    else:
        whole, width = ((lsns & 0xFFFFFFFF) << 8 | (lsns >> 32) - base).astype("<u4").tobytes(), LSN_BYTES
    return [whole[at : at + width] for at in range(0, len(whole), width)]


@lru_cache(4096)
def _packed(value: int) -> bytes:
    return pack(value)
