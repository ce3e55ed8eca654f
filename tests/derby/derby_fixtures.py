"""The real Derby databases of the corpus, loaded into memory, and the forms that they are compared in."""

from __future__ import annotations

import functools
import gzip
import hashlib
import json
import tarfile
from typing import Any

from engine.derby.database import DerbyDatabase
from engine.derby.format import container, instant
from engine.derby.format.operations import container as containers
from engine.derby.format.operations import registry, transaction
from engine.derby.format.record import Record
from engine.derby.log import DerbyLogFiles, ForwardScan
from engine.storage.memory import MemoryStorage
from tests.support import corpus

FIXTURES = corpus.path() / "derby"
NAMES = (
    "clean-shutdown",
    "crash-ddl",
    "crash-five-transactions",
    "crash-log-files",
    "crash-mixed",
    "crash-xa-prepared",
)
# Bulk DDL, which Derby does not log: contents and pages after recovery, no list of records.
BULK = ("bulk-committed", "bulk-open")
GROUPS = (
    (0x001, "FIRST"),
    (0x002, "LAST"),
    (0x004, "COMPENSATION"),
    (0x010, "COMMIT"),
    (0x020, "ABORT"),
    (0x040, "PREPARE"),
    (0x080, "XA_NEEDLOCK"),
    (0x100, "RAWSTORE"),
    (0x400, "FILE_RESOURCE"),
    (0x800, "CHECKSUM"),
)


@functools.cache
def files_of(name: str) -> dict[str, bytes]:
    """Every file of a fixture database by path."""
    found = {}
    with tarfile.open(FIXTURES / name / json_of(name, "manifest.json")["archive"]) as archive:
        for member in archive:
            if member.isfile():
                file = archive.extractfile(member)
                assert file is not None
                found[member.name.partition("/")[2]] = file.read()
    return found


def storage_of(name: str) -> MemoryStorage:
    """A fresh copy of a fixture database."""
    return MemoryStorage(dict(files_of(name)), root=name)


@functools.cache
def json_of(name: str, file: str) -> Any:
    """A JSON file of a fixture."""
    return json.loads((FIXTURES / name / file).read_text())


def lines_of(name: str, file: str) -> list[str]:
    """The lines of a gzipped text file of a fixture."""
    return gzip.decompress((FIXTURES / name / file).read_bytes()).decode().splitlines()


def records_of(name: str) -> list[Record]:
    """Every record from the first log file on."""
    log = DerbyLogFiles(DerbyDatabase(storage_of(name)))
    return list(ForwardScan(log, instant.make(1, 24)))


def cut_of(name: str, cut: dict[str, Any]) -> MemoryStorage:
    """The crash image that an entry of cuts.json describes."""
    files = dict(files_of(name))
    path = f"log/{cut['file']}"
    data = bytearray(files[path])
    data[cut["zero_from"] :] = bytes(len(data) - cut["zero_from"])
    if "rewrite" in cut:
        patch = bytes.fromhex(cut["rewrite"]["hex"])
        data[cut["rewrite"]["offset"] : cut["rewrite"]["offset"] + len(patch)] = patch
    files[path] = bytes(data)
    for number in range(cut["delete_files_above"] + 1, 20):
        files.pop(f"log/log{number}.dat", None)
    return MemoryStorage(files, root=name)


def damaged_of(name: str, case: dict[str, Any]) -> MemoryStorage:
    """The image that an entry of damage.json describes."""
    files = dict(files_of(name))
    for patch in case["patches"]:
        path = f"log/{patch['file']}"
        if patch.get("delete"):
            del files[path]
        elif "create" in patch:
            files[path] = bytes.fromhex(patch["create"]) + bytes(patch["pad"])
        elif "truncate" in patch:
            files[path] = files[path][: patch["truncate"]]
        else:
            change = bytes.fromhex(patch["hex"])
            data = bytearray(files[path])
            data[patch["offset"] : patch["offset"] + len(change)] = change
            files[path] = bytes(data)
    return MemoryStorage(files, root=name)


def _gid(value: Any) -> Any:
    if value is None:
        return None
    return {"format": value.format_id, "gtrid": value.global_part.hex(), "bqual": value.branch_part.hex()}


def _page_operation(op: Any) -> dict[str, Any]:
    out: dict[str, Any] = {"seg": op.segment, "cont": op.container, "page": op.page, "pver": op.version}
    names = {"record_id": "recid", "new_page": "newpage", "status": "do", "new_highest": "newhigh"}
    names |= {"pages_removed": "ntrunc", "value": "new", "old_value": "old", "flags": "flag"}
    names |= {"next_record_id": "nextid", "page_offset": "offset", "page_format": "pformat"}
    for name, value in zip(op._fields[4:], op[4:], strict=True):
        if name == "logical":
            out["undo"] = "B2I" if value else None
        elif name == "record_ids":
            out["recids"], out["nrows"] = list(value), len(value)
        elif name == "rows":
            out["rows"], out["nrows"] = [list(row) for row in value], len(value)
        else:
            out[names.get(name, name)] = value
    return out


def _other_operation(op: Any) -> dict[str, Any]:
    if isinstance(op, transaction.Checksum):
        return {"algo": op.algorithm, "dlen": op.length, "value": op.value}
    if isinstance(op, transaction.Begin | transaction.End):
        return {"status": op.status, "gid": _gid(op.global_id)}
    if isinstance(op, transaction.CheckpointRecord):
        table = [
            {
                "xid": e.transaction,
                "gid": _gid(e.global_id),
                "first": instant.show(e.first),
                "last": instant.show(e.last),
                "status": e.status,
            }
            for e in op.table or ()
        ]
        marks = {"redoLWM": instant.show(op.redo_lwm), "undoLWM": instant.show(op.undo_lwm)}
        return {**marks, "ntrunc": op.truncation_points, "ttab": table}
    out = {"seg": op.segment, "cont": op.container, "cver": op.version}
    if isinstance(op, containers.ContainerOperation):
        out["what"] = containers.KIND_NAMES[op.kind].upper()
    return out


def as_fixture(record: Record, log: DerbyLogFiles | None = None) -> dict[str, Any]:
    """A record in the form of records.jsonl.gz."""
    line = registry.type_of(record.operation)
    op = _page_operation(record.operation) if line.family == registry.PAGE else _other_operation(record.operation)
    out: dict[str, Any] = {
        "group": "|".join(name for bit, name in GROUPS if record.group & bit),
        "instant": instant.show(record.instant),
        "length": record.length,
        "op": {**op, "type": line.name},
        "xid": record.transaction,
    }
    if record.undo_instant is not None:
        out["undo_instant"] = instant.show(record.undo_instant)
    if record.data:
        out["optional_length"] = len(record.data)
    if line.name == "Checksum" and log is not None:
        out["checksum_ok"] = log.group_matches(record)
    return out


def sha256(data: bytes) -> str:
    """Hexadecimal SHA-256."""
    return hashlib.sha256(data).hexdigest()


def key_of(name: str) -> container.ContainerKey:
    """The container whose file in seg0 has this name."""
    parts = container.number_of(name)
    assert parts is not None
    return container.ContainerKey(0, parts[1])
