"""The codec of each type of entry, loaded when the first body of its kind is decoded or encoded.

A pass that looks at headers and checksums decodes a handful of bodies, most often of three or four types; the modules
of the others would be a quarter of its start. So the registry (``entry_types``) says what types there are, and this
module where their codecs are: one function for each module of ``engine.format.entry``, by kind of entry.

A codec is a pair of functions over a body and a log version. Encoding serves the versions that JE itself would write
the type in; which one files are written in, ``versions.continued_in`` says.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

Record = tuple[Any, ...]
Decode = Callable[[bytes, int], Record]
Encode = Callable[[Any, int], bytes]

# Types of user records: number, whether it has transaction fields.
_USER_LNS: Final = {
    1: True, 2: False, 7: True, 8: False, 31: True, 32: False, 33: True, 34: False, 35: True, 36: False, 40: False,
    41: False, 42: True, 44: True, 45: True,
}  # fmt: skip
_WITH_COUNTED_KEY: Final = (7, 8)
_WITH_BEFORE_IMAGE: Final = (44, 45)
# LNs of internal trees.
_MAP_LNS: Final = {3: True, 4: False}
_NAME_LNS: Final = {5: True, 6: False}
_DUP_COUNT_LNS: Final = {9: True, 10: False}
_FILE_SUMMARY_LNS: Final = {11: False}

_NODES: Final = (12, 13, 14, 15, 37)


class Codec(NamedTuple):
    """How the body of one type is read and written."""

    decode: Decode
    encode: Encode


_loaded: Final[dict[int, Codec]] = {}


def codec_of(number: int) -> Codec | None:
    """The codec of a type, None when there is no such type."""
    codec = _loaded.get(number)
    if codec is None and (load := _LOADERS.get(number)) is not None:
        codec = _loaded[number] = load(number)
    return codec


def _user_ln(number: int) -> Codec:
    from engine.format.entry import ln

    tail = "data" if number in _WITH_COUNTED_KEY else "before_image" if number in _WITH_BEFORE_IMAGE else ""
    return _ln(ln.LNKind(number, _USER_LNS[number], counted_key=number in _WITH_COUNTED_KEY, tail=tail))


def _internal_ln(number: int) -> Codec:
    from engine.format.entry import ln_content as lc
    from engine.format.entry.ln import LNKind

    if number in _MAP_LNS:
        return _ln(LNKind(number, _MAP_LNS[number], lc.read_map_ln, lc.write_map_ln))
    if number in _NAME_LNS:
        return _ln(LNKind(number, _NAME_LNS[number], lc.read_name_ln, lc.write_name_ln, True, "name"))
    if number in _DUP_COUNT_LNS:
        return _ln(LNKind(number, _DUP_COUNT_LNS[number], lc.read_dup_count_ln, lc.write_dup_count_ln))
    return _ln(LNKind(number, False, lc.read_file_summary_ln, lc.write_file_summary_ln))


def _ln(kind: Any) -> Codec:
    from engine.format.entry import ln

    plain = kind.transactional and kind.read_content is None and not kind.tail
    decode_ln = ln.decode_plain_ln if plain else ln.decode_ln

    def decode(body: bytes, version: int) -> Record:
        return decode_ln(body, version, kind)

    def encode(record: ln.LN, version: int) -> bytes:
        return ln.encode_ln(record, version, kind)

    return Codec(decode, encode)


def _node(number: int) -> Codec:
    from engine.format.entry import node

    def decode(body: bytes, version: int) -> Record:
        return node.decode_node(body, version, number)

    def encode(record: node.NodeRecord, version: int) -> bytes:
        return node.encode_node(record, version, number)

    return Codec(decode, encode)


def _legacy(number: int) -> Codec:
    from engine.format.entry import legacy

    if number == 21:
        return Codec(legacy.decode_in_delete, legacy.encode_in_delete)
    if number == 26:
        return Codec(legacy.decode_in_dup_delete, legacy.encode_in_dup_delete)
    return Codec(legacy.decode_old_delta, legacy.encode_old_delta)


def _db_tree(_: int) -> Codec:
    from engine.format.entry import db_tree

    return Codec(db_tree.decode_db_tree, db_tree.encode_db_tree)


def _txn_end(number: int) -> Codec:
    from engine.format.entry import txn_end

    if number == 27:
        return Codec(txn_end.decode_prepare, txn_end.encode_prepare)
    return Codec(txn_end.decode_txn_end, txn_end.encode_txn_end)


def _checkpoint(number: int) -> Codec:
    from engine.format.entry import checkpoint

    if number == 19:
        return Codec(checkpoint.decode_ckpt_start, checkpoint.encode_ckpt_start)
    return Codec(checkpoint.decode_ckpt_end, checkpoint.encode_ckpt_end)


def _trace(_: int) -> Codec:
    from engine.format.entry import trace

    return Codec(trace.decode_trace, trace.encode_trace)


def _file_header(_: int) -> Codec:
    from engine.format.entry import file_header

    return Codec(file_header.decode_file_header, file_header.encode_file_header)


def _rollback(number: int) -> Codec:
    from engine.format.entry import rollback

    if number == 28:
        return Codec(rollback.decode_rollback_start, rollback.encode_rollback_start)
    if number == 29:
        return Codec(rollback.decode_rollback_end, rollback.encode_rollback_end)
    return Codec(rollback.decode_matchpoint, rollback.encode_matchpoint)


def _marker(number: int) -> Codec:
    from engine.format.entry import markers

    if number == 38:
        return Codec(markers.decode_immutable_file, markers.encode_immutable_file)
    if number == 39:
        return Codec(markers.decode_restore_required, markers.encode_restore_required)
    return Codec(markers.decode_erased, markers.encode_erased)


_LOADERS: Final[dict[int, Callable[[int], Codec]]] = {
    **dict.fromkeys(_USER_LNS, _user_ln),
    **dict.fromkeys((*_MAP_LNS, *_NAME_LNS, *_DUP_COUNT_LNS, *_FILE_SUMMARY_LNS), _internal_ln),
    **dict.fromkeys(_NODES, _node),
    **dict.fromkeys((21, 22, 23, 26), _legacy),
    **dict.fromkeys((17, 18, 27), _txn_end),
    **dict.fromkeys((19, 20), _checkpoint),
    **dict.fromkeys((28, 29, 30), _rollback),
    **dict.fromkeys((38, 39, 43), _marker),
    16: _db_tree,
    24: _trace,
    25: _file_header,
}
