"""The codecs of log entries, each loaded when the first body of its kind is decoded or encoded.

A pass over headers and checksums decodes few bodies, usually of three or four types; importing the codecs of all types
would take a quarter of its start time. So the registry (``entry_types``) names one of the functions below for each
type, and each function imports the module of ``engine.format.entry`` with its codec.

A codec is a pair of functions for a body and a log version. Encoding supports the versions in which JE itself would
write the type; ``versions.continued_in`` determines the version of new files.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from engine.errors import FormatError, plural
from engine.format.entry_types import BY_NUMBER, FILE_HEADER, type_name
from engine.format.versions import PACKED_NUMBERS

Record = tuple[Any, ...]
Decode = Callable[[bytes, int], Record]
Encode = Callable[[Any, int], bytes]


class Codec(NamedTuple):
    """The functions that decode and encode the body of one type."""

    decode: Decode
    encode: Encode


def user_ln(number: int, transactional: bool) -> Codec:
    """A user's record."""
    from engine.format.entry.ln import LNKind

    return _ln(LNKind(number, transactional))


def del_dup_ln(number: int, transactional: bool) -> Codec:
    """The deletion of an item in a tree of duplicates."""
    from engine.format.entry.ln import LNKind

    return _ln(LNKind(number, transactional, counted_key=True, tail="data"))


def image_ln(number: int, transactional: bool) -> Codec:
    """A user's record with a before-image of the replaced one."""
    from engine.format.entry.ln import LNKind

    return _ln(LNKind(number, transactional, counted_key=True, tail="before_image"))


def reserved_ln(number: int, transactional: bool) -> Codec:
    """A file that replicas still need; same layout as a user's record."""
    return user_ln(number, transactional)


def scan_ln(number: int, transactional: bool) -> Codec:
    """A scan for extinct records; same layout as a user's record."""
    return user_ln(number, transactional)


def map_ln(number: int, transactional: bool) -> Codec:
    """A database in the mapping tree."""
    from engine.format.entry import ln_content as lc
    from engine.format.entry.ln import LNKind

    return _ln(LNKind(number, transactional, lc.read_map_ln, lc.write_map_ln))


def name_ln(number: int, transactional: bool) -> Codec:
    """A name in the naming tree."""
    from engine.format.entry import ln_content as lc
    from engine.format.entry.ln import LNKind

    return _ln(LNKind(number, transactional, lc.read_name_ln, lc.write_name_ln, True, "name"))


def dup_count_ln(number: int, transactional: bool) -> Codec:
    """The number of items in a tree of duplicates."""
    from engine.format.entry import ln_content as lc
    from engine.format.entry.ln import LNKind

    return _ln(LNKind(number, transactional, lc.read_dup_count_ln, lc.write_dup_count_ln))


def file_summary_ln(number: int, transactional: bool) -> Codec:
    """The utilization of a file."""
    from engine.format.entry import ln_content as lc
    from engine.format.entry.ln import LNKind

    return _ln(LNKind(number, transactional, lc.read_file_summary_ln, lc.write_file_summary_ln))


def _ln(kind: Any) -> Codec:
    from engine.format.entry import ln
    from engine.format.fast.ln import decode_plain_ln

    # Types without special fields have a faster decoder with the same result.
    plain = kind.transactional and kind.read_content is None and not kind.tail
    decode_ln = decode_plain_ln if plain else ln.decode_ln

    def decode(body: bytes, version: int) -> Record:
        return decode_ln(body, version, kind)

    def encode(record: ln.LN, version: int) -> bytes:
        return ln.encode_ln(record, version, kind)

    return Codec(decode, encode)


def node(number: int, _: bool) -> Codec:
    """A node of a tree, or (since v9) a delta."""
    from engine.format.entry import node

    def decode(body: bytes, version: int) -> Record:
        return node.decode_node(body, version, number)

    def encode(record: node.NodeRecord, version: int) -> bytes:
        return node.encode_node(record, version, number)

    return Codec(decode, encode)


def old_delta(_: int, __: bool) -> Codec:
    """A delta (until v8)."""
    from engine.format.entry import legacy

    return Codec(legacy.decode_old_delta, legacy.encode_old_delta)


def in_delete(_: int, __: bool) -> Codec:
    """The removal of a subtree."""
    from engine.format.entry import legacy

    return Codec(legacy.decode_in_delete, legacy.encode_in_delete)


def in_dup_delete(_: int, __: bool) -> Codec:
    """The removal of a tree of duplicates."""
    from engine.format.entry import legacy

    return Codec(legacy.decode_in_dup_delete, legacy.encode_in_dup_delete)


def db_tree(_: int, __: bool) -> Codec:
    """The root of the environment."""
    from engine.format.entry import db_tree

    return Codec(db_tree.decode_db_tree, db_tree.encode_db_tree)


def txn_end(_: int, __: bool) -> Codec:
    """A Commit or an Abort."""
    from engine.format.entry import txn_end

    return Codec(txn_end.decode_txn_end, txn_end.encode_txn_end)


def prepare(_: int, __: bool) -> Codec:
    """A Prepare."""
    from engine.format.entry import txn_end

    return Codec(txn_end.decode_prepare, txn_end.encode_prepare)


def ckpt_start(_: int, __: bool) -> Codec:
    """The begin of a checkpoint."""
    from engine.format.entry import checkpoint

    return Codec(checkpoint.decode_ckpt_start, checkpoint.encode_ckpt_start)


def ckpt_end(_: int, __: bool) -> Codec:
    """The end of a checkpoint."""
    from engine.format.entry import checkpoint

    return Codec(checkpoint.decode_ckpt_end, checkpoint.encode_ckpt_end)


def trace(_: int, __: bool) -> Codec:
    """A message."""
    from engine.format.entry import trace

    return Codec(trace.decode_trace, trace.encode_trace)


def file_header(_: int, __: bool) -> Codec:
    """The first entry of a file."""
    from engine.format.entry import file_header

    return Codec(file_header.decode_file_header, file_header.encode_file_header)


def roll_start(_: int, __: bool) -> Codec:
    """The begin of a rollback."""
    from engine.format.entry import rollback

    return Codec(rollback.decode_rollback_start, rollback.encode_rollback_start)


def roll_end(_: int, __: bool) -> Codec:
    """The end of a rollback."""
    from engine.format.entry import rollback

    return Codec(rollback.decode_rollback_end, rollback.encode_rollback_end)


def matchpoint(_: int, __: bool) -> Codec:
    """A point in the stream at which nodes can match."""
    from engine.format.entry import rollback

    return Codec(rollback.decode_matchpoint, rollback.encode_matchpoint)


def immutable_file(_: int, __: bool) -> Codec:
    """Marks the end of a file that must not be appended to."""
    from engine.format.entry import markers

    return Codec(markers.decode_immutable_file, markers.encode_immutable_file)


def restore_required(_: int, __: bool) -> Codec:
    """Marks an environment that must not be opened."""
    from engine.format.entry import markers

    return Codec(markers.decode_restore_required, markers.encode_restore_required)


def erased(_: int, __: bool) -> Codec:
    """An entry that the eraser has overwritten."""
    from engine.format.entry import markers

    return Codec(markers.decode_erased, markers.encode_erased)


_LOADERS: Final[dict[str, Callable[[int, bool], Codec]]] = {
    made.__name__: made
    for made in (
        user_ln,
        del_dup_ln,
        image_ln,
        reserved_ln,
        scan_ln,
        map_ln,
        name_ln,
        dup_count_ln,
        file_summary_ln,
        node,
        old_delta,
        in_delete,
        in_dup_delete,
        db_tree,
        txn_end,
        prepare,
        ckpt_start,
        ckpt_end,
        trace,
        file_header,
        roll_start,
        roll_end,
        matchpoint,
        immutable_file,
        restore_required,
        erased,
    )
}
_loaded: Final[dict[int, Codec]] = {}


def codec_of(number: int) -> Codec | None:
    """The codec of a type, None when there is no such type."""
    codec = _loaded.get(number)
    if codec is None and (entry_type := BY_NUMBER.get(number)) is not None:
        codec = _loaded[number] = _LOADERS[entry_type.codec](number, entry_type.transactional)
    return codec


def readable_body(number: int, version: int, own_version: int, body: bytes) -> tuple[int, bytes]:
    """Translate the body of an entry of log version 1 to 5 to the layout of version 6.

    Arguments:
        number: entry type.
        version: log version of the file.
        own_version: the version of the entry, from its flags.
        body: exactly the bytes of the item.

    Returns:
        The version whose layout the body has now, and the body. A body that does not fit its type is returned as it is,
        with its own version: ``decode_body`` raises the error when somebody needs the fields.
    """
    if version >= PACKED_NUMBERS or number == FILE_HEADER:
        return version, body
    from engine.format.entry.early import translated

    try:
        return PACKED_NUMBERS, translated(number, own_version, body, encode_body)
    except FormatError:
        return min(own_version, PACKED_NUMBERS - 1), body


def decode_body(number: int, version: int, body: bytes) -> Record:
    """Decode the body of an entry.

    Arguments:
        number: entry type.
        version: log version of the file; until v5 the entry's own version.
        body: exactly the bytes of the item.

    Returns:
        The record of the type, such as ``ln.LN`` or ``checkpoint.CkptEnd``.

    Raises:
        FormatError: the body does not fit the type, or the type is unknown. No bytes can make it raise anything else.
    """
    codec = codec_of(number)
    if codec is None:
        raise FormatError("unknown entry type", expected="1..45", found=str(number))
    if version < PACKED_NUMBERS and number != FILE_HEADER:
        from engine.format.entry.early import translated

        body, version = translated(number, version, body, encode_body), PACKED_NUMBERS
    try:
        return codec.decode(body, version)
    except FormatError as error:
        raise FormatError(f"{type_name(number)}: {error}") from error
    except IndexError as error:
        raise FormatError(
            f"{type_name(number)}: field runs past the end of the entry", found=plural(len(body), "byte")
        ) from error
    except (ValueError, OverflowError, struct.error) as error:
        # The bytes may be anything, and callers handle only FormatError.
        raise FormatError(f"{type_name(number)}: the body does not fit its type", found=str(error)) from error


def encode_body(number: int, version: int, record: Record) -> bytes:
    """Encode a record as the body of an entry of its type."""
    codec = codec_of(number)
    if codec is None:
        raise KeyError(number)
    return codec.encode(record, version)
