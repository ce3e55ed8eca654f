"""LNs as DbPrintLog prints them: the LN proper, the content of internal trees, databases."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from tests.support.logs.printlog import Taker

from .compare import Bits, Derived, Length, Present
from .scalars import Fields, bits, boolean, child_text, expires, hex_bytes, lsn, nested_lsn, state_of, time, vlsn

_NO_FILE = 0xFFFFFFFF
# Bits of a DatabaseImpl's flags.
_DUPS, _TEMPORARY, _REPLICATED = 0x01, 0x02, 0x04
_CREATION_TIME_TEXT = "differs from modification time for inserts"


def ln(entry: Taker, fields: Fields) -> None:
    """An LN since 5.0: database, key, content, then everything else."""
    fields["db"] = int(entry.value("dbId", "id"))
    summary_key = entry.child_if("fileSummaryLNKey")
    fields["key"] = hex_bytes(entry.value("key", "v"))
    if summary_key is not None:
        _check_summary_key(summary_key, fields["key"])
    _content(entry.child(), fields)
    fields["embedded"] = boolean(entry.value("embeddedLN"))
    _times(entry, fields)
    fields |= _prior(entry)
    if entry.peek() == "txn":
        _txn(entry, fields)
        fields["abort_lsn"] = lsn(entry.value("abortLSN"))
        fields["abort_known_deleted"] = boolean(entry.value("abortKD"))
        _abort(entry, fields)
    else:
        fields |= {"txn": None, "last_lsn": None, "abort_lsn": None}
    _tail(entry, fields)


def ln_33(entry: Taker, fields: Fields) -> None:
    """An LN in 3.3: content first, and an abort LSN only when there is one."""
    _content(entry.child(), fields)
    fields["db"] = int(entry.value("dbId", "id"))
    fields["key"] = hex_bytes(entry.value("key", "v"))
    fields["abort_lsn"] = lsn(entry.value_if("DbLsn"))
    if entry.peek() == "knownDeleted":
        fields["abort_known_deleted"] = boolean(entry.value("knownDeleted"))
        _txn(entry, fields)
    else:
        fields |= {"txn": None, "last_lsn": None}
    _tail(entry, fields)


def _content(content: Taker, fields: Fields) -> None:
    """``ln``, ``mapLN``, ``nameLN``, ``fileSummaryLN`` or ``dupCountLN``."""
    node_id = child_text(content, "node")
    if node_id is not None:
        fields["node"] = int(node_id)
    fields["data"] = data = hex_bytes(child_text(content, "data"))
    fields["deleted"] = data is None
    fields["data_size"] = None if data is None else len(data) // 2
    state = content.child_if("database")
    if state is not None:
        fields["database"] = database(state)
    if content.tag == "nameLN":
        fields["named_db"] = int(content.value("dbId", "id"))
    if content.tag == "fileSummaryLN":
        _summary(content, fields)
    if content.tag == "dupCountLN":
        fields["dup_count"] = int(content.value("count", "v"))
    content.finish()


def _txn(entry: Taker, fields: Fields) -> None:
    txn = entry.child("txn")
    fields["txn"] = int(txn.take("id"))
    fields["last_lsn"] = lsn(txn.value("DbLsn"))
    txn.finish()


def _times(entry: Taker, fields: Fields) -> None:
    created = entry.value_if("creationTime")
    assert created in (None, _CREATION_TIME_TEXT), created
    fields["modification_time"] = time(entry.value_if("modTime"))
    fields["expiration"] = _optional(entry, "expires", expires)


def _abort(entry: Taker, fields: Fields) -> None:
    fields["abort_tombstone"] = entry.value_if("abortTombstone") == "true" or None
    fields["abort_key"] = hex_bytes(entry.value_if("abortKey", "v"))
    fields["abort_data"] = hex_bytes(entry.value_if("abortData", "v"))
    fields["abort_vlsn"] = vlsn(entry.value_if("abortVLSN", "v"))
    fields["abort_expiration"] = _optional(entry, "abortExpires", expires)
    fields["abort_modification_time"] = time(entry.value_if("abortModTime"))


def _optional(entry: Taker, tag: str, convert: Callable[[str | None], Any]) -> Any:
    """An element that may be missing, or may have no value (25.3)."""
    child = entry.child_if(tag)
    if child is None:
        return None
    value = child.take_if("val")
    child.finish()
    return convert(value)


def _prior(entry: Taker) -> Fields:
    prior = entry.child_if("prior")
    if prior is None:
        return {"prior_size": None, "prior_file": None}
    size, file = int(prior.take("size")), int(prior.take("file"))
    prior.finish()
    return {"prior_size": size, "prior_file": None if file == _NO_FILE else file}


def _tail(entry: Taker, fields: Fields) -> None:
    """What follows the LN proper: the other half of a DelDupLN's key, the operation of a NameLN, 25.3's views."""
    if entry.peek() == "key":
        fields["dup_data"] = hex_bytes(entry.value("key", "v"))
    operation = entry.value_if("DbOp")
    if operation is not None:
        fields["operation"] = operation.lower()
        config, replaced = entry.child_if("config"), entry.value_if("dbId", "id")
        fields["config"] = fields["truncated_db"] = None
        if config is not None and operation in ("CREATE", "UPDATE_CONFIG"):
            fields["config"] = _config(config)
        if replaced is not None and operation == "TRUNCATE":
            fields["truncated_db"] = int(replaced)
    for tag in ("databaseExtinction", "extinctionScannerDeletion"):
        entry.child_if(tag)


def _config(config: Taker) -> Fields:
    fields = {
        "flags": _database_flags(config),
        "btree_comparator": Present(boolean(config.take("btcmpSet"))),
        "duplicate_comparator": Present(boolean(config.take("dupcmpSet"))),
    }
    config.finish()
    return fields


# FileSummaryLN.


def _check_summary_key(key: Taker, text: str | None) -> None:
    file, sequence = int(key.take("fileNumber"), 16), int(key.take("sequence"), 16)
    key.finish()
    assert struct.pack(">II", file, 0x7FFFFFFF - sequence).hex() == text, "the key as JE decodes it"


def _summary(content: Taker, fields: Fields) -> None:
    summary = content.child_if("summary")
    fields["summary"] = None
    if summary is None:
        return
    fields["summary"] = {name: int(summary.take(je_name)) for name, je_name in _COUNTERS if name != "max_ln_size"}
    largest = summary.take_if("maxLNSize")
    fields["summary"]["max_ln_size"] = int(largest or 0)
    if largest is not None:
        average = float(summary.take("getAvgObsoleteLNSizeNotCounted"))
        sizes = tuple(int(summary.take(name)) for name in _DERIVED)
        fields["summary_derived"] = Derived((*sizes, None if average != average else _single(average)))
    summary.finish()
    offsets = content.child("offsets")
    fields["obsolete_offsets"] = [int(offset, 16) for offset in offsets.text().split()]
    assert int(offsets.take("size")) == len(fields["obsolete_offsets"])
    offsets.finish()
    if content.peek() == "anchor":
        fields["anchor_lsn"] = nested_lsn(content, "anchor")


def _single(number: float) -> float:
    # The shortest text that names a single-precision number is not the number itself.
    return float(struct.unpack("<f", struct.pack("<f", number))[0])


_UTILIZATION = (
    ("total_in_count", "totalINCount"),
    ("total_in_size", "totalINSize"),
    ("total_ln_count", "totalLNCount"),
    ("total_ln_size", "totalLNSize"),
    ("obsolete_in_count", "obsoleteINCount"),
    ("obsolete_ln_count", "obsoleteLNCount"),
    ("obsolete_ln_size", "obsoleteLNSize"),
    ("obsolete_ln_size_counted", "obsoleteLNSizeCounted"),
)
_COUNTERS = (("total_count", "totalCount"), ("total_size", "totalSize"), *_UTILIZATION)
_DERIVED = (
    "getObsoleteSize",
    "getObsoleteINSize",
    "getObsoleteLNSize",
    "getMaxObsoleteSize",
    "getMaxObsoleteLNSize",
)


# Databases.


def database(taker: Taker) -> Fields:
    fields: Fields = {"flags": _database_flags(taker)}
    name = taker.take_if("name")
    if name is not None and name not in ("_jeIdMap", "_jeNameMap"):
        fields["name"] = None if name == "null" else name
    for key, attribute in (("btree_comparator", "btcmp"), ("duplicate_comparator", "dupcmp")):
        text = taker.take(attribute)
        if text.startswith("byteLen: "):
            fields[key] = Length(int(text.removeprefix("byteLen: ")))
        elif name is not None:
            assert text == "", text
            fields[key] = Length(0)
    fields["db_id"] = int(taker.value("dbId", "id"))
    _root(taker.child("root"), fields)
    files = []
    while taker.peek() == "file":
        files.append(_utilization(taker.child()))
    if files:
        fields["utilization"] = files
    taker.finish()
    return fields


def _database_flags(taker: Taker) -> Bits:
    return bits(
        (_DUPS, taker.take("dupsort")), (_REPLICATED, taker.take("replicated")), (_TEMPORARY, taker.take_if("temp"))
    )


def _root(root: Taker, fields: Fields) -> None:
    fields["root_exists"] = root.peek() == "ref"
    if fields["root_exists"]:
        ref = root.child()
        fields["root_state"] = state_of(ref)
        fields["root_key"] = hex_bytes(ref.value("key", "v"))
        fields["root_lsn"] = lsn(ref.value("DbLsn"))
        ref.finish()
    root.finish()


def _utilization(file: Taker) -> Fields:
    summary = file.child("summary")
    fields = {"file": int(file.take("file"))} | {name: int(summary.take(je_name)) for name, je_name in _UTILIZATION}
    summary.finish()
    file.finish()
    return fields
