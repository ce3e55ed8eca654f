"""The registry: one line for each type of log entry (je-log-format.md section 5), and the sets derived from it.

Scanner, dump, statistics, verification and recovery all use this table. The name is the one that ``DbPrintLog`` of JE
18.3 prints. ``since`` is the first log version in which the number is valid, ``until`` the last in which JE wrote it
(None: JE still writes it). Groups are the words that ``--type`` of the command line accepts. ``codec`` names the
function of ``codecs`` that loads the codec of the bodies.

Code that selects several types uses a named set; add new sets here. Each set is derived from the lines, so a type of a
later version needs only its own line to be in every set that it belongs to.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from engine.format.versions import HIGHEST_TYPE, TWO_PART_DUPLICATES

# Families: how to read the body, and how a pass over the log treats it.
LN: Final = "ln"
NODE: Final = "in"
OTHER: Final = "other"

GROUPS: Final = ("ln", "in", "txn", "ckpt", "rep", "rollback", "cleaner", "meta")

# Traits of a type, as bits.
# The body has transaction fields.
TXN: Final = 0x001
# The entry can be part of the replication stream; the entry can be the matchpoint of a syncup (R-SYNC-1).
STREAM: Final = 0x002
SYNC: Final = 0x004
# The effect on a record; for types before v8 the data determines it.
INSERTS: Final = 0x008
UPDATES: Final = 0x010
DELETES: Final = 0x020
# A node whose slots lead to records, or a delta of such a node.
BOTTOM: Final = 0x040
# The changes of a node since its last full version.
DELTA: Final = 0x080
# The body holds the time when it was written.
TIMED: Final = 0x100
# Rare in any log; each of these entries is about the log as a whole.
RARE: Final = 0x200
# Written by JE for its own purposes after the last checkpoint when it closes.
OWN: Final = 0x400


class EntryType(NamedTuple):
    """One type of entry.

    Attributes:
        number: the byte in the header.
        name: JE's name.
        family: ``ln`` (has a key and belongs to a database), ``in`` (a tree node or an old delta) or ``other``.
        groups: words of ``--type`` that select it.
        codec: the function of ``codecs`` that creates the codec; types with the same content share it.
        traits: the trait bits.
        since, until: log versions.
    """

    number: int
    name: str
    family: str
    groups: tuple[str, ...]
    codec: str
    traits: int
    since: int
    until: int | None

    @property
    def transactional(self) -> bool:
        """Whether the body has transaction fields."""
        return bool(self.traits & TXN)

    @property
    def replicable(self) -> bool:
        """Whether the type can be part of the replication stream."""
        return bool(self.traits & STREAM)

    @property
    def sync_point(self) -> bool:
        """Whether the type can be the matchpoint of a syncup (R-SYNC-1)."""
        return bool(self.traits & SYNC)


LN_TX: Final = 1
LN_TYPE: Final = 2
MAP_LN_TX: Final = 3
MAP_LN: Final = 4
NAME_LN_TX: Final = 5
NAME_LN: Final = 6
DEL_DUP_LN_TX: Final = 7
DEL_DUP_LN: Final = 8
DUP_COUNT_LN_TX: Final = 9
DUP_COUNT_LN: Final = 10
FILE_SUMMARY_LN: Final = 11
IN_TYPE: Final = 12
BIN_TYPE: Final = 13
DIN_TYPE: Final = 14
DBIN_TYPE: Final = 15
DB_TREE: Final = 16
COMMIT: Final = 17
ABORT: Final = 18
CKPT_START: Final = 19
CKPT_END: Final = 20
IN_DELETE: Final = 21
OLD_DELTA_TYPE: Final = 22
DUP_DELTA_TYPE: Final = 23
TRACE: Final = 24
FILE_HEADER: Final = 25
IN_DUP_DELETE: Final = 26
PREPARE: Final = 27
ROLLBACK_START: Final = 28
ROLLBACK_END: Final = 29
MATCHPOINT: Final = 30
DEL_LN_TX: Final = 31
DEL_LN: Final = 32
INS_LN_TX: Final = 33
INS_LN: Final = 34
UPD_LN_TX: Final = 35
UPD_LN: Final = 36
DELTA_TYPE: Final = 37
IMMUTABLE_FILE: Final = 38
RESTORE_REQUIRED: Final = 39
RESERVED_FILE_LN: Final = 40
EXTINCT_SCAN_LN: Final = 41
EXTINCT_SCAN_LN_TX: Final = 42
ERASED: Final = 43
UPD_IMAGE: Final = 44
DEL_IMAGE: Final = 45

# number, name, family, groups, codec, traits, since, until
ENTRY_TYPES: Final[tuple[EntryType, ...]] = (
    EntryType(LN_TX, "LN_TX", LN, ("ln",), "user_ln", TXN | STREAM, 1, 7),
    EntryType(LN_TYPE, "LN", LN, ("ln",), "user_ln", STREAM, 1, 7),
    EntryType(MAP_LN_TX, "MapLN_TX", LN, ("ln", "meta"), "map_ln", TXN, 1, 7),
    EntryType(MAP_LN, "MapLN", LN, ("ln", "meta"), "map_ln", 0, 1, None),
    EntryType(NAME_LN_TX, "NameLN_TX", LN, ("ln", "meta"), "name_ln", TXN | STREAM, 1, None),
    EntryType(NAME_LN, "NameLN", LN, ("ln", "meta"), "name_ln", STREAM, 1, None),
    EntryType(DEL_DUP_LN_TX, "DelDupLN_TX", LN, ("ln",), "del_dup_ln", TXN | STREAM, 1, 7),
    EntryType(DEL_DUP_LN, "DelDupLN", LN, ("ln",), "del_dup_ln", STREAM, 1, 7),
    EntryType(DUP_COUNT_LN_TX, "DupCountLN_TX", LN, ("ln",), "dup_count_ln", TXN, 1, 7),
    EntryType(DUP_COUNT_LN, "DupCountLN", LN, ("ln",), "dup_count_ln", 0, 1, 7),
    EntryType(FILE_SUMMARY_LN, "FileSummaryLN", LN, ("ln", "cleaner"), "file_summary_ln", RARE | OWN, 1, None),
    EntryType(IN_TYPE, "IN", NODE, ("in",), "node", 0, 1, None),
    EntryType(BIN_TYPE, "BIN", NODE, ("in",), "node", BOTTOM, 1, None),
    EntryType(DIN_TYPE, "DIN", NODE, ("in",), "node", 0, 1, 7),
    EntryType(DBIN_TYPE, "DBIN", NODE, ("in",), "node", BOTTOM, 1, 7),
    EntryType(DB_TREE, "DbTree", OTHER, ("meta",), "db_tree", 0, 1, None),
    EntryType(COMMIT, "Commit", OTHER, ("txn",), "txn_end", TXN | SYNC | STREAM | TIMED, 1, None),
    EntryType(ABORT, "Abort", OTHER, ("txn",), "txn_end", TXN | SYNC | STREAM | TIMED, 1, None),
    EntryType(CKPT_START, "CkptStart", OTHER, ("ckpt",), "ckpt_start", TIMED, 1, None),
    EntryType(CKPT_END, "CkptEnd", OTHER, ("ckpt",), "ckpt_end", TIMED | RARE, 1, None),
    EntryType(IN_DELETE, "INDelete", OTHER, ("in",), "in_delete", 0, 1, 7),
    EntryType(OLD_DELTA_TYPE, "BINDelta", NODE, ("in",), "old_delta", BOTTOM | DELTA, 1, 8),
    EntryType(DUP_DELTA_TYPE, "DupBINDelta", NODE, ("in",), "old_delta", BOTTOM | DELTA, 1, 7),
    EntryType(TRACE, "Trace", OTHER, ("meta",), "trace", STREAM | TIMED | OWN, 1, None),
    EntryType(FILE_HEADER, "FileHeader", OTHER, ("meta",), "file_header", TIMED | OWN, 1, None),
    EntryType(IN_DUP_DELETE, "INDupDelete", OTHER, ("in",), "in_dup_delete", 0, 1, 7),
    EntryType(PREPARE, "Prepare", OTHER, ("txn",), "prepare", TXN | TIMED, 1, 17),
    EntryType(ROLLBACK_START, "RollbackStart", OTHER, ("rollback", "rep"), "roll_start", TIMED | RARE, 7, None),
    EntryType(ROLLBACK_END, "RollbackEnd", OTHER, ("rollback", "rep"), "roll_end", TIMED | RARE, 7, None),
    EntryType(MATCHPOINT, "Matchpoint", OTHER, ("rep",), "matchpoint", SYNC | STREAM | TIMED, 7, None),
    EntryType(DEL_LN_TX, "DEL_LN_TX", LN, ("ln",), "user_ln", TXN | STREAM | DELETES, 8, None),
    EntryType(DEL_LN, "DEL_LN", LN, ("ln",), "user_ln", STREAM | DELETES, 8, None),
    EntryType(INS_LN_TX, "INS_LN_TX", LN, ("ln",), "user_ln", TXN | STREAM | INSERTS, 8, None),
    EntryType(INS_LN, "INS_LN", LN, ("ln",), "user_ln", STREAM | INSERTS, 8, None),
    EntryType(UPD_LN_TX, "UPD_LN_TX", LN, ("ln",), "user_ln", TXN | STREAM | UPDATES, 8, None),
    EntryType(UPD_LN, "UPD_LN", LN, ("ln",), "user_ln", STREAM | UPDATES, 8, None),
    EntryType(DELTA_TYPE, "NewBINDelta", NODE, ("in",), "node", BOTTOM | DELTA, 9, None),
    EntryType(IMMUTABLE_FILE, "ImmutableFile", OTHER, ("meta",), "immutable_file", 0, 11, None),
    EntryType(RESTORE_REQUIRED, "RestoreRequired", OTHER, ("meta",), "restore_required", 0, 14, None),
    EntryType(RESERVED_FILE_LN, "ReservedFileLN", LN, ("ln", "cleaner"), "reserved_ln", RARE | OWN, 15, None),
    EntryType(EXTINCT_SCAN_LN, "ExtinctScanLN", LN, ("ln", "cleaner"), "scan_ln", 0, 16, None),
    EntryType(EXTINCT_SCAN_LN_TX, "ExtinctScanLN_TX", LN, ("ln", "cleaner"), "scan_ln", TXN | STREAM, 16, None),
    EntryType(ERASED, "Erased", OTHER, ("cleaner",), "erased", RARE, 17, None),
    EntryType(UPD_IMAGE, "UPD_LN_TX_WITH_BEFORE_IMAGE", LN, ("ln",), "image_ln", TXN | STREAM | UPDATES, 25, None),
    EntryType(DEL_IMAGE, "DEL_LN_TX_WITH_BEFORE_IMAGE", LN, ("ln",), "image_ln", TXN | STREAM | DELETES, 25, None),
)

BY_NUMBER: Final[dict[int, EntryType]] = {entry_type.number: entry_type for entry_type in ENTRY_TYPES}
BY_NAME: Final[dict[str, EntryType]] = {entry_type.name.lower(): entry_type for entry_type in ENTRY_TYPES}


def _family(family: str) -> frozenset[int]:
    return frozenset(t.number for t in ENTRY_TYPES if t.family == family)


def _group(group: str) -> frozenset[int]:
    return frozenset(t.number for t in ENTRY_TYPES if group in t.groups)


def _with(traits: int) -> frozenset[int]:
    return frozenset(t.number for t in ENTRY_TYPES if t.traits & traits)


def _read_by(*codecs: str) -> frozenset[int]:
    return frozenset(t.number for t in ENTRY_TYPES if t.codec in codecs)


# Everything that has a key and belongs to a database.
LNS: Final = _family(LN)
# Bodies with transaction fields: LNs, and the ends of transactions.
TRANSACTIONAL: Final = _with(TXN)
# Records of users, as opposed to those in JE's internal trees.
USER_LNS: Final = _read_by("user_ln", "del_dup_ln", "image_ln")
# User records that need no Commit to be durable.
PLAIN_LNS: Final = USER_LNS - TRANSACTIONAL
# User records without a before-image, as JE writes them since v8: the types that the fast readers of ``fast.ln`` read.
COMMON_LNS: Final = frozenset(n for n in _read_by("user_ln") if BY_NUMBER[n].until is None)
# The COMMON_LNS that put a record: redo handles them without decoding them to objects.
COMMON_PUTS: Final = COMMON_LNS & _with(INSERTS | UPDATES)
# User records whose type shows that the record is new, or deleted.
INSERTIONS: Final = _with(INSERTS)
DELETIONS: Final = _with(DELETES)
# Types that replace a record; since v26 they repeat its creation time.
REPLACEMENTS: Final = _with(UPDATES | DELETES)
# Deletions of a duplicate item: the entry holds the main key and the deleted item, until v7.
DEL_DUP_LNS: Final = _read_by("del_dup_ln")
# Records of the mapping tree: one for each database.
MAP_LNS: Final = _read_by("map_ln")
# Records of the naming tree.
NAME_LNS: Final = _read_by("name_ln")
# Counters of the trees of duplicates, until v7; not read by any code.
DUP_COUNT_LNS: Final = _read_by("dup_count_ln")
# Records of the cleaner's databases.
FILE_SUMMARY_LNS: Final = _read_by("file_summary_ln")
RESERVED_FILE_LNS: Final = _read_by("reserved_ln")
EXTINCT_SCAN_LNS: Final = _read_by("scan_ln")
# Types that recovery redoes and undoes; MapLNs have their own pass.
REDO_LNS: Final = LNS - MAP_LNS - DUP_COUNT_LNS
UNDO_LNS: Final = REDO_LNS & TRANSACTIONAL
# LNs that replicas receive: they show to which group a log belongs.
STREAM_LNS: Final = LNS & _with(STREAM)
# The LNs of users' databases in the stream.
STREAM_RECORDS: Final = USER_LNS & STREAM_LNS

# Nodes and deltas of nodes.
NODE_ENTRIES: Final = _family(NODE)
# Types that ``node.decode_node`` reads: all but the old deltas, which hold only slots.
NODES: Final = _read_by("node")
OLD_DELTAS: Final = _read_by("old_delta")
# Nodes and deltas of the trees of duplicates that existed until v7, and of all other trees.
DUP_NODE_ENTRIES: Final = frozenset(n for n in NODE_ENTRIES if BY_NUMBER[n].until == TWO_PART_DUPLICATES - 1)
TREE_NODE_ENTRIES: Final = NODE_ENTRIES - DUP_NODE_ENTRIES
# The types of both kinds that ``node.decode_node`` reads.
DUP_NODES: Final = NODES & DUP_NODE_ENTRIES
TREE_NODES: Final = NODES & TREE_NODE_ENTRIES
# Nodes that can be read without another entry, unlike deltas.
FULL_NODES: Final = TREE_NODES - _with(DELTA)
# Types that need another entry to be read.
DELTAS: Final = TREE_NODE_ENTRIES & _with(DELTA)
# Nodes and deltas whose slots lead to records, in trees and in trees of duplicates.
BOTTOM_NODES: Final = NODES & _with(BOTTOM)
# BINs and their deltas.
BINS: Final = BOTTOM_NODES & TREE_NODES

# The complete nodes of BOTTOM_NODES, including trees of duplicates.
FULL_BOTTOM_NODES: Final = BOTTOM_NODES - _with(DELTA)

# Types that record how a transaction ended.
TXN_ENDS: Final = _group("txn") & _with(SYNC)
# TXN_ENDS and Prepare, after which the transaction is still undecided.
TXN_FATES: Final = _group("txn")
# The two ends of a checkpoint.
CKPT_ENDS: Final = _group("ckpt")
# A checkpoint: its two ends and the root between them.
CKPT_ENTRIES: Final = _group("ckpt") | _read_by("db_tree")
# Begin and end of a rollback.
ROLLBACKS: Final = _group("rollback")
# Types at which a syncup can match.
SYNC_POINTS: Final = _with(SYNC)
# Types outside the stream that limit how far back the stream can be followed: a rollback changes its direction, a
# checkpoint may be a barrier.
STREAM_MARKS: Final = _read_by("roll_start", "ckpt_end")
# The types that build a VLSN index: the stream, and the rollbacks of it.
STREAM_ENTRIES: Final = _with(STREAM) | _read_by("roll_start")

# Types whose body holds the time when it was written.
TIMED_ENTRIES: Final = _with(TIMED)
# Types that the checking walks report one by one.
RARE_ENTRIES: Final = _with(RARE)
# What a closing JE writes for its own purposes after the last checkpoint, besides records of its own databases.
OWN_ENTRIES: Final = _with(OWN)
# Types that are durable by themselves: damage before such an entry is not a torn tail.
DURABLE_ENTRIES: Final = PLAIN_LNS | _read_by("ckpt_end") | (TXN_ENDS - {ABORT})


def type_name(number: int) -> str:
    """JE's name of a type; an unknown number shows as ``type 99``."""
    entry_type = BY_NUMBER.get(number)
    return f"type {number}" if entry_type is None else entry_type.name


def plain_type(number: int) -> int:
    """The type of the same operation without a before-image, for log versions that have no before-images."""
    return {UPD_IMAGE: UPD_LN_TX, DEL_IMAGE: DEL_LN_TX}.get(number, number)


def is_valid_type(number: int, version: int) -> bool:
    """Whether a file of the log version may hold the type; an invalid type ends the log (R-LOG-31)."""
    return 1 <= number <= HIGHEST_TYPE.get(version, 0)
