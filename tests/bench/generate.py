"""A log of any size as an application would leave it, for machines without JE.

One database ``journal``; per transaction one insert, in every second one an update and in every twentieth a deletion of
a recent record too, then a Commit. Values are 100 to 200 random bytes, keys 8 bytes in ascending order. Every 20 MB a
checkpoint writes the BINs that changed (provisional), the INs above them, the MapLN, the DbTree and a CkptEnd. Files
hold at most 10 MB. With ``replicated`` the entries of the stream carry consecutive VLSNs and ids are negative.

All links hold: prevOffsets, the last offset in each file header, last LSNs and abort LSNs, and the tree under the last
checkpoint's DbTree. What an opening environment needs besides (internal databases, utilization) is left out: the log is
there to be read.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from engine.format.codecs import encode_body
from engine.format.entry import checkpoint, db_tree, ln, ln_content, node
from engine.format.entry.file_header import FileHeader
from engine.format.entry.txn_end import TxnEnd
from engine.format.header import HEADER_BYTES, PROVISIONAL, REPLICATED, VLSN_PRESENT, EntryHeader, encode_entry
from engine.format.lsn import NULL_LSN
from engine.format.vlsn import NULL_VLSN

VERSION: Final = 17
FILE_BYTES: Final = 10_000_000
CHECKPOINT_BYTES: Final = 20_000_000
_FANOUT: Final = 128
_MAIN_LEVEL: Final = 0x10000
_START_MS: Final = 1_700_000_000_000
_BUFFER_BYTES: Final = 1 << 20
# Updates and deletions go to one of so many records before the newest.
_RECENT: Final = 5_000

_NAME_LN_TX, _MAP_LN, _IN, _BIN, _DB_TREE, _COMMIT, _CKPT_START, _CKPT_END, _FILE_HEADER = (
    5,
    4,
    12,
    13,
    16,
    17,
    19,
    20,
    25,
)
_DEL_LN_TX, _INS_LN_TX, _UPD_LN_TX = 31, 33, 35
_STREAM_FLAGS: Final = REPLICATED | VLSN_PRESENT

_EMPTY_LN: Final = ln.LN(
    flags=0, flags2=0, flags3=0, db_id=0, abort_lsn=NULL_LSN, txn_id=None, last_lsn=NULL_LSN, abort_key=None,
    abort_data=None, abort_vlsn=NULL_VLSN, abort_expiration=0, abort_modification_time=0, abort_creation_time=0,
    expiration=0, modification_time=0, creation_time=0, prior_size=0, prior_file=-1, node_id=None, data=b"",
    content=None, key=b"", tail=None,
)  # fmt: skip


class Generated(NamedTuple):
    """What was written."""

    files: int
    size_bytes: int
    entries: int
    transactions: int
    last_vlsn: int


class LogWriter:
    """Appends entries to log files.

    Arguments:
        directory: where the files go.
        file_bytes: no file grows beyond it.

    Attributes:
        entries: how many were written, file headers included.
        size_bytes: bytes of all files so far.
    """

    def __init__(self, directory: Path, file_bytes: int = FILE_BYTES) -> None:
        self._directory = directory
        self._file_bytes = file_bytes
        self._number = -1
        self._offset = self._last = 0
        self._pieces: list[bytes] = []
        self._held = 0
        self._out: BinaryIO | None = None
        self.entries = 0
        self.size_bytes = 0

    def add(self, type_number: int, record: object, flags: int = 0, vlsn: int = NULL_VLSN) -> tuple[int, int]:
        """Append one entry; returns its LSN and its size in bytes."""
        body = encode_body(type_number, VERSION, record)  # type: ignore[arg-type]
        size = HEADER_BYTES + (8 if flags & _STREAM_FLAGS else 0) + len(body)
        if self._number < 0 or self._offset + size > self._file_bytes:
            self._next_file()
        return self._append(type_number, body, flags, vlsn), size

    def close(self) -> None:
        """Write what is held."""
        self._flush()
        if self._out is not None:
            self._out.close()
            self._out = None

    @property
    def files(self) -> int:
        """How many files there are."""
        return self._number + 1

    def _append(self, type_number: int, body: bytes, flags: int, vlsn: int) -> int:
        header = EntryHeader(0, type_number, flags, self._last, 0, vlsn)
        entry = encode_entry(header, body, VERSION)
        self._pieces.append(entry)
        lsn = self._number << 32 | self._offset
        self._last = self._offset
        self._offset += len(entry)
        self.size_bytes += len(entry)
        self._held += len(entry)
        self.entries += 1
        if self._held >= _BUFFER_BYTES:
            self._flush()
        return lsn

    def _next_file(self) -> None:
        last_before = self._last
        self.close()
        self._number += 1
        self._offset = self._last = 0
        self._out = (self._directory / f"{self._number:08x}.jdb").open("xb")
        header = FileHeader(_START_MS + self._number, self._number, last_before, VERSION)
        self._append(_FILE_HEADER, encode_body(_FILE_HEADER, VERSION, header), 0, NULL_VLSN)

    def _flush(self) -> None:
        if self._out is not None:
            self._out.write(b"".join(self._pieces))
        self._pieces.clear()
        self._held = 0


class _Records:
    """The current version of each record: LSN, size, whether it is deleted; the key is the index."""

    def __init__(self) -> None:
        self.lsns: list[int] = []
        self.sizes: list[int] = []
        self.deleted: set[int] = set()
        self.changed_bins: set[int] = set()

    def put(self, index: int, lsn: int, size: int) -> None:
        if index == len(self.lsns):
            self.lsns.append(lsn)
            self.sizes.append(size)
        else:
            self.lsns[index], self.sizes[index] = lsn, size
        self.changed_bins.add(index // _FANOUT)

    def slots(self, number: int) -> tuple[node.Slot, ...]:
        """The slots of one BIN."""
        first = number * _FANOUT
        return tuple(
            node.Slot(_key(i), self.lsns[i], self._state(i), None, self.sizes[i], None, None, None, None)
            for i in range(first, min(first + _FANOUT, len(self.lsns)))
        )

    def _state(self, index: int) -> int:
        return node.KNOWN_DELETED if index in self.deleted else 0


class _Application:
    """Writes transactions and checkpoints."""

    def __init__(self, writer: LogWriter, seed: int, *, replicated: bool) -> None:
        self._writer = writer
        self._random = random.Random(seed)
        self._pool = self._random.randbytes(1 << 16)
        self._records = _Records()
        self._replicated = replicated
        self._db_id = -258 if replicated else 6
        self._bins: list[int] = []
        self._ins: dict[int, int] = {}
        self._root = NULL_LSN
        self._checkpoints = 0
        self.vlsn = 0
        self.transactions = 0

    def start(self) -> None:
        """The root of the environment, the database, the first checkpoint."""
        self._db_tree(NULL_LSN)
        config = ln_content.DatabaseConfig(self._db_flags(), _FANOUT, 0, b"", b"", ())
        operation = ln_content.NameOperation(1, config, None)
        name = ln_content.NameLN(self._db_id, 0)
        created = _EMPTY_LN._replace(db_id=1, txn_id=self._txn_id(), key=b"journal", content=name, tail=operation)
        lsn, _ = self._stream(_NAME_LN_TX, created)
        self._map_ln()
        self._commit(lsn)
        self.checkpoint("recovery")

    def transaction(self) -> None:
        """One insert, perhaps an update and a deletion, and the Commit."""
        number = self.transactions
        lsn = self._change(_INS_LN_TX, len(self._records.lsns), NULL_LSN)
        if number & 1 and number > _RECENT + 2:
            lsn = self._change(_UPD_LN_TX, self._recent(odd=False), lsn)
            if number % 20 == 1:
                lsn = self._change(_DEL_LN_TX, self._recent(odd=True), lsn)
        self._commit(lsn)

    def checkpoint(self, invoker: str) -> None:
        """Write what changed since the last one."""
        self._checkpoints += 1
        record = checkpoint.CkptStart(self._now(), self._checkpoints, invoker)
        start, _ = self._writer.add(_CKPT_START, record)
        self._write_tree()
        self._map_ln()
        root = self._db_tree(self._mapping_tree())
        txns = (8, self._txn_id()) if self._replicated else (self._txn_id(), -10)
        ids = (1_000_000 + len(self._ins), -9, 6, self._db_id if self._replicated else -256, *txns)
        end = checkpoint.CkptEnd(
            invoker, self._now(), start, checkpoint.HAS_ROOT, root, start, *ids, 0, 0, self._checkpoints, (), ()
        )
        self._writer.add(_CKPT_END, end)

    def _change(self, type_number: int, index: int, last_lsn: int) -> int:
        records = self._records
        abort_lsn, flags, flags2, size_before = NULL_LSN, 0, 0, 0
        data: bytes | None = None
        if type_number != _INS_LN_TX:
            abort_lsn, size_before = records.lsns[index], records.sizes[index]
            flags, flags2 = ln.HAS_ABORT_LSN, ln.HAS_PRIOR_SIZE
        if type_number == _DEL_LN_TX:
            records.deleted.add(index)
        else:
            begin = self._random.randrange(1 << 15)
            data = self._pool[begin : begin + 100 + self._random.randrange(101)]
        record = _EMPTY_LN._replace(
            flags=flags, flags2=flags2, db_id=self._db_id, abort_lsn=abort_lsn, txn_id=self._txn_id(),
            last_lsn=last_lsn, prior_size=size_before, data=data, key=_key(index),
        )  # fmt: skip
        lsn, size = self._stream(type_number, record)
        records.put(index, lsn, size)
        return lsn

    def _recent(self, *, odd: bool) -> int:
        """A record that is there; even ones are updated, odd ones deleted, so that no transaction changes one twice."""
        newest = len(self._records.lsns) - 3
        while True:
            index = (newest - self._random.randrange(_RECENT)) & ~1 | odd
            if index not in self._records.deleted:
                return index

    def _commit(self, last_lsn: int) -> None:
        master = 1 if self._replicated else 0
        # The commit becomes durable on a majority as itself; none of it outside replication.
        dtvlsn = self.vlsn + 1 if self._replicated else 0
        self._stream(_COMMIT, TxnEnd(last_lsn, self._txn_id(), self._now(), master, dtvlsn, 0))
        self.transactions += 1

    def _stream(self, type_number: int, record: object) -> tuple[int, int]:
        """An entry that replication copies."""
        if not self._replicated:
            return self._writer.add(type_number, record)
        self.vlsn += 1
        return self._writer.add(type_number, record, _STREAM_FLAGS, self.vlsn)

    def _txn_id(self) -> int:
        return -11 - self.transactions if self._replicated else 9 + self.transactions

    def _now(self) -> int:
        return _START_MS + self.transactions // 50

    def _db_flags(self) -> int:
        return db_tree.DB_REPLICATED if self._replicated else 0

    def _write_tree(self) -> None:
        """BINs, the INs above them, and the root at level 3; each BIN and IN keeps its place for good."""
        changed_ins = set()
        for number in sorted(self._records.changed_bins):
            if number == len(self._bins):
                self._bins.append(NULL_LSN)
            self._bins[number] = self._node(_BIN, 10 + number, 1, self._records.slots(number), self._bins[number])
            changed_ins.add(number // _FANOUT)
        self._records.changed_bins.clear()
        for number in sorted(changed_ins):
            children = self._bins[number * _FANOUT : (number + 1) * _FANOUT]
            slots = _children(children, number * _FANOUT, _FANOUT)
            self._ins[number] = self._node(_IN, 1_000_000 + number, 2, slots, self._ins.get(number, NULL_LSN))
        if self._ins:
            slots = _children([self._ins[number] for number in sorted(self._ins)], 0, _FANOUT * _FANOUT)
            self._root = self._node(_IN, 9, 3, slots, self._root)

    def _node(self, kind: int, node_id: int, level: int, slots: tuple[node.Slot, ...], before: int) -> int:
        is_root = level == 3
        flags = (node.ROOT if is_root else 0) | (node.HAS_SIZES if kind == _BIN else 0)
        record = node.NodeRecord(
            db_id=self._db_id, prev_full_lsn=before, prev_full_size=0, prev_delta_lsn=NULL_LSN, prev_delta_size=0,
            expiration_base=-1, creation_base=-1, modification_base=-1, node_id=node_id, identifier_key=slots[0].key,
            flags=flags, key_prefix=None, compact_max_key_size=-1, n_entries=len(slots), level=_MAIN_LEVEL | level,
            max_entries=_FANOUT, base_file=_base_file(slots), slots=slots, full_bin_entries=0,
            full_bin_max_entries=0, bloom_filter=None, dup_key=None, dup_count=None,
        )  # fmt: skip
        return self._writer.add(kind, record, 0 if is_root else PROVISIONAL)[0]

    def _database(self) -> db_tree.DatabaseImpl:
        exists = self._root != NULL_LSN
        return db_tree.DatabaseImpl(
            self._db_id, "journal", exists, b"" if exists else None, self._root, 0, self._db_flags(), b"", b"",
            _FANOUT, 0, VERSION, (), (),
        )  # fmt: skip

    def _map_ln(self) -> None:
        content = ln_content.MapLN(self._database(), 0)
        key = str(self._db_id).encode()
        self._map_lsn, self._map_size = self._writer.add(_MAP_LN, _EMPTY_LN._replace(content=content, key=key))

    def _mapping_tree(self) -> int:
        """A tree of one BIN with the MapLN of the database; returns its root."""
        key = str(self._db_id).encode()
        leaf = node.Slot(key, self._map_lsn, 0, None, self._map_size, None, None, None, None)
        roots = NULL_LSN
        for kind, level, flags in ((_BIN, 1, node.HAS_SIZES), (_IN, 2, node.ROOT)):
            slot = leaf if kind == _BIN else node.Slot(key, roots, 0, None, None, None, None, None, None)
            record = node.NodeRecord(
                0, NULL_LSN, 0, NULL_LSN, 0, -1, -1, -1, 2 + level, key, flags, None, -1, 1,
                node.MAPPING_TREE | _MAIN_LEVEL | level, _FANOUT, _base_file((slot,)), (slot,), 0, 0, None, None, None,
            )  # fmt: skip
            roots, _ = self._writer.add(kind, record, PROVISIONAL if kind == _BIN else 0)
        return roots

    def _db_tree(self, mapping_root: int) -> int:
        exists = mapping_root != NULL_LSN
        root = (exists, b"" if exists else None, mapping_root, 0)
        mapping = db_tree.DatabaseImpl(0, None, *root, 0, b"", b"", _FANOUT, 0, VERSION, (), ())
        naming = db_tree.DatabaseImpl(1, None, False, None, NULL_LSN, 0, 0, b"", b"", _FANOUT, 0, VERSION, (), ())
        flags = db_tree.ENV_TWO_PART_KEYS | (db_tree.ENV_REPLICATED if self._replicated else 0)
        record = db_tree.DbTree(6, self._db_id if self._replicated else -256, mapping, naming, flags, VERSION)
        return self._writer.add(_DB_TREE, record)[0]


def _key(index: int) -> bytes:
    return index.to_bytes(8, "big")


def _children(lsns: list[int], first: int, records: int) -> tuple[node.Slot, ...]:
    """Slots of an IN from its child number ``first`` on; a child covers so many records, and its key is the first."""
    return tuple(
        node.Slot(_key((first + i) * records), lsn, 0, None, None, None, None, None, None) for i, lsn in enumerate(lsns)
    )


def _base_file(slots: tuple[node.Slot, ...]) -> int | None:
    """The lowest file of the children when they lie close enough together for compact LSNs."""
    files = [slot.lsn >> 32 for slot in slots]
    return min(files) if max(files) - min(files) < 127 else None


def generate(
    directory: Path, megabytes: float, *, replicated: bool = False, seed: int = 1, file_bytes: int = FILE_BYTES
) -> Generated:
    """Write a log.

    Arguments:
        directory: an existing, empty directory.
        megabytes: least size of the log, in units of 1,000,000 bytes.
        replicated: whether the database is part of a replication stream.
        seed: the same seed and size give the same bytes.
        file_bytes: largest size of a file.
    """
    writer = LogWriter(directory, file_bytes)
    application = _Application(writer, seed, replicated=replicated)
    application.start()
    next_checkpoint = CHECKPOINT_BYTES
    while writer.size_bytes < megabytes * 1_000_000:
        application.transaction()
        if writer.size_bytes >= next_checkpoint:
            application.checkpoint("daemon")
            next_checkpoint = writer.size_bytes + CHECKPOINT_BYTES
    application.checkpoint("close")
    writer.close()
    return Generated(writer.files, writer.size_bytes, writer.entries, application.transactions, application.vlsn)
