"""Many LN entries at once: the same bytes as ``engine.format`` makes one by one.

Entries of equal key and data length are rows of a matrix: headers and lengths are columns that all rows share or that
come from a vector, keys and data are copied as blocks. The Adler-32 of a row of n bytes is

    A = 1 + sum d[i]            B = n + sum (n - i) d[i]           (i from 0, both modulo 65521)

which is one matrix product. Single precision is exact as long as no sum reaches 2^24, that is up to 361 bytes; double
precision is for longer rows. Rare lengths, and long rows, are encoded one by one.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from engine.format.bytecursor import pack
from engine.format.entry.ln import EMBEDDED
from engine.format.entry_types import INS_LN
from engine.format.fast.header import sealed
from engine.format.fast.ln import encode_user_fields
from engine.format.header import CHECKSUM_BYTES, HEADER, HEADER_BYTES, PREV_AT, SIZE_AT
from engine.format.lsn import NULL_LSN
from engine.pipeline.load.sorting import Binary

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
        max_embedded: largest data that the BIN holds too; the LN says so.
    """

    def __init__(self, db_id: int, max_embedded: int) -> None:
        self._max_embedded = max_embedded
        # What stands before the length of the data, by flags: an entry without data ends with that length, one byte.
        self._before = {
            flags: encode_user_fields(flags, 0, db_id, _NO_TXN, b"", b"", b"")[:-1] for flags in (0, EMBEDDED)
        }

    def sizes(self, keys: Binary, values: Binary) -> Numbers:
        """Sizes of the entries, headers included."""
        # ``_before`` is of the same length with either set of flags.
        fixed = HEADER_BYTES + len(self._before[0])
        return fixed + packed_lengths(values.lengths) + values.lengths + keys.lengths

    def encode(self, keys: Binary, values: Binary, sizes: Numbers, previous: Numbers) -> Bytes:
        """The entries one after the other.

        Arguments:
            keys, values: of the records.
            sizes: of the entries.
            previous: offset of the entry before each.
        """
        ends = np.cumsum(sizes)
        out = np.empty(int(ends[-1]), np.uint8)
        starts = ends - sizes
        # Both lengths in one number: rows of one code make one matrix.
        codes = keys.lengths << 32 | values.lengths
        if (codes == codes[0]).all():
            groups = [np.arange(len(codes))]
        else:
            # Stable, so that the rows of a group stay in log order.
            order = np.argsort(codes, kind="stable")
            groups = np.split(order, np.flatnonzero(np.diff(codes[order])) + 1)
        for rows in groups:
            size = int(sizes[rows[0]])
            if len(rows) < _FEWEST_ROWS or size > _LONGEST_ROW:
                self._one_by_one(out, keys, values, starts, previous, rows)
                continue
            matrix = self._matrix(keys, values, previous, rows, size)
            # One group: its matrix is the log already.
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
        # Last: the checksum covers everything after itself.
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
        """What stands in front of the data."""
        flags = EMBEDDED if data_length <= self._max_embedded else 0
        return self._before[flags] + pack(data_length)


def checksums(rows: Bytes) -> Numbers:
    """Adler-32 of every row of a matrix."""
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
