"""The registry: one line for each type of log entry (je-log-format.md section 5).

Scanner, dump, statistics, verification and recovery all read this table. The name is what ``DbPrintLog`` of JE 18.3
prints. ``since`` is the first log version in which the number is valid, ``until`` the last in which JE wrote it (None:
it still does). Groups are the words that ``--type`` of the command line takes. What reads and writes the bodies is in
``codecs``.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from engine.errors import FormatError
from engine.format.codecs import Record, codec_of
from engine.format.versions import HIGHEST_TYPE

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


# number, name, family, groups, transactional, replicable, sync point, since, until
ENTRY_TYPES: Final[tuple[EntryType, ...]] = (
    EntryType(1, "LN_TX", LN, ("ln",), True, True, False, 6, 7),
    EntryType(2, "LN", LN, ("ln",), False, True, False, 6, 7),
    EntryType(3, "MapLN_TX", LN, ("ln", "meta"), True, False, False, 6, 7),
    EntryType(4, "MapLN", LN, ("ln", "meta"), False, False, False, 6, None),
    EntryType(5, "NameLN_TX", LN, ("ln", "meta"), True, True, False, 6, None),
    EntryType(6, "NameLN", LN, ("ln", "meta"), False, True, False, 6, None),
    EntryType(7, "DelDupLN_TX", LN, ("ln",), True, True, False, 6, 7),
    EntryType(8, "DelDupLN", LN, ("ln",), False, True, False, 6, 7),
    EntryType(9, "DupCountLN_TX", LN, ("ln",), True, False, False, 6, 7),
    EntryType(10, "DupCountLN", LN, ("ln",), False, False, False, 6, 7),
    EntryType(11, "FileSummaryLN", LN, ("ln", "cleaner"), False, False, False, 6, None),
    EntryType(12, "IN", NODE, ("in",), False, False, False, 6, None),
    EntryType(13, "BIN", NODE, ("in",), False, False, False, 6, None),
    EntryType(14, "DIN", NODE, ("in",), False, False, False, 6, 7),
    EntryType(15, "DBIN", NODE, ("in",), False, False, False, 6, 7),
    EntryType(16, "DbTree", OTHER, ("meta",), False, False, False, 6, None),
    EntryType(17, "Commit", OTHER, ("txn",), True, True, True, 6, None),
    EntryType(18, "Abort", OTHER, ("txn",), True, True, True, 6, None),
    EntryType(19, "CkptStart", OTHER, ("ckpt",), False, False, False, 6, None),
    EntryType(20, "CkptEnd", OTHER, ("ckpt",), False, False, False, 6, None),
    EntryType(21, "INDelete", OTHER, ("in",), False, False, False, 6, 7),
    EntryType(22, "BINDelta", NODE, ("in",), False, False, False, 6, 8),
    EntryType(23, "DupBINDelta", NODE, ("in",), False, False, False, 6, 7),
    EntryType(24, "Trace", OTHER, ("meta",), False, True, False, 6, None),
    EntryType(25, "FileHeader", OTHER, ("meta",), False, False, False, 6, None),
    EntryType(26, "INDupDelete", OTHER, ("in",), False, False, False, 6, 7),
    EntryType(27, "Prepare", OTHER, ("txn",), True, False, False, 6, 17),
    EntryType(28, "RollbackStart", OTHER, ("rollback", "rep"), False, False, False, 7, None),
    EntryType(29, "RollbackEnd", OTHER, ("rollback", "rep"), False, False, False, 7, None),
    EntryType(30, "Matchpoint", OTHER, ("rep",), False, True, True, 7, None),
    EntryType(31, "DEL_LN_TX", LN, ("ln",), True, True, False, 8, None),
    EntryType(32, "DEL_LN", LN, ("ln",), False, True, False, 8, None),
    EntryType(33, "INS_LN_TX", LN, ("ln",), True, True, False, 8, None),
    EntryType(34, "INS_LN", LN, ("ln",), False, True, False, 8, None),
    EntryType(35, "UPD_LN_TX", LN, ("ln",), True, True, False, 8, None),
    EntryType(36, "UPD_LN", LN, ("ln",), False, True, False, 8, None),
    EntryType(37, "NewBINDelta", NODE, ("in",), False, False, False, 9, None),
    EntryType(38, "ImmutableFile", OTHER, ("meta",), False, False, False, 11, None),
    EntryType(39, "RestoreRequired", OTHER, ("meta",), False, False, False, 14, None),
    EntryType(40, "ReservedFileLN", LN, ("ln", "cleaner"), False, False, False, 15, None),
    EntryType(41, "ExtinctScanLN", LN, ("ln", "cleaner"), False, False, False, 16, None),
    EntryType(42, "ExtinctScanLN_TX", LN, ("ln", "cleaner"), True, True, False, 16, None),
    EntryType(43, "Erased", OTHER, ("cleaner",), False, False, False, 17, None),
    EntryType(44, "UPD_LN_TX_WITH_BEFORE_IMAGE", LN, ("ln",), True, True, False, 25, None),
    EntryType(45, "DEL_LN_TX_WITH_BEFORE_IMAGE", LN, ("ln",), True, True, False, 25, None),
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
    codec = codec_of(number)
    if codec is None:
        raise FormatError("unknown entry type", expected="1..45", found=str(number))
    try:
        return codec.decode(body, version)
    except FormatError as error:
        raise FormatError(f"{type_name(number)}: {error}") from error
    except IndexError as error:
        raise FormatError(
            f"{type_name(number)}: field runs past the end of the entry", found=f"{len(body)} bytes"
        ) from error
    except (ValueError, OverflowError, struct.error) as error:
        raise FormatError(f"{type_name(number)}: the body does not fit its type", found=str(error)) from error


def encode_body(number: int, version: int, record: Record) -> bytes:
    """Encode a record as the body of an entry of its type."""
    codec = codec_of(number)
    if codec is None:
        raise KeyError(number)
    return codec.encode(record, version)
