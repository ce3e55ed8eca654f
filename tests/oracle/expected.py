"""What JE printed of an entry, in the terms of ``dump-log --format ndjson``.

One function for each element; each takes every attribute and child (``printlog.Taker``). Dialects differ in what
they print and in which order, so most functions find out from the elements themselves; 3.3 has functions of its own
for LNs, nodes and old deltas.

Printed but not compared, since it is not in the log:

* ``config`` of a NameLN whose operation is neither CREATE nor UPDATE_CONFIG, and the replaced database of one that is
  not TRUNCATE: JE prints those of an entry before it, from an object that it uses again (je-log-format.md 19).
* The version of a FileHeader entry in 7.3 is printed as -1; the one inside its body is compared.
* ``baseFileNumber`` of a node whose LSNs are stored in full: JE prints the base that its memory uses.
* ``btcmp`` and ``dupcmp`` in 3.3 when empty: it prints the class's name when it can load the class, else nothing.
* ``creationTime`` of an INS_LN in 25.3 is the constant text that it "differs from modification time for inserts".
* ``id`` and others after an ExtinctScanLN in 25.3 are the LN's key and data decoded; those are compared.
"""

from __future__ import annotations

from collections.abc import Callable
from xml.etree.ElementTree import Element

from tests.support.logs.printlog import Taker

from .compare import InAnyOrder, Zeros
from .expected_ln import database, ln, ln_33
from .expected_node import node, node_33, old_delta, previous
from .scalars import Fields, bits, boolean, lsn, nested_lsn, time, version, vlsn

# JE's names of types that changed.
_RENAMED = {"Root": "DbTree"}
# Bits of a CkptEnd's flags.
_ROOT_EXISTS, _FILES_TO_DELETE = 0x01, 0x02


def expected_entry(element: Element) -> Fields:
    """Header and body of an ``entry`` element.

    Raises:
        AssertionError: the element holds something that no function here takes.
    """
    entry = Taker(element)
    fields = _header(entry)
    _BODIES[entry.peek()](entry, fields)
    entry.finish()
    return fields


def expected_header(row: dict[str, str]) -> Fields:
    """A row of ``entries.csv``."""
    fields: Fields = {
        "lsn": row["lsn"],
        "type": _RENAMED.get(row["type"], row["type"]),
        "version": version(row["version"]),
        "provisional": row["provisional"].lower(),
        "replicated": row["replicated"] == "1",
        "invisible": row["invisible"] == "1",
        "vlsn": vlsn(row["vlsn"]),
        "prev": int(row["prev"], 16),
        "size": int(row["size"]),
        "checksum": int(row["checksum"]),
    }
    if row["level"]:
        fields["level"] = int(row["level"], 16)
    return fields


def _header(entry: Taker) -> Fields:
    place = entry.take("lsn")
    file, _, offset = place.partition("/")
    name, _, log_version = entry.take("type").partition("/")
    return {
        "lsn": place,
        "file": int(file, 16),
        "offset": int(offset, 16),
        "type": _RENAMED.get(name, name),
        "version": version(log_version),
        "provisional": (entry.take_if("prov") or "NO").lower(),
        "replicated": entry.take_if("isReplicated") == "1",
        "invisible": entry.take_if("isInvisible") == "1",
        "vlsn": vlsn(entry.take_if("vlsn")),
        "prev": int(entry.take("prev"), 16),
        "size": int(entry.take("size")),
        "checksum": int(entry.take("cksum")),
    }


def _database_first(entry: Taker, fields: Fields) -> None:
    """An entry that begins with its database: an LN, a node or an old delta."""
    if fields["type"] in ("BINDelta", "DupBINDelta"):
        old_delta(entry, fields)
    elif fields["type"] in _NODES:
        fields["db"] = int(entry.value("dbId", "id"))
        node(entry.child(), fields)
        previous(entry, fields)
    else:
        ln(entry, fields)


def _db_tree(entry: Taker, fields: Fields) -> None:
    tree = entry.child("dbtree")
    fields["last_local_db_id"] = int(tree.take("lastLocalDbId"))
    fields["last_replicated_db_id"] = int(tree.take("lastReplicatedDbId"))
    for key, tag in (("mapping_db", "idDb"), ("naming_db", "nameDb")):
        holder = tree.child(tag)
        fields[key] = database(holder.child("database"))
        holder.finish()
    tree.finish()


def _file_header(entry: Taker, fields: Fields) -> None:
    header = entry.child("FileHeader")
    fields["file_num"] = int(header.take("num"), 16)
    fields["last_entry_in_prev_file"] = int(header.take("lastEntryInPrevFileOffset"), 16)
    fields["log_version"] = int(header.take("logVersion"), 16)
    fields["time"] = time(header.take("time"))
    header.finish()


def _ckpt_start(entry: Taker, fields: Fields) -> None:
    start = entry.child("CkptStart")
    fields |= {"invoker": start.take("invoker"), "time": time(start.take("time")), "id": int(start.take("id"))}
    start.finish()


def _ckpt_end(entry: Taker, fields: Fields) -> None:
    end = entry.child("CkptEnd")
    fields |= {"invoker": end.take("invoker"), "time": time(end.take("time")), "id": int(end.take("id"))}
    for name in ("Node", "Db", "Txn", "Extinction"):
        for scope in ("Local", "Replicated"):
            number = end.take_if(f"last{scope}{name}Id")
            if number is not None:
                fields[f"last_{scope.lower()}_{name.lower()}_id"] = int(number)
    fields["flags"] = bits(
        (_ROOT_EXISTS, end.take("rootExists")), (_FILES_TO_DELETE, end.take_if("cleanedFilesToDelete"))
    )
    scans = end.take_if("completedScanIds")
    if scans is not None:
        fields["completed_scan_ids"] = [int(number) for number in scans.split()]
    fields["ckpt_start_lsn"] = nested_lsn(end, "ckptStart")
    fields["root_lsn"] = nested_lsn(end, "root") if end.peek() == "root" else None
    fields["first_active_lsn"] = nested_lsn(end, "firstActive")
    end.finish()


def _txn_end(entry: Taker, fields: Fields) -> None:
    end = entry.child()
    fields |= {"txn": int(end.take("id")), "time": time(end.take("time")), "master": int(end.take("master"))}
    for key, name in (("dtvlsn", "dtvlsn"), ("master_term", "masterTerm")):
        number = end.take_if(name)
        if number is not None:
            fields[key] = int(number)
    fields["last_lsn"] = lsn(end.value("DbLsn"))
    end.finish()


def _prepare(entry: Taker, fields: Fields) -> None:
    prepare = entry.child("TxnPrepare")
    fields |= {"txn": int(prepare.take("id")), "time": time(prepare.take("time"))}
    xid = prepare.child("Xid")
    fields["format_id"] = int(xid.take("formatId"))
    fields["gtrid"] = xid.take("gTxnId").encode().hex()
    fields["bqual"] = xid.take("bqual").encode().hex()
    xid.finish()
    prepare.finish()


def _rollback_start(entry: Taker, fields: Fields) -> None:
    start = entry.child("RollbackStart")
    fields["matchpoint_vlsn"] = vlsn(start.take("matchpointVLSN"))
    fields["matchpoint_lsn"] = lsn(start.take("matchpointLSN"))
    fields["time"] = time(start.take("time"))
    ids = start.take("activeTxnIds").replace(",", " ").split()
    fields["active_txns"] = InAnyOrder(tuple(int(number) for number in ids))
    start.finish()


def _rollback_end(entry: Taker, fields: Fields) -> None:
    end = entry.child("RollbackEnd")
    fields["matchpoint_lsn"] = lsn(end.take("matchpointLSN"))
    fields["rollback_start_lsn"] = lsn(end.take("rollbackStartLSN"))
    fields["time"] = time(end.take("time"))
    end.finish()


def _matchpoint(entry: Taker, fields: Fields) -> None:
    point = entry.child("Matchpoint")
    fields |= {"time": time(point.take("time")), "master": int(point.take("master"))}
    point.finish()


def _trace(entry: Taker, fields: Fields) -> None:
    trace = entry.child("Dbg")
    fields |= {"time": time(trace.take("time")), "message": trace.value("msg")}
    trace.finish()


def _restore_required(entry: Taker, fields: Fields) -> None:
    required = entry.child("RestoreRequired")
    fields |= {"failure_type": required.take("failureType"), "time": time(required.take("time"))}
    fields["properties"] = required.take("properties")
    required.finish()


def _erased(entry: Taker, fields: Fields) -> None:
    fields["content"] = Zeros(boolean(entry.value("Erased", "allZeros")))


def _empty_body(entry: Taker, fields: Fields) -> None:
    """ImmutableFile; JE prints nothing of its filler byte."""
    entry.child("Empty").finish()


_NODES = frozenset(("IN", "BIN", "DIN", "DBIN", "NewBINDelta"))
_BODIES: dict[str, Callable[[Taker, Fields], None]] = {
    "dbId": _database_first,
    **dict.fromkeys(("ln", "mapLN", "nameLN", "fileSummaryLN", "dupCountLN"), ln_33),
    **dict.fromkeys(("in", "bin", "din", "dbin"), node_33),
    "dbtree": _db_tree,
    "FileHeader": _file_header,
    "CkptStart": _ckpt_start,
    "CkptEnd": _ckpt_end,
    "TxnCommit": _txn_end,
    "TxnAbort": _txn_end,
    "TxnPrepare": _prepare,
    "RollbackStart": _rollback_start,
    "RollbackEnd": _rollback_end,
    "Matchpoint": _matchpoint,
    "Dbg": _trace,
    "RestoreRequired": _restore_required,
    "Erased": _erased,
    "Empty": _empty_body,
}
