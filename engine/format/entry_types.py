"""The registry: one line for each type of log entry (je-log-format.md section 5).

Scanner, dump, statistics, verification and recovery all read this table. The name is what ``DbPrintLog`` of JE 18.3
prints. ``since`` is the first log version in which the number is valid, ``until`` the last in which JE wrote it (None:
it
still does). Groups are the words that ``--type`` of the command line takes.

A codec is a pair of functions over a body and a log version. Encoding serves the versions that JE itself would write
the
type in; files are only ever written in version 17.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from engine.errors import FormatError
from engine.format.entry import checkpoint, db_tree, file_header, legacy, markers, node, rollback, trace, txn_end
from engine.format.entry import ln as ln_module
from engine.format.entry import ln_content as lc
from engine.format.versions import HIGHEST_TYPE

Record = tuple[Any, ...]
Decode = Callable[[bytes, int], Record]
Encode = Callable[[Any, int], bytes]

# Families: how a body is read, and what a pass over the log does with it.
LN: Final = "ln"
NODE: Final = "in"
OTHER: Final = "other"

GROUPS: Final = ("ln", "in", "txn", "ckpt", "rep", "rollback", "cleaner", "meta")


class EntryType(NamedTuple):
    """One type of entry.

    Attributes:
        number: the byte in the header.
        name: JE's name.
        family: ``ln`` (has a key and belongs to a database), ``in`` (a tree node or an old delta) or ``other``.
        groups: words of ``--type`` that include it.
        transactional: the body has transaction fields.
        replicable: it can be part of the replication stream.
        sync_point: it can be the matchpoint of a syncup (R-SYNC-1).
        since, until: log versions.
        decode, encode: the codec.
    """

    number: int
    name: str
    family: str
    groups: tuple[str, ...]
    transactional: bool
    replicable: bool
    sync_point: bool
    since: int
    until: int | None
    decode: Decode
    encode: Encode


def _ln(kind: ln_module.LNKind) -> tuple[Decode, Encode]:
    plain = kind.transactional and kind.read_content is None and not kind.tail
    decode_ln = ln_module.decode_plain_ln if plain else ln_module.decode_ln

    def decode(body: bytes, version: int) -> Record:
        return decode_ln(body, version, kind)

    def encode(record: ln_module.LN, version: int) -> bytes:
        return ln_module.encode_ln(record, version, kind)

    return decode, encode


def _user(number: int, *, tx: bool, tail: str = "", counted: bool = False) -> tuple[Decode, Encode]:
    return _ln(ln_module.LNKind(number, tx, counted_key=counted, tail=tail))


def _map(number: int, *, tx: bool) -> tuple[Decode, Encode]:
    return _ln(ln_module.LNKind(number, tx, lc.read_map_ln, lc.write_map_ln))  # type: ignore[arg-type]


def _name(number: int, *, tx: bool) -> tuple[Decode, Encode]:
    kind = ln_module.LNKind(number, tx, lc.read_name_ln, lc.write_name_ln, True, "name")  # type: ignore[arg-type]
    return _ln(kind)


def _count(number: int, *, tx: bool) -> tuple[Decode, Encode]:
    kind = ln_module.LNKind(number, tx, lc.read_dup_count_ln, lc.write_dup_count_ln)  # type: ignore[arg-type]
    return _ln(kind)


def _summary(number: int) -> tuple[Decode, Encode]:
    kind = ln_module.LNKind(number, False, lc.read_file_summary_ln, lc.write_file_summary_ln)  # type: ignore[arg-type]
    return _ln(kind)


def _node(number: int) -> tuple[Decode, Encode]:
    def decode(body: bytes, version: int) -> Record:
        return node.decode_node(body, version, number)

    def encode(record: node.Node, version: int) -> bytes:
        return node.encode_node(record, version, number)

    return decode, encode


_DELTA = (legacy.decode_old_delta, legacy.encode_old_delta)
_TXN_END = (txn_end.decode_txn_end, txn_end.encode_txn_end)

# number, name, family, groups, transactional, replicable, sync point, since, until, codec
ENTRY_TYPES: Final[tuple[EntryType, ...]] = (
    EntryType(1, "LN_TX", LN, ("ln",), True, True, False, 6, 7, *_user(1, tx=True)),
    EntryType(2, "LN", LN, ("ln",), False, True, False, 6, 7, *_user(2, tx=False)),
    EntryType(3, "MapLN_TX", LN, ("ln", "meta"), True, False, False, 6, 7, *_map(3, tx=True)),
    EntryType(4, "MapLN", LN, ("ln", "meta"), False, False, False, 6, None, *_map(4, tx=False)),
    EntryType(5, "NameLN_TX", LN, ("ln", "meta"), True, True, False, 6, None, *_name(5, tx=True)),
    EntryType(6, "NameLN", LN, ("ln", "meta"), False, True, False, 6, None, *_name(6, tx=False)),
    EntryType(7, "DelDupLN_TX", LN, ("ln",), True, True, False, 6, 7, *_user(7, tx=True, tail="data", counted=True)),
    EntryType(8, "DelDupLN", LN, ("ln",), False, True, False, 6, 7, *_user(8, tx=False, tail="data", counted=True)),
    EntryType(9, "DupCountLN_TX", LN, ("ln",), True, False, False, 6, 7, *_count(9, tx=True)),
    EntryType(10, "DupCountLN", LN, ("ln",), False, False, False, 6, 7, *_count(10, tx=False)),
    EntryType(11, "FileSummaryLN", LN, ("ln", "cleaner"), False, False, False, 6, None, *_summary(11)),
    EntryType(12, "IN", NODE, ("in",), False, False, False, 6, None, *_node(12)),
    EntryType(13, "BIN", NODE, ("in",), False, False, False, 6, None, *_node(13)),
    EntryType(14, "DIN", NODE, ("in",), False, False, False, 6, 7, *_node(14)),
    EntryType(15, "DBIN", NODE, ("in",), False, False, False, 6, 7, *_node(15)),
    EntryType(16, "DbTree", OTHER, ("meta",), False, False, False, 6, None, db_tree.decode_db_tree,
              db_tree.encode_db_tree),
    EntryType(17, "Commit", OTHER, ("txn",), True, True, True, 6, None, *_TXN_END),
    EntryType(18, "Abort", OTHER, ("txn",), True, True, True, 6, None, *_TXN_END),
    EntryType(19, "CkptStart", OTHER, ("ckpt",), False, False, False, 6, None, checkpoint.decode_ckpt_start,
              checkpoint.encode_ckpt_start),
    EntryType(20, "CkptEnd", OTHER, ("ckpt",), False, False, False, 6, None, checkpoint.decode_ckpt_end,
              checkpoint.encode_ckpt_end),
    EntryType(21, "INDelete", OTHER, ("in",), False, False, False, 6, 7, legacy.decode_in_delete,
              legacy.encode_in_delete),
    EntryType(22, "BINDelta", NODE, ("in",), False, False, False, 6, 8, *_DELTA),
    EntryType(23, "DupBINDelta", NODE, ("in",), False, False, False, 6, 7, *_DELTA),
    EntryType(24, "Trace", OTHER, ("meta",), False, True, False, 6, None, trace.decode_trace, trace.encode_trace),
    EntryType(25, "FileHeader", OTHER, ("meta",), False, False, False, 6, None, file_header.decode_file_header,
              file_header.encode_file_header),
    EntryType(26, "INDupDelete", OTHER, ("in",), False, False, False, 6, 7, legacy.decode_in_dup_delete,
              legacy.encode_in_dup_delete),
    EntryType(27, "Prepare", OTHER, ("txn",), True, False, False, 6, 17, txn_end.decode_prepare,
              txn_end.encode_prepare),
    EntryType(28, "RollbackStart", OTHER, ("rollback", "rep"), False, False, False, 7, None,
              rollback.decode_rollback_start, rollback.encode_rollback_start),
    EntryType(29, "RollbackEnd", OTHER, ("rollback", "rep"), False, False, False, 7, None,
              rollback.decode_rollback_end, rollback.encode_rollback_end),
    EntryType(30, "Matchpoint", OTHER, ("rep",), False, True, True, 7, None, rollback.decode_matchpoint,
              rollback.encode_matchpoint),
    EntryType(31, "DEL_LN_TX", LN, ("ln",), True, True, False, 8, None, *_user(31, tx=True)),
    EntryType(32, "DEL_LN", LN, ("ln",), False, True, False, 8, None, *_user(32, tx=False)),
    EntryType(33, "INS_LN_TX", LN, ("ln",), True, True, False, 8, None, *_user(33, tx=True)),
    EntryType(34, "INS_LN", LN, ("ln",), False, True, False, 8, None, *_user(34, tx=False)),
    EntryType(35, "UPD_LN_TX", LN, ("ln",), True, True, False, 8, None, *_user(35, tx=True)),
    EntryType(36, "UPD_LN", LN, ("ln",), False, True, False, 8, None, *_user(36, tx=False)),
    EntryType(37, "NewBINDelta", NODE, ("in",), False, False, False, 9, None, *_node(37)),
    EntryType(38, "ImmutableFile", OTHER, ("meta",), False, False, False, 11, None, markers.decode_immutable_file,
              markers.encode_immutable_file),
    EntryType(39, "RestoreRequired", OTHER, ("meta",), False, False, False, 14, None, markers.decode_restore_required,
              markers.encode_restore_required),
    EntryType(40, "ReservedFileLN", LN, ("ln", "cleaner"), False, False, False, 15, None, *_user(40, tx=False)),
    EntryType(41, "ExtinctScanLN", LN, ("ln", "cleaner"), False, False, False, 16, None, *_user(41, tx=False)),
    EntryType(42, "ExtinctScanLN_TX", LN, ("ln", "cleaner"), True, True, False, 16, None, *_user(42, tx=True)),
    EntryType(43, "Erased", OTHER, ("cleaner",), False, False, False, 17, None, markers.decode_erased,
              markers.encode_erased),
    EntryType(44, "UPD_LN_TX_WITH_BEFORE_IMAGE", LN, ("ln",), True, True, False, 25, None,
              *_user(44, tx=True, tail="before_image")),
    EntryType(45, "DEL_LN_TX_WITH_BEFORE_IMAGE", LN, ("ln",), True, True, False, 25, None,
              *_user(45, tx=True, tail="before_image")),
)  # fmt: skip

BY_NUMBER: Final[dict[int, EntryType]] = {entry_type.number: entry_type for entry_type in ENTRY_TYPES}
BY_NAME: Final[dict[str, EntryType]] = {entry_type.name.lower(): entry_type for entry_type in ENTRY_TYPES}

FILE_SUMMARY_LN: Final = 11
DB_TREE: Final = 16
COMMIT: Final = 17
ABORT: Final = 18
CKPT_START: Final = 19
CKPT_END: Final = 20
TRACE: Final = 24
FILE_HEADER: Final = 25
PREPARE: Final = 27
ROLLBACK_START: Final = 28
ROLLBACK_END: Final = 29
RESERVED_FILE_LN: Final = 40
ERASED: Final = 43


def type_name(number: int) -> str:
    """JE's name of a type; an unknown number shows as ``type 99``."""
    entry_type = BY_NUMBER.get(number)
    return f"type {number}" if entry_type is None else entry_type.name


def is_valid_type(number: int, version: int) -> bool:
    """Whether a file of the log version may hold the type; otherwise the entry ends the log (R-LOG-31)."""
    return 1 <= number <= HIGHEST_TYPE.get(version, 0)


def decode_body(number: int, version: int, body: bytes) -> Record:
    """Decode the body of an entry.

    Arguments:
        number: entry type.
        version: log version of the file.
        body: exactly the item.

    Returns:
        The record of the type, such as ``ln.LN`` or ``checkpoint.CkptEnd``.

    Raises:
        FormatError: the body is not what the type says, or the type is unknown. Nothing else is raised, whatever the
            bytes are.
    """
    entry_type = BY_NUMBER.get(number)
    if entry_type is None:
        raise FormatError("unknown entry type", expected="1..45", found=str(number))
    try:
        return entry_type.decode(body, version)
    except FormatError as error:
        raise FormatError(f"{entry_type.name}: {error}") from error
    except IndexError as error:
        raise FormatError(
            f"{entry_type.name}: field runs past the end of the entry", found=f"{len(body)} bytes"
        ) from error
    except (ValueError, OverflowError, struct.error) as error:
        raise FormatError(f"{entry_type.name}: the body does not fit its type", found=str(error)) from error


def encode_body(number: int, version: int, record: Record) -> bytes:
    """Encode a record as the body of an entry of its type."""
    return BY_NUMBER[number].encode(record, version)
