"""DbTree (16), the root of the environment, and DatabaseImpl, the state of one database.

DbTree (je-log-format.md 6.3): last database ids (i64; i32 until v7), the mapping database (id 0), the naming database
(id 1), flags, and since v15 the log version that the environment was created with.

DatabaseImpl (9.1), also the content of every MapLN:

====================  ===========  ===============================================================
dbId                  plong
name                  string       since v16, not for ids 0 and 1
rootExists            u8
root key, LSN, state  bytes lsn u8 when rootExists
flags                 u8           0x01 duplicates, 0x02 temporary, 0x04 replicated, 0x08 not replicated, 0x10 key
                                   prefixing, 0x20 utilization repaired, 0x40 two-part duplicate keys
comparators           2 × bytes    btree, duplicates; Java-serialized, empty when none
maxEntriesPerNode     pint
maxDupEntriesPerNode  pint         v6, v7
createdAtLogVersion   u8
file utilization                   until v15: n × (file, 8 counters)
triggers              n × bytes    since v8, Java-serialized
====================  ===========  ===============================================================
"""

from __future__ import annotations

from typing import Final, NamedTuple

from engine.format.bytecursor import ByteReader, ByteWriter
from engine.format.fields import Shape, shape
from engine.format.lsn import NULL_LSN
from engine.format.versions import PRIOR_VERSION, TWO_PART_DUPLICATES

DUPLICATES: Final = 0x01
TEMPORARY: Final = 0x02
DB_REPLICATED: Final = 0x04
DB_NOT_REPLICATED: Final = 0x08
KEY_PREFIXING: Final = 0x10
TWO_PART_KEYS: Final = 0x40

ENV_REPLICATED: Final = 0x01
ENV_CONVERTED: Final = 0x02
ENV_TWO_PART_KEYS: Final = 0x04
ENV_PRESERVES_VLSN: Final = 0x08

MAPPING_DB_ID: Final = 0
NAMING_DB_ID: Final = 1

_INITIAL_LOG_VERSION: Final = 15
_COUNTERS: Final = 8


class FileUtilization(NamedTuple):
    """One database's share of one file (until v15)."""

    file: int
    total_in_count: int
    total_in_size: int
    total_ln_count: int
    total_ln_size: int
    obsolete_in_count: int
    obsolete_ln_count: int
    obsolete_ln_size: int
    obsolete_ln_size_counted: int


class DatabaseImpl(NamedTuple):
    """The state of a database; ``root_lsn`` is NULL_LSN if the database has no root."""

    db_id: int
    name: str | None
    root_exists: bool
    root_key: bytes | None
    root_lsn: int
    root_state: int
    flags: int
    btree_comparator: bytes | None
    duplicate_comparator: bytes | None
    max_entries: int
    max_dup_entries: int
    created_at_version: int
    utilization: tuple[FileUtilization, ...]
    triggers: tuple[bytes, ...]

    @property
    def duplicates(self) -> bool:
        """Whether the database holds sorted duplicates."""
        return bool(self.flags & DUPLICATES)

    @property
    def temporary(self) -> bool:
        """Whether recovery removes the database."""
        return bool(self.flags & TEMPORARY)

    @property
    def replicated(self) -> bool:
        """Whether the database is part of the replication stream."""
        return bool(self.flags & DB_REPLICATED)

    @property
    def key_prefixing(self) -> bool:
        """Whether nodes may store a common key prefix once."""
        return bool(self.flags & KEY_PREFIXING)


class DbTree(NamedTuple):
    """The root of the environment."""

    last_local_db_id: int
    last_replicated_db_id: int
    mapping_db: DatabaseImpl
    naming_db: DatabaseImpl
    flags: int
    initial_log_version: int


FILE_UTILIZATION: Final[Shape] = shape(FileUtilization, " ".join(f"{name}:int" for name in FileUtilization._fields))
DATABASE_IMPL: Final[Shape] = shape(
    DatabaseImpl,
    "db_id:int name:text root_exists:bool root_key:bytes root_lsn:lsn root_state:hex flags:hex btree_comparator:bytes "
    "duplicate_comparator:bytes max_entries:int max_dup_entries:int created_at_version:int utilization:records "
    "triggers:byteses",
)
DB_TREE: Final[Shape] = shape(
    DbTree,
    "last_local_db_id:int last_replicated_db_id:int mapping_db:record naming_db:record flags:hex "
    "initial_log_version:int",
)


def read_database(reader: ByteReader, version: int) -> DatabaseImpl:
    """Read a DatabaseImpl, any version."""
    db_id = reader.packed()
    # The mapping and the naming database have no name.
    has_name = version >= PRIOR_VERSION and db_id not in (MAPPING_DB_ID, NAMING_DB_ID)
    name = reader.string() if has_name else None
    root_exists = bool(reader.u8() & 1)
    root: tuple[bytes | None, int, int] = (None, NULL_LSN, 0)
    if root_exists:
        root = (reader.nullable_bytes(), reader.packed(), reader.u8())
    flags = reader.u8()
    comparators = (reader.nullable_bytes(), reader.nullable_bytes())
    max_entries = reader.packed()
    max_dup_entries = reader.packed() if version < TWO_PART_DUPLICATES else 0
    created_at = reader.u8()
    utilization = _read_utilization(reader) if version < PRIOR_VERSION else ()
    triggers = tuple(reader.byte_array() for _ in range(reader.count())) if version >= TWO_PART_DUPLICATES else ()
    return DatabaseImpl(
        db_id, name, root_exists, *root, flags, *comparators, max_entries, max_dup_entries, created_at, utilization,
        triggers,
    )  # fmt: skip


def write_database(writer: ByteWriter, database: DatabaseImpl, version: int) -> None:
    """Write a DatabaseImpl."""
    writer.packed(database.db_id)
    if database.name is not None and version >= PRIOR_VERSION:
        writer.string(database.name)
    writer.u8(int(database.root_exists))
    if database.root_exists:
        writer.nullable_bytes(database.root_key).packed(database.root_lsn).u8(database.root_state)
    writer.u8(database.flags)
    writer.nullable_bytes(database.btree_comparator).nullable_bytes(database.duplicate_comparator)
    writer.packed(database.max_entries)
    if version < TWO_PART_DUPLICATES:
        writer.packed(database.max_dup_entries)
    writer.u8(database.created_at_version)
    if version < PRIOR_VERSION:
        writer.packed(len(database.utilization))
        for share in database.utilization:
            writer.packed(*share)
    if version >= TWO_PART_DUPLICATES:
        writer.packed(len(database.triggers))
        for trigger in database.triggers:
            writer.byte_array(trigger)


def decode_db_tree(body: bytes, version: int) -> DbTree:
    """Decode a DbTree body, any version."""
    reader = ByteReader(body)
    wide = version >= TWO_PART_DUPLICATES
    ids = (reader.i64(), reader.i64()) if wide else (reader.i32(), reader.i32())
    mapping, naming = read_database(reader, version), read_database(reader, version)
    flags = reader.u8()
    initial = reader.packed() if version >= _INITIAL_LOG_VERSION else -1
    reader.finish()
    return DbTree(*ids, mapping, naming, flags, initial)


def encode_db_tree(record: DbTree, version: int) -> bytes:
    """Encode a DbTree body."""
    writer = ByteWriter()
    for last_id in record[:2]:
        if version >= TWO_PART_DUPLICATES:
            writer.i64(last_id)
        else:
            writer.i32(last_id)
    write_database(writer, record.mapping_db, version)
    write_database(writer, record.naming_db, version)
    writer.u8(record.flags)
    if version >= _INITIAL_LOG_VERSION:
        writer.packed(record.initial_log_version)
    return writer.getvalue()


def _read_utilization(reader: ByteReader) -> tuple[FileUtilization, ...]:
    count = reader.count(1 + _COUNTERS)
    return tuple(FileUtilization._make([reader.packed() for _ in range(1 + _COUNTERS)]) for _ in range(count))
