"""Many complete BINs at once: the same bytes as ``engine.format`` makes one by one.

Records of equal key length and equal entry size, whose data is not embedded, make slots of equal width: then the slots
of all nodes are rows of one matrix, and only the heads of the nodes are made one by one. Otherwise slots are joined.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

from engine.format.bytecursor import join_two_part_key, pack
from engine.format.entry.node import (
    HAS_SIZES,
    NULL_OFFSET,
    SLOT_EMBEDDED,
    SLOT_NO_DATA,
)
from engine.format.fast.bin import LSN_AND_STATE, LSN_BYTES, MOST_FILES, NO_EXPIRATION, compact_base, encode_head
from engine.format.lsn import NULL_LSN
from engine.pipeline.load.plan import Target
from engine.pipeline.load.sorting import Binary
from engine.tree.in_node import MAIN_LEVEL
from engine.tree.node_codec import common_prefix

Numbers = npt.NDArray[np.int64]
BIN_LEVEL: Final = MAIN_LEVEL + 1
_EMBEDDED: Final = bytes((SLOT_EMBEDDED,))
_EMPTY: Final = bytes((SLOT_EMBEDDED | SLOT_NO_DATA,))


class BINBlock:
    """The BINs over one block of records, ``Target.fill`` slots each.

    Arguments:
        target: what they are made for.
        keys, values: of the records, in order.
        lsns, sizes: of their LNs.
    """

    def __init__(self, target: Target, keys: Binary, values: Binary, lsns: Numbers, sizes: Numbers) -> None:
        self._target = target
        self._keys, self._values = keys, values
        self._lsns, self._sizes = lsns, sizes
        self._rows = self._uniform_slots()

    def __len__(self) -> int:
        return -(-len(self._keys) // self._target.fill)

    def first_key(self, index: int) -> bytes:
        """The first key of a node."""
        return self._keys.at(index * self._target.fill)

    def encode(self, index: int, node_id: int) -> bytes:
        """The body of a node."""
        start = index * self._target.fill
        stop = min(start + self._target.fill, len(self._keys))
        lsns = self._lsns[start:stop]
        base: int | None
        if self._rows is not None:
            # The first LSN has the lowest file: tasks write ascending, so it serves as the base of the compact form.
            ident, prefix, base = self._keys.at(start), None, int(lsns[0] >> 32)
            slots = self._rows[start:stop].tobytes()
        else:
            keys = self._keys.column.slice(start, stop - start).to_pylist()
            ident, base = keys[0], compact_base(lsns.tolist())
            # A single key would be all prefix.
            prefix = common_prefix(keys) if self._target.prefixing and len(keys) > 1 else None
            slots = b"".join(self._slots(start, keys, len(prefix or b""), _lsn_bytes(lsns, base)))
        return b"".join((self._head(ident, prefix, node_id, stop - start, base), slots))

    def _head(self, ident: bytes, prefix: bytes | None, node_id: int, count: int, base: int | None) -> bytes:
        lsns, sizes = (self._target.db_id, NULL_LSN, NULL_LSN), (count, BIN_LEVEL, self._target.max_entries)
        return encode_head(lsns, NO_EXPIRATION, node_id, ident, HAS_SIZES, prefix, sizes, base)

    def _uniform_slots(self) -> npt.NDArray[np.uint8] | None:
        """The slots of all nodes, one a row; None when they differ in width or cannot be written so."""
        lengths, sizes = self._keys.lengths, self._sizes
        files, offsets = self._lsns >> 32, self._lsns & 0xFFFFFFFF
        base = np.repeat(files[:: self._target.fill], self._target.fill)[: len(files)]
        if (
            self._target.prefixing
            or (lengths != lengths[0]).any()
            or (sizes != sizes[0]).any()
            # Equal key and entry sizes imply equal data lengths, so the first stands for all.
            or int(self._values.lengths[0]) <= self._target.max_embedded
            # A compact LSN has one byte for the file and three for the offset; the rest falls back to full ones.
            or int((files - base).max()) > MOST_FILES
            or int(offsets.max()) >= NULL_OFFSET
        ):
            return None
        before, size = pack(int(lengths[0])), pack(int(sizes[0]))
        key_end = len(before) + int(lengths[0])
        rows = np.zeros((len(files), key_end + LSN_AND_STATE + len(size)), np.uint8)
        rows[:, : len(before)] = np.frombuffer(before, np.uint8)
        rows[:, len(before) : key_end] = self._keys.matrix(np.arange(len(files)))
        # The compact form is the file's distance, one byte, then the offset: one little-endian word.
        words = (offsets << 8 | (files - base)).astype("<u4")
        rows[:, key_end : key_end + LSN_BYTES] = words.view(np.uint8).reshape(-1, LSN_BYTES)
        rows[:, key_end + LSN_AND_STATE :] = np.frombuffer(size, np.uint8)
        return rows

    def _slots(self, start: int, keys: list[bytes], cut: int, lsns: list[bytes]) -> Iterator[bytes]:
        """The slots of a node in pieces."""
        lengths = self._values.lengths[start : start + len(keys)].tolist()
        sizes = self._sizes[start : start + len(keys)].tolist()
        for i, key in enumerate(keys):
            suffix = key[cut:]
            if lengths[i] > self._target.max_embedded:
                yield from (_packed(len(suffix)), suffix, lsns[i], b"\0", _packed(sizes[i]))
                continue
            stored, state = suffix, _EMPTY
            # Embedded data shares the key's field; an empty one is told by a flag, so that its key stays bare.
            if lengths[i]:
                stored, state = join_two_part_key(suffix, self._values.at(start + i)), _EMBEDDED
            yield from (_packed(len(stored)), stored, lsns[i], state)


def _lsn_bytes(lsns: Numbers, base: int | None) -> list[bytes]:
    """LSNs as slots hold them: compact, or in full when there is no base."""
    if base is None:
        whole, width = lsns.astype("<i8").tobytes(), 8
    else:
        whole, width = ((lsns & 0xFFFFFFFF) << 8 | (lsns >> 32) - base).astype("<u4").tobytes(), LSN_BYTES
    return [whole[at : at + width] for at in range(0, len(whole), width)]


@lru_cache(4096)
def _packed(value: int) -> bytes:
    return pack(value)
